"""U over whole ranges of shapes: proofs, exact runs beside the definition, and enclosures beside a decimal reference.

A range holds all shapes with n, d, d_v up to a bound, the numbers of heads that are named, with or without an output
matrix. The exact runs put 1 + x + x^2 in place of exp; the reference for the enclosures is computed with the
standard library's ``decimal``, from T's definition, and shares no code with the rest of the package.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from ..build import Encoder, build
from ..mutation import surrogate, with_weight
from ..programs import prove_program, simulate
from ..prove import prove, random_layer
from ..shape import Shape
from ..target import attention

#: Digits of the decimal reference, and the working precision in digits.
REFERENCE_DIGITS = 60
WORKING_DIGITS = 90


def shapes_up_to(largest: int, heads: Sequence[int] = (1,)) -> list[tuple[int, int, int, int]]:
    """All (n, d, d_v, h) with n, d, d_v from 1 to ``largest`` and h one of ``heads``.

    Raises ValueError for an empty range: a proof about nothing would hold.
    """
    if largest < 1 or not heads or min(heads) < 1:
        raise ValueError(f"largest is {largest} and heads is {list(heads)}; give at least one shape")
    sizes = range(1, largest + 1)
    return [(n, d, d_v, h) for h in heads for n, d, d_v in itertools.product(sizes, repeat=3)]


@dataclass(frozen=True)
class Range:
    """Proofs over a range of shapes: how many there were and what they came to.

    ``terms`` counts terms of the polynomials compared; ``not_proved`` lists the shapes without a proof.
    """

    shapes: int
    refuted: int
    undecided: int
    terms: int
    not_proved: list[tuple[int, ...]]

    @property
    def failures(self) -> int:
        """Shapes at which the identity is not proved, whether refuted or undecided."""
        return self.refuted + self.undecided


def _collect(proofs: Iterator[tuple[tuple[int, ...], Any]]) -> Range:
    shapes = refuted = undecided = terms = 0
    missing = []
    for shape, proof in proofs:
        shapes += 1
        refuted += proof.holds is False
        undecided += proof.holds is None
        terms += proof.terms
        if proof.holds is not True:
            missing.append(shape)
    return Range(shapes, refuted, undecided, terms, missing)


def prove_encoders(
    layout: str, shapes: Sequence[tuple[int, int, int, int]], output_dim: int | None = None
) -> Range:
    """Prove the built encoder of every shape, one by one, for all real entries."""
    return _collect(((*s,), prove(*s, layout, output_dim)) for s in shapes)


def prove_changed_encoders(layout: str, shapes: Sequence[tuple[int, int, int, int]]) -> Range:
    """The control: the same, with the weight that brings in the first entry of a row of X doubled (block 1, head 1)."""

    def changed(shape: tuple[int, int, int, int]) -> Encoder:
        encoder = build(*shape, layout)
        address, weight = next(
            (a, w) for a, w in encoder.machine.weights() if a[:4] == (0, "head", 0, "value")
        )
        return Encoder(with_weight(encoder.machine, address, 2 * weight), encoder.shape, "changed")

    return _collect(((*s,), prove(changed(s))) for s in shapes)


def prove_programs(
    name: str, sizes: Sequence[tuple[int, ...]], output_dim: int | None = None, **options: Any
) -> Range:
    """Prove a program at each of the sizes; ``output_dim`` is appended to them, ``options`` are its controls."""
    extra = () if output_dim is None else (output_dim,)
    return _collect(((*s, *extra), prove_program(name, *s, *extra, **options)) for s in sizes)


def exact_mismatches(
    layouts: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    inputs: int,
    seed: int,
    *,
    targets_exp: Any = surrogate,
) -> int:
    """How many pairs of layout and shape (n, d, d_v, h[, output_dim]) disagree with the definition, exactly.

    Each encoder is run on ``inputs`` random rational layers; ``layouts`` may name "program", the program of U.
    ``targets_exp`` is what the definition uses in place of exp, another function being the control.
    """
    wrong = 0
    for layout, sizes in itertools.product(layouts, shapes):
        shape = Shape.read(*sizes)
        rng = np.random.default_rng([seed, *sizes])
        encoder = None if layout == "program" else build_for(shape, layout)
        layers = [random_layer(shape, rng) for _ in range(inputs)]
        wrong += any(
            run_exactly(encoder, layer) != attention(*layer, arithmetic="rational", exp=targets_exp)
            for layer in layers
        )
    return wrong


def misread_mismatches(shapes: Sequence[tuple[int, int, int, int]], inputs: int, seed: int) -> int:
    """The control of the program: how many shapes disagree when A is written into the sequence column by column."""
    wrong = 0
    for sizes in shapes:
        shape = Shape.read(*sizes)
        rng = np.random.default_rng([seed, *sizes])
        for _ in range(inputs):
            x, heads, output = random_layer(shape, rng)
            turned = [([list(column) for column in zip(*a, strict=True)], v) for a, v in heads]
            wanted = attention(x, heads, output, arithmetic="rational", exp=surrogate)
            if run_exactly(None, (x, turned, output)) != wanted:
                wrong += 1
                break
    return wrong


def build_for(shape: Shape, layout: str) -> Encoder:
    """:func:`.build` from a shape."""
    return build(shape.n, shape.d, shape.d_v, shape.heads, layout, shape.output_dim)


def run_exactly(encoder: Encoder | None, layer: tuple[Any, Any, Any]) -> Any:
    """U at a rational layer with 1 + x + x^2 for exp, by an encoder or (None) by the program."""
    if encoder is None:
        return simulate(*layer, arithmetic="rational", exp=surrogate).result
    return encoder.run(*layer, arithmetic="rational", exp=surrogate)


@dataclass(frozen=True)
class Enclosure:
    """``missed`` of ``entries`` balls do not meet the reference; ``radius`` is the largest radius of all balls."""

    entries: int
    missed: int
    radius: float


def enclosures(
    layouts: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    bits: int,
    seed: int,
    *,
    shift: Decimal = Decimal(0),
) -> Enclosure:
    """Balls of U at one random rational layer a shape, held against 60 decimal digits of T's own value.

    The reference lies within 1e-60 (relative to 1 + its size) of T; a ball that comes no nearer misses. ``shift`` is
    added to every reference: the control.
    """
    entries = missed = 0
    radius = 0.0
    for layout, sizes in itertools.product(layouts, shapes):
        shape = Shape.read(*sizes)
        x, heads, output = random_layer(shape, np.random.default_rng([seed, *sizes]))
        wanted = decimal_attention(x, heads, output)
        if layout == "program":
            balls = simulate(x, heads, output, arithmetic="ball", bits=bits).result
        else:
            balls = build_for(shape, layout).run(x, heads, output, arithmetic="ball", bits=bits)
        with flint.ctx.workprec(bits + 200):
            for ball, reference in zip(itertools.chain(*balls), itertools.chain(*wanted), strict=True):
                entries += 1
                radius = max(radius, float(ball.rad()))
                missed += not _meets(ball, Fraction(reference) + Fraction(shift))
    return Enclosure(entries, missed, radius)


def _meets(ball: Any, reference: Fraction) -> bool:
    margin = (1 + abs(reference)) / 10**REFERENCE_DIGITS
    low, high = (reference + sign * margin for sign in (-1, 1))
    return bool(ball.overlaps(_arb(low).union(_arb(high))))


def _arb(value: Fraction) -> Any:
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def decimal_attention(x: Any, heads: Any, output: Any = None) -> list[list[Decimal]]:
    """T(X) from its definition, entry by entry, in decimal numbers of 90 digits; ``decimal`` rounds exp correctly."""
    with localcontext() as context:
        context.prec = WORKING_DIGITS

        def decimals(matrix: Any) -> list[list[Decimal]]:
            return [[Decimal(f.numerator) / f.denominator for f in map(Fraction, row)] for row in matrix]

        def times(left: list[list[Decimal]], right: list[list[Decimal]]) -> list[list[Decimal]]:
            columns = list(zip(*right, strict=True))
            return [
                [sum((a * b for a, b in zip(row, column, strict=True)), Decimal(0)) for column in columns]
                for row in left
            ]

        xs = decimals(x)
        joined: list[list[Decimal]] = [[] for _ in xs]
        for a, v in heads:
            values = times(xs, decimals(v))
            for i, scores in enumerate(
                times(times(xs, decimals(a)), [list(c) for c in zip(*xs, strict=True)])
            ):
                powers = [score.exp() for score in scores]
                total = sum(powers, Decimal(0))
                joined[i] += [entry / total for entry in times([powers], values)[0]]
        return joined if output is None else times(joined, decimals(output))
