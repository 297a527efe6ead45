"""Bad input is refused with the value, what was expected, and how to mend it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from attention_companion.sparse_xor import (
    attention_weights,
    one_step,
    population_gradient,
    population_loss,
    score_gradient,
    worst_case_error,
)
from attention_companion.sparse_xor._validation import read_learning_rate

pytestmark = pytest.mark.torch_free

HALF = Fraction(1, 2)
A, B = [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]
OF_HEADS = [population_loss, worst_case_error, score_gradient]
V, T = np.eye(3), np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize("function", OF_HEADS)
@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        ([0.5, float("nan"), 0.5], B, ValueError, r"gamma\[1\] is nan; every entry must be finite"),
        (A, [0.5, 0.5, float("inf")], ValueError, r"gamma_tilde\[2\] is inf"),
        ([0.5, 0.5], B, ValueError, r"gamma has 2 weights and gamma_tilde has 3"),
        ([1.0], [1.0], ValueError, r"gamma has 1 weight\(s\); the pair needs at least 2"),
        ([], [], ValueError, r"gamma has 0 weight\(s\)"),
        ([[0.5, 0.5]], B, ValueError, r"gamma has shape \(1, 2\); expected one weight a position"),
        ([[0.5], [0.5, 0.1]], B, ValueError, r"gamma has rows of unequal lengths"),
        (np.array(0.5), B, ValueError, r"gamma has shape \(\)"),
        (0.5, B, TypeError, r"gamma is 0.5; give a 1-D array"),
        (A, ["x", "y", "z"], TypeError, r"gamma_tilde has dtype <U1"),
        ([True, False, False], B, TypeError, r"gamma has dtype bool"),
        (
            np.array(A, dtype=np.float16),
            B,
            TypeError,
            r"gamma has dtype float16; give float32, float64 or integers",
        ),
        (np.array(A, dtype=complex), B, TypeError, r"gamma has dtype complex128"),
        ([Decimal("0.5"), Decimal("0.5"), 0], B, TypeError, r"gamma has dtype object"),
        ([HALF, 0.5, 0], B, TypeError, r"gamma\[1\] is 0.5 of type float beside Fractions"),
        ([HALF, HALF, True], B, TypeError, r"gamma\[2\] is True of type bool beside Fractions"),
        ([HALF, HALF, 0], B, TypeError, r"gamma_tilde holds float64 while the other head holds Fractions"),
        (A, [HALF, HALF, 0], TypeError, r"gamma holds float64 while the other head holds Fractions"),
        ([10**400, 0, 0], B, ValueError, r"gamma holds an integer too large for float64"),
    ],
)
def test_heads(function, a, b, error, message):
    with pytest.raises(error, match=message):
        function(a, b, (0, 1))


@pytest.mark.parametrize(
    ("pair", "error", "message"),
    [
        ((0, 3), ValueError, r"pair holds 3; with d = 3 positions an index lies in 0..2"),
        ((-1, 0), ValueError, r"pair holds -1"),
        ((1, 1), ValueError, r"pair is \(1, 1\); .* choose p != q"),
        ((0, 1, 2), ValueError, r"with 3 entries; give two integers"),
        ((0,), ValueError, r"with 1 entries"),
        ((0, 1.0), TypeError, r"pair holds 1.0 of type float"),
        ((False, True), TypeError, r"pair holds False of type bool"),
        (("0", "1"), TypeError, r"pair holds '0' of type str"),
        (1, TypeError, r"pair is 1; give two integers"),
        (None, TypeError, r"pair is None"),
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        *(lambda pair, function=function: function(A, B, pair) for function in OF_HEADS),
        *(
            lambda pair, function=function: function([HALF, HALF, 0], [0, HALF, HALF], pair)
            for function in OF_HEADS
        ),
        lambda pair: population_gradient(V, T, T, pair),
        lambda pair: one_step(V, T, pair, 1.0),
    ],
)
def test_pair(call, pair, error, message):
    with pytest.raises(error, match=message):
        call(pair)


def test_numpy_integers_make_a_pair():
    assert population_loss(A, B, np.array([0, 2])) == population_loss(A, B, (0, 2))
    assert population_loss(A, B, (np.uint8(2), np.int64(0))) == population_loss(A, B, [2, 0])


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([0.5, 0.6, -0.1], B, r"gamma\[2\] is -0.1; attention weights are not negative"),
        (A, [0.5, 0.5 + 1e-18, -1e-18], r"gamma_tilde\[2\] is -1e-18"),
        ([0.5, 0.25, 0.25 + 1e-8], B, r"gamma sums to 1.00000001; .* within 1e-09 in float64. Divide them"),
        ([0.5, 0.25, 0.2], B, r"gamma sums to 0.95"),
        (A, [0.0, 0.0, 0.0], r"gamma_tilde sums to 0.0"),
        ([1e308, 1e308, 1e308], B, r"gamma sums to inf"),
        ([2, 0, 0], B, r"gamma sums to 2.0"),
        (np.array([0.5, 0.5, 1e-4], dtype=np.float32), B, None),
        ([HALF, HALF, Fraction(1, 10**30)], [1, 0, 0], r"gamma sums to 10{29}1/10{30}; .* exactly 1"),
        ([1, 0, 0], [HALF, 1, -HALF], r"gamma_tilde\[2\] is -1/2"),
    ],
)
def test_only_distributions_have_a_worst_case(a, b, message):
    if message is None:  # float32 beside float64 is judged as float64, both alike in float32
        b, message = np.array(b, dtype=np.float32), r"gamma sums to 1.00009\d*; .* within 1e-05 in float32"
    with pytest.raises(ValueError, match=message):
        worst_case_error(a, b, (0, 1))
    population_loss(np.clip(np.array(a, dtype=float), -9, 9), np.array(b, dtype=float), (0, 1))


def test_sums_within_the_stated_tolerance_are_accepted():
    worst_case_error([0.5, 0.25, 0.25 + 9e-10], B, (0, 1))
    as_float32 = np.array([0.5, 0.25, 0.25 + 9e-6], dtype=np.float32)
    worst_case_error(as_float32, np.array(B, dtype=np.float32), (0, 1))


@pytest.mark.parametrize(
    ("embeddings", "theta", "error", "message"),
    [
        (np.ones(3), T, ValueError, r"embeddings has shape \(3,\); expected \(d, m\)"),
        (np.ones((1, 3)), T, ValueError, r"embeddings has shape \(1, 3\); .* d >= 2 and m >= 1"),
        (np.ones((3, 0)), np.ones(0), ValueError, r"embeddings has shape \(3, 0\)"),
        (
            V,
            np.ones(2),
            ValueError,
            r"theta has shape \(2,\); with embeddings of shape \(3, 3\) expected \(3,\)",
        ),
        (V, np.ones((3, 1)), ValueError, r"theta has shape \(3, 1\)"),
        (V * np.nan, T, ValueError, r"embeddings\[0, 0\] is nan"),
        (V - np.diag([0, 0, np.inf]), T, ValueError, r"embeddings\[2, 2\] is -inf"),
        (V, [0.0, np.inf, 0.0], ValueError, r"theta\[1\] is inf"),
        (V.astype(np.float16), T, TypeError, r"embeddings has dtype float16"),
        (V, [HALF, HALF, HALF], TypeError, r"theta has dtype object"),
        ([[1.0], [1.0, 2.0]], T, ValueError, r"embeddings has rows of unequal lengths"),
    ],
)
def test_embeddings_and_queries(embeddings, theta, error, message):
    good = np.ones(len(embeddings[0])) if isinstance(embeddings[0], list | np.ndarray) else T
    with pytest.raises(error, match=message):
        attention_weights(embeddings, theta)
    with pytest.raises(error, match=message):
        one_step(embeddings, theta, (0, 1), 1.0)
    with pytest.raises(error, match=message):
        population_gradient(embeddings, theta, good, (0, 1))
    if message.startswith("theta"):
        with pytest.raises(error, match=message.replace("theta", "theta_tilde", 1)):
            population_gradient(embeddings, good, theta, (0, 1))


@pytest.mark.parametrize(
    ("rate", "error", "message"),
    [
        (float("nan"), ValueError, r"learning_rate is nan; give a finite number"),
        (float("inf"), ValueError, r"learning_rate is inf"),
        (-1.0, ValueError, r"learning_rate is -1.0; give a finite number that is not negative"),
        (10**400, ValueError, r"learning_rate is 10+, too large for float64"),
        ("1", TypeError, r"learning_rate is '1'; give one real number"),
        (True, TypeError, r"learning_rate is True"),
        (1j, TypeError, r"learning_rate is 1j"),
        ([1.0], TypeError, r"learning_rate is \[1.0\]"),
        (None, TypeError, r"learning_rate is None"),
    ],
)
def test_learning_rate(rate, error, message):
    with pytest.raises(error, match=message):
        one_step(V, T, (0, 1), rate)


def test_a_learning_rate_beyond_float32_says_what_to_do():
    with pytest.raises(ValueError, match=r"1e\+39, too large for float32; use float64"):
        one_step(V.astype(np.float32), T.astype(np.float32), (0, 1), 1e39)
    one_step(V, T, (0, 1), 1e39)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_a_learning_rate_of_any_numpy_type_is_read_without_a_warning(kind):
    rate = read_learning_rate(kind(3), np.dtype(np.float64))
    assert rate == 3.0
    assert rate.dtype == np.float64
