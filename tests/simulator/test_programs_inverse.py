"""The adjugate inverse, exactly, and Newton's iteration beside it."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attention_companion.simulator import Rasp, inverse, newton_inverse
from attention_companion.simulator.arithmetic import Ball, Float, Rational
from attention_companion.simulator.programs.inverse import adjugate_inverse, newton_program
from attention_companion.simulator.programs.matrices import Matrix

number = st.integers(-4, 4) | st.fractions(-3, 3, max_denominator=5)


def square(size):
    return st.lists(st.lists(number, min_size=size, max_size=size), min_size=size, max_size=size)


def times(a, b):
    return [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a
    ]


def identity(size):
    return [[F(int(i == j)) for j in range(size)] for i in range(size)]


def test_golden_inverses():
    assert inverse([[1, 2], [3, 4]]) == [[-2, 1], [F(3, 2), F(-1, 2)]]
    assert inverse([[1, 2, 3], [0, 1, 4], [5, 6, 0]]) == [[-24, 18, 5], [20, -15, -4], [-5, 4, 1]]
    assert all(type(value) is F for row in inverse([[1, 2], [3, 4]]) for value in row)
    assert inverse(np.array([[2.0, 0.0], [0.0, 0.3]])) == [[0.5, 0.0], [0.0, float(1 / F(0.3))]]


@settings(deadline=None, max_examples=60)
@given(square(2) | square(3))
def test_inverse_times_matrix_is_the_identity_and_singular_raises(matrix):
    size = len(matrix)
    if rank(matrix) < size:
        with pytest.raises(ValueError, match="singular"):
            inverse(matrix)
        return
    found = inverse(matrix)
    assert times(found, matrix) == times(matrix, found) == identity(size)
    assert inverse(found) == matrix


def rank(matrix):
    """By elimination, which shares nothing with the adjugate."""
    rows = [[F(x) for x in row] for row in matrix]
    found = 0
    for column in range(len(rows)):
        pivot = next((r for r in range(found, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        for r in range(found + 1, len(rows)):
            factor = rows[r][column] / rows[found][column]
            rows[r] = [x - factor * y for x, y in zip(rows[r], rows[found], strict=True)]
        found += 1
    return found


@pytest.mark.parametrize(
    "matrix",
    [[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[1, 2, 3], [1, 2, 3], [0, 1, 0]], [[0.1, 0.2], [0.2, 0.4]]],
)
def test_singular_raises(matrix):
    with pytest.raises(ValueError, match="singular: its determinant is exactly 0"):
        inverse(matrix)


def test_a_matrix_that_rounding_makes_singular_is_inverted():
    # In float64 the determinant of this one is 0.
    e = 2.0**-60
    assert inverse([[1.0, 1.0], [1.0, 1.0 + 2**-52]])[1][1] == 2.0**52
    assert inverse([[e, 0.0], [0.0, e]]) == [[2.0**60, 0.0], [0.0, 2.0**60]]


@pytest.mark.parametrize(
    ("matrix", "error", "match"),
    [
        ([[1]], ValueError, "1 x 1; the adjugate program covers"),
        (np.eye(4), ValueError, "4 x 4"),
        ([[1, 2, 3], [4, 5, 6]], ValueError, "2 x 3"),
        ([[1, 2], [3]], ValueError, "unequal lengths"),
        ([], ValueError, "empty"),
        ([[1, float("nan")], [0, 1]], ValueError, "finite"),
        ([[1, "a"], [0, 1]], TypeError, "real number"),
        (5, TypeError, "give a matrix"),
    ],
)
def test_inverse_refuses(matrix, error, match):
    with pytest.raises(error, match=match):
        inverse(matrix)


def test_the_program_uses_two_layers_and_runs_on_floats_and_balls():
    for matrix, heads in [([[1, 2], [3, 5]], (3, 1)), ([[1, 2, 3], [0, 1, 4], [5, 6, 0]], (5, 1))]:
        size = len(matrix)
        run = Rasp(Rational(), Rational().array(v for row in matrix for v in row))
        adjugate_inverse(Matrix(run.tokens, size, size))
        assert (run.layers, run.heads_per_layer) == (2, heads)
        floats = Rasp(Float(), Float().array(v for row in matrix for v in row))
        found = np.array(adjugate_inverse(Matrix(floats.tokens, size, size)).entries())
        np.testing.assert_allclose(found, np.linalg.inv(np.array(matrix, dtype=float)), rtol=0, atol=1e-12)
        ball = Ball(200)
        with ball.precision():
            balls = Rasp(ball, ball.array(v for row in matrix for v in row))
            enclosed = adjugate_inverse(Matrix(balls.tokens, size, size)).entries()
            exact = inverse(matrix)
            for row, wanted in zip(enclosed, exact, strict=True):
                assert all(
                    (b * w.denominator - w.numerator).contains(0) for b, w in zip(row, wanted, strict=True)
                )


def test_the_program_wants_the_matrix_alone():
    kind = Rational()
    run = Rasp(kind, kind.array([1, 0, 0, 1]), length=5)
    with pytest.raises(ValueError, match="the run has 5 tokens; the program needs the 4"):
        adjugate_inverse(Matrix(run.tokens, 2, 2))


# -- Newton -----------------------------------------------------------------------------------------------------------


def with_condition(condition, seed):
    rng = np.random.default_rng(seed)
    left, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    right, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return left @ np.diag([1.0, condition**-0.5, 1 / condition]) @ right


def test_newton_needs_more_iterations_the_worse_the_condition():
    iterations = []
    for condition in (1, 1e2, 1e4, 1e6):
        matrix = with_condition(condition, 4)
        run = newton_inverse(matrix)
        assert run.iterations == len(run.residuals) - 1
        assert run.residuals[-1] <= 1e-9 < run.residuals[-2]
        np.testing.assert_allclose(run.inverse, inverse(matrix), rtol=1e-6, atol=1e-6 * condition)
        iterations.append(run.iterations)
    assert all(second > first + 5 for first, second in pairwise(iterations))


def test_newton_refuses():
    with pytest.raises(ArithmeticError, match="200 iterations leave a residual"):
        newton_inverse(np.array([[1.0, 2.0], [2.0, 4.0]]))
    with pytest.raises(ArithmeticError, match="5 iterations leave a residual"):
        newton_inverse(with_condition(1e4, 4), most=5)
    with pytest.raises(ArithmeticError, match="the matrix is 0"):
        newton_inverse(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        newton_inverse(np.ones((2, 3)))
    with pytest.raises(ValueError, match="finite"):
        newton_inverse(np.array([[np.nan]]))


@settings(deadline=None, max_examples=10)
@given(square(2), st.integers(0, 2))
def test_newton_as_a_program_is_the_recursion_and_grows_deeper(matrix, steps):
    assume(any(any(row) for row in matrix))
    kind = Rational()
    run = Rasp(kind, kind.array(v for row in matrix for v in row))
    found = newton_program(Matrix(run.tokens, 2, 2), steps, F(1, 9))
    x = [[F(1, 9) * v for v in column] for column in zip(*matrix, strict=True)]
    for _ in range(steps):
        ax = times(matrix, x)
        x = times(x, [[2 * int(i == j) - ax[i][j] for j in range(2)] for i in range(2)])
    assert [[F(int(v.p), int(v.q)) for v in row] for row in found.entries()] == x
    assert run.layers == 1 + 4 * steps
