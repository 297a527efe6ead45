"""Numbers as the ledger keeps them: exact ones as strings, doubles as JSON numbers, truth values as booleans.

A rational written as a double would lose what the check established, so `int` and `Fraction` are stored as
``"p"`` or ``"p/q"`` and come back as `Fraction`. Doubles stay doubles; the two infinities, which JSON has no word
for, are the strings ``"inf"`` and ``"-inf"`` (a condition number may honestly be infinite). NaN is refused: it
compares false with everything, so a check that produced it decided nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

Number: TypeAlias = bool | int | Fraction | float
Stored: TypeAlias = bool | float | str

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


class NumberError(ValueError):
    """A quantity given to the ledger is not a number it can keep."""


def normalise(x: Any, what: str) -> Number:
    """`x` as a Python bool, int, Fraction or float; `what` names it in errors.

    Accepts Python numbers, `fractions.Fraction`, zero-dimensional numpy and torch scalars, and python-flint's
    ``fmpz`` and ``fmpq``. Raises `NumberError` for anything else and for NaN.
    """
    if isinstance(x, bool | int | Fraction):
        return x
    if not isinstance(x, float) and getattr(x, "shape", None) == () and hasattr(x, "item"):
        return normalise(x.item(), what)
    if isinstance(x, float):
        if math.isnan(x):
            raise NumberError(
                f"{what} is NaN: the check decided nothing; find where it arose before recording it"
            )
        return float(x)
    numerator, denominator = getattr(x, "p", None), getattr(x, "q", None)
    if numerator is not None and denominator is not None:
        return Fraction(int(numerator), int(denominator))
    if type(x).__name__ == "fmpz":
        return int(x)
    raise NumberError(
        f"{what} is {x!r:.80} of type {type(x).__name__}; expected one number "
        "(int, float, Fraction, bool or a zero-dimensional array). Reduce an array to the number that decides."
    )


def is_exact(x: Number) -> bool:
    """True for int and Fraction; False for float and for bool (a truth value has no digits to keep)."""
    return isinstance(x, int | Fraction) and not isinstance(x, bool)


def encode(x: Number) -> Stored:
    """The JSON form of a normalised number."""
    if isinstance(x, bool):
        return x
    if isinstance(x, float):
        return x if math.isfinite(x) else str(x)
    return str(x)


def decode(stored: Any, what: str = "a stored number") -> Number:
    """The inverse of `encode`; exact numbers return as Fraction. Raises `NumberError` for foreign forms."""
    if isinstance(stored, bool):
        return stored
    if isinstance(stored, int | float):
        return normalise(float(stored), what)
    if isinstance(stored, str):
        if stored in _INFINITIES:
            return _INFINITIES[stored]
        try:
            return Fraction(stored)
        except (ValueError, ZeroDivisionError) as error:
            raise NumberError(f"{what} is {stored!r}; expected a rational such as '3/4', or 'inf'") from error
    raise NumberError(f"{what} is {stored!r}; expected a number, a truth value or a rational as a string")


def as_float(x: Number, what: str) -> float:
    """`x` to the nearest double. Raises `NumberError` when it is an exact number beyond the range of doubles."""
    try:
        return float(x)
    except OverflowError as error:
        raise NumberError(f"{what} is too large for a double; record its logarithm instead") from error


def parse_decimal(text: int | float | str) -> Fraction:
    """A number typed by a person, read as the decimal it looks like: 0.05 is 1/20, '1.2e3' is 1200, '1/3' is 1/3."""
    if isinstance(text, bool):
        raise NumberError(f"{text!r} is a truth value; expected a number")
    try:
        return Fraction(repr(text) if isinstance(text, float) else text)
    except (ValueError, ZeroDivisionError, TypeError, OverflowError) as error:
        raise NumberError(
            f"{text!r} is not a finite number; expected e.g. 3, 0.05, '1.2e3' or '1/3'"
        ) from error
