"""What to expect of near-orthogonality and of the smallest width, without drawing any embedding.

Inner products. For v uniform on the unit sphere in m dimensions and a fixed unit vector e, x = v.e has a density
proportional to (1 - x^2)^((m-3)/2), and P(|x| > t) <= 2 e^(-m t^2 / 2).

The width. Write D = (v_p - v_q).theta. The step moves head 1 along (``width``, expanded in the scores)

    e^D v_p + e^-D v_q - (2/d) sum_i v_i - (1/d) sum_i s_i v_i,

and head 2 along the same with theta and D negated. The first sum changes the chances by relative order m / d, which is
left out. The second is theta / m up to relative order sqrt(m / d): it makes no position stand out, but takes |D| / (2m)
from the growth of the target that a head leans to (the mean of the two scores is as often positive as negative).

A third position j takes a head when v_j's component along e^D v_p + e^-D v_q exceeds tau, which is the growth of the
head's better target over that vector's length. The projection of v_j on the plane of v_p and v_q has a uniform angle
and a radius r with P(r > x) = (1 - x^2)^((m-2)/2) exactly. With A half the angle between the directions of the two
heads, some head prefers j with probability

    f = (1/pi) integral from -A to pi/2 of (1 - tau^2 / cos^2 psi)_+^((m-2)/2) d psi,

and both heads land in the pair with probability E[(1 - f)^(d-2)] over c = v_p.v_q and D = sqrt(2 - 2c) x, where c and x
are distributed as inner products above. For c = D = 0, tau = 1/sqrt(2) and f is near 2^(-m/2): m* is (2 / ln 2) ln d to
leading order, with corrections of order sqrt(ln d) because c and D are of order 1/sqrt(m).

Source: our derivation.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: The slope of m* against ln d in the limit.
LIMIT_SLOPE = 2 / math.log(2)
#: Nodes and weights of Gauss and Legendre: for the law, whose cost grows with their cube, and for single integrals.
_LAW, _TAIL = np.polynomial.legendre.leggauss(64), np.polynomial.legendre.leggauss(96)


def inner_product_tail(t: float, m: int) -> float:
    """P(|v.e| > t) for v uniform on the unit sphere in m >= 2 dimensions, 0 <= t <= 1: exact up to quadrature.

    With x = cos(phi): the integral of sin^(m-2) up to arccos(t), over that up to pi / 2.
    Raises ValueError outside these ranges.
    """
    if m < 2 or not 0 <= t <= 1:
        raise ValueError(f"m = {m}, t = {t}; give m >= 2 and 0 <= t <= 1")
    if t == 1:
        return 0.0
    parts = []
    for end in (math.acos(t), math.pi / 2):
        phi, weights = _between(_TAIL, 0.0, end)
        # In units of the largest value, so that large m does not underflow before the ratio is taken.
        parts.append((weights @ np.exp((m - 2) * np.log(np.sin(phi) / math.sin(end))), math.sin(end)))
    (small, top), (whole, _) = parts
    return float(small / whole * top ** (m - 2))


def union_bound(d: int, m: int, risk: float = 0.05) -> float:
    """The t that the largest of all |v_i.v_j| exceeds with probability at most ``risk``: sqrt(2 ln(d^2 / risk) / m)."""
    return math.sqrt(2 * math.log(d * d / risk) / m)


def sharp_union_bound(d: int, m: int, risk: float = 0.05) -> float:
    """The same with the exact tail in place of its bound: d (d - 1) / 2 times the tail at t is ``risk`` (bisection)."""
    low, high = 0.0, 1.0
    for _ in range(50):
        t = (low + high) / 2
        low, high = (t, high) if d * (d - 1) / 2 * inner_product_tail(t, m) > risk else (low, t)
    return high


def predicted_share(d: int, m: int) -> float:
    """The probability that both heads land in the pair as the rate grows, up to relative order m / d; m >= 4, d >= 3.

    Raises ValueError outside these ranges.
    """
    if d < 3 or m < 4:
        raise ValueError(f"d = {d}, m = {m}; give d >= 3 and m >= 4")
    angle, weights = _between(_LAW, 0.0, math.pi)
    density = weights * np.sin(angle) ** (m - 2)
    # Only abs(D) counts: half of its range, because Gauss nodes converge slowly across the corner at D = 0.
    turn, turn_weights = _between(_LAW, 0.0, math.pi / 2)
    leans = turn_weights * np.sin(turn) ** (m - 2)
    density, leans = density / density.sum(), leans / leans.sum()
    c = np.cos(angle)[:, None]
    lean = np.sqrt(2 - 2 * c) * np.cos(turn)[None, :]
    near, far = np.exp(lean), np.exp(-lean)
    length = np.sqrt(near**2 + far**2 + 2 * c)
    tau = (np.maximum(near + far * c, far + near * c) - lean / (2 * m)) / length
    cosine = (2 + c * (near**2 + far**2)) / length**2
    half = np.arccos(np.clip(cosine, -1, 1)) / 2
    # Where tau <= 0 any position may win; the formula below is for tau > 0 and such (c, D) have next to no weight.
    tau = np.clip(tau, 0, 1)
    # The integrand is zero beyond arccos(tau); stopping there leaves a smooth one.
    high = np.arccos(tau)
    low = -np.minimum(half, high)
    f = np.zeros_like(tau)
    for x, w in zip(*_LAW, strict=True):
        ratio = tau / np.cos(low + (x + 1) / 2 * (high - low))
        f += w / 2 * (high - low) / math.pi * np.clip(1 - ratio**2, 0, None) ** ((m - 2) / 2)
    chance = np.exp((d - 2) * np.log1p(-np.clip(f, 0, 1 - 1e-16)))
    return float(density @ chance @ leans)


def predicted_width(d: int, share: float = 0.95) -> float:
    """Where ``predicted_share`` crosses ``share``, linearly between neighbouring widths as in ``smallest_width``."""
    low, high = 4, 8
    if predicted_share(d, low) >= share:
        return float(low)
    while predicted_share(d, high) < share:
        low, high = high, 2 * high
    while high - low > 1:  # the share rises with the width
        m = (low + high) // 2
        low, high = (low, m) if predicted_share(d, m) >= share else (m, high)
    below, above = predicted_share(d, low), predicted_share(d, high)
    return low + (share - below) / (above - below)


def _between(rule: tuple[Array, Array], low: float, high: float) -> tuple[Array, Array]:
    nodes, weights = rule
    return low + (nodes + 1) / 2 * (high - low), weights * (high - low) / 2
