"""Running an encoder on indeterminates: quotients of polynomials with a fresh indeterminate for each exponential.

Every number of <T, X> is an indeterminate, and exp of a polynomial p is an indeterminate E_p, one for each different p
(exp(0) = 1; exp(p - q) = E_p / E_q where the target knows E_p and E_q). Two results that agree as quotients of such
polynomials agree for all real entries, as long as no divisor vanishes: exp(p) is a positive number for every real p.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from .arithmetic import Arithmetic

# Polynomials of one key are compared; the key tells most of them apart without walking over their terms.
Key = tuple[int, tuple[int, ...], tuple[int, ...]]


class DivisorNotPositive(ArithmeticError):
    """A divisor may vanish: it is not a polynomial in exponentials whose coefficients have one sign."""


class DivisorVanishes(ZeroDivisionError):
    """A divisor is identically zero."""


class TooManyExponentials(ArithmeticError):
    """More different exponentials occur than indeterminates were set aside."""


class Quotient:
    """above / below, two polynomials; ``below`` is None for 1. Only what an encoder needs is defined."""

    __slots__ = ("above", "below")

    def __init__(self, above: Any, below: Any = None):
        self.above, self.below = above, below

    def __add__(self, other: Quotient) -> Quotient:
        # Most sums have a zero in them: heads add nothing at tokens that are not theirs.
        if not other.above:
            return self
        if not self.above:
            return other
        if self.below is None and other.below is None:
            return Quotient(self.above + other.above)
        if self.below is not None and other.below is not None and self.below == other.below:
            return Quotient(self.above + other.above, self.below)
        mine = self.above if other.below is None else self.above * other.below
        theirs = other.above if self.below is None else other.above * self.below
        below = (
            self.below
            if other.below is None
            else other.below
            if self.below is None
            else self.below * other.below
        )
        return Quotient(mine + theirs, below)

    def __mul__(self, other: Quotient) -> Quotient:
        below = (
            self.below
            if other.below is None
            else other.below
            if self.below is None
            else self.below * other.below
        )
        return Quotient(self.above * other.above, below)

    def same(self, other: Quotient) -> bool:
        """Equality as quotients; sound when both divisors are nonzero."""
        left = self.above if other.below is None else self.above * other.below
        right = other.above if self.below is None else other.above * self.below
        return bool(left == right)


class Symbolic(Arithmetic):
    """Polynomials in ``inputs`` indeterminates and at most ``exponentials`` more, as arrays of :class:`Quotient`.

    ``strict`` refuses divisors that are not visibly free of zeros; without it only a divisor that is identically 0 is
    refused, which is enough to look for one but not for a proof.
    """

    name = "symbolic"
    dtype = object

    def __init__(self, inputs: int, exponentials: int, strict: bool = True):
        self.strict = strict
        names = [f"x{i}" for i in range(inputs)] + [f"E{i}" for i in range(exponentials)]
        self.context = flint.fmpq_mpoly_ctx.get(tuple(names), flint.Ordering.degrevlex)
        generators = self.context.gens()
        self.inputs = [Quotient(g) for g in generators[:inputs]]
        self._first_exponential = inputs
        self._free = list(generators[inputs:])
        self._known: dict[Key, list[tuple[Any, Any]]] = {}
        self._scores: list[tuple[Any, Any]] = []
        self._numbers: dict[Fraction, Quotient] = {}

    def number(self, value: Any) -> Any:
        if isinstance(value, Quotient):
            return value
        fraction = Fraction(value)
        if fraction not in self._numbers:
            self._numbers[fraction] = Quotient(
                self.context.constant(flint.fmpq(fraction.numerator, fraction.denominator))
            )
        return self._numbers[fraction]

    def zeros(self, size: int) -> npt.NDArray[Any]:
        return np.full(size, self.number(0), dtype=object)

    def array(self, values: Iterable[Any]) -> npt.NDArray[Any]:
        listed = [self.number(value) for value in values]
        out = np.empty(len(listed), dtype=object)
        out[:] = listed
        return out

    def exp(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return self.array(self.exponential(value) for value in values)

    def exponential(self, value: Quotient, is_score: bool = False) -> Quotient:
        """E_p for the polynomial ``value``; ``is_score`` makes E_p known for differences of scores.

        Raises DivisorNotPositive for a true quotient (its exponential has no indeterminate here), TooManyExponentials.
        """
        if value.below is not None:
            raise DivisorNotPositive("exp of a quotient: this proof method has no indeterminate for it")
        if not value.above:
            return self.number(1)
        image = self._find(value.above)
        if image is None and not is_score:
            for polynomial, below in self._scores:
                partner = value.above + polynomial
                above = self._find(partner) if partner else self.context.constant(1)
                if above is not None:
                    return Quotient(above, below)
        if image is None:
            if not self._free:
                raise TooManyExponentials("more different exponentials than were set aside")
            image = self._free.pop(0)
            self._known.setdefault(_key(value.above), []).append((value.above, image))
        if is_score:
            self._scores.append((value.above, image))
        return Quotient(image)

    def _find(self, polynomial: Any) -> Any:
        """The indeterminate of exp of a polynomial seen before, or None."""
        return next(
            (image for seen, image in self._known.get(_key(polynomial), ()) if seen == polynomial), None
        )

    def relu(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        raise DivisorNotPositive("relu has no polynomial; this proof method covers product, exp and division")

    def divide(self, above: npt.NDArray[Any], below: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return self.array(self.quotient(a, b) for a, b in zip(above, below, strict=True))

    def quotient(self, above: Quotient, below: Quotient) -> Quotient:
        """above / below, once the divisor is seen to vanish nowhere."""
        if not below.above:
            raise DivisorVanishes("a divisor is identically 0")
        self._require_positive(below.above)
        numerator = above.above if below.below is None else above.above * below.below
        divisor = below.above if above.below is None else below.above * above.below
        return Quotient(numerator, divisor)

    def _require_positive(self, polynomial: Any) -> None:
        if not self.strict:
            return
        used, signs = polynomial.degrees(), {c > 0 for c in polynomial.coeffs()}
        if any(used[: self._first_exponential]) or len(signs) > 1:
            raise DivisorNotPositive(
                "a divisor is not a polynomial in exponentials with coefficients of one sign, so it may vanish"
            )


def _key(polynomial: Any) -> Key:
    terms = len(polynomial)
    return terms, polynomial.monomial(0), polynomial.monomial(terms - 1)
