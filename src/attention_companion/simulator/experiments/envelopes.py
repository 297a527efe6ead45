"""Lipschitz and Hoelder functions by MaxMin: the middle between the highest and the lowest function through samples.

Of f on [0, 1] the values at N knots x_j = (2 j + 1) / (2 N) are known, and that f has Lipschitz constant c. Then f
lies between

    low(x) = max_j (f(x_j) - c |x - x_j|)    and    high(x) = min_j (f(x_j) + c |x - x_j|),

both of which are possible, so no method that knows no more can beat (low + high) / 2, whose error is at most
(high - low) / 2 <= c min_j |x - x_j| <= c / (2 N). It needs maxima, minima, sums and one constant factor: a program
of relu alone, which reads the samples and x as ONE sequence, so that one program serves all functions.

If |f(x) - f(y)| <= C |x - y|^a, the samples still have the constant c = C h^(a - 1), h = 1 / N, between knots; with it
the error is at most C h^a (2^-a + 1/2).

Source: the optimal recovery of Lipschitz functions from samples (McShane 1934); the program is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Arithmetic, Float, Rational
from ..programs.maxmin import MAXMIN_BASIS, maxmin_program
from ..rasp import NOWHERE, Numbers, Rasp


def knots(count: int) -> list[Fraction]:
    """The middles of ``count`` equal pieces of [0, 1]."""
    return [Fraction(2 * j + 1, 2 * count) for j in range(count)]


def envelope_program(run: Rasp, count: int, constant: Any) -> Numbers:
    """(low + high) / 2 at token 0: from the samples at tokens 0..count - 1 and x at token ``count``.

    ``count`` is a power of two, at least 2, and the run has 2 ``count`` tokens. 5 + 3 log2(count) layers, at most 4
    heads each, relu the only token-wise map. Raises ValueError for another count or length.
    """
    if count < 2 or count & (count - 1) or run.length != 2 * count:
        raise ValueError(
            f"{count} samples in a run of {run.length} tokens; expected a power of two, at least 2, in twice as many"
        )
    t = run.indices.values
    knot = run.positions(2 * (t // 2) + 1).numbers().scale(Fraction(1, 2 * count))
    even = run.positions(np.where(t % 2 == 0, 1, -1))
    # x - x_j at even places and x_j - x at odd ones: two heads, since a sign that depends on the place is a product.
    x_even = run.fetch(run.tokens, np.where(t % 2 == 0, count, NOWHERE), "x to even places")
    x_odd = run.fetch(run.tokens, np.where(t % 2 == 1, count, NOWHERE), "x to odd places")
    signed = Numbers(run, even.numbers().values * knot.values)
    distances = maxmin_program(x_even - x_odd - signed, 2 * count)
    nearest = run.fetch(distances, 2 * (t % count) + 1, "minus the distances").scale(constant)
    lower = run.fetch(run.tokens, np.where(t < count, t, NOWHERE), "samples")
    upper = run.fetch(run.tokens, np.where(t >= count, t - count, NOWHERE), "samples, to be negated")
    # The first half holds the terms of low, the second those of -high; each is reduced to its maximum.
    values, live = lower - upper + nearest, 2 * count
    while live > 2:
        pairs = maxmin_program(values, live)
        live //= 2
        values = run.fetch(pairs, np.where(t < live, 2 * t, NOWHERE), "maxima")
    negated_high = run.fetch(values, np.where(t == 0, 1, NOWHERE), "the other half")
    return (values - negated_high).scale(Fraction(1, 2))


def through_program(
    samples: Sequence[Any], x: Any, constant: Any, kind: Arithmetic | None = None
) -> tuple[Any, Rasp]:
    """The program's answer at one x, and its run; exact rationals unless ``kind`` says otherwise."""
    chosen = Rational() if kind is None else kind
    run = Rasp(chosen, chosen.array([*samples, x]), 2 * len(samples), basis=MAXMIN_BASIS)
    result = envelope_program(run, len(samples), constant).values[0]
    if chosen.name == "rational":
        return Fraction(int(result.p), int(result.q)), run
    return result, run


def envelope(
    samples: npt.NDArray[np.float64], x: npt.NDArray[np.float64], constant: float
) -> npt.NDArray[np.float64]:
    """The same from the formula, float64: samples (N,), x (P,) -> (P,). The program is held to it in tests."""
    count = len(samples)
    at = (2 * np.arange(count) + 1) / (2 * count)
    away = constant * np.abs(x[:, None] - at)
    return np.asarray(((samples - away).max(axis=1) + (samples + away).min(axis=1)) / 2)


@dataclass(frozen=True)
class Example:
    """A function on [0, 1] with |f(x) - f(y)| <= ``constant`` |x - y|^``exponent``, or one that has no such bound."""

    name: str
    function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
    constant: float = 1.0
    exponent: float = 1.0

    def slope_for(self, count: int) -> float:
        """The constant that the program is given: C h^(a - 1)."""
        return float(self.constant * count ** (1 - self.exponent))

    def bound(self, count: int) -> float:
        """What the error cannot exceed: c / (2 N), or C h^a (2^-a + 1/2)."""
        if self.exponent == 1:
            return self.constant / (2 * count)
        return float(self.constant * count**-self.exponent * (2**-self.exponent + 0.5))


SINE = Example("sine", lambda x: np.sin(2 * np.pi * x) / (2 * np.pi))
KINK = Example("kink", lambda x: np.abs(x - 1 / 3))
ROOT = Example("square root", np.sqrt, exponent=0.5)
JUMP = Example("jump", lambda x: (x > 1 / 3).astype(np.float64))


def places(count: int, each: int) -> npt.NDArray[np.float64]:
    """Where errors are looked at: 0, 1/3, 1, and ``each`` equidistant places in every piece and at its ends."""
    return np.unique(np.concatenate([np.linspace(0, 1, count * each + 1), [1 / 3, np.nextafter(1 / 3, 1)]]))


def largest_errors(example: Example, counts: Sequence[int], each: int) -> list[float]:
    """The largest error over :func:`places`, for each number of knots."""
    errors = []
    for count in counts:
        at = (2 * np.arange(count) + 1) / (2 * count)
        largest = 0.0
        for x in np.array_split(places(count, each), max(1, count * each // 4096)):
            answers = envelope(example.function(at), x, example.slope_for(count))
            largest = max(largest, float(np.abs(answers - example.function(x)).max()))
        errors.append(largest)
    return errors


def program_difference(example: Example, count: int, x: Sequence[float]) -> float:
    """The largest difference between program and formula, both in float64."""
    at = (2 * np.arange(count) + 1) / (2 * count)
    samples = example.function(at)
    wanted = envelope(samples, np.asarray(x), example.slope_for(count))
    got = [through_program(list(samples), value, example.slope_for(count), Float())[0] for value in x]
    return float(np.abs(np.array(got) - wanted).max())


def zigzag(count: int) -> Callable[[Fraction], Fraction]:
    """The distance to the nearest knot: constant 1, 0 at every knot, and as far from 0 between them as can be."""
    return lambda x: min(abs(x - knot) for knot in knots(count))


def random_lipschitz(pieces: int, rng: np.random.Generator) -> Callable[[Fraction], Fraction]:
    """A piecewise linear function with slopes between -1 and 1, all numbers rational."""
    slopes = [Fraction(int(s), 8) for s in rng.integers(-8, 9, pieces)]

    def value(x: Fraction) -> Fraction:
        total = Fraction(0)
        for i, slope in enumerate(slopes):
            total += slope * min(max(x - Fraction(i, pieces), Fraction(0)), Fraction(1, pieces))
        return total

    return value


def largest_share_of_bound(
    counts: Sequence[int], functions: int, at: int, seed: int, given: Fraction = Fraction(1)
) -> Fraction:
    """The largest error over c / (2 N), exactly, by the program: random functions, the identity, the zigzag; c = 1.

    Each is looked at ``at`` random rational places, and at 0 and 1, which for the zigzag are among the worst. ``given``
    is the constant that the program is told; less than 1 is a control.
    """
    rng = np.random.default_rng([seed, at])
    worst = Fraction(0)
    for count in counts:
        tried = [
            zigzag(count),
            lambda x: x,
            *(random_lipschitz(int(p), rng) for p in rng.integers(3, 4 * count, functions)),
        ]
        for function in tried:
            samples = [function(knot) for knot in knots(count)]
            for x in [Fraction(0), Fraction(1), *(Fraction(int(p), 1000) for p in rng.integers(0, 1001, at))]:
                answer, _ = through_program(samples, x, given)
                worst = max(worst, abs(answer - function(x)) * 2 * count)
    return worst
