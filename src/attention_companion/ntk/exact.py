"""Numbers in, numbers out: which inputs are exact, and how they travel to and from FLINT.

Everything else in this package asks one question of an input first: *is it exact?*  Integers and fractions are,
and must stay so (a product of three 8-bit image matrices already needs more than 64 bits); floating-point numbers
are rounded, and arithmetic on them stays in their own dtype.  A float is nevertheless an exact dyadic rational, so
a float *matrix as given* can be handed to exact arithmetic without any further rounding: :func:`integer_multiple`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat, fmpz_mat
from numpy.typing import NDArray

Array = NDArray[Any]


def as_matrix(value: Any, name: str, *, vector: bool = False) -> Array:
    """``value`` as a non-empty two-dimensional array that is either exact or floating point.

    Accepts NumPy arrays, nested sequences, and anything else ``numpy.asarray`` reads. The result has dtype
    ``object`` with only Python ``int`` and ``Fraction`` entries (exact input: integer or boolean arrays, and nested
    sequences of integers and fractions), or a real floating dtype (unchanged when given; float64 for nested
    sequences of floats, or of floats and integers).

    :param name: how error messages call the argument.
    :param vector: also accept one row given as a one-dimensional array; it is returned with shape (1, d).
    :raises TypeError: complex, textual, or otherwise non-real entries; fractions mixed with floats.
    :raises ValueError: ragged or empty input, wrong number of dimensions, NaN or infinity.
    """
    array = _read(value, name)
    if array.ndim == 1 and vector:
        array = array[np.newaxis, :]
    if array.ndim != 2:
        allowed = "(n, d) or (d,)" if vector else "(n, d)"
        raise ValueError(
            f"{name} must have shape {allowed}, not {array.shape}; reshape images to one row each"
        )
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); it needs at least one row and one column")
    if array.dtype == object:
        return _exact_or_float(array, name)
    if array.dtype.kind in "iub":
        return _python_integers(array)
    _refuse_non_finite(array, name)
    return array


def _read(value: Any, name: str) -> Array:
    if isinstance(value, np.ndarray):
        array = value
    else:
        try:
            array = np.asarray(value)
            if array.dtype == np.float64 and isinstance(value, list | tuple):
                # NumPy reads [[2**63, -1]] as float64, losing digits: let the entries themselves decide.
                array = np.asarray(value, dtype=object)
        except ValueError as error:
            raise ValueError(f"{name} is ragged: its rows differ in length ({error})") from error
    if array.dtype.kind not in "iubfO":
        raise TypeError(
            f"{name} has dtype {array.dtype}; real numbers are needed (integers, fractions or floats)"
        )
    return array


def _exact_or_float(array: Array, name: str) -> Array:
    """An object array: exact if all entries are rational, float64 if they are integers and floats."""
    entries = array.ravel()
    if all(isinstance(entry, Rational | np.bool_) for entry in entries):
        out = np.empty(entries.size, dtype=object)
        for position, entry in enumerate(entries):
            if isinstance(entry, Integral | np.bool_):
                out[position] = int(entry)
            else:
                out[position] = Fraction(entry.numerator, entry.denominator)
        return out.reshape(array.shape)
    for position, entry in enumerate(entries):
        if not isinstance(entry, Real | np.bool_):
            where = tuple(int(i) for i in np.unravel_index(position, array.shape))
            raise TypeError(f"{name}{list(where)} is {entry!r} ({type(entry).__name__}), not a real number")
        if isinstance(entry, Fraction):
            raise TypeError(
                f"{name} mixes fractions ({entry!r}) with floats; give every entry as Fraction to stay exact, "
                "or as float"
            )
    floats = array.astype(np.float64)
    _refuse_non_finite(floats, name)
    return floats


def _python_integers(array: Array) -> Array:
    integers = array.astype(np.int64) if array.dtype.kind == "b" else array
    return integers.astype(object)


def _refuse_non_finite(array: Array, name: str) -> None:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise ValueError(f"{name}{list(where)} is {array[where]}; every entry must be finite")


def is_exact(array: Array) -> bool:
    """Whether :func:`as_matrix` found the input exact."""
    return array.dtype == object


def to_flint(array: Array) -> fmpz_mat | fmpq_mat:
    """The exact array (n, d) as an integer matrix if it has no proper fraction type in it, else a rational one."""
    rows, columns = array.shape
    entries = array.ravel().tolist()
    if any(isinstance(entry, Fraction) for entry in entries):
        return fmpq_mat(rows, columns, [fmpq(entry.numerator, entry.denominator) for entry in entries])
    return fmpz_mat(rows, columns, entries)


def from_flint(matrix: fmpz_mat | fmpq_mat) -> Array:
    """Object array of Python ``int`` (integer matrix) or ``Fraction`` (rational matrix)."""
    out = np.empty(matrix.nrows() * matrix.ncols(), dtype=object)
    if isinstance(matrix, fmpz_mat):
        out[:] = [int(entry) for entry in matrix.entries()]
    else:
        out[:] = [Fraction(int(entry.p), int(entry.q)) for entry in matrix.entries()]
    return out.reshape(matrix.nrows(), matrix.ncols())


def multiply(left: fmpz_mat | fmpq_mat, right: fmpz_mat | fmpq_mat) -> fmpz_mat | fmpq_mat:
    """Exact product; rational as soon as one factor is."""
    if isinstance(left, fmpz_mat) and isinstance(right, fmpq_mat):
        left = fmpq_mat(left)
    elif isinstance(left, fmpq_mat) and isinstance(right, fmpz_mat):
        right = fmpq_mat(right)
    return left * right


def integer_multiple(array: Array) -> fmpz_mat:
    """The smallest integer matrix that is a positive multiple of the matrix exactly as given.

    Ratios of eigenvalues, ranks and signs do not notice a positive factor, so this is the one form in which the
    exact algorithms need a matrix. Floats (any real dtype) are taken as the dyadic rationals that they are.
    """
    # Every kind of entry knows its numerator and denominator: int, Fraction and NumPy's floats alike.
    pairs = [entry.as_integer_ratio() for entry in array.ravel()]
    denominator = math.lcm(*{q for _, q in pairs})
    integers = [p * (denominator // q) for p, q in pairs]
    content = math.gcd(*integers) or 1
    rows, columns = array.shape
    return fmpz_mat(rows, columns, [entry // content for entry in integers])
