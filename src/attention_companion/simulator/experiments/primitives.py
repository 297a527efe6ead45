"""Checks of the primitives: shapes at which a proof fails, enclosures against decimal references, sorted pairs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from ..arithmetic import Ball, Rational
from ..programs import Matrix, ProgramProof, prove_program
from ..programs.maxmin import MAXMIN_BASIS, leaky_relu_program, maxmin_program, relu_program
from ..programs.softmax import softmax_rows
from ..rasp import Rasp

#: Digits of the decimal reference; an enclosure at 200 bits is about 60 digits wide.
DIGITS = 80
Options = Callable[[tuple[int, ...]], dict[str, Any]]


@dataclass(frozen=True)
class Survey:
    """Proofs of one program at all sizes up to a bound: how many there are and at how many it did not hold."""

    proofs: list[ProgramProof]

    @property
    def shapes(self) -> int:
        return len(self.proofs)

    @property
    def failed(self) -> int:
        return sum(proof.holds is not True for proof in self.proofs)

    @property
    def refuted(self) -> int:
        """Sizes with a concrete input at which program and definition differ."""
        return sum(proof.holds is False for proof in self.proofs)

    @property
    def layers(self) -> int:
        """The one depth of all sizes; ValueError where they differ."""
        depths = {proof.layers for proof in self.proofs}
        if len(depths) != 1:
            raise ValueError(f"the depths {sorted(depths)} differ between sizes")
        return depths.pop()

    @property
    def terms(self) -> int:
        return sum(proof.terms for proof in self.proofs)


def survey(name: str, bounds: Sequence[int], options: Options | None = None, first: int = 1) -> Survey:
    """:func:`.prove_program` at all sizes ``first``..bound; ``options`` makes a control for each size."""
    sizes = itertools.product(*(range(first, bound + 1) for bound in bounds))
    return Survey([prove_program(name, *s, **({} if options is None else options(s))) for s in sizes])


def softmax_reference(row: Sequence[Fraction], digits: int = DIGITS) -> list[Fraction]:
    """softmax of one row to ``digits`` digits, by Python's decimal arithmetic, which shares nothing with balls."""
    with localcontext() as context:
        context.prec = digits + 10
        powers = [(Decimal(s.numerator) / Decimal(s.denominator)).exp() for s in row]
        total = sum(powers, Decimal(0))
        return [Fraction(power / total) for power in powers]


@dataclass(frozen=True)
class Enclosures:
    """Entries enclosed, how many enclosures miss their reference, and the largest radius."""

    entries: int
    missed: int
    radius: float


def softmax_enclosures(
    shapes: Sequence[tuple[int, int]], cases: int, seed: int, factor: Options | None = None, bits: int = 200
) -> Enclosures:
    """The softmax program on balls, against :func:`softmax_reference`; ``cases`` random matrices of each shape.

    Scores are rationals between -12 and 12. ``factor`` makes a control, as in :func:`survey`.
    """
    rng = np.random.default_rng([seed, bits])
    kind = Ball(bits)
    entries = missed = 0
    radius = 0.0
    for rows, columns in shapes:
        for _ in range(cases):
            scores = [
                Fraction(int(p), int(q))
                for p, q in zip(
                    rng.integers(-24, 25, rows * columns), rng.integers(2, 9, rows * columns), strict=True
                )
            ]
            with kind.precision():
                run = Rasp(kind, kind.array(scores))
                options = {} if factor is None else factor((rows, columns))
                result: list[list[Any]] = softmax_rows(Matrix(run.tokens, rows, columns), **options).entries()
            for i, row in enumerate(result):
                wanted = softmax_reference(scores[i * columns : (i + 1) * columns])
                for ball, value in zip(row, wanted, strict=True):
                    # A reference of 80 digits needs more bits than the enclosure it is tested against.
                    with flint.ctx.workprec(4 * DIGITS):
                        missed += not _contains(ball, value)
                    radius = max(radius, float(ball.rad()))
                    entries += 1
    return Enclosures(entries, missed, radius)


def _contains(ball: Any, value: Fraction) -> bool:
    return bool(ball.contains(flint.fmpq(value.numerator, value.denominator)))


def random_sequences(longest: int, cases: int, seed: int) -> list[list[Fraction]]:
    """``cases`` sequences of each length 1..``longest``: small rationals of either sign, with many zeros and ties."""
    rng = np.random.default_rng([seed, longest])
    return [
        [Fraction(int(p), int(q)) for p, q in zip(rng.integers(-3, 4, n), rng.integers(1, 4, n), strict=True)]
        for n in range(1, longest + 1)
        for _ in range(cases)
    ]


def wrong_pairs(sequences: Sequence[Sequence[Fraction]], distance: int = 1) -> int:
    """Sequences whose MaxMin is not the maximum, then the minimum, of each consecutive pair (an odd last one stays)."""
    wrong = 0
    for tokens in sequences:
        run = _relu_run(tokens, len(tokens))
        got = _fractions(maxmin_program(run.tokens, len(tokens), distance).values)
        wanted: list[Fraction] = []
        for p in range(0, len(tokens), 2):
            pair = tokens[p : p + 2]
            wanted += [max(pair), min(pair)][: len(pair)]
        wrong += got != wanted
    return wrong


def wrong_relus(sequences: Sequence[Sequence[Fraction]], slopes: Sequence[Fraction], read: int = 0) -> int:
    """Pairs of sequence and slope at which LeakyReLU from MaxMin is wrong, and sequences at which relu is."""
    wrong = 0
    for tokens in sequences:
        count = len(tokens)
        run = _relu_run(tokens, 2 * count)
        got = _fractions(relu_program(run.tokens, count, read).values[:count])
        wrong += got != [x if x > 0 else Fraction(0) for x in tokens]
        for slope in slopes:
            run = _relu_run(tokens, 2 * count)
            leaky = leaky_relu_program(run.tokens, count, run.kind.number(slope), read).values[:count]
            wrong += _fractions(leaky) != [x if x > 0 else slope * x for x in tokens]
    return wrong


def _relu_run(tokens: Sequence[Fraction], length: int) -> Rasp:
    kind = Rational()
    return Rasp(kind, kind.array(tokens), length, basis=MAXMIN_BASIS)


def _fractions(values: Any) -> list[Fraction]:
    return [Fraction(int(v.p), int(v.q)) for v in values]
