"""The target of the simulation: softmax attention as a function of X and its own matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import Arithmetic, Ball, read_arithmetic
from .reading import read_layer


def attention(
    X: Any,
    heads: Sequence[tuple[Any, Any]],
    output: Any = None,
    arithmetic: str = "float64",
    exp: Callable[[Fraction], Any] | None = None,
    bits: int = 200,
) -> Any:
    """T(X): the heads softmax(X A X^T) X V side by side, times ``output`` if it is given.

    Parameters
    ----------
    X
        Shape (n, d).
    heads
        Pairs (A, V) of shapes (d, d) and (d, d_v), the same for all; A = W_Q W_K^T, without a factor 1/sqrt(d).
    output
        W_O of shape (h d_v, output_dim), or None.
    arithmetic
        "float64": numpy, with the row's maximum subtracted. "rational": exact, with ``exp`` a positive rational
        function of one Fraction in place of the exponential. "ball": enclosures at ``bits`` bits.

    Returns
    -------
    A float64 array (n, h d_v or output_dim), or a list of rows of ``Fraction`` (rational) or ``arb`` (ball).

    Raises TypeError or ValueError for ragged, empty, non-square, non-finite or mismatched input and for wrong options,
    OverflowError where float64 does not suffice.

    Source: the paper's target, as its summary gives it.
    """
    kind = read_arithmetic(arithmetic, exp, bits)
    layer = read_layer(X, heads, output, kind)
    if isinstance(kind, Ball):
        with kind.precision():
            return as_rows(evaluate(layer.matrices(kind), kind), kind)
    with np.errstate(all="ignore"):
        result = evaluate(layer.matrices(kind), kind)
    if kind.name == "float64" and not np.isfinite(result).all():
        raise OverflowError(
            "the result or a step towards it exceeds float64; scale the layer or use ball arithmetic"
        )
    return as_rows(result, kind)


def evaluate(matrices: tuple[Any, list[tuple[Any, Any]], Any], kind: Arithmetic) -> npt.NDArray[Any]:
    """T(X) from X, the pairs (A, V) and the output matrix as two-dimensional arrays of one kind of number."""
    x, heads, output = matrices
    parts = []
    for a, v in heads:
        scores = x @ a @ x.T
        if kind.dtype is object:
            powers = np.stack([kind.exp(row) for row in scores])
        else:
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        values = powers @ (x @ v)
        sums = powers.sum(axis=1)
        parts.append(
            np.stack(
                [
                    kind.divide(row, np.full(len(row), s, dtype=row.dtype))
                    for row, s in zip(values, sums, strict=True)
                ]
            )
        )
    joined = np.concatenate(parts, axis=1)
    return joined if output is None else np.asarray(joined @ output)


def as_rows(result: npt.NDArray[Any], kind: Arithmetic) -> Any:
    """A result (n, columns) as users get it: an array of floats, or rows of Fractions or balls."""
    if kind.name == "float64":
        return result
    if kind.name == "rational":
        return [[Fraction(int(value.p), int(value.q)) for value in row] for row in result]
    return [list(row) for row in result]
