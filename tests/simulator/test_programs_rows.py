"""Softmax of rows and MaxMin: enclosures against mpmath, exact values, laws, controls and refusals."""

from __future__ import annotations

from fractions import Fraction as F

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.simulator import Rasp, maxmin
from attention_companion.simulator.arithmetic import Ball, Float, Rational
from attention_companion.simulator.programs.matrices import Matrix
from attention_companion.simulator.programs.maxmin import (
    MAXMIN_BASIS,
    leaky_relu_program,
    maxmin_program,
    relu_program,
)
from attention_companion.simulator.programs.softmax import softmax_rows

from .layers import surrogate

SCORES = [[F(1, 2), F(-3), F(7, 3)], [F(0), F(40), F(-40)]]


def softmax_on(kind, rows, length=None, **options):
    run = Rasp(kind, kind.array(v for row in rows for v in row), length)
    return softmax_rows(Matrix(run.tokens, len(rows), len(rows[0])), **options)


def fractions(values):
    return [F(int(v.p), int(v.q)) for v in values]


# -- softmax ----------------------------------------------------------------------------------------------------------


def test_enclosures_contain_a_reference_of_sixty_digits():
    kind = Ball(200)
    with kind.precision():
        result = softmax_on(kind, SCORES).entries()
    with mpmath.workdps(60), flint.ctx.workprec(300):
        for row, scores in zip(result, SCORES, strict=True):
            powers = [mpmath.exp(mpmath.mpf(s.numerator) / s.denominator) for s in scores]
            for ball, power in zip(row, powers, strict=True):
                reference = flint.arb(mpmath.nstr(power / sum(powers), 60))
                assert ball.overlaps(reference)
                assert ball.rad() < 1e-50
                # A reference that is off in the fiftieth digit is not in the ball.
                assert not ball.overlaps(
                    reference * flint.arb("1.000000000000000000000000000000000000000000000001")
                )


def test_golden_softmax_with_the_surrogate():
    # 1 + x + x^2 at 0, 1, 2, -1 is 1, 3, 7, 1.
    rows = softmax_on(Rational(surrogate), [[0, 1], [2, -1]]).entries()
    assert [fractions(row) for row in rows] == [[F(1, 4), F(3, 4)], [F(7, 8), F(1, 8)]]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_rows_sum_to_one_and_follow_their_entries(rows, columns, data):
    number = st.fractions(-5, 5, max_denominator=7)
    matrix = [data.draw(st.lists(number, min_size=columns, max_size=columns)) for _ in range(rows)]
    # Tokens behind the matrix must not disturb it, and must not divide by zero.
    result = [
        fractions(row) for row in softmax_on(Rational(surrogate), matrix, length=rows * columns + 3).entries()
    ]
    assert [sum(row) for row in result] == [1] * rows
    order = data.draw(st.permutations(range(columns)))
    permuted = softmax_on(Rational(surrogate), [[row[j] for j in order] for row in matrix]).entries()
    assert [fractions(row) for row in permuted] == [[row[j] for j in order] for row in result]


def test_softmax_in_float64():
    scores = np.random.default_rng(2).normal(size=(4, 5))
    result = np.array(softmax_on(Float(), scores.tolist()).entries())
    wanted = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-15)
    shifted = np.array(softmax_on(Float(), (scores + 3).tolist()).entries())
    np.testing.assert_allclose(shifted, wanted, rtol=0, atol=1e-14)


def test_softmax_is_one_layer_with_one_head():
    for rows, columns in [(1, 1), (2, 3), (4, 2)]:
        run = softmax_on(Rational(surrogate), [[1] * columns] * rows).values.run
        assert (run.layers, run.heads_per_layer, run.maps_used) == (1, (1,), {"exp", "division"})


def test_the_factor_of_another_row_length_differs():
    rows = softmax_on(Rational(surrogate), [[0, 1]], factor=3).entries()
    assert fractions(rows[0]) == [F(1, 6), F(1, 2)]


def test_softmax_refuses():
    with pytest.raises(OverflowError, match=r"exp\(800\) exceeds float64"):
        softmax_on(Float(), [[1.0, 800.0]])
    with pytest.raises(ValueError, match="exp of a rational number is not rational"):
        softmax_on(Rational(), [[1, 2]])
    kind = Rational(surrogate)
    run = Rasp(kind, kind.array([1, 2, 3]))
    with pytest.raises(ValueError, match="the matrix stands at token 1"):
        softmax_rows(Matrix(run.tokens, 1, 2, 1))


# -- MaxMin -----------------------------------------------------------------------------------------------------------


def run_on(tokens, length=None):
    kind = Rational()
    return Rasp(kind, kind.array(tokens), length, basis=MAXMIN_BASIS)


@pytest.mark.parametrize(
    ("sequence", "wanted"),
    [
        ([3, -5], [3, -5]),  # the released program gives 3, 3
        ([-5, 3], [3, -5]),
        ([-5, -3, 2, 2, 0], [-3, -5, 2, 2, 0]),
        ([7], [7]),
        ([F(1, 3), F(1, 2), 1], [F(1, 2), F(1, 3), 1]),
        ([0.1, 0.3, -2.5, 1e300], [0.3, 0.1, 1e300, -2.5]),
    ],
)
def test_golden_maxmin(sequence, wanted):
    assert maxmin(sequence) == wanted


def test_maxmin_keeps_types_and_bits():
    assert [type(v) for v in maxmin([1, 2])] == [int, int]
    assert [type(v) for v in maxmin([1, 2.0])] == [float, float]
    assert [type(v) for v in maxmin([1, F(1, 2)])] == [F, F]
    assert maxmin(np.array([2**62, 2**62 + 1])) == [2**62 + 1, 2**62]
    assert maxmin([np.int64(2**62), np.int64(2**62 + 1), -4]) == [2**62 + 1, 2**62, -4]
    assert maxmin([np.float32(0.5), 2]) == [2.0, 0.5]
    assert maxmin([5e-324, 0.1 + 0.2]) == [0.1 + 0.2, 5e-324]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.fractions(max_denominator=50) | st.integers(-3, 3), min_size=1, max_size=9), st.integers(0, 5)
)
def test_laws_of_maxmin(sequence, factor):
    result = maxmin(sequence)
    pairs = [sequence[p : p + 2] for p in range(0, len(sequence), 2)]
    assert result == [value for pair in pairs for value in sorted(pair, reverse=True)]
    assert maxmin(result) == result
    assert maxmin([factor * x for x in sequence]) == [factor * x for x in result]


@pytest.mark.parametrize(
    ("sequence", "error", "match"),
    [
        ([], ValueError, "sequence is empty; give at least one number"),
        ([1, float("nan")], ValueError, r"sequence\[1\] is nan; every number must be finite"),
        ([1, float("inf")], ValueError, "must be finite"),
        ([[1, 2], [3]], TypeError, r"sequence\[0\] is \[1, 2\]"),
        (np.ones((2, 2)), ValueError, r"shape \(2, 2\); expected one dimension"),
        ([True, 1], TypeError, "True; give a real number"),
        ([1j], TypeError, "1j"),
        ("12", TypeError, "give a list of numbers"),
        (3, TypeError, "give a list of numbers"),
    ],
)
def test_maxmin_refuses(sequence, error, match):
    with pytest.raises(error, match=match):
        maxmin(sequence)


def test_maxmin_is_two_layers_of_relu_alone():
    for count in (1, 2, 5, 8):
        run = run_on(range(count))
        maxmin_program(run.tokens, count)
        assert (run.layers, run.heads_per_layer, run.maps_used) == (2, (1, 2), {"relu"})


def test_a_partner_two_places_away_differs():
    tokens = [4, 1, 2, 3]
    run = run_on(tokens)
    assert fractions(maxmin_program(run.tokens, 4, distance=2).values) != maxmin(tokens)


NUMBERS = [F(3), F(-2), F(0), F(-1, 7), F(5, 2)]


def test_relu_and_leaky_relu_from_maxmin():
    run = run_on(NUMBERS, 10)
    assert fractions(relu_program(run.tokens, 5).values)[:5] == [3, 0, 0, 0, F(5, 2)]
    for alpha in (F(1, 10), F(0), F(-2), F(1)):
        leaky = fractions(leaky_relu_program(run.tokens, 5, alpha).values)[:5]
        assert leaky == [x if x > 0 else alpha * x for x in NUMBERS]
    assert run.maps_used == {"relu"}


def test_odd_places_in_place_of_even_ones_differ():
    run = run_on(NUMBERS, 10)
    assert fractions(relu_program(run.tokens, 5, read=1).values)[:5] == [0, -2, 0, F(-1, 7), 0]
    swapped = fractions(leaky_relu_program(run.tokens, 5, F(1, 10), read=1).values)[:5]
    assert swapped != [x if x > 0 else F(1, 10) * x for x in NUMBERS]
