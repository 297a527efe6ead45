"""Whether the score 2 q k - k^2 sends every query to its address, in exact integers and in floating point."""

from __future__ import annotations

from typing import Any

import flint
import numpy as np
import numpy.typing as npt


def scores(
    queries: npt.NDArray[np.int64], keys: npt.NDArray[np.int64], dtype: Any = np.int64
) -> npt.NDArray[Any]:
    """<(q, 1), (2 k, -k^2)> for all queries and keys, shape (Q, K), with every step in ``dtype``."""
    q, k = queries.astype(dtype)[:, None], keys[None, :]
    return np.asarray(q * (2 * k).astype(dtype) + (-(k * k)).astype(dtype))


def wrong_addresses(length: int, dtype: Any = np.int64, last: int | None = None) -> int:
    """How many queries do not select exactly their address, among keys 0..``length`` - 1; token 0 is BOS.

    Queries are the addresses 0..length - 1 (the ``last`` largest of them if given), and -1 and -length, which mean
    "nobody" and must select BOS.
    """
    if length < 1:
        raise ValueError(f"length is {length}; expected at least 1")
    keys = np.arange(length, dtype=np.int64)
    queries = np.concatenate([keys if last is None else keys[-last:], [-1, -length]])
    wrong = 0
    for start in range(0, len(queries), 256):
        part = queries[start : start + 256]
        table = scores(part, keys, dtype)
        best = table == table.max(axis=1, keepdims=True)
        wanted = np.maximum(part, 0)
        right = (best.sum(axis=1) == 1) & (best.argmax(axis=1) == wanted)
        wrong += int((~right).sum())
    return wrong


def first_wrong_power(dtype: Any, most: int, last: int = 256) -> int | None:
    """The smallest power of two, up to 2^``most``, at which one of the ``last`` largest addresses goes wrong."""
    return next((2**e for e in range(1, most + 1) if wrong_addresses(2**e, dtype, last)), None)


def identity_terms(with_square: bool = True) -> int:
    """Terms left of 2 q k - k^2 - (q^2 - (q - k)^2), q and k indeterminates: 0 if the two are one polynomial.

    ``with_square=False`` is a control: the score 2 q k alone.
    """
    context = flint.fmpq_mpoly_ctx.get(("q", "k"), flint.Ordering.lex)
    q, k = context.gens()
    score = 2 * q * k - k * k if with_square else 2 * q * k
    return len(score - (q * q - (q - k) * (q - k)))
