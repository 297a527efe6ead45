"""Certified bounds on the largest error that two heads make on any of the 2^d inputs, in O(d log d).

Derivation. Let a, b >= 0 be the heads' weights, with sums S_a and S_b (both 1). As y = -x_p x_q,

    f(x) - y = x_p x_q - (a.x)(b.x),

which x -> -x leaves alone, so we may take x_p = 1. Let (u, w) = (sum a_i x_i, sum b_i x_i) over the free bits
i != p, q. These points lie in the zonotope Z of the generators (a_i, b_i), all in the positive quadrant.

1. x_q = -1: |f - y| = |1 + h| with h = (a_p - a_q + u)(b_p - b_q + w). Along a direction with two non-negative
   components h is convex. From inside Z, moving along (1, 1) or (-1, -1) does not lower the larger end, and Z's edges
   are parallel to generators: the maximum of h over Z lies at a vertex, and vertices are reached by actual bits. So
   E- = 1 + max of h over the vertices, exactly.
2. x_q = +1: f - y = 1 - h with h = (a_p + a_q + u)(b_p + b_q + w), and E+ = 1 - min h.
   (i) When 2 (a_p + a_q) >= S_a and the same for b, both factors are never negative and least together, at u, w with
       all free bits -1: min h = (2 (a_p + a_q) - S_a)(2 (b_p + b_q) - S_b), exactly.
   (ii) Otherwise h is concave along (1, -1), so its minimum over Z lies on the boundary; on an edge h is a convex
        parabola whose lowest point may lie between the ends, where no input lies. The least value over the edges
        bounds min h from below; the least value over the vertices is attained and bounds it from above.
   (iii) With d <= 16 the at most 2^14 settings of the free bits are enumerated if (ii) leaves a gap.
3. What is left, 1 + h < 0 in case 1 or 1 - h < 0 in case 2, needs |h| > 1, and |h| <= S_a S_b, which x = (1, ..., 1)
   reaches in case 2. Hence, for any sums, sup |f - y| = max(E-, E+, S_a S_b - 1), and the last term is 0 when the
   weights sum to 1 exactly; it is kept because floating sums are only nearly 1.

Z's vertices: sort the generators by angle; prefix sums give the lower chain, and point reflection in the centre the
upper one. Generators of one angle may come in any order: the points between lie on an edge and are reached by bits too.

That a gap must be expected in (ii), unless P = NP, is shown in ``partition``.

Source: our derivation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ._validation import ExactVector, Weights, read_heads, read_pair
from ._worst_case_exact import exact_bounds
from ._worst_case_float import float_bounds

#: Up to this many positions the settings of the bits are enumerated where the bounds leave a gap.
ENUMERATION_LIMIT = 16

#: How far from 1 the sum of floating weights may be, by dtype. Fractions must sum to 1 exactly.
SUM_TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}


@dataclass(frozen=True)
class WorstCase:
    """Bounds on sup |f(x) - y| over all 2^d inputs: Fractions for exact weights, Python floats otherwise."""

    lower: Any
    upper: Any

    @property
    def exact(self) -> bool:
        """True when the two bounds are one value: the sup itself (for floats, up to the rounding stated below)."""
        return bool(self.lower == self.upper)


def worst_case_error(gamma: Weights, gamma_tilde: Weights, pair: Sequence[int]) -> WorstCase:
    """Bounds ``lower <= sup |f(x) - y| <= upper`` over all 2^d inputs x, in O(d log d).

    Parameters: ``gamma`` and ``gamma_tilde`` are non-negative attention weights of shape (d,) that sum to 1 (floating
    sums within 1e-9 for float64 and 1e-5 for float32, Fractions exactly); ``pair`` = (p, q) is 0-based.

    The bounds meet (``.exact``) whenever each head puts at least half of its weight on the pair, or the upper bound
    of the inputs with x_p = x_q does not exceed the exact sup of those with x_p != x_q, or d <= 16; otherwise they
    may still meet, when the least point of the zonotope is one of its vertices.

    Fractions: the bounds are exact. Floats: the weights are taken as the real numbers that they are, in whatever
    floating dtype, and the bounds are Python floats (float64). Bounds that meet carry a rounding error of at most
    2e-14 + 5e-19 d (below 1e-12 up to d = 1.9 million); bounds that differ are rounded outward and hold strictly.

    Raises ValueError for negative weights, a sum that is not 1, wrong shapes, values that are not finite or a pair
    out of range; TypeError for unsupported entries or floats beside Fractions.

    Source: our derivation, at the head of this module.
    """
    a, b = read_heads(gamma, gamma_tilde)
    p, q = read_pair(pair, len(a))
    if isinstance(a, tuple) and isinstance(b, tuple):
        _require_exact_distribution(a, "gamma")
        _require_exact_distribution(b, "gamma_tilde")
        return WorstCase(*exact_bounds(a, b, p, q, ENUMERATION_LIMIT))
    a, b = np.asarray(a), np.asarray(b)
    _require_float_distribution(a, "gamma")
    _require_float_distribution(b, "gamma_tilde")
    return WorstCase(*float_bounds(a.astype(np.float64), b.astype(np.float64), p, q, ENUMERATION_LIMIT))


def _require_exact_distribution(weights: ExactVector, name: str) -> None:
    for index, weight in enumerate(weights):
        if weight < 0:
            raise ValueError(f"{name}[{index}] is {weight}; attention weights are not negative")
    total = sum(weights, Fraction(0))
    if total != 1:
        raise ValueError(f"{name} sums to {total}; attention weights given as Fractions sum to exactly 1")


def _require_float_distribution(weights: np.ndarray[Any, np.dtype[Any]], name: str) -> None:
    least = int(np.argmin(weights))
    if weights[least] < 0:
        raise ValueError(f"{name}[{least}] is {weights[least]}; attention weights are not negative")
    tolerance = SUM_TOLERANCE[weights.dtype]
    with np.errstate(over="ignore"):
        total = float(weights.sum(dtype=np.float64))
    if not abs(total - 1) <= tolerance:
        raise ValueError(
            f"{name} sums to {total!r}; attention weights sum to 1 within {tolerance} in {weights.dtype}. "
            "Divide them by their sum"
        )
