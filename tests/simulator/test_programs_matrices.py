"""Matrices as sequences: bijection, transpose and product against numpy and Fractions, and their controls."""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.simulator import Rasp
from attention_companion.simulator.arithmetic import Float, Rational
from attention_companion.simulator.programs.matrices import (
    Matrix,
    index_of,
    position_of,
    product,
    reread,
    transpose,
)

sizes = st.integers(1, 4)


def held(matrices, length=None, kind=None):
    """Matrices one behind the other in one run of exact (or given) numbers."""
    kind = kind or Rational()
    matrices = [np.array(m, dtype=object) for m in matrices]
    run = Rasp(kind, kind.array(v for m in matrices for v in m.reshape(-1)), length)
    starts = np.cumsum([0, *(m.size for m in matrices)])
    return [Matrix(run.tokens, *m.shape, int(at)) for m, at in zip(matrices, starts, strict=False)]


def entries(matrix):
    return [[F(int(v.p), int(v.q)) for v in row] for row in matrix.entries()]


def integers(rng, *shape):
    return rng.integers(-9, 10, size=shape).tolist()


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (3, 2, 4), (2, 1, 3, 2)])
def test_the_bijection_is_numpys_order_in_any_number_of_axes(shape):
    size = int(np.prod(shape))
    array = np.arange(size).reshape(shape)
    for position in range(size):
        index = index_of(position, shape)
        assert array[index] == position
        assert position_of(index, shape) == position


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: position_of((2, 0), (2, 3)), r"index \(2, 0\) is outside the shape \(2, 3\)"),
        (lambda: position_of((0, -1), (2, 3)), "outside"),
        (lambda: position_of((0,), (2, 3)), "outside"),
        (lambda: index_of(6, (2, 3)), r"position 6 is outside the shape \(2, 3\)"),
        (lambda: index_of(-1, (2, 3)), "outside"),
        (lambda: index_of(0, ()), "outside"),
    ],
)
def test_the_bijection_ends_at_its_shape(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_one_sequence_fits_several_shapes():
    # Where Proposition 2 stops: the shape must be known beside the sequence.
    assert index_of(4, (2, 3)) != index_of(4, (3, 2))


def test_golden_transpose_and_product():
    a, b = held([[[1, 2, 3], [4, 5, 6]], [[1, 0], [F(1, 2), -1], [2, 2]]])
    assert entries(transpose(a)) == [[1, 4], [2, 5], [3, 6]]
    for arrangement in ("paper", "scratch"):
        assert entries(product(a, b, arrangement)) == [[8, 4], [F(37, 2), 7]]


@settings(deadline=None, max_examples=30)
@given(sizes, sizes, sizes, st.integers(0, 2**32 - 1))
def test_transpose_and_product_agree_with_numpy(r, k, c, seed):
    rng = np.random.default_rng(seed)
    a, b = integers(rng, r, k), integers(rng, k, c)
    wanted = np.array(a, dtype=object) @ np.array(b, dtype=object)
    for arrangement in ("paper", "scratch"):
        left, right = held([a, b], length=r * k + k * c + r * c + r * k * c)
        assert entries(product(left, right, arrangement)) == wanted.tolist()
        assert entries(transpose(right)) == [list(column) for column in zip(*b, strict=True)]
        assert entries(reread(right)) == b


@settings(deadline=None, max_examples=20)
@given(sizes, sizes, sizes, st.integers(0, 2**32 - 1))
def test_laws_of_transpose_and_product(r, k, c, seed):
    rng = np.random.default_rng(seed)
    a, b, other = integers(rng, r, k), integers(rng, k, c), integers(rng, k, c)
    m_a, m_b, m_other = held([a, b, other], length=r * k + 2 * k * c + r * c)
    assert entries(transpose(transpose(m_a))) == a
    assert entries(transpose(product(m_a, m_b))) == entries(product(transpose(m_b), transpose(m_a)))
    apart = np.array(entries(product(m_a, m_b))) + np.array(entries(product(m_a, m_other)))
    summed = Matrix(reread(m_b).values + reread(m_other).values, k, c)
    assert entries(product(m_a, summed)) == apart.tolist()


def test_products_in_float64_are_vectorised_and_agree():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(6, 5)), rng.normal(size=(5, 7))
    for arrangement in ("paper", "scratch"):
        left, right = held([a, b], length=6 * 5 * 7, kind=Float())
        result = product(left, right, arrangement)
        assert result.values.values.dtype == np.float64
        np.testing.assert_allclose(np.array(result.entries()), a @ b, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("r", "k", "c"), [(1, 1, 1), (3, 2, 4), (2, 5, 3), (4, 4, 4)])
def test_sizes_of_the_two_arrangements(r, k, c):
    def used(arrangement):
        left, right = held([[[1] * k] * r, [[1] * c] * k], length=r * k + k * c + r * c + r * k * c)
        product(left, right, arrangement)
        assert left.values.run.maps_used == {"product"}
        return left.values.run.heads_per_layer

    assert used("paper") == (r + c, r * c)
    assert used("scratch") == (2, 1)


def test_patterns_of_a_transpose_and_of_a_product():
    (a,) = held([[[1, 2, 3], [4, 5, 6]]])
    transpose(a)
    ((pattern,),) = a.values.run.heads
    assert [row.tolist().index(True) for row in pattern.matrix] == [0, 3, 1, 4, 2, 5]
    left, right = held([[[1, 2, 3]], [[1], [2], [3]]])
    product(left, right)
    _, (average,) = left.values.run.heads
    assert average.weights[0].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0, 0])
    assert not average.weights[1:].any()


@pytest.mark.parametrize("step", [-1, 1])
def test_a_stride_off_by_one_differs(step):
    rng = np.random.default_rng(8)
    for r, k, c in itertools.product(range(2, 4), range(2, 4), range(1, 3)):
        a, b = integers(rng, r, k), integers(rng, k, c)
        left, right = held([a, b], length=60)
        assert entries(transpose(left, stride=k + step)) != entries(transpose(left))
        for arrangement in ("paper", "scratch"):
            right_one = entries(product(left, right, arrangement))
            assert entries(product(left, right, arrangement, inner_stride=k + step)) != right_one


def test_column_major_reading_differs():
    (a,) = held([[[1, 2, 3], [4, 5, 6]]])
    assert entries(reread(a, column_major=True)) == [[1, 3, 5], [2, 4, 6]]


def test_what_does_not_fit_is_said():
    # The released product loses its tail silently when k (r + c) < rc.
    column, row = held([[[1]] * 5, [[1] * 5]])
    with pytest.raises(ValueError, match="a 5 x 5 product does not fit in 10 tokens"):
        product(column, row)
    with pytest.raises(ValueError, match="scratch tokens do not fit in 10"):
        product(column, row, "scratch")
    assert entries(product(*held([[[1]] * 5, [[1] * 5]], length=25))) == [[1] * 5] * 5
    with pytest.raises(ValueError, match="2 x 3 matrix at token 6 does not fit in 10 tokens"):
        Matrix(column.values, 2, 3, 6)
    with pytest.raises(ValueError, match="at token -1"):
        Matrix(column.values, 2, 3, -1)


def test_wrong_products_are_refused():
    left, right = held([[[1, 2]], [[1, 2]]])
    with pytest.raises(ValueError, match="a 1 x 2 matrix times a 1 x 2 matrix: the inner sizes differ"):
        product(left, right)
    with pytest.raises(ValueError, match="arrangement is 'loop'"):
        product(left, transpose(right), "loop")
