"""MaxMin on indeterminates: relu of a polynomial has no polynomial, but within one order of each pair it has.

Every pair of reals is (b + g, b) or (b, b + g) with g >= 0, and every real is g or -g. So a program is run once for
each choice of order, with b free and g an indeterminate that is known not to be negative; relu then reads the sign of a
polynomial in the g alone from its coefficients, and refuses any other. All choices together cover all reals.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy.typing as npt

from ..rasp import Numbers
from ..symbolic import Quotient, Symbolic
from .maxmin import leaky_relu_program, maxmin_program, relu_program

#: 2 to this power runs are made at most.
MOST_PAIRS = 10


class OrderUnknown(ArithmeticError):
    """relu of a polynomial whose sign the assumed order does not settle."""


class Ordered(Symbolic):
    """Polynomials in ``free`` indeterminates and ``gaps`` more that stand for numbers >= 0."""

    name = "ordered"

    def __init__(self, free: int, gaps: int):
        super().__init__(free + gaps, 0)
        self.free, self.gaps = self.inputs[:free], self.inputs[free:]

    def relu(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return self.array(self._positive_part(value) for value in values)

    def _positive_part(self, value: Quotient) -> Quotient:
        if value.below is not None:
            raise OrderUnknown("relu of a quotient")
        if not value.above:
            return value
        signs = {c > 0 for c in value.above.coeffs()}
        if any(value.above.degrees()[: len(self.free)]) or len(signs) > 1:
            raise OrderUnknown(f"the sign of {value.above} does not follow from the assumed order")
        return value if signs == {True} else self.number(0)

    def minus(self, value: Quotient) -> Quotient:
        return value * self.number(-1)


Case = tuple[list[Any], list[Any], Any]


@dataclass(frozen=True)
class OrderStatement:
    """A program of relu alone on ``count`` numbers: all orders of its input, and what it should return.

    ``cases(kind, count)`` yields tokens, expected outputs and the slope (None where there is none).
    """

    gaps: Callable[[int], int]
    free: Callable[[int], int]
    length: Callable[[int], int]
    program: Callable[[Numbers, int, Any, Mapping[str, Any]], Numbers]
    cases: Callable[[Ordered, int], Iterator[Case]]
    expected: Callable[[Sequence[Fraction], Fraction], list[Fraction]]


def _maxmin_cases(kind: Ordered, count: int) -> Iterator[Case]:
    pairs = list(zip(kind.free, kind.gaps, strict=False))
    tail = kind.free[len(pairs) :]
    for order in itertools.product((False, True), repeat=len(pairs)):
        tokens, wanted = [], []
        for (low, gap), swapped in zip(pairs, order, strict=True):
            wanted += [low + gap, low]
            tokens += [low, low + gap] if swapped else [low + gap, low]
        yield tokens + tail, wanted + tail, None


def _sign_cases(kind: Ordered, count: int, slope: Any) -> Iterator[Case]:
    below = kind.number(0) if slope is None else kind.minus(slope)
    for signs in itertools.product((False, True), repeat=count):
        tokens = [
            kind.minus(gap) if negative else gap for gap, negative in zip(kind.gaps, signs, strict=True)
        ]
        wanted = [below * gap if negative else gap for gap, negative in zip(kind.gaps, signs, strict=True)]
        yield tokens, wanted, slope


def _sorted_pairs(tokens: Sequence[Fraction], slope: Fraction) -> list[Fraction]:
    pairs = [tokens[p : p + 2] for p in range(0, len(tokens), 2)]
    return [value for pair in pairs for value in sorted(pair, reverse=True)]


ORDER_STATEMENTS: dict[str, OrderStatement] = {
    "maxmin": OrderStatement(
        lambda m: m // 2,
        lambda m: m // 2 + m % 2,
        lambda m: m,
        lambda values, m, slope, options: maxmin_program(values, m, **options),
        _maxmin_cases,
        _sorted_pairs,
    ),
    "relu": OrderStatement(
        lambda m: m,
        lambda m: 0,
        lambda m: 2 * m,
        lambda values, m, slope, options: relu_program(values, m, **options),
        lambda kind, m: _sign_cases(kind, m, None),
        lambda tokens, slope: [max(x, Fraction(0)) for x in tokens],
    ),
    "leaky_relu": OrderStatement(
        lambda m: m,
        lambda m: 1,
        lambda m: 2 * m,
        lambda values, m, slope, options: leaky_relu_program(values, m, slope, **options),
        lambda kind, m: _sign_cases(kind, m, kind.free[0]),
        lambda tokens, slope: [x if x > 0 else slope * x for x in tokens],
    ),
}
