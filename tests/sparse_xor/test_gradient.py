"""The gradient without torch: exact derivatives of the loss, goldens, invariances, dtypes, extreme sizes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import (
    attention_weights,
    population_gradient,
    population_loss,
    score_gradient,
)

pytestmark = pytest.mark.torch_free

GAMMA = [Fraction(n, 10) for n in (1, 2, 3, 4)]
GAMMA_TILDE = [Fraction(n, 25) for n in (12, 6, 4, 3)]


@st.composite
def heads(draw, max_d=7):
    d = draw(st.integers(2, max_d))
    counts = st.lists(st.integers(0, 9), min_size=d, max_size=d).filter(any)
    a, b = ([Fraction(n, sum(ns)) for n in ns] for ns in (draw(counts), draw(counts)))
    return a, b, tuple(draw(st.permutations(range(d)))[:2])


def random_case(seed, d=6, m=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(d, m)), rng.normal(size=m), rng.normal(size=m), (1, d - 1)


@given(heads())
@settings(max_examples=60, deadline=None)
def test_score_gradient_is_the_exact_derivative(case):
    """The loss is quadratic in one weight, so a central difference is its derivative exactly; then the chain rule."""
    a, b, pair = case

    def nudged(k, step):
        return [s + step * (i == k) for i, s in enumerate(a)]

    slope = [
        (population_loss(nudged(k, 1), b, pair) - population_loss(nudged(k, -1), b, pair)) / 2
        for k in range(len(a))
    ]
    # d a_i / d s_k = a_i ([i = k] - a_k), summed over i as it stands.
    expected = [sum(slope[i] * a[i] * ((i == k) - a[k]) for i in range(len(a))) for k in range(len(a))]
    assert score_gradient(a, b, pair) == expected


@given(heads(max_d=30))
@settings(max_examples=60, deadline=None)
def test_float_score_gradient_agrees_with_rationals(case):
    a, b, pair = case
    floats = score_gradient(np.array(a, dtype=float), np.array(b, dtype=float), pair)
    assert floats == pytest.approx([float(s) for s in score_gradient(a, b, pair)], abs=2e-15)


def test_golden_score_gradient():
    golden = [Fraction(3167, 156250), Fraction(5782, 78125), Fraction(18261, 156250), Fraction(-16496, 78125)]
    assert score_gradient(GAMMA, GAMMA_TILDE, (0, 3)) == golden
    floats = score_gradient(np.array(GAMMA, dtype=float), np.array(GAMMA_TILDE, dtype=float), (0, 3))
    assert floats == pytest.approx([float(s) for s in golden], abs=1e-15)


def test_orthonormal_embeddings_give_the_score_gradient():
    """With V = 1 the queries are the scores: log-weights reproduce the golden heads."""
    theta, theta_tilde = (np.log(np.array(head, dtype=float)) for head in (GAMMA, GAMMA_TILDE))
    first, second = population_gradient(np.eye(4), theta, theta_tilde, (0, 3))
    assert first == pytest.approx([float(s) for s in score_gradient(GAMMA, GAMMA_TILDE, (0, 3))], abs=1e-15)
    assert second == pytest.approx([float(s) for s in score_gradient(GAMMA_TILDE, GAMMA, (0, 3))], abs=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_symmetries(seed):
    embeddings, theta, theta_tilde, (p, q) = random_case(seed)
    first, second = population_gradient(embeddings, theta, theta_tilde, (p, q))
    assert np.array_equal(population_gradient(embeddings, theta_tilde, theta, (p, q)), (second, first))
    assert population_gradient(embeddings, theta, theta_tilde, (q, p))[0] == pytest.approx(first, abs=1e-15)
    order = np.random.default_rng(seed).permutation(len(embeddings))
    places = np.argsort(order)
    moved = population_gradient(embeddings[order], theta, theta_tilde, (int(places[p]), int(places[q])))
    assert np.array(moved) == pytest.approx(np.array([first, second]), abs=1e-14)
    # A common shift of all embeddings moves every score alike, and the scores' gradient sums to 0.
    shifted = population_gradient(embeddings + 3.0, theta, theta_tilde, (p, q))
    assert np.array(shifted) == pytest.approx(np.array([first, second]), abs=1e-13)


def test_a_step_against_it_lowers_the_loss():
    for seed in range(20):
        embeddings, theta, theta_tilde, pair = random_case(seed)
        first, second = population_gradient(embeddings, theta, theta_tilde, pair)

        def loss(step, e=embeddings, t=theta, u=theta_tilde, g=first, h=second, pair=pair):
            return population_loss(
                attention_weights(e, t - step * g), attention_weights(e, u - step * h), pair
            )

        slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
        assert slope == pytest.approx(-(first @ first + second @ second), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("second", [[1, 0, 3, 2], [0, 1, 2, 3]], ids=["specialised", "collapsed"])
def test_keeps_its_digits_when_the_heads_are_almost_one_hot(second):
    scores = np.array([0.0, -30.0, -31.0, -33.0])
    a, b = attention_weights(np.eye(4), scores), attention_weights(np.eye(4), scores[second])
    exact = score_gradient(*([Fraction(s) for s in head.tolist()] for head in (a, b)), (0, 1))
    gradient = score_gradient(a, b, (0, 1))
    assert gradient[1:] == pytest.approx([float(s) for s in exact[1:]], rel=1e-11, abs=0)
    # The floats' sum misses 1 by rounding, which would drown the first entry of the rational answer; the entries
    # of a true gradient sum to 0, and that is a sharper judge.
    assert gradient[0] == pytest.approx(-math.fsum(gradient[1:]), rel=1e-12, abs=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(dtype):
    embeddings, theta, theta_tilde, pair = random_case(0)
    reference = population_gradient(embeddings, theta, theta_tilde, pair)
    inputs = [array.astype(dtype) for array in (embeddings, theta, theta_tilde)]
    for ours, theirs in zip(population_gradient(*inputs, pair), reference, strict=True):
        assert ours.dtype == dtype
        assert ours.shape == theta.shape
        assert ours == pytest.approx(theirs, abs=20 * float(np.finfo(dtype).eps))
    assert attention_weights(inputs[0], inputs[1]).dtype == dtype


def test_mixed_dtypes_and_integers_are_computed_in_float64():
    embeddings, theta, theta_tilde, pair = random_case(0)
    mixed = population_gradient(embeddings.astype(np.float32), theta, theta_tilde, pair)
    assert mixed[0].dtype == np.float64
    whole = population_gradient([[1, 0], [0, 1], [1, 1]], [1, 2], [0, 1], (0, 1))
    assert whole[0].dtype == np.float64
    assert np.array_equal(whole, population_gradient([[1.0, 0], [0, 1], [1, 1]], [1.0, 2], [0.0, 1], (0, 1)))


def test_softmax_of_moderate_scores():
    scores = np.array([0.3, -1.2, 2.5, 0.0])
    powers = [math.exp(s) for s in scores]
    assert attention_weights(np.eye(4), scores) == pytest.approx(
        [x / math.fsum(powers) for x in powers], rel=1e-15
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_beyond_the_dtype_have_the_right_limit(dtype):
    huge = np.finfo(dtype).max / 8
    embeddings = np.array([[1, 0], [0, 1], [1, 0], [-1, -1]], dtype=dtype) * huge
    theta = np.array([huge, huge / 2], dtype=dtype)
    weights = attention_weights(embeddings, theta)
    assert weights.dtype == dtype
    assert weights.tolist() == [0.5, 0.0, 0.5, 0.0]
    # The gap between finite scores may leave the dtype as well.
    wide = np.array([[1], [-1]], dtype=dtype) * np.finfo(dtype).max
    assert attention_weights(wide, np.ones(1, dtype=dtype)).tolist() == [1.0, 0.0]


def test_huge_embeddings_have_a_finite_gradient_or_say_so():
    embeddings, theta, theta_tilde, pair = random_case(1)
    plain = population_gradient(embeddings, theta, theta_tilde, pair)
    # The same scores from embeddings 2^1000 times as large: the gradient grows by that factor exactly.
    grown = population_gradient(embeddings * 2.0**1000, theta * 2.0**-1000, theta_tilde * 2.0**-1000, pair)
    assert np.array_equal(np.array(grown), np.array(plain) * 2.0**1000)
    edge = np.finfo(np.float64).max
    rows = np.array([[edge], [-edge]])
    assert np.isfinite(population_gradient(rows, np.zeros(1), np.array([1 / edge]), (0, 1))).all()
    # Heads (0.6, 0.4) and (1, 0): dL/ds = (0.576, -0.576), and 1.152 times the largest double is too much.
    queries = np.array([np.log(1.5) / 2 / edge]), np.array([20 / edge])
    assert attention_weights(rows, queries[0]) == pytest.approx([0.6, 0.4], abs=1e-12)
    with pytest.raises(OverflowError, match=r"embeddings as large as 1.79769\d*e\+308 exceeds float64"):
        population_gradient(rows, *queries, (0, 1))
