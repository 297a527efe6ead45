"""One full-population gradient step from an anti-symmetric start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._validation import FloatArray, read_embeddings, read_learning_rate, read_pair
from .attention import softmax_of_scores
from .gradient import gradient_at

#: The weight that each head must put on its own target for the pair of heads to count as specialised.
SPECIALISED_AT = 0.99


@dataclass(frozen=True, eq=False)
class OneStep:
    """The two heads after the step: queries of shape (m,), attention weights of shape (d,), and the verdict."""

    theta: FloatArray
    theta_tilde: FloatArray
    gamma: FloatArray
    gamma_tilde: FloatArray
    #: max(min(gamma_p, gamma~_q), min(gamma_q, gamma~_p)) >= 0.99: the heads sit on the two targets, one each.
    specialised: bool


def one_step(embeddings: Any, theta: Any, pair: Sequence[int], learning_rate: float) -> OneStep:
    """Start at (theta, -theta), move both queries at once against the gradient at the start, and attend.

    ``embeddings`` has shape (d, m), rows of any length; ``theta`` has shape (m,); ``pair`` = (p, q) is 0-based;
    ``learning_rate`` is a finite number >= 0 for the loss without a factor 1/2 (with that factor the same step takes
    twice the rate). Everything is computed in the common dtype of ``embeddings`` and ``theta``.

    Raises TypeError for unsupported dtypes, a pair or a learning rate that is no number; ValueError for wrong shapes,
    values that are not finite or out of range; OverflowError when an updated query exceeds the dtype.

    Source: the paper's training scheme as its summary gives it; the learning rate's scale is our convention.
    """
    rows, start = read_embeddings(embeddings, theta=theta)
    p, q = read_pair(pair, len(rows))
    rate = read_learning_rate(learning_rate, rows.dtype)
    before, before_tilde = softmax_of_scores(rows, start), softmax_of_scores(rows, -start)
    slope, slope_tilde = gradient_at(rows, before, before_tilde, p, q)
    with np.errstate(over="ignore"):
        moved, moved_tilde = start - rate * slope, -start - rate * slope_tilde
    if not (np.isfinite(moved).all() and np.isfinite(moved_tilde).all()):
        steepest = max(np.abs(slope).max(), np.abs(slope_tilde).max())
        raise OverflowError(
            f"learning_rate {learning_rate!r} times a gradient as large as {steepest} exceeds {rows.dtype}; "
            f"use {'float64 or ' if rows.dtype == np.float32 else ''}a smaller rate or smaller embeddings"
        )
    gamma, gamma_tilde = softmax_of_scores(rows, moved), softmax_of_scores(rows, moved_tilde)
    straight, crossed = min(gamma[p], gamma_tilde[q]), min(gamma[q], gamma_tilde[p])
    return OneStep(moved, moved_tilde, gamma, gamma_tilde, bool(max(straight, crossed) >= SPECIALISED_AT))
