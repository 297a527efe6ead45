"""The bounds of ``worst_case`` in exact rational arithmetic; the derivation stands there.

Both heads are scaled to integers, a_i = A_i / D_a and b_i = B_i / D_b, so that everything up to the final Fraction is
integer arithmetic: h = H / (D_a D_b) with integers H.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise

from ._rational import over_common_denominator
from ._validation import ExactVector

Point = tuple[int, int]


def exact_bounds(a: ExactVector, b: ExactVector, p: int, q: int, limit: int) -> tuple[Fraction, Fraction]:
    """(lower, upper) for non-negative Fractions that sum to 1; equal when d <= ``limit`` and wherever they meet."""
    x, scale_a = over_common_denominator(a)
    y, scale_b = over_common_denominator(b)
    unit = scale_a * scale_b
    free = [(x[i], y[i]) for i in range(len(x)) if i not in (p, q)]
    path = sort_by_angle(free)
    chain = lower_chain(path)

    minus = max(h for points in _both_chains((x[p] - x[q], y[p] - y[q]), chain) for h in _products(points))
    e_minus = 1 + Fraction(minus, unit)

    centre = (x[p] + x[q], y[p] + y[q])
    if 2 * centre[0] >= scale_a and 2 * centre[1] >= scale_b:
        least = (2 * centre[0] - scale_a) * (2 * centre[1] - scale_b)
        e_plus = 1 - Fraction(least, unit)
        return max(e_minus, e_plus), max(e_minus, e_plus)

    attained, below = _least_on_boundary(centre, chain, path)
    lower, upper = 1 - Fraction(attained, unit), 1 - below / unit
    if upper > max(lower, e_minus) and len(x) <= limit:
        lower = upper = 1 - Fraction(_least_by_enumeration(centre, free), unit)
    return max(e_minus, lower), max(e_minus, upper)


def sort_by_angle(generators: list[Point]) -> list[Point]:
    """Generators in the positive quadrant by increasing angle, exactly; zero generators are left out."""

    def by_cross_product(first: Point, second: Point) -> int:
        return _compare(first[1] * second[0], second[1] * first[0])

    # (0, 0) has no angle: it would compare equal to everything and break the order.
    return sorted((g for g in generators if g != (0, 0)), key=cmp_to_key(by_cross_product))


def _compare(left: int, right: int) -> int:
    return (left > right) - (left < right)


def lower_chain(path: list[Point]) -> list[Point]:
    """Vertices of the centred zonotope from (-sum, -sum) to (sum, sum), flipping one bit after another."""
    u, w = -sum(g[0] for g in path), -sum(g[1] for g in path)
    chain = [(u, w)]
    for step_u, step_w in path:
        u, w = u + 2 * step_u, w + 2 * step_w
        chain.append((u, w))
    return chain


def _both_chains(centre: Point, chain: list[Point]) -> Iterator[list[Point]]:
    for sign in (1, -1):
        yield [(centre[0] + sign * u, centre[1] + sign * w) for u, w in chain]


def _products(points: list[Point]) -> list[int]:
    return [u * w for u, w in points]


def _least_on_boundary(centre: Point, chain: list[Point], path: list[Point]) -> tuple[int, Fraction]:
    """The least H over the vertices (attained by bits) and over the whole boundary (a lower bound for all bits).

    On the edge from h_0 to h_1 whose generator is (a, b), at t in [0, 1],

        h(t) = (1 - t) h_0 + t h_1 - c t (1 - t)   with c = 4 a b,

    because the steps along the edge are 2a and 2b. With D = h_1 - h_0 the parabola's lowest point lies inside the
    edge iff |D| < c, and its value there is h_0 - (c - D)^2 / (4 c).
    """
    attained: int | None = None
    numerator, denominator = 0, 0
    for points in _both_chains(centre, chain):
        values = _products(points)
        least = min(values)
        attained = least if attained is None else min(attained, least)
        if denominator == 0 or least * denominator < numerator:
            numerator, denominator = least, 1
        for (h0, h1), (step_u, step_w) in zip(pairwise(values), path, strict=True):
            c, difference = 4 * step_u * step_w, h1 - h0
            if abs(difference) < c:
                # Compared by cross products: reducing a Fraction per edge would cost more than all the rest.
                inside = 4 * c * h0 - (c - difference) ** 2
                if inside * denominator < numerator * 4 * c:
                    numerator, denominator = inside, 4 * c
    assert attained is not None
    return attained, Fraction(numerator, denominator)


def _least_by_enumeration(centre: Point, free: list[Point]) -> int:
    """The least H over all settings of the free bits, by doubling the list of partial sums."""
    us, ws = [centre[0]], [centre[1]]
    for step_u, step_w in free:
        us = [u + step_u for u in us] + [u - step_u for u in us]
        ws = [w + step_w for w in ws] + [w - step_w for w in ws]
    return min(u * w for u, w in zip(us, ws, strict=True))
