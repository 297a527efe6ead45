"""Population steps for many starts, pairs, learning rates and widths at once.

Batch axes lead and broadcast as in numpy: embeddings (..., d, m), queries (..., m), pairs (..., 2), learning rates
(...). To try R rates on B starts give embeddings (B, 1, d, m), queries (B, 1, m), pairs (B, 1, 2) and rates (R,): the
result has batch shape (B, R), and the embeddings are never copied R times. Narrower widths stand in one batch with
wider ones when embeddings and query are padded with zero coordinates: those add nothing to any score and receive no
gradient.

The formulas are those of ``loss`` and ``gradient``; beyond the embeddings, memory is a few arrays of batch x 2 x d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._batch_validation import Problem, read_problem, read_rates, read_steps, read_weights
from ._validation import FloatArray
from .kinds import read_attention, score_gradient_of, weights_of_scores
from .step import SPECIALISED_AT


@dataclass(frozen=True, eq=False)
class Heads:
    """Both heads of a batch: queries (..., m) and attention weights (..., d).

    Where the learning rate was infinite the queries hold the direction of the step, minus the gradient.
    """

    theta: FloatArray
    theta_tilde: FloatArray
    gamma: FloatArray
    gamma_tilde: FloatArray


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Where the heads of a batch look; boolean arrays of the batch shape.

    ``specialised``: one head puts at least 0.99 on p and the other at least 0.99 on q. ``settled``: each head puts at
    least 0.99 on one of p and q, perhaps the same. ``collapsed``: the largest weights of both heads stand on the same
    target. ``distracted``: the largest weight of a head stands outside the pair. The largest weight is the largest in
    absolute value (linear and erf weights can be negative), the first one if there are several.
    """

    specialised: npt.NDArray[np.bool_]
    settled: npt.NDArray[np.bool_]
    collapsed: npt.NDArray[np.bool_]
    distracted: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Training:
    """A batch of training runs.

    ``losses`` has shape (steps taken + 1, ...): the loss before the first step and after each. ``reached`` (...) is
    the first step after which the loss lay below ``stop_below``, 0 if it did at the start, -1 if it never did.
    ``diverged`` (...) marks runs whose queries left the dtype: they stand still from then on, their loss is infinite.
    """

    theta: FloatArray
    theta_tilde: FloatArray
    gamma: FloatArray
    gamma_tilde: FloatArray
    losses: FloatArray
    reached: npt.NDArray[np.int64]
    diverged: npt.NDArray[np.bool_]


def step_batch(
    embeddings: Any,
    theta: Any,
    pairs: Any,
    learning_rates: Any,
    *,
    theta_tilde: Any = None,
    attention: str = "softmax",
) -> Heads:
    """One population step of both queries for every element of the batch.

    Parameters
    ----------
    embeddings, theta, pairs, learning_rates
        Shapes (..., d, m), (..., m), (..., 2) and (...); float32 or float64 throughout. A learning rate of ``np.inf``
        means the limit of large rates (softmax only): all weight on the position whose score grows most; positions
        that share the largest growth share the weight as their scores before the step tell.
        Weights that the dtype rounds to 0 (scores more than 700 apart in float64, 80 in float32) count as 0: from so
        decided a start the limit is that of the rounded weights. ``outcome_all_pairs`` rounds nothing.
    theta_tilde
        The second query, shape (..., m); minus ``theta`` when left out (the paper's start).
    attention
        "softmax", "linear" or "erf", see :mod:`.kinds`.

    Returns
    -------
    Heads
        with the broadcast batch shape. A query or a score that leaves the dtype is an OverflowError.

    Raises TypeError or ValueError for wrong dtypes, shapes, pairs, rates or kinds, and values that are not finite.

    Source: our derivation in ``gradient``; the paper's training scheme as its summary gives it.
    """
    kind = read_attention(attention)
    problem = read_problem(embeddings, theta, theta_tilde, pairs)
    rates = read_rates(learning_rates, problem.rows.dtype, limit_allowed=kind == "softmax")
    scores = _finite_scores(problem.rows, problem.queries)
    with np.errstate(over="ignore", invalid="ignore"):
        gradient = _gradient(problem, scores, kind)
        finite = np.where(np.isfinite(rates), rates, 0)[..., np.newaxis, np.newaxis]
        moved = problem.queries - finite * gradient
    if not np.isfinite(moved).all():
        raise OverflowError(
            f"a learning rate of up to {rates[np.isfinite(rates)].max(initial=0)} moves a query beyond "
            f"{problem.rows.dtype}; use smaller rates or embeddings"
        )
    weights = weights_of_scores(_finite_scores(problem.rows, moved), kind)
    if np.isinf(rates).any():
        limit = np.isinf(rates)[..., np.newaxis, np.newaxis]
        moved = np.where(limit, -gradient, moved)
        # A power of two taken out of each gradient changes no comparison and keeps the growths inside the dtype.
        unit = np.ldexp(gradient, -np.frexp(np.abs(gradient).max(axis=-1, keepdims=True))[1])
        weights = np.where(limit, _limit_weights(scores, -_finite_scores(problem.rows, unit)), weights)
    return Heads(moved[..., 0, :], moved[..., 1, :], weights[..., 0, :], weights[..., 1, :])


def train(
    embeddings: Any,
    theta: Any,
    pair: Any,
    learning_rate: Any,
    steps: int,
    *,
    theta_tilde: Any = None,
    attention: str = "softmax",
    stop_below: float | None = None,
) -> Training:
    """Many population steps of both queries, for one problem or a batch.

    Shapes, dtypes and ``theta_tilde`` as in :func:`step_batch`; every learning rate is finite. ``steps`` is at least
    0. With ``stop_below`` the training ends as soon as every run has had a loss below it (or has diverged); runs that
    reach it earlier go on meanwhile.

    Raises TypeError or ValueError as :func:`step_batch` does, and for ``steps`` or ``stop_below`` out of range.
    """
    kind = read_attention(attention)
    problem = read_problem(embeddings, theta, theta_tilde, pair)
    rates = read_rates(learning_rate, problem.rows.dtype, limit_allowed=False)[..., np.newaxis, np.newaxis]
    count, threshold = read_steps(steps, stop_below)
    batch = np.broadcast_shapes(problem.batch, rates.shape[:-2])
    queries = np.broadcast_to(problem.queries, (*batch, *problem.queries.shape[-2:])).copy()
    pairs = problem.pairs
    reached = np.full(batch, -1, dtype=np.int64)
    diverged = np.zeros(batch, dtype=bool)
    losses: list[FloatArray] = []
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(count + 1):
            scores = _scores(problem.rows, queries)
            weights = weights_of_scores(scores, kind)
            loss = _loss(weights[..., 0, :], weights[..., 1, :], pairs)
            # A run that left the dtype stands still and counts as infinitely bad; it is never a success.
            diverged |= ~np.isfinite(loss)
            losses.append(np.where(diverged, np.inf, loss).astype(problem.rows.dtype))
            if threshold is not None:
                reached[(reached < 0) & (losses[-1] < threshold)] = step
            if step == count or (threshold is not None and bool(((reached >= 0) | diverged).all())):
                break
            slope = score_gradient_of(scores, weights, _weight_gradient(weights, pairs), kind)
            moved = queries - rates * _pull_back(problem.rows, slope)
            gone = ~np.isfinite(moved).all(axis=(-2, -1))
            diverged |= gone
            queries = np.where(diverged[..., np.newaxis, np.newaxis], queries, moved)
    return Training(
        queries[..., 0, :],
        queries[..., 1, :],
        weights[..., 0, :],
        weights[..., 1, :],
        np.stack(losses),
        reached,
        diverged,
    )


def batch_loss(gamma: FloatArray, gamma_tilde: FloatArray, pairs: Any) -> FloatArray:
    """E[(f(x) - y)^2] for weights (..., d) and pairs (..., 2): equation (1) of ``loss``, one number an element.

    Raises TypeError for dtypes other than float32, float64 and integers; ValueError for shapes, pairs and values that
    are not finite; OverflowError when a loss exceeds the dtype.
    """
    first, second, read = read_weights(gamma, gamma_tilde, pairs)
    with np.errstate(over="ignore", invalid="ignore"):
        loss = _loss(first, second, read)
    if not np.isfinite(loss).all():
        largest = max(np.abs(first).max(), np.abs(second).max())
        raise OverflowError(
            f"the loss of weights as large as {largest} exceeds {loss.dtype}; use smaller weights"
        )
    return loss


def classify(gamma: FloatArray, gamma_tilde: FloatArray, pairs: Any) -> Outcomes:
    """Where the heads look, for weights (..., d) and pairs (..., 2); see :class:`Outcomes`; errors as above."""
    gamma, gamma_tilde, pairs = read_weights(gamma, gamma_tilde, pairs)
    p, q = pairs[..., 0], pairs[..., 1]
    (a_p, a_q), (b_p, b_q) = _on_pair(gamma, pairs), _on_pair(gamma_tilde, pairs)
    first, second = np.abs(gamma).argmax(axis=-1), np.abs(gamma_tilde).argmax(axis=-1)
    inside = ((first == p) | (first == q)) & ((second == p) | (second == q))
    specialised = np.maximum(np.minimum(a_p, b_q), np.minimum(a_q, b_p)) >= SPECIALISED_AT
    settled = np.minimum(np.maximum(a_p, a_q), np.maximum(b_p, b_q)) >= SPECIALISED_AT
    return Outcomes(specialised, settled & inside, inside & (first == second), ~inside)


def _on_pair(weights: FloatArray, pairs: npt.NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    batch = np.broadcast_shapes(weights.shape[:-1], pairs.shape[:-1])
    chosen = np.take_along_axis(
        np.broadcast_to(weights, (*batch, weights.shape[-1])), np.broadcast_to(pairs, (*batch, 2)), axis=-1
    )
    return chosen[..., 0], chosen[..., 1]


def _loss(a: FloatArray, b: FloatArray, pairs: npt.NDArray[Any]) -> FloatArray:
    """(a.b)^2 + (1 - c_pq)^2 + the squares c_ij^2 of all other pairs, none of which can be negative."""
    (a_p, a_q), (b_p, b_q) = _on_pair(a, pairs), _on_pair(b, pairs)
    batch = a_p.shape
    free_a = np.broadcast_to(a, (*batch, a.shape[-1])).copy()
    free_b = np.broadcast_to(b, (*batch, b.shape[-1])).copy()
    where = np.broadcast_to(pairs, (*batch, 2))
    for free in (free_a, free_b):
        np.put_along_axis(free, where, free.dtype.type(0), axis=-1)

    def dot(u: FloatArray, w: FloatArray) -> FloatArray:
        return np.asarray((u * w).sum(axis=-1))

    aa, bb, ab = dot(free_a, free_a), dot(free_b, free_b), dot(free_a, free_b)
    both = free_a * free_b
    inside = np.maximum(aa * bb + ab**2 - 2 * dot(both, both), 0)
    with_p = a_p**2 * bb + b_p**2 * aa + 2 * a_p * b_p * ab
    with_q = a_q**2 * bb + b_q**2 * aa + 2 * a_q * b_q * ab
    constant = ab + a_p * b_p + a_q * b_q
    on_pair = 1 - (a_p * b_q + a_q * b_p)
    return np.asarray(constant**2 + on_pair**2 + np.maximum(with_p, 0) + np.maximum(with_q, 0) + inside)


def _weight_gradient(weights: FloatArray, pairs: npt.NDArray[Any]) -> FloatArray:
    """dL/da and dL/db stacked, shape (..., 2, d): g of ``gradient`` for each head."""
    other = weights[..., ::-1, :]
    squares = (other * other).sum(axis=-1, keepdims=True)
    overlap = (weights[..., :1, :] * weights[..., 1:, :]).sum(axis=-1, keepdims=True)
    g = 2 * squares * weights + 4 * overlap * other - 4 * weights * other**2
    batch = np.broadcast_shapes(g.shape[:-2], pairs.shape[:-1])
    g = np.broadcast_to(g, (*batch, *g.shape[-2:])).copy()
    there = np.broadcast_to(pairs[..., np.newaxis, :], (*batch, 2, 2))
    on_pair = np.take_along_axis(np.broadcast_to(other, g.shape), there, axis=-1)
    np.put_along_axis(g, there, np.take_along_axis(g, there, axis=-1) - 2 * on_pair[..., ::-1], axis=-1)
    return g


def _gradient(problem: Problem, scores: FloatArray, kind: str) -> FloatArray:
    """Both gradients (..., 2, m) at the queries whose scores are given."""
    weights = weights_of_scores(scores, kind)
    slope = score_gradient_of(scores, weights, _weight_gradient(weights, problem.pairs), kind)
    return _pull_back(problem.rows, slope)


def _scores(rows: FloatArray, queries: FloatArray) -> FloatArray:
    """V theta for stacked heads: (..., d, m) and (..., 2, m) give (..., 2, d)."""
    return _apply(rows.swapaxes(-1, -2), queries)


def _finite_scores(rows: FloatArray, queries: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        scores = _scores(rows, queries)
    if not np.isfinite(scores).all():
        raise OverflowError(
            f"scores of embeddings as large as {np.abs(rows).max()} and queries as large as {np.abs(queries).max()} "
            f"exceed {rows.dtype}; use smaller embeddings, queries or rates"
        )
    return scores


def _pull_back(rows: FloatArray, slope: FloatArray) -> FloatArray:
    """V^T dL/ds for stacked heads: (..., d, m) and (..., 2, d) give (..., 2, m)."""
    return _apply(rows, slope)


def _apply(matrix: FloatArray, vectors: FloatArray) -> FloatArray:
    """vectors @ matrix; all vectors that meet one matrix go through one product, so it is read once."""
    if matrix.ndim == 2:
        flat = vectors.reshape(-1, vectors.shape[-1]) @ matrix
        return np.asarray(flat.reshape(*vectors.shape[:-1], matrix.shape[-1]))
    if matrix.shape[-3] == 1 and vectors.ndim == matrix.ndim and vectors.shape[-3] > 1:
        *lead, many, heads, size = vectors.shape
        folded = vectors.reshape(*lead, many * heads, size) @ matrix[..., 0, :, :]
        return np.asarray(folded.reshape(*folded.shape[:-2], many, heads, folded.shape[-1]))
    return np.asarray(vectors @ matrix)


def _limit_weights(scores: FloatArray, growth: FloatArray) -> FloatArray:
    """Weights after an infinitely large step along ``growth``: the softmax of ``scores`` among the largest growths."""
    ahead = growth == growth.max(axis=-1, keepdims=True)
    scores = np.where(ahead, scores, -np.inf)
    with np.errstate(over="ignore"):
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
