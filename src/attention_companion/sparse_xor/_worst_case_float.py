"""The bounds of ``worst_case`` for float64 weights, with an error bound that makes them a certificate.

Fixed point. Prefix sums in floating point lose more the longer they are. Weights are at most about 1, so each is
rounded once to a multiple of 2^-62 (an integer) and all sums are exact in int64: every partial sum that occurs lies in
[-S, S] with S <= 1 + 1e-5 < 2. A sum of at most d weights is then off by at most d 2^-63.

Error bound, with eps = 2^-53 and |u|, |w| <= S, for h = u w and everything made from it:
- fixed point: |u| d 2^-63 + |w| d 2^-63 <= 1.001 d 2^-62;
- two conversions and one product: 3 eps;
- sorting: the keys b_i / a_i are correctly rounded, hence monotone; generators whose keys tie may come in the wrong
  order. Replacing b_i by a_i times the common key changes it by at most eps b_i and makes the order right, so the
  chain is at most 2 eps away from the true one. (An overflowing or vanishing key changes things by 1e-307 at most.)
- the lowest point of an edge is the minimum over t of a mean of h_0 and h_1 minus c t (1 - t): it inherits their error
  once, a quarter of the error of c <= 4.1 (2 eps relative), and about 8.2 eps * 5 from evaluating (c - D)^2 / (4 c);
- the final 1 + h, S_a S_b - 1 and 1 - h: 4 eps.
Together less than 64 eps + 1.001 d 2^-62, which is what ``error_bound`` returns.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

_BITS = 62


def float_bounds(a: Floats, b: Floats, p: int, q: int, limit: int) -> tuple[float, float]:
    """(lower, upper) for non-negative float64 weights with sums within 1e-5 of 1.

    Equal (up to rounding) when d <= ``limit`` and wherever the bounds meet; else rounded outward.
    """
    error = error_bound(len(a))
    fixed_a, fixed_b = _fixed(a), _fixed(b)
    is_free = np.ones(len(a), dtype=bool)
    is_free[[p, q]] = False
    order = order_by_angle(a[is_free], b[is_free])
    free_a, free_b = fixed_a[is_free][order], fixed_b[is_free][order]
    chain = (_lower_chain(free_a), _lower_chain(free_b))

    minus_centre = (fixed_a[p] - fixed_a[q], fixed_b[p] - fixed_b[q])
    e_minus = 1 + max(values.max() for values in _vertex_products(minus_centre, chain))
    all_ones = _as_float(fixed_a.sum()) * _as_float(fixed_b.sum()) - 1
    floor = float(max(e_minus, all_ones))

    centre = (fixed_a[p] + fixed_a[q], fixed_b[p] + fixed_b[q])
    # How far each factor of h stays above zero when every free bit is -1. A head that misses "at least half" by
    # rounding alone needs no care: h is then above -1e-15 or so, and the bounds below meet as well.
    margin_a, margin_b = (_as_float(c - f.sum()) for c, f in zip(centre, (free_a, free_b), strict=True))
    if margin_a >= 0 and margin_b >= 0:
        value = float(max(floor, 1 - margin_a * margin_b))
        return value, value

    # Edge heights from the unrounded weights, in the chain's order.
    heights = 4 * a[is_free][order] * b[is_free][order]
    attained, below = _least_on_boundary(centre, chain, heights)
    lower, upper = max(floor, 1 - attained), max(floor, 1 - below)
    if upper - lower > 2 * error and len(a) <= limit:
        lower = upper = max(floor, 1 - _least_by_enumeration(centre, free_a, free_b))
    return settle(lower, upper, error)


def settle(lower: float, upper: float, error: float) -> tuple[float, float]:
    """Bounds computed within ``error`` as they are reported: one value if that could be all, else rounded outward."""
    if upper - lower <= 2 * error:
        middle = lower + (upper - lower) / 2
        return middle, middle
    return math.nextafter(lower - error, -math.inf), math.nextafter(upper + error, math.inf)


def error_bound(d: int) -> float:
    """What rounding can do to a bound that ``float_bounds`` computes for d weights."""
    return 64 * 2.0**-53 + 1.001 * d * 2.0**-62


def order_by_angle(a: Floats, b: Floats) -> npt.NDArray[np.intp]:
    """An order of the generators (a_i, b_i) by increasing angle."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        key = b / a
    # A zero generator (0 / 0) moves nothing: any place will do.
    return np.argsort(key, kind="stable")


def _fixed(weights: Floats) -> Ints:
    return np.rint(np.ldexp(weights, _BITS)).astype(np.int64)


def _as_float(fixed: Any) -> Any:
    return fixed * 2.0**-_BITS


def _lower_chain(sorted_weights: Ints) -> Ints:
    """One coordinate of the centred zonotope's vertices: all bits -1, then one after another flipped to +1."""
    flipped = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sorted_weights)])
    # Not 2 * flipped - total: the doubled sum would leave int64.
    return (flipped - flipped[-1]) + flipped


def _vertex_products(centre: tuple[Any, Any], chain: tuple[Ints, Ints]) -> tuple[Floats, Floats]:
    """h on the lower chain and on its reflection, as floats."""
    (u, w), (centre_u, centre_w) = chain, centre
    return (
        _as_float(centre_u + u) * _as_float(centre_w + w),
        _as_float(centre_u - u) * _as_float(centre_w - w),
    )


def _least_on_boundary(
    centre: tuple[Any, Any], chain: tuple[Ints, Ints], heights: Floats
) -> tuple[float, float]:
    """The least h over the vertices, and over the edges between them (see ``_worst_case_exact`` for the parabola)."""
    attained, below = math.inf, math.inf
    for values in _vertex_products(centre, chain):
        attained = min(attained, float(values.min()))
        difference = np.diff(values)
        inside = np.abs(difference) < heights
        c, gap = heights[inside], heights[inside] - difference[inside]
        # gap / (4 c) is below 1/2, so nothing overflows or vanishes for tiny edges.
        lowest = values[:-1][inside] - gap * (gap / (4 * c))
        below = min(below, float(lowest.min(initial=math.inf)))
    return attained, min(attained, below)


def _least_by_enumeration(centre: tuple[Any, Any], free_a: Ints, free_b: Ints) -> float:
    """The least h over all settings of the free bits, by doubling the array of partial sums."""
    u, w = np.array([centre[0]]), np.array([centre[1]])
    for step_u, step_w in zip(free_a, free_b, strict=True):
        u = np.concatenate([u + step_u, u - step_u])
        w = np.concatenate([w + step_w, w - step_w])
    return float((_as_float(u) * _as_float(w)).min())
