"""Proofs, shape by shape: an encoder equals T for ALL real entries, or differs at a concrete input.

The argument of a proof. (1) All scores read position channels only, transitively, as the weights themselves show; so
the selected sets are the same for every input, and they are found exactly from the encoder's own Q and K. (2) The
encoder is then a fixed composition of linear maps, products, exponentials and divisions. It is run on indeterminates,
every division at every token included; each divisor must be a nonzero polynomial in exponentials with positive
coefficients (or all negative), hence of one sign for all real entries, so no run can fail. (3) Each output equals the
target's entry as a quotient of polynomials. (2) and (3) make them equal as functions.

What it says and does not: the identity holds for real numbers at that one shape, for the machine whose weights were
given, wherever entries are real; nothing is said about other shapes or about rounding in float64. It relies on
python-flint's polynomials and on the selected sets; ``mutation`` holds it against runs that share neither. The method
is incomplete: a divisor that is positive for another reason, a score that reads data but never matters, or an identity
that holds only because exp is no indeterminate, stays undecided.

A refutation is one rational input at which two rigorous enclosures are disjoint, or at which the encoder divides by
zero. Where neither is found, the answer is None: undecided.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .arithmetic import Ball, Rational
from .build import Encoder, build
from .dense import LARGEST_SCORES, run_densely
from .encoder import scores_read_positions_only
from .execute import Plan, plan, run
from .reading import read_layer
from .shape import Shape
from .symbolic import DivisorNotPositive, DivisorVanishes, Quotient, Symbolic, TooManyExponentials
from .target import evaluate

#: Random rational inputs tried before a failed identity is called undecided.
ATTEMPTS = 8
SPARE_EXPONENTIALS = 4


@dataclass(frozen=True)
class Counterexample:
    """A layer at which encoder and target differ; ``found`` says how (two enclosures, or the exception raised)."""

    X: list[list[Fraction]]
    heads: list[tuple[list[list[Fraction]], list[list[Fraction]]]]
    output: list[list[Fraction]] | None
    found: str


@dataclass(frozen=True)
class Proof:
    """``holds``: True (proved for all real entries), False (see ``counterexample``) or None (undecided, see ``why``).

    ``seconds`` is wall time, ``terms`` the number of terms of all polynomials compared.
    """

    holds: bool | None
    seconds: float
    terms: int
    counterexample: Counterexample | None
    why: str = ""


def prove(
    n: int | Encoder,
    d: int | None = None,
    d_v: int | None = None,
    heads: int = 1,
    layout: str = "positional",
    output_dim: int | None = None,
) -> Proof:
    """Prove or refute U(<T, X>) = T(X) for ``prove(n, d, d_v, heads, layout)`` or a given ``prove(encoder)``.

    Raises TypeError when sizes are missing, ValueError as :func:`.build` does.
    """
    start = time.perf_counter()
    if isinstance(n, Encoder):
        if d is not None or d_v is not None:
            raise TypeError("prove(encoder) takes no sizes: the encoder has them")
        encoder = n
    elif d is None or d_v is None:
        raise TypeError("give prove(n, d, d_v, heads, layout) or prove(encoder)")
    else:
        encoder = build(n, d, d_v, heads, layout, output_dim)
    holds, terms, why = _identity(encoder)
    if holds:
        return Proof(True, time.perf_counter() - start, terms, None)
    counterexample = _search(encoder)
    if counterexample is not None:
        return Proof(False, time.perf_counter() - start, terms, counterexample, why)
    return Proof(None, time.perf_counter() - start, terms, None, why)


def _identity(encoder: Encoder) -> tuple[bool, int, str]:
    """Whether the identity is proved, the number of terms compared, and why not."""
    machine, shape = encoder.machine, encoder.shape
    if not scores_read_positions_only(machine):
        return False, 0, "a score reads data, so the selected sets depend on the input"
    kind = Symbolic(shape.inputs, shape.heads * shape.n**2 + SPARE_EXPONENTIALS)
    sequence = kind.array(kind.inputs)
    wanted = _target(shape, kind)
    try:
        got = run(plan(machine, divisors_everywhere=True), sequence, kind)
    except (DivisorNotPositive, DivisorVanishes, TooManyExponentials, OverflowError) as problem:
        return False, 0, str(problem)
    terms = 0
    for ours, theirs in zip(got, wanted, strict=True):
        terms += len(ours.above) + (0 if ours.below is None else len(ours.below))
        if not ours.same(theirs):
            return False, terms, "an output differs from the target as a quotient of polynomials"
    return True, terms, ""


def _target(shape: Shape, kind: Symbolic) -> list[Quotient]:
    """T(X) on the same indeterminates, straight from its definition."""
    symbols = iter(kind.inputs)

    def matrix(rows: int, columns: int) -> list[list[Quotient]]:
        return [[next(symbols) for _ in range(columns)] for _ in range(rows)]

    zero = kind.number(0)

    def product(left: list[list[Quotient]], right: list[list[Quotient]]) -> list[list[Quotient]]:
        columns = list(zip(*right, strict=True))
        return [
            [sum((a * b for a, b in zip(row, column, strict=True)), zero) for column in columns]
            for row in left
        ]

    x = matrix(shape.n, shape.d)
    pairs = [(matrix(shape.d, shape.d), matrix(shape.d, shape.d_v)) for _ in range(shape.heads)]
    joined: list[list[Quotient]] = [[] for _ in range(shape.n)]
    for a, v in pairs:
        scores = product(product(x, a), [list(column) for column in zip(*x, strict=True)])
        powers = [[kind.exponential(s, is_score=True) for s in row] for row in scores]
        above = product(powers, product(x, v))
        for i, row in enumerate(above):
            below = sum(powers[i], zero)
            joined[i] += [kind.quotient(value, below) for value in row]
    if shape.output_dim is not None:
        joined = product(joined, matrix(shape.joined, shape.output_dim))
    return [value for row in joined for value in row]


def _search(encoder: Encoder) -> Counterexample | None:
    """A random small rational input at which enclosures of U and T are disjoint, or U divides by zero."""
    rng = np.random.default_rng(0)
    machine, shape = encoder.machine, encoder.shape
    whole: Plan | None = None
    if scores_read_positions_only(machine):
        try:
            whole = plan(machine, divisors_everywhere=True)
        except OverflowError:
            return None
    elif machine.length**2 > LARGEST_SCORES:
        return None
    for attempt in range(ATTEMPTS):
        # Scores that read data tie exactly, or do not, only in balls that hold one number each.
        layer = random_layer(shape, rng, range(2, 8) if whole is not None else (1, 2, 4))
        kind = Ball(200 * (1 + attempt // 4))
        read = read_layer(*layer, kind)
        with kind.precision():
            wanted = evaluate(read.matrices(kind), kind).reshape(-1)
            try:
                sequence = read.sequence(kind)
                got = run_densely(machine, sequence, kind) if whole is None else run(whole, sequence, kind)
            except ZeroDivisionError:
                if whole is not None and _divides_by_zero(whole, layer):
                    return Counterexample(*layer, "the encoder divides by zero")
                continue
            except ArithmeticError:
                continue
            for ours, theirs in zip(got, wanted, strict=True):
                if not ours.overlaps(theirs):
                    return Counterexample(*layer, f"U gives {ours.str(10)}, T is {theirs.str(10)}")
    return None


def _divides_by_zero(whole: Plan, layer: tuple[Any, Any, Any]) -> bool:
    """Whether a divisor is exactly 0 at this input: it is if it vanishes with an indeterminate for each exponential."""
    applied = sum(
        len(item.target_at)
        for _, stages in whole.blocks
        for stage in stages
        for item in stage
        if item.kind == "exp"
    )
    kind = Symbolic(0, applied, strict=False)
    try:
        run(whole, read_layer(*layer, Rational()).sequence(kind), kind)
    except DivisorVanishes:
        return True
    except ArithmeticError:
        return False
    return False


def random_layer(
    shape: Shape, rng: np.random.Generator, denominators: Sequence[int] = range(2, 8)
) -> tuple[Any, Any, Any]:
    """Entries p/q with small p and q, so that exponentials stay moderate and nothing cancels by accident."""

    def matrix(rows: int, columns: int) -> list[list[Fraction]]:
        draw = zip(
            rng.integers(-9, 10, rows * columns), rng.choice(denominators, rows * columns), strict=True
        )
        values = [Fraction(int(above), int(below)) for above, below in draw]
        return [values[r * columns : (r + 1) * columns] for r in range(rows)]

    x = matrix(shape.n, shape.d)
    heads = [(matrix(shape.d, shape.d), matrix(shape.d, shape.d_v)) for _ in range(shape.heads)]
    return x, heads, None if shape.output_dim is None else matrix(shape.joined, shape.output_dim)
