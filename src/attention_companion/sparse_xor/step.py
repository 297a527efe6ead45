"""One full-population gradient step from an anti-symmetric start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._step_stream import STREAM_FROM, mirrored_gradients, two_scores
from ._validation import (
    FloatArray,
    all_finite,
    read_embeddings_unread,
    read_learning_rate,
    read_pair,
    require_finite,
)
from .attention import softmax_of_known_scores, weighted_rows
from .gradient import float_weight_gradient, gradient_at
from .kinds import read_attention, score_gradient_of, weights_of_scores
from .loss import population_loss

#: The weight that each softmax head must put on its own target for the pair of heads to count as specialised.
SPECIALISED_AT = 0.99
#: The mean squared error below which linear or erf heads count as specialised: their weights have no fixed sum.
SPECIALISED_LOSS = 1e-3


@dataclass(frozen=True, eq=False)
class OneStep:
    """The two heads after the step: queries of shape (m,), attention weights of shape (d,), and the verdict."""

    theta: FloatArray
    theta_tilde: FloatArray
    gamma: FloatArray
    gamma_tilde: FloatArray
    #: softmax: max(min(gamma_p, gamma~_q), min(gamma_q, gamma~_p)) >= 0.99, the heads sit on the two targets, one each;
    #: linear and erf: E[(f(x) - y)^2] < 1e-3.
    specialised: bool


def one_step(
    embeddings: Any, theta: Any, pair: Sequence[int], learning_rate: float, attention: str = "softmax"
) -> OneStep:
    """Start at (theta, -theta), move both queries at once against the gradient at the start, and attend.

    ``embeddings`` has shape (d, m), rows of any length; ``theta`` has shape (m,); ``pair`` = (p, q) is 0-based;
    ``learning_rate`` is a finite number >= 0 for the loss without a factor 1/2 (with that factor the same step takes
    twice the rate). Everything is computed in the common dtype of ``embeddings`` and ``theta``.

    ``attention`` says how scores s_i = v_i.theta become weights: "softmax"; "linear", gamma_i = s_i; or "erf",
    gamma_i = erf(s_i). The last two are not normalised, which is our reading: the paper's definition is not known. They
    are odd functions of the query, so their heads stay each other's negative.

    Time and memory: O(d m), and no copy of embeddings that are of the common dtype already, whatever their layout.
    Large softmax problems (d m >= 2^21) pass twice over the embeddings, see ``_step_stream``. At d = 10^6, m = 512 in
    float32, random unit rows, both gradients were then off by 3e-8 of their length, judged by float64 sums over the
    same rows; a plain evaluation in float32 by 6e-6.

    Raises TypeError for unsupported dtypes, a pair or a learning rate that is no number; ValueError for wrong shapes,
    values that are not finite or out of range, an unknown kind of attention; OverflowError when an updated query, or a
    linear weight, exceeds the dtype.

    Source: the paper's training scheme as its summary gives it; the learning rate's scale is our convention.
    """
    kind = read_attention(attention)
    rows, start = read_embeddings_unread(embeddings, theta=theta)
    p, q = read_pair(pair, len(rows))
    rate = read_learning_rate(learning_rate, rows.dtype)
    slope, slope_tilde = _gradients(rows, start, p, q, kind)
    with np.errstate(over="ignore"):
        moved, moved_tilde = start - rate * slope, -start - rate * slope_tilde
    if not (all_finite(moved) and all_finite(moved_tilde)):
        steepest = max(np.abs(slope).max(), np.abs(slope_tilde).max())
        raise OverflowError(
            f"learning_rate {learning_rate!r} times a gradient as large as {steepest} exceeds {rows.dtype}; "
            f"use {'float64 or ' if rows.dtype == np.float32 else ''}a smaller rate or smaller embeddings"
        )
    if kind == "softmax":
        gamma, gamma_tilde = _softmax_heads(rows, moved, moved_tilde)
        straight, crossed = min(gamma[p], gamma_tilde[q]), min(gamma[q], gamma_tilde[p])
        specialised = bool(max(straight, crossed) >= SPECIALISED_AT)
    else:
        gamma, gamma_tilde = _odd_head(rows, moved, kind)[1], _odd_head(rows, moved_tilde, kind)[1]
        specialised = _solves(gamma, gamma_tilde, p, q)
    return OneStep(moved, moved_tilde, gamma, gamma_tilde, specialised)


def _gradients(
    rows: FloatArray, start: FloatArray, p: int, q: int, kind: str
) -> tuple[FloatArray, FloatArray]:
    """Both gradients at (start, -start), for rows that are found to be finite on the way."""
    if kind == "softmax" and rows.size >= STREAM_FROM:
        streamed = mirrored_gradients(rows, start, p, q)
        if streamed is not None:
            return streamed
        require_finite(rows, "embeddings")
    with np.errstate(over="ignore", invalid="ignore"):
        scores = rows @ start
    # A NaN or an infinity makes its row's score one too, unless the product leaves out a coordinate where the query is
    # 0, as it may. So finite scores and a query without zeros spare a look at every entry.
    if not (all_finite(scores) and np.logical_and.reduce(start)):
        require_finite(rows, "embeddings")
    if kind == "softmax":
        before_tilde = softmax_of_known_scores(-scores, rows, -start)
        before = softmax_of_known_scores(scores, rows, start)
        return gradient_at(rows, before, before_tilde, p, q)
    scores, weights = _odd_head(rows, start, kind)
    with np.errstate(over="ignore", invalid="ignore"):
        # -weights are the other head's; its gradient is this one's negative, the loss being the same in (-a, -b).
        slope = score_gradient_of(scores, weights, float_weight_gradient(weights, -weights, p, q), kind)
    gradient = weighted_rows(rows, slope)
    return gradient, -gradient


def _softmax_heads(
    rows: FloatArray, moved: FloatArray, moved_tilde: FloatArray
) -> tuple[FloatArray, FloatArray]:
    if rows.size >= STREAM_FROM:
        scores, scores_tilde = two_scores(rows, moved, moved_tilde)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            scores, scores_tilde = rows @ moved, rows @ moved_tilde
    return (
        softmax_of_known_scores(scores, rows, moved),
        softmax_of_known_scores(scores_tilde, rows, moved_tilde),
    )


def _odd_head(rows: FloatArray, query: FloatArray, kind: str) -> tuple[FloatArray, FloatArray]:
    """Scores and weights of a linear or erf head, each (d,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = rows @ query
    if not np.isfinite(scores).all():
        raise OverflowError(
            f"scores of {kind} attention for a query as large as {np.abs(query).max()} exceed {rows.dtype}; "
            f"use {'float64, ' if rows.dtype == np.float32 else ''}a smaller learning rate or smaller embeddings"
        )
    return scores, weights_of_scores(scores, kind)


def _solves(gamma: FloatArray, gamma_tilde: FloatArray, p: int, q: int) -> bool:
    try:
        return bool(population_loss(gamma, gamma_tilde, (p, q)) < SPECIALISED_LOSS)
    except OverflowError:
        # A loss beyond the dtype is not a small one.
        return False
