"""Random starts, and what one population step (or several) makes of them.

A start is a set of embeddings, the queries of both heads and a hidden pair, drawn anew from its own generator:
start k of (seed, d, m) always is ``np.random.default_rng([seed, d, m, k])``, so that more starts extend fewer, and
different experiments at one (seed, d, m) see the same starts and can be paired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from ._batch_validation import read_rates
from ._validation import FloatArray
from .batch import Heads, Training, classify, step_batch, train

SECOND_QUERIES = ("mirrored", "independent", "equal")
EMBEDDINGS = ("sphere", "balanced", "orthonormal")
#: Bytes of embeddings that are held at once; one start is held whole, however large it is.
CHUNK_BYTES = 32_000_000


@dataclass(frozen=True, eq=False)
class Starts:
    """B starts: embeddings (B, d, m), queries (B, m) and (B, m), pairs (B, 2); float64 and int64."""

    embeddings: FloatArray
    theta: FloatArray
    theta_tilde: FloatArray
    pairs: npt.NDArray[np.int64]


@dataclass(frozen=True)
class StepOutcomes:
    """What training did over independent starts (embeddings and query drawn anew in each).

    ``specialised``: each head puts at least 0.99 on its own target; ``settled``: each head puts at least 0.99 on some
    target, perhaps the same; ``collapsed``: both heads attend most to the same target; ``distracted``: a head attends
    most to a position outside the pair.
    """

    starts: int
    specialised: int
    settled: int
    collapsed: int
    distracted: int


def sphere(rng: np.random.Generator, *shape: int) -> FloatArray:
    """Vectors uniform on the unit sphere of the last axis, float64."""
    # Half of the time of rng.normal and np.linalg.norm, and every bit the same.
    v = rng.standard_normal(shape)
    v /= np.sqrt((v * v).sum(axis=-1, keepdims=True))
    return v


def draw_starts(
    d: int,
    m: int,
    indices: Iterable[int],
    seed: int,
    *,
    second: str = "mirrored",
    embeddings: str = "sphere",
) -> Starts:
    """Draw the starts with the given indices.

    Parameters
    ----------
    d, m, indices, seed
        Start k is drawn by ``np.random.default_rng([seed, d, m, k])``: embeddings, first query, pair, and last the
        second query if it is independent.
    second
        "mirrored": minus the first query (the paper's start); "independent": drawn by itself, uniform on the sphere;
        "equal": the first query again (the heads can then never differ).
    embeddings
        "sphere": rows uniform on the unit sphere; "balanced": those, with their mean subtracted and scaled back to
        unit length; "orthonormal": the rows of a random rotation (needs m >= d).

    Raises TypeError for numbers that are no integers; ValueError for unknown names, numbers out of range, orthonormal
    embeddings with m < d, or balanced ones with m = 1.
    """
    for name, value, allowed in (("second", second, SECOND_QUERIES), ("embeddings", embeddings, EMBEDDINGS)):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")
    d, m, seed = (_read_integer(value, name) for value, name in ((d, "d"), (m, "m"), (seed, "seed")))
    if seed < 0:
        raise ValueError(f"seed is {seed}; give an integer >= 0")
    if d < 2 or m < 1:
        raise ValueError(f"d is {d} and m is {m}; need d >= 2 positions and m >= 1 coordinates")
    if embeddings == "orthonormal" and m < d:
        raise ValueError(f"orthonormal embeddings of {d} positions need m >= {d}, got m = {m}")
    if embeddings == "balanced" and m == 1:
        raise ValueError(
            "m is 1: unit embeddings are +-1 there and may all be equal, so none are left when balanced; give m >= 2"
        )
    drawn: list[tuple[FloatArray, FloatArray, FloatArray, Any]] = []
    for index in indices:
        k = _read_integer(index, "indices")
        if k < 0:
            raise ValueError(f"indices holds {k}; a start has a number >= 0")
        rng = np.random.default_rng([seed, d, m, k])
        rows = sphere(rng, d, m)
        theta = sphere(rng, m)
        pair = rng.choice(d, 2, replace=False)
        if second == "independent":
            other = sphere(rng, m)
        else:
            other = -theta if second == "mirrored" else theta
        drawn.append((_arrange(rows, embeddings), theta, other, pair))
    if not drawn:
        raise ValueError("no start was asked for; give at least one index")
    rows_, first_, second_, pairs_ = (np.stack(parts) for parts in zip(*drawn, strict=True))
    return Starts(rows_, first_, second_, pairs_.astype(np.int64))


def chunks_of_starts(d: int, m: int, starts: int, seed: int, **options: str) -> Iterator[Starts]:
    """Starts 0..starts-1 in chunks whose embeddings take about ``CHUNK_BYTES``; options as for :func:`draw_starts`."""
    d, m, starts = (_read_integer(value, name) for value, name in ((d, "d"), (m, "m"), (starts, "starts")))
    if starts < 1:
        raise ValueError(f"starts is {starts}; give at least 1")
    size = max(1, CHUNK_BYTES // max(1, 8 * d * m))
    for first in range(0, starts, size):
        yield draw_starts(d, m, range(first, min(starts, first + size)), seed, **options)


def count_outcomes(
    d: int,
    m: int,
    starts: int,
    learning_rates: Sequence[float],
    seed: int,
    *,
    steps: int = 1,
    attention: str = "softmax",
    second: str = "mirrored",
    embeddings: str = "sphere",
) -> list[StepOutcomes]:
    """Train from ``starts`` random starts at each learning rate and count the outcomes, one result a rate.

    Every rate sees the same starts. One step of softmax attention may have the rate ``np.inf`` (the limit of large
    rates). Memory is that of one chunk of starts. Options as for :func:`draw_starts`; errors as there and as for
    ``step_batch`` and ``train``; OverflowError when a run diverges.
    """
    starts, steps = _read_integer(starts, "starts"), _read_integer(steps, "steps")
    rates = read_rates(learning_rates, np.dtype(np.float64), limit_allowed=True)
    if rates.ndim != 1 or not rates.size:
        raise ValueError(f"learning_rates has shape {rates.shape}; give a list of at least one rate")
    counts = np.zeros((4, rates.size), dtype=np.int64)
    for drawn in chunks_of_starts(d, m, starts, seed, second=second, embeddings=embeddings):
        rows, pairs = drawn.embeddings[:, np.newaxis], drawn.pairs[:, np.newaxis]
        theta, theta_tilde = drawn.theta[:, np.newaxis], drawn.theta_tilde[:, np.newaxis]
        options: dict[str, Any] = {"theta_tilde": theta_tilde, "attention": attention}
        heads: Heads | Training
        if steps == 1:
            heads = step_batch(rows, theta, pairs, rates, **options)
        else:
            heads = train(rows, theta, pairs, rates, steps, **options)
            if heads.diverged.any():
                gone = rates[heads.diverged.any(axis=0)]
                raise OverflowError(
                    f"training left float64 at the learning rates {gone.tolist()}, so its outcome is not known; "
                    "give smaller rates"
                )
        seen = classify(heads.gamma, heads.gamma_tilde, pairs)
        counts += [
            np.count_nonzero(hits, axis=0)
            for hits in (seen.specialised, seen.settled, seen.collapsed, seen.distracted)
        ]
    return [StepOutcomes(starts, *(int(count) for count in column)) for column in counts.T]


def _read_integer(value: Any, name: str) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} is {value!r}; give an integer")
    return int(value)


def _arrange(rows: FloatArray, embeddings: str) -> FloatArray:
    if embeddings == "balanced":
        rows = rows - rows.mean(axis=0)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    if embeddings == "orthonormal":
        # The factor of a Gaussian matrix is uniform among rotations once the signs of R's diagonal are fixed.
        q, r = np.linalg.qr(rows.T)
        return np.asarray((q * np.sign(np.diag(r))).T)
    return rows
