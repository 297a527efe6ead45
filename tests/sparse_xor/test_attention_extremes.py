"""Attention weights where scores leave the dtype: against the softmax of exact scores."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from attention_companion.sparse_xor import attention_weights

pytestmark = pytest.mark.torch_free


def exact_weights(embeddings, theta):
    scores = [
        sum((Fraction(float(v)) * Fraction(float(t)) for v, t in zip(row, theta, strict=True)), Fraction(0))
        for row in embeddings
    ]
    with mpmath.workdps(40):
        powers = [mpmath.exp(mpmath.mpf(s.numerator) / s.denominator) for s in (s - max(scores) for s in scores)]
        return [float(p / sum(powers)) for p in powers]


@pytest.mark.parametrize(
    ("embeddings", "theta"),
    [
        ([[-1e308], [1e-20], [2e-20]], [1e20]),
        ([[1e308], [1e-20], [-2e-20]], [1e20]),
        ([[1e308], [0.9999999999999999e308], [3.0]], [1e20]),
        ([[-1e308], [-0.5e308], [-0.25e308]], [1e20]),
        ([[-1e308], [-1e308], [-1.1e308]], [1e20]),
        ([[1e308, -1e308], [1.0, 2.0], [0.0, 0.0]], [1e20, 1e20]),
        ([[0.0], [-1e308], [-1e-300]], [1e300]),
    ],
)
def test_weights_are_those_of_the_exact_scores(embeddings, theta):
    weights = attention_weights(np.array(embeddings), np.array(theta))
    assert weights == pytest.approx(exact_weights(embeddings, theta), rel=1e-9, abs=1e-300)


def test_float32_keeps_small_scores_beside_one_that_underflows_to_minus_infinity():
    embeddings, theta = np.float32([[-1e30], [1e-15], [2e-15]]), np.float32([1e15])
    weights = attention_weights(embeddings, theta)
    assert weights.dtype == np.float32
    assert weights == pytest.approx(exact_weights(embeddings, theta), rel=1e-5, abs=1e-30)
