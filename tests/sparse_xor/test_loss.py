"""population_loss against enumeration, in rationals and in floats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import population_loss

pytestmark = pytest.mark.torch_free

GAMMA = [Fraction(n, 10) for n in (1, 2, 3, 4)]
GAMMA_TILDE = [Fraction(n, 25) for n in (12, 6, 4, 3)]

rationals = st.fractions(min_value=-3, max_value=3, max_denominator=12)


@st.composite
def signed_heads(draw, max_d=7):
    d = draw(st.integers(2, max_d))
    a, b = (draw(st.lists(rationals, min_size=d, max_size=d)) for _ in range(2))
    pair = tuple(draw(st.permutations(range(d)))[:2])
    return a, b, pair


def one_hot(d, i):
    return [Fraction(int(i == k)) for k in range(d)]


@given(signed_heads())
@settings(max_examples=60, deadline=None)
def test_equals_enumeration_for_any_real_weights(oracle, case):
    a, b, pair = case
    assert population_loss(a, b, pair) == oracle.loss(a, b, pair)


@given(signed_heads(max_d=40))
@settings(max_examples=60, deadline=None)
def test_floats_agree_with_rationals(case):
    a, b, pair = case
    exact = population_loss(a, b, pair)
    scale = 1 + float(sum(map(abs, a)) * sum(map(abs, b))) ** 2
    measured = population_loss(np.array(a, dtype=float), np.array(b, dtype=float), pair)
    assert abs(measured - float(exact)) <= 1e-14 * scale
    assert measured >= 0


@given(signed_heads(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_symmetries(case, random):
    a, b, (p, q) = case
    value = population_loss(a, b, (p, q))
    assert population_loss(b, a, (p, q)) == value
    assert population_loss(a, b, (q, p)) == value
    assert population_loss([-s for s in a], [-t for t in b], (p, q)) == value
    order = list(range(len(a)))
    random.shuffle(order)
    moved = [a[i] for i in order], [b[i] for i in order]
    assert population_loss(*moved, (order.index(p), order.index(q))) == value


def test_golden_value():
    assert population_loss(GAMMA, GAMMA_TILDE, (0, 3)) == Fraction(23303, 31250)
    floats = population_loss([0.1, 0.2, 0.3, 0.4], [0.48, 0.24, 0.16, 0.12], (0, 3))
    assert floats == pytest.approx(23303 / 31250, abs=1e-15)


@pytest.mark.parametrize("d", [2, 3, 4, 17, 200])
def test_uniform_attention(d):
    uniform = [Fraction(1, d)] * d
    assert population_loss(uniform, uniform, (0, d - 1)) == 1 - Fraction(1, d**2) - Fraction(2, d**3)


@pytest.mark.parametrize("d", [2, 5])
def test_sign_convention_and_extremes(d):
    p, q = one_hot(d, 0), one_hot(d, 1)
    assert population_loss(p, q, (0, 1)) == 0
    assert population_loss(p, [-s for s in q], (0, 1)) == 4
    assert population_loss(p, p, (0, 1)) == 2
    assert population_loss([Fraction(0)] * d, q, (0, 1)) == 1


def test_odd_attention_cannot_do_better_than_one_half():
    half = [Fraction(1, 2), Fraction(-1, 2), Fraction(0)]
    value = population_loss(half, [-s for s in half], (0, 1))
    assert value == Fraction(1, 2)
    for nudge in (Fraction(1, 100), Fraction(-1, 100)):
        a = [half[0] + nudge, half[1] - nudge / 3, nudge / 2]
        assert population_loss(a, [-s for s in a], (0, 1)) > value


@pytest.mark.parametrize(
    ("dtype", "leak", "tolerance"), [(np.float64, 2.0**-40, 1e-12), (np.float32, 2.0**-16, 1e-4)]
)
def test_keeps_its_digits_near_a_perfect_pair_of_heads(dtype, leak, tolerance):
    d = 64
    a, b = np.full(d, leak / d, dtype=dtype), np.full(d, leak / d, dtype=dtype)
    a[0], b[1] = 1 - leak, 1 - leak
    exact = population_loss(list(map(Fraction, a.tolist())), list(map(Fraction, b.tolist())), (0, 1))
    assert 0 < exact < 10 * leak**2
    assert abs(Fraction(float(population_loss(a, b, (0, 1)))) / exact - 1) < tolerance


def test_signed_heads_may_be_perfect_with_a_distractor_and_rounding_stays_above_zero():
    """b = (r, s, c), a = k (r, s, -c), r^2 + s^2 = c^2: (a.x)(b.x) = 2 k r s x_p x_q, so f = y for k = 1/(2 r s)."""
    exact = [Fraction(n) for n in (3, 4, 5)]
    mirrored = [s * Fraction(sign, 24) for s, sign in zip(exact, (1, 1, -1), strict=True)]
    assert population_loss(mirrored, exact, (0, 1)) == 0
    rng = np.random.default_rng(0)
    for angle in rng.uniform(0.2, 1.3, size=200):
        b = rng.uniform(0.5, 2) * np.array([np.cos(angle), np.sin(angle), 1.0])
        a = b * [1, 1, -1] / (2 * b[0] * b[1])
        assert 0 <= population_loss(a, b, (0, 1)) < 1e-12


def test_dtypes():
    a, b = np.array([0.25, 0.75]), np.array([0.5, 0.5])
    assert population_loss(a, b, (0, 1)).dtype == np.float64
    assert population_loss(a.astype(np.float32), b.astype(np.float32), (0, 1)).dtype == np.float32
    assert population_loss(a.astype(np.float32), b, (0, 1)).dtype == np.float64
    assert population_loss([1, 0, 0], np.array([0, 1, 0], dtype=np.int8), (0, 1)).dtype == np.float64
    assert population_loss([1, 0, 0], [0, 1, 0], (0, 1)) == 0


def test_fractions_with_integers_between_them_are_exact():
    third = Fraction(1, 3)
    mixed = population_loss([third, 1, 0], [2, third, 0], (0, 1))
    assert isinstance(mixed, Fraction)
    assert mixed == population_loss(
        [third, Fraction(1), Fraction(0)], np.array([2, third, 0], dtype=object), (0, 1)
    )
    beside_integers = population_loss([third, 1, 0], [1, 0, 0], (0, 1))
    assert isinstance(beside_integers, Fraction)
    assert beside_integers == population_loss([third, 1, 0], np.array([1, 0, 0]), (0, 1))


def test_a_loss_beyond_the_dtype_raises_and_rationals_go_on():
    with pytest.raises(OverflowError, match=r"weights as large as 1e\+200 exceeds float64"):
        population_loss([1e200, 0.0], [1e200, 0.0], (0, 1))
    assert population_loss([Fraction(10**200), 0], [10**200, 0], (0, 1)) == 10**800 + 1


def test_the_arguments_are_left_alone():
    a, b = np.array([0.25, 0.75]), np.array([0.5, 0.5])
    copies = a.copy(), b.copy()
    population_loss(a, b, (0, 1))
    assert (a == copies[0]).all()
    assert (b == copies[1]).all()
