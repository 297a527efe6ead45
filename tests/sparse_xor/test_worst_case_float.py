"""worst_case_error in floats: close where the bounds meet, certified where they differ.

The judge is rational arithmetic on the very numbers that the floats are, so nothing is lost between the two.
"""

from __future__ import annotations

import math
import sys
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import (
    PARTITION_PAIR,
    _worst_case_float,
    partition_heads,
    partition_worst_case,
    worst_case_error,
)
from attention_companion.sparse_xor._worst_case_exact import exact_bounds
from attention_companion.sparse_xor._worst_case_float import error_bound, float_bounds, settle

pytestmark = pytest.mark.torch_free


def exact_sup(a, b, pair):
    """The sup of |f - y| for float weights taken as the rationals that they are, whatever their sums."""
    p, q = pair
    x, y = ([Fraction(float(s)) for s in head] for head in (a, b))
    us, ws, labels = [x[p]], [y[p]], [1]
    for i in range(len(x)):
        if i == p:
            continue
        us, ws = [u + k * x[i] for k in (1, -1) for u in us], [w + k * y[i] for k in (1, -1) for w in ws]
        labels = [k * label for k in (1, -1) for label in labels] if i == q else labels * 2
    return max(abs(label - u * w) for u, w, label in zip(us, ws, labels, strict=True))


def dirichlet_heads(rng, d, concentration):
    a, b = rng.dirichlet(np.full(d, concentration), size=2)
    return a, b, tuple(int(i) for i in rng.choice(d, 2, replace=False))


@st.composite
def float_heads(draw, max_d=8):
    """Weights over many orders of magnitude, with zeros, ties and equal heads, normalised in floating point."""
    d = draw(st.integers(2, max_d))
    weight = st.one_of(st.just(0.0), st.sampled_from([1.0, 3.0, 1e-300, 5e-324]), st.floats(1e-20, 1.0))
    drawn = [draw(st.lists(weight, min_size=d, max_size=d).filter(lambda w: sum(w) > 1e-3)) for _ in range(2)]
    a, b = (np.array(w) / sum(w) for w in drawn)
    if draw(st.booleans()):
        b = a * 1.0
    return a, b, tuple(draw(st.permutations(range(d)))[:2])


@given(float_heads())
@settings(max_examples=200, deadline=None)
def test_equals_exact_enumeration_up_to_rounding(case):
    a, b, pair = case
    bound = worst_case_error(*case)
    assert bound.exact
    assert abs(Fraction(bound.lower) - exact_sup(a, b, pair)) <= Fraction(1, 10**13)


@given(float_heads(max_d=9))
@settings(max_examples=200, deadline=None)
def test_bounds_that_differ_hold_strictly(case):
    """The limit of enumeration is set to 0, so that small d shows the certificate at work."""
    a, b, pair = case
    lower, upper = float_bounds(a, b, *pair, limit=0)
    truth = exact_sup(a, b, pair)
    if lower == upper:
        assert abs(Fraction(lower) - truth) <= Fraction(1, 10**13)
    else:
        assert Fraction(lower) < truth < Fraction(upper)


def test_a_bound_that_is_attained_still_encloses():
    """Here lower is attained exactly; without outward rounding it would be as likely above the truth as below."""
    rng, gaps = np.random.default_rng(11), 0
    for _ in range(400):
        numbers = rng.integers(1, 50, size=4).tolist()
        a, b = (np.array(head, dtype=float) for head in partition_heads(numbers))
        a, b = a / a.sum(), b / b.sum()
        lower, upper = float_bounds(a, b, 0, 1, limit=0)
        truth = exact_sup(a, b, (0, 1))
        if lower < upper:
            gaps += 1
            assert Fraction(lower) < truth < Fraction(upper)
            assert upper - lower < 1
    assert gaps > 100


def test_the_error_bound_covers_what_rounding_does():
    """Before outward rounding, the computed bounds are within the error bound of the rational ones, at d = 17..60."""
    rng, widest, gaps = np.random.default_rng(2), Fraction(0), 0
    for trial in range(150):
        d = int(rng.integers(17, 60))
        if trial % 2:
            a, b, pair = dirichlet_heads(rng, d, 0.3)
        else:
            # A true gap: the least product lies inside an edge of a thin zonotope.
            small = rng.dirichlet(np.ones(d - 3))
            small_tilde = small * rng.uniform(0.98, 1.02, d - 3)
            small_tilde /= small_tilde.sum()
            a, b, pair = (
                np.array([0.3, 0, 0.66, *small / 25]),
                np.array([0.45, 0.45, 0, *small_tilde / 10]),
                (0, 1),
            )
        x, y = ([Fraction(s) for s in head] for head in (a.tolist(), b.tolist()))
        scale_a, scale_b = sum(x), sum(y)
        exact = exact_bounds(tuple(s / scale_a for s in x), tuple(t / scale_b for t in y), *pair, limit=0)
        floats = float_bounds(a, b, *pair, limit=0)
        # Dividing by the sums moves the sup by no more than |S_a S_b - 1|.
        drift = abs(scale_a * scale_b - 1)
        margin = 4 * Fraction(error_bound(d)) + drift
        for ours, theirs in zip(floats, exact, strict=True):
            widest = max(widest, abs(Fraction(ours) - theirs))
            assert abs(Fraction(ours) - theirs) <= margin
        if exact[0] != exact[1]:
            gaps += 1
            assert Fraction(floats[0]) <= exact[0] + drift
            assert Fraction(floats[1]) >= exact[1] - drift
    assert gaps > 20
    assert widest < Fraction(1, 10**12)


def test_brackets_against_enumeration_over_a_dirichlet_sweep(oracle):
    """320 random pairs of heads at d = 17..20, spread out and concentrated, against all 2^d inputs."""
    rng, met = np.random.default_rng(7), 0
    for trial in range(320):
        a, b, pair = dirichlet_heads(
            rng, 17 if trial % 8 else 17 + trial // 8 % 4, (0.05, 0.3, 1.0, 5.0)[trial // 80]
        )
        truth = oracle.sup_vectorised(a, b, pair)
        bound = worst_case_error(a, b, pair)
        assert bound.lower - 1e-13 <= truth <= bound.upper + 1e-13
        if bound.exact:
            met += 1
            assert bound.lower == pytest.approx(truth, abs=1e-13)
    assert met > 300


@pytest.mark.parametrize("k", [14, 15, 17])
def test_a_true_gap_at_large_d(oracle, k):
    """Number partitioning: here the bounds must differ, and enumeration lies between them."""
    rng = np.random.default_rng(k)
    numbers = rng.integers(1, 10, size=k).tolist()
    a, b = (np.array(head, dtype=float) for head in partition_heads(numbers))
    bound = worst_case_error(a, b, PARTITION_PAIR)
    assert not bound.exact
    truth = oracle.sup_vectorised(a, b, PARTITION_PAIR)
    assert bound.lower <= truth + 1e-13
    assert truth - 1e-13 <= bound.upper
    assert truth == pytest.approx(float(partition_worst_case(numbers, sum(numbers) % 2)), abs=1e-13)


def test_no_search_gets_above_the_upper_bound_at_large_d():
    rng = np.random.default_rng(3)
    for d in (50, 400, 3000):
        for concentration in (0.02, 1.0):
            a, b, (p, q) = dirichlet_heads(rng, d, concentration)
            bound = worst_case_error(a, b, (p, q))
            x = rng.choice([-1.0, 1.0], size=(200, d))
            # Half of the tries follow the heads' own order: signs by a random threshold on the angle.
            x[:100] = np.where(np.arctan2(b, a) < rng.uniform(0, np.pi / 2, (100, 1)), -1.0, 1.0)
            reached = np.abs(x[:, p] * x[:, q] - (x @ a) * (x @ b)).max()
            assert reached <= bound.upper + 1e-12
            assert bound.upper - bound.lower < 0.1


def test_weights_that_are_half_by_name_only_count_as_half():
    """0.1 + 0.4 and the like miss one half by rounding; the closed form applies all the same."""
    d = 40
    for first, second in ((0.2, 0.3), (0.1, 0.4), (0.15, 0.35), (0.3, 0.2)):
        a, b = np.full(d, 0.5 / (d - 2)), np.full(d, 0.5 / (d - 2))
        a[0], a[1], b[0], b[1] = first, second, second, first
        a[2] += 1 - math.fsum(a)
        assert worst_case_error(a, b, (0, 1)).exact


def test_tied_bounds_meet_in_floats_too():
    """E- = E+ = 2 here, and no head puts anything on the pair: rounding outward must not tear them apart."""
    a, b = np.zeros(18), np.zeros(18)
    a[[2, 3]] = b[[4, 5]] = 0.5
    bound = worst_case_error(a, b, (0, 1))
    assert bound.exact
    assert bound.upper == 2.0


def test_reported_bounds_are_one_value_or_wider_by_the_whole_error():
    error = error_bound(1000)
    assert settle(1.25, 1.25, error) == (1.25, 1.25)
    lower, upper = settle(1.25, 1.25 + 1.5 * error, error)
    assert lower == upper
    assert 1.25 <= lower <= 1.25 + 1.5 * error
    lower, upper = settle(1.25, 1.25 + 2.5 * error, error)
    assert Fraction(lower) < Fraction(1.25) - Fraction(error)
    assert Fraction(upper) > Fraction(1.25 + 2.5 * error) + Fraction(error)


def test_sums_beside_one_are_taken_as_they_are():
    """With weights a little above 1 a perfect pair of heads has the error S_a S_b - 1, not 0."""
    excess = 2.0**-31
    a, b = np.array([1 + excess, 0.0, 0.0]), np.array([0.0, 1 + excess, 0.0])
    assert worst_case_error(a, b, (0, 1)).upper == pytest.approx(2 * excess, rel=1e-6)
    below = np.array([1 - excess, 0.0, 0.0]), np.array([0.0, 1 - excess, 0.0])
    assert worst_case_error(*below, (0, 1)).upper == pytest.approx(2 * excess, rel=1e-6)


def test_angles_may_overflow_vanish_and_tie():
    tiny = 5e-324
    a = np.array([0.25, 0.25, tiny, 0.25, 0.0, 0.25, *[0.0] * 12])
    b = np.array([0.25, 0.0, 0.5, tiny, 0.25, 0.0, *[0.0] * 12])
    x, y = [Fraction(s) for s in a.tolist()], [Fraction(t) for t in b.tolist()]
    x[3] -= sum(x) - 1
    y[4] -= sum(y) - 1
    exact = worst_case_error(x, y, (0, 1))
    assert worst_case_error(a, b, (0, 1)).lower == pytest.approx(float(exact.lower), abs=1e-12)


def test_float32_is_read_as_the_numbers_that_it_holds():
    rng = np.random.default_rng(4)
    a, b = (head.astype(np.float32) for head in rng.dirichlet(np.ones(12), size=2))
    a, b = a / a.sum(), b / b.sum()
    bound = worst_case_error(a, b, (0, 1))
    assert abs(Fraction(bound.lower) - exact_sup(a, b, (0, 1))) <= Fraction(1, 10**13)
    assert type(bound.lower) is float
    # The same numbers miss 1 by more than float64 weights may: rounding of that size is float32's own.
    assert 1e-9 < abs(a.sum(dtype=np.float64) - 1) < 1e-7
    with pytest.raises(ValueError, match="sum to 1 within 1e-09 in float64"):
        worst_case_error(a.astype(np.float64), b.astype(np.float64), (0, 1))


def test_prefix_sums_are_exact_where_floats_would_drift():
    """A million equal weights: the running float sum is off by 1e-11, fixed point by nothing that shows."""
    d = 10**6
    a = np.full(d, 1 / d)
    bound = worst_case_error(a, a, (0, 1))
    assert bound.exact
    assert abs(Fraction(bound.lower) - 1 - Fraction(d - 2, d) ** 2) <= Fraction(1, 10**12)
    assert error_bound(d) < 5e-13


def test_memory_is_linear_and_the_number_of_python_calls_constant():
    """Growth is counted, not timed: a quadratic method would need one or the other."""
    rng, peaks, calls = np.random.default_rng(6), [], []

    def count(frame, event, argument):
        nonlocal number
        number += event in ("call", "c_call")

    for d in (2**12, 2**16):
        a, b, pair = dirichlet_heads(rng, d, 1.0)
        tracemalloc.start()
        worst_case_error(a, b, pair)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        number = 0
        before = sys.getprofile()
        sys.setprofile(count)
        worst_case_error(a, b, pair)
        sys.setprofile(before)
        calls.append(number)
    assert peaks[1] / peaks[0] < 16 * 1.3
    assert calls[0] == calls[1]


def test_enumeration_is_left_out_when_the_bounds_meet(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("enumerated without need")

    monkeypatch.setattr(_worst_case_float, "_least_by_enumeration", refuse)
    uniform = np.full(16, 1 / 16)
    assert worst_case_error(uniform, uniform, (0, 1)).exact
    a, b = (np.array(head, dtype=float) for head in partition_heads([1, 1, 1]))
    with pytest.raises(AssertionError, match="without need"):
        worst_case_error(a, b, PARTITION_PAIR)
