"""The gradient of the population loss with respect to the two queries, in O(d m).

Derivation. With a = gamma, b = gamma~, differentiating equation (2) of ``loss`` gives

    g = dL/da = 2 |b|^2 a + 4 (a.b) b - 4 a * b^2 - 2 (b_q e_p + b_p e_q)      (products entry by entry).

Through the softmax a = softmax(s) one has da_i/ds_k = a_i ([i = k] - a_k), so dL/ds = a * (g - a.g), and s = V theta
gives dL/dtheta = V^T dL/ds. The loss is symmetric in the heads: swap a and b for the other query.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ._validation import ExactVector, FloatArray, Weights, read_embeddings, read_heads, read_pair
from .attention import all_weighted_rows, softmax_of_scores


def population_gradient(
    embeddings: Any, theta: Any, theta_tilde: Any, pair: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """The gradients (dL/dtheta, dL/dtheta~) of E[(f(x) - y)^2], each of shape (m,), in O(d m).

    ``embeddings`` has shape (d, m) with rows of any length, ``theta`` and ``theta_tilde`` have shape (m,), ``pair`` =
    (p, q) is 0-based. The result has the arguments' common dtype (float32 or float64; integers count as float64).

    Raises TypeError for unsupported dtypes or a pair that is not integer; ValueError for wrong shapes, values that are
    not finite or a pair out of range; OverflowError when a gradient exceeds the dtype.

    Source: our derivation, at the head of this module.
    """
    rows, first, second = read_embeddings(embeddings, theta=theta, theta_tilde=theta_tilde)
    p, q = read_pair(pair, len(rows))
    return gradient_at(rows, softmax_of_scores(rows, first), softmax_of_scores(rows, second), p, q)


def score_gradient(gamma: Weights, gamma_tilde: Weights, pair: Sequence[int]) -> Any:
    """dL/ds for the scores s of the first head, gamma = softmax(s), shape (d,); swap the heads for the second.

    ``gamma`` and ``gamma_tilde`` are attention weights that sum to 1, shape (d,). Returns an array of their common
    dtype, or a list of exact Fractions when a head holds Fractions. Errors as for ``population_loss``.
    """
    a, b = read_heads(gamma, gamma_tilde)
    p, q = read_pair(pair, len(a))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _exact_score_gradient(a, b, p, q)
    return float_score_gradient(np.asarray(a), np.asarray(b), p, q)


def gradient_at(
    embeddings: FloatArray, a: FloatArray, b: FloatArray, p: int, q: int
) -> tuple[FloatArray, FloatArray]:
    """Both gradients for attention weights that are known already."""
    overlap = _overlap(a, b)
    one, other = all_weighted_rows(
        embeddings, float_score_gradient(a, b, p, q, overlap), float_score_gradient(b, a, p, q, overlap)
    )
    return one, other


def float_weight_gradient(
    a: FloatArray, b: FloatArray, p: int, q: int, overlap: FloatArray | None = None
) -> FloatArray:
    """dL/da for arrays that were read already, shape (d,); any real weights.

    ``overlap`` is what both heads' gradients share, for callers that want both.
    """
    g = a * (2 * (b @ b))
    g -= (_overlap(a, b) if overlap is None else overlap) * b
    g[p] -= 2 * b[q]
    g[q] -= 2 * b[p]
    return g


def float_score_gradient(
    a: FloatArray, b: FloatArray, p: int, q: int, overlap: FloatArray | None = None
) -> FloatArray:
    """dL/ds of the softmax head ``a`` for arrays that were read already."""
    g = float_weight_gradient(a, b, p, q, overlap)
    # A common shift of g changes nothing, as the weights sum to 1. Taking out the entry of the largest weight leaves
    # only small products in the mean, which keeps the digits of a head that is almost one-hot.
    g -= g[a.argmax()]
    g -= a @ g
    g *= a
    return g


def _overlap(a: FloatArray, b: FloatArray) -> FloatArray:
    """4 (a * b - a.b), shape (d,)."""
    shared = a * b
    shared -= a @ b
    shared *= 4
    return shared


def _exact_score_gradient(a: ExactVector, b: ExactVector, p: int, q: int) -> list[Fraction]:
    b_squared = sum((t * t for t in b), Fraction(0))
    overlap = sum((s * t for s, t in zip(a, b, strict=True)), Fraction(0))
    g = [2 * b_squared * s + 4 * overlap * t - 4 * s * t * t for s, t in zip(a, b, strict=True)]
    g[p] -= 2 * b[q]
    g[q] -= 2 * b[p]
    mean = sum((s * t for s, t in zip(a, g, strict=True)), Fraction(0))
    return [s * (t - mean) for s, t in zip(a, g, strict=True)]
