"""The kinds of numbers an encoder or a program can be run on, behind one small face.

float64 arrays are vectorised; exact rationals, balls and polynomials are arrays of objects, on which numpy's
elementwise operations work the same way. exp of a rational is no rational: exact runs need a rational, positive
surrogate in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

NAMES = ("float64", "rational", "ball")


class Arithmetic:
    """Numbers of one kind: how to make them, what type an array of them has, and their exponential."""

    name = "float64"
    dtype: Any = np.float64

    def number(self, value: Fraction | int | float) -> Any:
        """One number of this kind; exact for a rational wherever the kind is exact."""
        return float(value)

    def array(self, values: Iterable[Any]) -> npt.NDArray[Any]:
        """A one-dimensional array of numbers of this kind."""
        return np.array([self.number(value) for value in values], dtype=self.dtype)

    def zeros(self, size: int) -> npt.NDArray[Any]:
        return np.zeros(size, dtype=self.dtype)

    def exp(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Entry by entry; overflow gives infinity, as the caller's error state decides."""
        return np.asarray(np.exp(values))

    def relu(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(np.maximum(values, 0))

    def divide(self, above: npt.NDArray[Any], below: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(above / below)


class Float(Arithmetic):
    """float64; remembers the largest absolute exponent it was asked for, so that a caller can tell an overflow."""

    def __init__(self) -> None:
        self.largest_exponent = 0.0

    def exp(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        self.largest_exponent = max(self.largest_exponent, float(np.abs(values).max(initial=0.0)))
        return np.asarray(np.exp(values))

    def divide(self, above: npt.NDArray[Any], below: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not np.all(below):
            raise ZeroDivisionError("a divisor is 0")
        return np.asarray(above / below)


class Rational(Arithmetic):
    """python-flint's ``fmpq``. ``exp`` is a surrogate: a function of one Fraction that returns a positive rational."""

    name = "rational"
    dtype = object

    def __init__(self, exp: Callable[[Fraction], Any] | None = None):
        self.surrogate = exp

    def number(self, value: Any) -> Any:
        if isinstance(value, flint.fmpq):
            return value
        fraction = Fraction(value)
        return flint.fmpq(fraction.numerator, fraction.denominator)

    def zeros(self, size: int) -> npt.NDArray[Any]:
        return np.full(size, flint.fmpq(0), dtype=object)

    def exp(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self.surrogate is None:
            raise ValueError(
                "exp of a rational number is not rational: give exp= a positive rational function in its place (for "
                'example lambda x: 1 + x + x*x), or use arithmetic="ball" for enclosures or "float64"'
            )
        return np.array([self._positive(value) for value in values], dtype=object)

    def _positive(self, value: Any) -> Any:
        argument = Fraction(int(value.p), int(value.q))
        assert self.surrogate is not None
        image = self.surrogate(argument)
        if isinstance(image, bool | float) or not isinstance(image, Fraction | int | flint.fmpq):
            raise TypeError(
                f"exp({argument}) returned {image!r}; the surrogate must return a Fraction or an integer"
            )
        number = self.number(image)
        if number <= 0:
            raise ValueError(f"exp({argument}) returned {image}; the surrogate must be positive, as exp is")
        return number

    def relu(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.array([value if value > 0 else flint.fmpq(0) for value in values], dtype=object)

    def divide(self, above: npt.NDArray[Any], below: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if any(value == 0 for value in below):
            raise ZeroDivisionError("a divisor is exactly 0")
        return np.asarray(above / below)


class Ball(Arithmetic):
    """python-flint's ``arb``: midpoints with rigorous radii, at ``bits`` bits of working precision.

    Run everything inside ``precision()``: flint's precision is a setting of the whole process.
    """

    name = "ball"
    dtype = object

    def __init__(self, bits: int = 200):
        if isinstance(bits, bool) or not isinstance(bits, int) or not 10 <= bits <= 100_000:
            raise ValueError(f"bits is {bits!r}; give a whole number of bits from 10 to 100000")
        self.bits = bits

    def precision(self) -> Any:
        """A context in which flint works at ``bits`` bits."""
        return flint.ctx.workprec(self.bits)

    def number(self, value: Any) -> Any:
        if isinstance(value, flint.arb):
            return value
        fraction = Fraction(value)
        return flint.arb(flint.fmpq(fraction.numerator, fraction.denominator))

    def zeros(self, size: int) -> npt.NDArray[Any]:
        return np.full(size, flint.arb(0), dtype=object)

    def exp(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.array([value.exp() for value in values], dtype=object)

    def relu(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.array([value.max(flint.arb(0)) for value in values], dtype=object)

    def divide(self, above: npt.NDArray[Any], below: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if any(value.contains(0) for value in below):
            raise ZeroDivisionError("a divisor's ball contains 0: raise bits, or the divisor is 0")
        return np.asarray(above / below)


def read_arithmetic(name: str, exp: Callable[[Fraction], Any] | None = None, bits: int = 200) -> Arithmetic:
    """The arithmetic called "float64", "rational" or "ball".

    Raises ValueError for another name, or where ``exp`` is given although the kind has one of its own.
    """
    if name not in NAMES:
        raise ValueError(f"arithmetic is {name!r}; choose one of {', '.join(NAMES)}")
    if exp is not None and name != "rational":
        raise ValueError(f'exp is a surrogate for exact runs; leave it out with arithmetic="{name}"')
    if name == "rational":
        return Rational(exp)
    return Ball(bits) if name == "ball" else Float()
