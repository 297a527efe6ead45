"""The population loss of a pair of heads, for any real attention weights.

Derivation. Write a = gamma, b = gamma~ and c_ij = a_i b_j + a_j b_i. As x_i^2 = 1,

    f(x) = -(a.x)(b.x) = -(a.b) - sum_{i<j} c_ij x_i x_j,        y = -x_p x_q,

and the monomials 1 and x_i x_j (i < j) are orthonormal under the uniform distribution. Hence

    E[(f - y)^2] = (a.b)^2 + (1 - c_pq)^2 + sum of c_ij^2 over the other pairs,                              (1)

and with sum_{i<j} c_ij^2 = |a|^2 |b|^2 + (a.b)^2 - 2 sum_i a_i^2 b_i^2 this is

    E[(f - y)^2] = 1 + |a|^2 |b|^2 + 2 (a.b)^2 - 2 sum_i a_i^2 b_i^2 - 2 (a_p b_q + a_q b_p).                (2)

(2) is what rationals use. In floating point (2) loses everything near a perfect pair of heads, where terms of size
one cancel; (1), with the pairs that touch p or q summed one by one, keeps relative accuracy there and stays >= 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ._rational import dot, over_common_denominator
from ._validation import ExactVector, FloatArray, Weights, read_heads, read_pair


def population_loss(gamma: Weights, gamma_tilde: Weights, pair: Sequence[int]) -> Any:
    """E[(f(x) - y)^2] over x uniform on {-1, +1}^d, in O(d), without the factor 1/2.

    Parameters: ``gamma`` and ``gamma_tilde`` are the attention weights of the two heads, shape (d,), any finite real
    numbers (they need not be non-negative or sum to 1); ``pair`` = (p, q), 0-based.

    Returns a numpy scalar of the heads' common dtype (float32 or float64; integers count as float64), or an exact
    ``Fraction`` when a head is a list with Fractions in it.

    Raises TypeError for unsupported entries or floats beside Fractions; ValueError for wrong shapes, values that are
    not finite, or a pair out of range; OverflowError when the loss itself exceeds the dtype.

    Source: our derivation, equations (1) and (2) of this module.
    """
    a, b = read_heads(gamma, gamma_tilde)
    p, q = read_pair(pair, len(a))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _exact_loss(a, b, p, q)
    return _float_loss(np.asarray(a), np.asarray(b), p, q)


def _exact_loss(a: ExactVector, b: ExactVector, p: int, q: int) -> Fraction:
    x, scale_a = over_common_denominator(a)
    y, scale_b = over_common_denominator(b)
    scale = scale_a * scale_b
    squares = dot((s * s for s in x), (t * t for t in y))
    crossed = x[p] * y[q] + x[q] * y[p]
    numerator = scale**2 + dot(x, x) * dot(y, y) + 2 * dot(x, y) ** 2 - 2 * squares - 2 * crossed * scale
    return Fraction(numerator, scale**2)


def _float_loss(a: FloatArray, b: FloatArray, p: int, q: int) -> Any:
    free = np.ones(len(a), dtype=bool)
    free[[p, q]] = False
    with np.errstate(over="ignore", invalid="ignore"):
        u, w = a[free], b[free]
        with_p = a[p] * w + b[p] * u
        with_q = a[q] * w + b[q] * u
        both = u * w
        # The pairs inside the free positions; a sum of squares, so a negative value is rounding.
        inside = (u @ u) * (w @ w) + (u @ w) ** 2 - 2 * (both @ both)
        constant = a @ b
        on_pair = 1 - (a[p] * b[q] + a[q] * b[p])
        loss = constant**2 + on_pair**2 + with_p @ with_p + with_q @ with_q + np.maximum(inside, 0)
    if not np.isfinite(loss):
        largest = max(np.abs(a).max(), np.abs(b).max())
        raise OverflowError(
            f"the loss of weights as large as {largest} exceeds {a.dtype}; use "
            f"{'float64, ' if a.dtype == np.float32 else ''}Fractions or smaller weights"
        )
    return loss
