"""One gradient step on the mean loss of a finite sample, read as a stream.

Derivation. For samples (x_k, y_k) and f_k = -(a.x_k)(b.x_k) the empirical loss is (1/n) sum_k (f_k - y_k)^2, and

    g = dL/da = (2/n) sum_k (f_k - y_k) (-(b.x_k)) x_k,        dL/db with a and b exchanged.

Through the softmax this becomes V^T [a * (g - a.g)], as for the population (see ``gradient``). Both g need two products
with the matrix of inputs: one for a.x_k and b.x_k, one that adds the x_k up. Each chunk of samples is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._validation import FloatArray, read_embeddings, read_learning_rate, read_pair
from .attention import softmax_of_scores, weighted_rows
from .step import SPECIALISED_AT

#: Entries of x that are converted to floating point at once, unless the caller says how many samples a chunk has.
CHUNK_ENTRIES = 2**18


@dataclass(frozen=True, eq=False)
class SampleStep:
    """The two heads after a step on a sample: queries of shape (m,), attention weights of shape (d,)."""

    theta: FloatArray
    theta_tilde: FloatArray
    gamma: FloatArray
    gamma_tilde: FloatArray
    #: How many samples were read.
    samples: int
    #: Whether the heads put at least 0.99 on the two targets, one each; None when no pair was given.
    specialised: bool | None


def one_step_from_samples(
    embeddings: Any,
    theta: Any,
    x: Any,
    y: Any = None,
    learning_rate: float | None = None,
    *,
    pair: Sequence[int] | None = None,
    chunk: int | None = None,
) -> SampleStep:
    """Start at (theta, -theta) and move both queries at once against the gradient of the mean of (f(x_k) - y_k)^2.

    Parameters
    ----------
    embeddings, theta
        Shapes (d, m) and (m,), float32 or float64 (integers count as float64); the result has their common dtype.
    x, y
        Either the whole sample, x of shape (n, d) and y of shape (n,), with n >= 1; or, to read more samples than fit
        into memory, x an iterable of pairs (x_chunk, y_chunk) of such arrays and y left out. All entries are -1 or +1,
        in any integer or floating dtype (int8 is the smallest).
    learning_rate
        A finite number >= 0, for the loss without a factor 1/2. It must be given.
    pair
        The hidden pair (p, q), 0-based, if it is known. It changes nothing in the step, which sees only the samples; it
        is what ``specialised`` is judged by.
    chunk
        Samples converted at once. Memory is O(chunk d) beside the arguments. The sums over chunks are kept in float64,
        and another chunk changes the result by rounding only.

    Raises TypeError for unsupported dtypes or kinds of arguments; ValueError for wrong shapes, an empty sample, an
    entry other than -1 and +1 (named with its place in the stream), or values that are not finite or out of range;
    OverflowError when an updated query exceeds the dtype.

    Source: our derivation, at the head of this module.
    """
    rows, start = read_embeddings(embeddings, theta=theta)
    d = len(rows)
    targets = None if pair is None else read_pair(pair, d)
    if learning_rate is None:
        raise TypeError("learning_rate is missing; give a finite number >= 0 (by name, when x is a stream)")
    rate = read_learning_rate(learning_rate, rows.dtype)
    size = _read_chunk(chunk, d)
    before = np.stack([softmax_of_scores(rows, start), softmax_of_scores(rows, -start)])

    total, samples = np.zeros((2, d)), 0
    for signs, labels in _chunks(x, y, d, size):
        total += weight_gradient_sum(signs.astype(rows.dtype), labels.astype(rows.dtype), before)
        samples += len(signs)
    if samples == 0:
        raise ValueError("x holds no sample; the mean loss needs at least one")

    slopes = score_slopes(before, (total / samples).astype(rows.dtype))
    gradient, gradient_tilde = (weighted_rows(rows, slope) for slope in slopes)
    with np.errstate(over="ignore"):
        moved, moved_tilde = start - rate * gradient, -start - rate * gradient_tilde
    if not (np.isfinite(moved).all() and np.isfinite(moved_tilde).all()):
        raise OverflowError(
            f"learning_rate {learning_rate!r} moves a query beyond {rows.dtype}; "
            f"use {'float64 or ' if rows.dtype == np.float32 else ''}a smaller rate or smaller embeddings"
        )
    gamma, gamma_tilde = softmax_of_scores(rows, moved), softmax_of_scores(rows, moved_tilde)
    specialised = None
    if targets is not None:
        p, q = targets
        straight, crossed = min(gamma[p], gamma_tilde[q]), min(gamma[q], gamma_tilde[p])
        specialised = bool(max(straight, crossed) >= SPECIALISED_AT)
    return SampleStep(moved, moved_tilde, gamma, gamma_tilde, samples, specialised)


def weight_gradient_sum(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum over samples of the gradient of (f - y)^2 by the attention weights.

    ``x`` has shape (n, d), ``y`` (..., n), ``weights`` (..., 2, d), both heads of each element of the batch, which all
    see the same inputs x. Returns (..., 2, d). No input is checked.
    """
    return add_up(input_factors(x, y, weights), x)


def input_factors(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """The factors (..., 2, n) with which the inputs x_k enter the sum: 2 (f_k - y_k) times minus the other head."""
    # All heads go through one product, so that x is read once however large the batch is.
    seen = weights.reshape(-1, weights.shape[-1]) @ x.T
    seen = seen.reshape(*weights.shape[:-1], len(x))  # a.x_k and b.x_k
    residual = -seen[..., 0, :] * seen[..., 1, :] - y
    return np.asarray(-2 * residual[..., np.newaxis, :] * seen[..., ::-1, :])


def add_up(factors: FloatArray, x: FloatArray) -> FloatArray:
    """Sum over k of factors (..., n) times the inputs x (n, d): shape (..., d), by one product."""
    return np.asarray((factors.reshape(-1, len(x)) @ x).reshape(*factors.shape[:-1], x.shape[1]))


def score_slopes(weights: FloatArray, g: FloatArray) -> FloatArray:
    """a * (g - a.g) for each head: the gradient by the scores from that by the weights, both of shape (..., 2, d)."""
    # A common shift of g changes nothing, as the weights sum to 1; see ``gradient`` for what this one saves.
    g = g - np.take_along_axis(g, weights.argmax(axis=-1, keepdims=True), axis=-1)
    return np.asarray(weights * (g - (weights * g).sum(axis=-1, keepdims=True)))


def _read_chunk(chunk: Any, d: int) -> int:
    if chunk is None:
        return max(1, CHUNK_ENTRIES // d)
    if isinstance(chunk, bool | np.bool_) or not isinstance(chunk, int | np.integer):
        raise TypeError(f"chunk is {chunk!r}; give a whole number of samples")
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}; give at least 1 sample")
    return int(chunk)


def _chunks(x: Any, y: Any, d: int, size: int) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Checked (x, y) of at most ``size`` samples, from a whole sample or from a stream of chunks."""
    if y is not None:
        stream: Iterable[Any] = [(x, y)]
    elif isinstance(x, np.ndarray) or not isinstance(x, Iterable):
        raise TypeError(
            f"y is missing and x is a {type(x).__name__}; give the labels y of shape (n,), or x as an iterable of "
            "pairs (x_chunk, y_chunk)"
        )
    else:
        stream = x
    seen = 0
    for item in stream:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise TypeError(f"the stream yields a {type(item).__name__}; expected pairs (x_chunk, y_chunk)")
        signs, labels = (_sign_array(part, name, seen) for part, name in zip(item, ("x", "y"), strict=True))
        where = f" (chunk that begins at sample {seen})" if y is None else ""
        if signs.ndim != 2 or signs.shape[1] != d:
            raise ValueError(
                f"x has shape {signs.shape}{where}; the embeddings have d = {d} rows: expected (n, {d})"
            )
        if labels.shape != (len(signs),):
            raise ValueError(
                f"y has shape {labels.shape}{where}; x has {len(signs)} samples: expected ({len(signs)},)"
            )
        for first in range(0, len(signs), size):
            part = slice(first, first + size)
            _require_signs(signs[part], "x", seen + first)
            _require_signs(labels[part], "y", seen + first)
            yield signs[part], labels[part]
        seen += len(signs)


def _sign_array(values: Any, name: str, seen: int) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} has rows of unequal lengths after sample {seen}; give a rectangular array"
        ) from None
    if array.size and array.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {array.dtype}; give -1 and +1 as integers or floats, such as int8")
    return array


def _require_signs(values: npt.NDArray[Any], name: str, seen: int) -> None:
    """Every entry -1 or +1; the error names the first other one by its place in the whole stream."""
    good = (values == 1) | (values == -1)
    if good.all():
        return
    where = tuple(int(axis[0]) for axis in np.nonzero(~good))
    place = ", ".join(map(str, (where[0] + seen, *where[1:])))
    raise ValueError(
        f"{name}[{place}] is {values[where]}; every entry must be -1 or +1 (for bits 0, 1 use 2 b - 1)"
    )
