"""worst_case_error in rationals: equal to enumeration up to d = 16, a bracket of it beyond."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import WorstCase, _worst_case_exact, worst_case_error
from attention_companion.sparse_xor._worst_case_exact import exact_bounds, lower_chain, sort_by_angle

pytestmark = pytest.mark.torch_free

GAMMA = [Fraction(n, 10) for n in (1, 2, 3, 4)]
GAMMA_TILDE = [Fraction(n, 25) for n in (12, 6, 4, 3)]


@st.composite
def heads(draw, max_d=8, largest=6):
    """Rational distributions with many zeros, ties and parallel generators."""
    d = draw(st.integers(2, max_d))
    counts = st.lists(st.integers(0, largest), min_size=d, max_size=d).filter(any)
    a, b = ([Fraction(n, sum(ns)) for n in ns] for ns in (draw(counts), draw(counts)))
    return a, b, tuple(draw(st.permutations(range(d)))[:2])


@given(heads())
@settings(max_examples=150, deadline=None)
def test_equals_enumeration_up_to_the_limit(oracle, case):
    bound = worst_case_error(*case)
    assert bound.exact
    assert bound.lower == bound.upper == oracle.sup(*case)
    assert isinstance(bound.lower, Fraction)


@given(heads(max_d=9))
@settings(max_examples=150, deadline=None)
def test_without_enumeration_it_is_a_bracket(oracle, case):
    a, b, (p, q) = case
    lower, upper = exact_bounds(tuple(a), tuple(b), p, q, limit=0)
    assert lower <= oracle.sup(*case) <= upper


def least_over_edges(centre, path):
    """min u w over the boundary of the zonotope of ``path`` around ``centre``, edge by edge in plain Fractions."""
    least = []
    for sign in (1, -1):
        points = [(centre[0] + sign * u, centre[1] + sign * w) for u, w in lower_chain(path)]
        least.append(Fraction(points[0][0] * points[0][1]))
        for (u0, w0), (u1, w1) in pairwise(points):
            du, dw = u1 - u0, w1 - w0
            # The derivative of (u0 + t du)(w0 + t dw) vanishes here; outside [0, 1] an end is lowest.
            t = (
                max(Fraction(0), min(Fraction(1), Fraction(-(u0 * dw + w0 * du), 2 * du * dw)))
                if du * dw
                else 1
            )
            least += [Fraction((u0 + t * du) * (w0 + t * dw)), Fraction(u1 * w1)]
    return min(least)


@given(
    st.tuples(st.integers(-30, 30), st.integers(-30, 30)),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=7),
)
@settings(max_examples=300, deadline=None)
def test_the_lower_bound_on_the_product_is_the_least_point_of_all_edges(centre, generators):
    path = sort_by_angle(generators)
    attained, below = _worst_case_exact._least_on_boundary(centre, lower_chain(path), path)
    assert below == least_over_edges(centre, path)
    assert below <= attained


@given(heads(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_symmetries(case, random):
    a, b, (p, q) = case
    bound = worst_case_error(a, b, (p, q))
    assert worst_case_error(b, a, (p, q)) == bound
    assert worst_case_error(a, b, (q, p)) == bound
    order = list(range(len(a)))
    random.shuffle(order)
    moved = [a[i] for i in order], [b[i] for i in order]
    assert worst_case_error(*moved, (order.index(p), order.index(q))) == bound


@given(heads())
@settings(max_examples=60, deadline=None)
def test_lies_between_the_root_mean_square_and_two(oracle, case):
    bound = worst_case_error(*case)
    assert oracle.loss(*case) <= bound.lower**2 <= 4


def test_golden_value():
    assert worst_case_error(GAMMA, GAMMA_TILDE, (0, 3)) == WorstCase(Fraction(144, 125), Fraction(144, 125))


@pytest.mark.parametrize("d", [2, 3, 16, 17, 301])
def test_uniform_attention(d):
    uniform = [Fraction(1, d)] * d
    bound = worst_case_error(uniform, uniform, (0, 1))
    assert bound.exact
    assert bound.upper == 1 + Fraction(d - 2, d) ** 2


@pytest.mark.parametrize("d", [2, 3, 20])
def test_perfect_and_collapsed_heads(d):
    p, q, other = ([int(i == k) for i in range(d)] for k in (0, 1, 2))
    exact_zero = Fraction(0)
    assert worst_case_error([exact_zero + s for s in p], q, (0, 1)) == WorstCase(exact_zero, exact_zero)
    assert worst_case_error([exact_zero + s for s in p], p, (0, 1)) == WorstCase(2, 2)
    if d > 2:
        assert worst_case_error([exact_zero + s for s in other], other, (0, 1)) == WorstCase(2, 2)


@given(st.integers(2, 40), st.data())
@settings(max_examples=60, deadline=None)
def test_two_specialised_heads_are_never_far_off(d, data):
    """Both heads with at least 1 - eps on targets of their own: sup <= 1 - (1 - 2 eps)^2, and the bounds meet."""
    eps = data.draw(st.fractions(0, Fraction(1, 2), max_denominator=50))
    leaks = [data.draw(st.lists(st.integers(0, 5), min_size=d, max_size=d).filter(any)) for _ in range(2)]
    a, b = ([eps * Fraction(n, sum(ns)) for n in ns] for ns in leaks)
    a[0] += 1 - eps
    b[1] += 1 - eps
    bound = worst_case_error(a, b, (0, 1))
    assert bound.exact
    assert bound.upper <= 1 - (1 - 2 * eps) ** 2


def test_the_specialised_bound_is_reached():
    """It is reached when both heads waste eps on one and the same position, where bits can hurt both at once."""
    eps = Fraction(1, 10)
    a, b = [1 - eps, 0, eps], [0, 1 - eps, eps]
    assert worst_case_error(a, b, (0, 1)).upper == 1 - (1 - 2 * eps) ** 2


def test_half_on_the_pair_is_exact_at_any_d_and_just_less_is_not_promised():
    """The closed form starts at one half exactly, and it is wrong below: the head with less must not use it."""
    d = 24
    spread = [Fraction(1, 2 * (d - 2))] * (d - 2)
    at_half = worst_case_error([Fraction(1, 2), 0, *spread], [0, Fraction(1, 2), *reversed(spread)], (0, 1))
    assert at_half.exact
    below = Fraction(49, 100)
    a = [below, 0, 1 - below, *[0] * (d - 3)]
    b = [0, below, 0, 1 - below, *[0] * (d - 4)]
    formula = 1 - (2 * below - 1) ** 2
    bound = worst_case_error(a, b, (0, 1))
    # Bits 2 and 3 are free of one another: h = (49/100 - 51/100)(49/100 + 51/100) = -1/50 at the least.
    assert bound == WorstCase(Fraction(51, 50), Fraction(51, 50))
    assert bound.lower > formula


def test_generators_sort_by_exact_angle():
    big = 10**40
    generators = [(0, 3), (big, big + 1), (0, 0), (big + 1, big + 2), (5, 0), (1, 1), (2, 2), (0, 1)]
    ordered = sort_by_angle(generators)
    assert (0, 0) not in ordered
    assert len(ordered) == len(generators) - 1
    assert all(u0 * w1 >= u1 * w0 for (u0, w0), (u1, w1) in pairwise(ordered))
    # These two differ by 1e-80 in angle: no float key can tell them apart.
    assert ordered.index((big + 1, big + 2)) < ordered.index((big, big + 1))


def test_the_chain_is_the_lower_convex_hull_of_all_sums(oracle):
    generators = [(3, 1), (1, 4), (2, 2), (5, 0), (0, 2), (1, 1)]
    chain = lower_chain(sort_by_angle(generators))
    sums = {(0, 0)}
    for u, w in generators:
        sums = {(s + k * u, t + k * w) for s, t in sums for k in (1, -1)}
    assert set(chain) <= sums
    for (u0, w0), (u1, w1) in pairwise(chain):
        # Every sum lies on the left of every edge of the chain.
        assert all((u1 - u0) * (t - w0) - (w1 - w0) * (s - u0) >= 0 for s, t in sums)


def test_hundreds_of_weights_with_unrelated_denominators():
    rng = np.random.default_rng(5)
    d = 300
    ratios = [[Fraction(int(n), int(k)) for n, k in rng.integers(1, 10**6, (d, 2))] for _ in range(2)]
    a, b = ([ratio / sum(head) for ratio in head] for head in ratios)
    bound = worst_case_error(a, b, (3, 8))
    assert bound.exact
    floats = worst_case_error(np.array(a, dtype=float), np.array(b, dtype=float), (3, 8))
    assert float(bound.lower) == pytest.approx(floats.lower, abs=1e-12)


def test_comparisons_grow_like_d_log_d(monkeypatch):
    """Counted, not timed: doubling d must cost little more than twice as many comparisons."""
    counts = {}
    compare = _worst_case_exact._compare

    def counting(left, right):
        counts[d] += 1
        return compare(left, right)

    monkeypatch.setattr(_worst_case_exact, "_compare", counting)
    rng = np.random.default_rng(1)
    for d in (64, 512):
        counts[d] = 0
        a, b = ([Fraction(int(n), int(ns.sum())) for n in ns] for ns in rng.integers(1, 10**9, (2, d)))
        worst_case_error(a, b, (0, 1))
        assert d / 2 < counts[d] <= d * np.log2(d)
    # 8 times the weights: 12 for d log d (13.6 with a sort's lower-order terms), 64 for a quadratic method.
    assert counts[512] / counts[64] < 16
