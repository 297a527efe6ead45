"""The closed forms on where one step stops: golden values by hand, limits, monotonicity, refusals."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_companion.sparse_xor import checks
from attention_companion.sparse_xor.experiments import limits_laws as laws

pytestmark = pytest.mark.torch_free


@pytest.mark.parametrize(("d", "ratio"), [(3, 6 / 13), (6, 24 / 64), (18, 144 / 628)])
def test_plain_ratio_by_hand(d, ratio):
    assert laws.plain_ratio(d) == pytest.approx(ratio, rel=1e-14)
    assert laws.probability_of_ratio(laws.plain_ratio(d)) == pytest.approx(checks.collapse_law(d), rel=1e-14)


def test_probability_of_ratio_by_hand():
    assert laws.probability_of_ratio(0) == 0
    assert laws.probability_of_ratio(1) == pytest.approx(0.5)
    assert laws.probability_of_ratio(math.sqrt(3)) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="not negative"):
        laws.probability_of_ratio(-0.1)
    with pytest.raises(ValueError, match="not negative"):
        laws.probability_of_ratio(math.nan)


def test_balanced_ratio_by_hand():
    # d = m: (4 + 1 + 9/8) / d^3; at d = m = 8 that is 49/4096, a perfect square.
    assert laws.balanced_ratio(8, 8) == pytest.approx(7 / 64, rel=1e-14)
    assert laws.balanced_ratio(64, 48) < laws.plain_ratio(64) / 20


def test_independent_ratio_by_hand_and_in_the_limit():
    # d = 6 and m without bound: ((5 - 1)/6)^2 + 32/36 = 48/36 over (2 - 1/6 - 1/18)^2 = (16/9)^2.
    assert laws.independent_ratio(6, 10**12) == pytest.approx(math.sqrt(48 / 36) * 9 / 16, rel=1e-9)
    d = 10**8
    assert laws.independent_ratio(d, d) / laws.plain_ratio(d) == pytest.approx(math.sqrt(2), rel=1e-6)


@given(st.integers(3, 10**6), st.integers(2, 10**4))
def test_two_steps_begin_at_one_and_the_mirrored_start_is_better(d, m):
    assert laws.two_step_ratio(d, m, 0.0) == pytest.approx(laws.plain_ratio(d), rel=1e-10)
    assert laws.independent_ratio(d, m) > laws.plain_ratio(d)


@pytest.mark.parametrize("d", [64, 1024, 10**6])
def test_a_moderate_first_step_lowers_the_ratio(d):
    ratios = [laws.two_step_ratio(d, 48, kappa) for kappa in (0, 0.25, 0.5, 1)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[1] < 0.6 * ratios[0]


@pytest.mark.parametrize("success", [0.75, 0.9, 0.95, 0.99, 0.999])
def test_length_needed_is_the_smallest(success):
    d = laws.length_needed(success)
    assert 1 - laws.probability_of_ratio(laws.plain_ratio(d)) >= success
    assert 1 - laws.probability_of_ratio(laws.plain_ratio(d - 1)) < success
    assert d == pytest.approx((2 / (math.pi * (1 - success))) ** 2, rel=0.35, abs=3)


def test_success_at_rate_has_the_ceiling_as_its_limit_and_rises():
    shares = [laws.success_at_rate(64, 48, kappa) for kappa in (0, 1, 10, 100, 1e3, 1e7)]
    assert shares == sorted(shares)
    assert shares[0] < 1e-20
    assert shares[-1] == pytest.approx(1 - checks.collapse_law(64), abs=1e-5)


def test_success_at_rate_against_sampling_its_own_statement():
    import numpy as np

    d, m, kappa = 16, 48, 20.0
    z, other = np.abs(np.random.default_rng(0).normal(size=(2, 400_000)))
    moved = 4 * kappa * (1 - 1 / 32 - 1 / 256)
    hits = (1 + moved) * z - moved * laws.plain_ratio(d) * other >= math.log(99) * math.sqrt(m / 2)
    assert laws.success_at_rate(d, m, kappa) == pytest.approx(hits.mean(), abs=4e-3)


def test_rate_needed_solves_its_equation_and_tends_to_the_constant():
    kappa = laws.rate_needed(64, 48)
    assert laws.success_at_rate(64, 48, kappa) == pytest.approx(
        0.95 * (1 - checks.collapse_law(64)), rel=1e-9
    )
    # P(|z| < t) = 0.05 at t = 0.062707: 4 kappa + 1 = ln(99) sqrt(m/2) / t when rho vanishes.
    expected = (math.log(99) * math.sqrt(24) / 0.062707 - 1) / 4
    assert laws.rate_needed(10**10, 48) == pytest.approx(expected, rel=1e-4)
    assert laws.rate_needed(64, 48, gap=1.0) < kappa / 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: laws.plain_ratio(2), "d >= 3"),
        (lambda: laws.balanced_ratio(2, 8), "d >= 3"),
        (lambda: laws.independent_ratio(2, 8), "d >= 3"),
        (lambda: laws.two_step_ratio(2, 8, 1.0), "d >= 3"),
        (lambda: laws.length_needed(1.0), "below 1"),
        (lambda: laws.length_needed(0.5), "0.75"),
        (lambda: laws.success_at_rate(8, 8, -1.0), "not negative"),
        (lambda: laws.success_at_rate(8, 8, math.inf), "finite"),
        (lambda: laws.rate_needed(8, 8, 1.0), "between 0 and 1"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
