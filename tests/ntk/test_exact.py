"""What counts as exact input, and that nothing is lost on the way into and out of FLINT."""

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq_mat, fmpz_mat
from hypothesis import given
from hypothesis import strategies as st

from attention_companion.ntk.exact import as_matrix, from_flint, integer_multiple, is_exact, to_flint

from .strategies import law

pytestmark = pytest.mark.torch_free


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint32, np.int64, np.uint64, np.bool_])
def test_integer_arrays_of_any_width_are_exact(dtype):
    matrix = as_matrix(np.array([[1, 0], [1, 1]], dtype=dtype), "X")
    assert is_exact(matrix)
    assert all(type(entry) is int for entry in matrix.ravel())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_arrays_keep_their_dtype(dtype):
    assert as_matrix(np.ones((2, 2), dtype), "X").dtype == dtype


@pytest.mark.parametrize(
    "rows",
    [
        [[2**63, -1]],  # NumPy alone reads this as float64
        [[2**64 + 1, 3]],
        [[10**40, -(10**40) + 1]],
    ],
)
def test_long_integers_keep_every_digit(rows):
    matrix = as_matrix(rows, "X")
    assert is_exact(matrix)
    assert matrix.tolist() == rows
    assert from_flint(to_flint(matrix)).tolist() == rows


def test_lists_of_floats_and_integers_are_float64():
    assert as_matrix([[1, 2.5]], "X").dtype == np.float64
    assert as_matrix([[2**70, 2.5]], "X").dtype == np.float64


def test_fractions_stay_fractions_even_where_they_are_whole():
    matrix = to_flint(as_matrix([[Fraction(4, 2), 3]], "X"))
    assert isinstance(matrix, fmpq_mat)
    assert all(type(entry) is Fraction for entry in from_flint(matrix).ravel())
    assert isinstance(to_flint(as_matrix([[2, 3]], "X")), fmpz_mat)


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        ([[1, 2], [3]], ValueError, "ragged"),
        ([1, 2], ValueError, r"\(2,\)"),
        (np.ones((2, 2, 2)), ValueError, r"\(2, 2, 2\)"),
        (np.empty((0, 3)), ValueError, "empty"),
        ([[1.0, float("nan")]], ValueError, r"X\[0, 1\] is nan"),
        (np.array([[1.0], [np.inf]]), ValueError, r"X\[1, 0\] is inf"),
        ([[1, 2j]], TypeError, "complex"),
        ([["1", "2"]], TypeError, "real numbers"),
        (np.array([[1, None]], dtype=object), TypeError, r"X\[0, 1\] is None"),
        (np.array([[1, "a"]], dtype=object), TypeError, r"'a' \(str\)"),
        ([[Fraction(1, 3), 0.5]], TypeError, r"Fraction\(1, 3\)"),
    ],
)
def test_refused_input_names_the_value(value, error, says):
    with pytest.raises(error, match=says):
        as_matrix(value, "X")


@law
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=2, max_size=2))
def test_a_float_matrix_is_the_dyadic_matrix_it_is(entries):
    a, b = (Fraction(entry) for entry in entries)
    integers = [Fraction(int(entry)) for entry in integer_multiple(as_matrix([entries], "X")).entries()]
    # The same up to one positive factor, and with no common factor left.
    assert integers[0] * b == integers[1] * a
    assert all((x > 0) == (y > 0) for x, y in zip(integers, (a, b), strict=True))
    assert np.gcd.reduce([int(x) for x in integers]) in (0, 1)


def test_integer_multiple_of_fractions_clears_denominators():
    matrix = integer_multiple(as_matrix([[Fraction(1, 2), Fraction(1, 3)], [Fraction(1, 3), 4]], "G"))
    assert [int(entry) for entry in matrix.entries()] == [3, 2, 2, 24]
