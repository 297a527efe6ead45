"""The released softmax programs, whose e is a number with three decimals: how wrong that makes them, enclosed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from ..arithmetic import Ball
from ..programs.statements import rows_of
from ..programs.statements import softmax as softmax_of
from ..rasp import Rasp
from . import released, released_run
from .released_checks import ROUNDING, near, starts_with


class Powers(Ball):
    """Balls whose exponential has another base: base^x = exp(x ln base)."""

    def __init__(self, base: Fraction, bits: int = 120):
        super().__init__(bits)
        self.base = base

    def exp(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        rate = self.number(self.base).log()
        return np.array([(value * rate).exp() for value in values], dtype=object)


def softmax_described(name: str, base: Fraction) -> bool:
    """Whether our program with exp replaced by powers of ``base`` returns what the released one did."""
    kind = Powers(base)
    with kind.precision():
        return all(
            near(got, list(released.softmax(Rasp(kind, kind.array(tokens)), 3, len(tokens) // 3).values))
            for tokens, got in released_run.RUNS[name]
        )


def error_of_two(base: Fraction, scores: Sequence[float]) -> list[float]:
    """Error of a softmax of (t, 0) with ``base`` in place of e, for each score t."""
    kind = Ball()
    with kind.precision():
        rate = kind.number(base).log()
        return [
            float(abs(_logistic(kind.number(t) * rate) - _logistic(kind.number(t))).mid()) for t in scores
        ]


def largest_error_of_two(base: Fraction, precision: float = 1e-4) -> tuple[Fraction, Fraction]:
    """Lower and upper bound of the largest error of a two-entry softmax with ``base`` in place of e, over all scores.

    The softmax of (a, b) depends on t = a - b alone and the error is even in t. On [0, 64] intervals are halved until
    the mean value form bounds them; beyond, the error is at most e^(-64 min(1, ln base)). ``precision`` is relative.
    """
    if base == 1 or base <= 0:
        raise ValueError(f"base is {base}; give a positive base other than 1")
    kind = Ball()
    with kind.precision():
        rate = kind.number(base).log()
        low = flint.arb(0)
        open_cells = [(Fraction(i, 4), Fraction(i + 1, 4)) for i in range(256)]
        high = flint.arb(0)
        while open_cells:
            bounds = [_error_on(kind, rate, a, b) for a, b in open_cells]
            for middle, _ in bounds:
                low = low.max(middle.lower())
            kept = [(cell, upper) for cell, (_, upper) in zip(open_cells, bounds, strict=True) if upper > low]
            high = flint.arb(0)
            for _, upper in kept:
                high = high.max(upper)
            if not kept or high - low < precision * low:
                break
            open_cells = [half for (a, b), _ in kept for half in ((a, (a + b) / 2), ((a + b) / 2, b))]
        tail = (-64 * rate.min(flint.arb(1))).exp()
        high = high.max(low).max(tail).upper()
        return Fraction(float(low)) - Fraction(1, 10**15), Fraction(float(high)) + Fraction(1, 10**15)


def _error_on(kind: Ball, rate: Any, a: Fraction, b: Fraction) -> tuple[Any, Any]:
    """|error| at the middle of [a, b], and an upper bound of it on the whole interval."""
    middle, radius = kind.number((a + b) / 2), kind.number((b - a) / 2)
    cell = flint.arb(middle.mid(), radius.mid())
    here = abs(_logistic(middle * rate) - _logistic(middle))
    s, u = _logistic(cell * rate), _logistic(cell)
    slope = abs(rate * s * (1 - s) - u * (1 - u))
    return here, (here + slope * radius).upper()


def _logistic(t: Any) -> Any:
    return 1 / (1 + (-t).exp())


def softmax_is_right(name: str, rows: int = 3, tolerance: float = ROUNDING) -> bool:
    """Whether a released softmax returned the softmax of every row, as run."""
    kind = Ball()
    right = True
    with kind.precision():
        for tokens, got in released_run.RUNS[name]:
            wanted = softmax_of(kind, rows_of(list(kind.array(tokens)), rows, len(tokens) // rows))
            flat = [float(v.mid()) for row in wanted for v in row]
            right = right and starts_with(got, flat, tolerance)
    return right
