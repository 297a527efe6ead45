"""The loss of k multiplied heads against enumeration, its gradient against differences, and its refusals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import population_loss, score_gradient
from attention_companion.sparse_xor.experiments import many_heads_checks as checks
from attention_companion.sparse_xor.many_heads import (
    product_loss,
    product_score_gradient,
    second_moment_terms,
    sign_cumulant,
)

pytestmark = pytest.mark.torch_free


def enumerated(heads, support):
    """E (prod_h a_h.x - prod_s x_s)^2 in Fractions, from the definition."""
    d, total = len(heads[0]), Fraction(0)
    for x in itertools.product((-1, 1), repeat=d):
        f = math.prod(sum(Fraction(w) * bit for w, bit in zip(head, x, strict=True)) for head in heads)
        total += (f - math.prod(x[s] for s in support)) ** 2
    return total / 2**d


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_loss_equals_enumeration_exactly(data):
    k = data.draw(st.integers(1, 4))
    d = data.draw(st.integers(k, 6))
    numbers = st.fractions(min_value=-3, max_value=3, max_denominator=7)
    heads = [data.draw(st.lists(numbers, min_size=d, max_size=d)) for _ in range(k)]
    support = data.draw(st.permutations(range(d)))[:k]
    assert product_loss(np.array(heads, dtype=object), support) == enumerated(heads, support)


def test_five_heads_in_floats():
    rng = np.random.default_rng(0)
    heads, support = rng.normal(size=(5, 6)), [0, 5, 2, 3, 1]
    assert product_loss(heads, support) == pytest.approx(
        checks.enumerated_sum(heads, support) / 2**6, rel=1e-12
    )


def test_by_hand():
    """Perfect heads lose nothing; all k heads on one target answer x_s^k, which is x_s or 1, so the loss is 2."""
    assert product_loss(np.eye(3), [0, 1, 2]) == 0
    assert product_loss(np.eye(4)[[0, 0, 0]], [0, 1, 2]) == 2
    assert product_loss(np.eye(4)[[0, 0, 0, 0]], [0, 1, 2, 3]) == 2
    # One head with weight w on the only target: (w - 1)^2.
    assert product_loss(np.array([[0.25, 0.0]]), [0]) == pytest.approx(0.75**2)


def test_cumulants_and_partitions():
    assert [sign_cumulant(n) for n in range(1, 11)] == [0, 1, 0, -2, 0, 16, 0, -272, 0, 7936]
    # At one position all power sums are w^(..): E f^2 must be the product of squares, so coefficients add up to 1.
    assert [sum(c for _, c in second_moment_terms(k)) for k in (1, 2, 3, 4, 5)] == [1, 1, 1, 1, 1]


def test_two_heads_agree_with_the_kernels_of_two_heads():
    rng = np.random.default_rng(1)
    heads = rng.dirichlet(np.ones(9), size=(20, 2))
    for pair in ((0, 1), (7, 3)):
        losses = product_loss(heads, pair)
        slopes = product_score_gradient(heads, pair)
        for (a, b), loss, slope in zip(heads, losses, slopes, strict=True):
            assert loss == pytest.approx(population_loss(a, b, pair), abs=1e-14)
            assert slope[0] == pytest.approx(score_gradient(a, b, pair), abs=1e-15)
            assert slope[1] == pytest.approx(score_gradient(b, a, pair), abs=1e-15)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_gradient_equals_differences(k):
    rng = np.random.default_rng(k)
    scores, support, h = rng.normal(size=(k, 6)), np.arange(6)[::-1][:k], 1e-5

    def loss(s):
        powers = np.exp(s)
        return product_loss(powers / powers.sum(axis=-1, keepdims=True), support)

    powers = np.exp(scores)
    slope = product_score_gradient(powers / powers.sum(axis=-1, keepdims=True), support)
    for index in np.ndindex(scores.shape):
        shift = np.zeros_like(scores)
        shift[index] = h
        assert slope[index] == pytest.approx(
            (loss(scores + shift) - loss(scores - shift)) / (2 * h), abs=1e-9
        )


def test_exact_gradient_is_exact():
    heads = np.array([[Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]] * 3, dtype=object)
    slope = product_score_gradient(heads, [0, 1, 2])
    assert all(isinstance(entry, Fraction) for entry in slope.flat)
    assert product_score_gradient(heads.astype(float), [0, 1, 2]) == pytest.approx(
        slope.astype(float), abs=1e-15
    )
    assert not slope.sum(axis=-1).any()


def test_batch_axes_broadcast():
    rng = np.random.default_rng(2)
    heads, support = rng.normal(size=(4, 1, 3, 5)), np.array([[0, 1, 2], [4, 2, 0]])
    losses = product_loss(heads, support)
    assert losses.shape == (4, 2)
    assert product_score_gradient(heads, support).shape == (4, 2, 3, 5)
    assert losses[3, 1] == product_loss(heads[3, 0], support[1])


def test_arguments_are_left_alone_and_float32_stays():
    heads = np.full((3, 4), 0.25, dtype=np.float32)
    kept = heads.copy()
    assert product_loss(heads, [0, 1, 2]).dtype == np.float32
    assert product_score_gradient(heads, [0, 1, 2]).dtype == np.float32
    assert np.array_equal(heads, kept)


@pytest.mark.parametrize(
    ("heads", "support", "error", "message"),
    [
        (np.ones(3), [0], ValueError, "heads has shape"),
        (np.ones((6, 8)), list(range(6)), ValueError, "1 <= k <= 5"),
        (np.ones((2, 3)), [0], ValueError, "support has shape"),
        (np.ones((2, 3)), [0, 3], ValueError, r"lies in 0..2"),
        (np.ones((2, 3)), [0, -1], ValueError, r"lies in 0..2"),
        (np.ones((2, 3)), [1, 1], ValueError, "twice"),
        (np.ones((2, 3)), [0.0, 1.0], TypeError, "integer positions"),
        (np.full((2, 3), np.nan), [0, 1], ValueError, "not finite"),
        (np.ones((2, 3), dtype=complex), [0, 1], TypeError, "complex128"),
    ],
)
def test_what_it_does_not_take(heads, support, error, message):
    with pytest.raises(error, match=message):
        product_loss(heads, support)


@pytest.mark.parametrize("k", [2, 3])
def test_grid_proof_and_its_control(k):
    assert checks.loss_mismatches_on_grid(k) == (0, 3 ** (k * k))
    assert checks.loss_mismatches_on_grid(k, fourth_cumulant=False)[0] > 3 ** (k * k) // 2


def test_random_points_and_their_control():
    assert checks.loss_mismatches_at_random(4, 5, 4, 0) == 0
    assert checks.loss_mismatches_at_random(4, 5, 4, 0, fourth_cumulant=False) == 4
    with pytest.raises(ValueError, match="k = 2 and 3"):
        checks.loss_mismatches_on_grid(4)


def test_even_point_by_hand():
    """k = 2: alpha = E ((x1+x2)/2)^2 (1 - x1 x2) = 0 and c = 1, so 2/4 and -2/4. k = 3: c = 1/3, and see below."""
    assert checks.saddle_rates(2) == (Fraction(1, 2), Fraction(-1, 2))
    # X is 1/3 in size and 1 - x1 x2 is 2 on four of eight inputs (x1 != x2): alpha = (1/81) * 2 * (1/2) = 1/81.
    assert checks.saddle_rates(3) == (
        (Fraction(2, 81) + 2 * (Fraction(4, 81) + Fraction(2, 3))) / 9,
        -(Fraction(2, 81) + Fraction(2, 3)) / 9,
    )
    for k in (2, 3, 4, 5, 6):
        common, separating = checks.saddle_rates(k)
        assert separating < 0 < common
