"""Proofs of the programs, size by size: right for ALL real inputs of that size, or a concrete input where it is not.

A selector reads positions only (the language sees to it), so at given sizes a program is a fixed composition of linear
maps, products, exponentials and divisions. It is run on indeterminates, with a fresh one for each different
exponential; every divisor at every token must be a nonzero polynomial in exponentials with coefficients of one sign.
Outputs that then agree with the definition as quotients of polynomials agree for all reals. MaxMin programs are run
once for each order of their pairs. A refutation is one rational input at which rigorous enclosures are disjoint.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..arithmetic import Ball, Rational
from ..rasp import Rasp
from ..shape import positive_integer
from ..symbolic import DivisorNotPositive, DivisorVanishes, Quotient, Symbolic, TooManyExponentials
from .maxmin import MAXMIN_BASIS
from .ordered import MOST_PAIRS, ORDER_STATEMENTS, Ordered, OrderStatement, OrderUnknown
from .statements import STATEMENTS, Statement

#: Names that :func:`prove_program` knows, with the names of their sizes.
PROGRAMS: dict[str, tuple[str, ...]] = {
    **{name: statement.names for name, statement in STATEMENTS.items()},
    **dict.fromkeys(ORDER_STATEMENTS, ("count",)),
}
ATTEMPTS = 8
#: exp is applied at every token; those behind the matrix hold 0, unless an option changed that.
SPARE_EXPONENTIALS = 8


@dataclass(frozen=True)
class ProgramProof:
    """``holds``: True (for all real inputs), False (see ``counterexample``, the input tokens) or None (see ``why``).

    ``terms`` counts the terms of all polynomials compared; ``layers``, ``heads_per_layer`` and ``length`` are those of
    the run; ``where`` restricts the inputs the statement speaks of.
    """

    program: str
    sizes: tuple[int, ...]
    holds: bool | None
    seconds: float
    terms: int
    layers: int
    heads_per_layer: tuple[int, ...]
    length: int
    counterexample: list[Fraction] | None = None
    why: str = ""
    where: str = ""


def prove_program(name: str, *sizes: int, **options: Any) -> ProgramProof:
    """Prove or refute a program at given sizes, for all real inputs.

    ``prove_program("product", r, k, c)``, "transpose", "bijection" and "softmax" (rows, columns), "single_head" (n, d,
    d_v), "many_heads" (n, d, d_v, heads), "many_heads_output" (and output_dim), "inverse" (2 or 3), "maxmin", "relu"
    and "leaky_relu" (how many numbers; all slopes at once). ``options`` go to the program: ``arrangement="scratch"``
    for products, or a control: ``column_major=``, ``stride=``, ``inner_stride=``, ``factor=``, ``distance=``,
    ``read=``, ``shift_error=``.

    Raises ValueError for an unknown program, the wrong number of sizes or sizes that the program refuses, TypeError for
    sizes that are no integers and options that the program does not have.
    """
    if name not in PROGRAMS:
        raise ValueError(f"program is {name!r}; choose one of {', '.join(PROGRAMS)}")
    names = PROGRAMS[name]
    if len(sizes) != len(names):
        raise ValueError(f"{name} takes the sizes {', '.join(names)}; {len(sizes)} given")
    checked = tuple(positive_integer(size, label) for size, label in zip(sizes, names, strict=True))
    if name in ORDER_STATEMENTS:
        return _prove_ordered(name, ORDER_STATEMENTS[name], checked, options)
    return _prove(name, STATEMENTS[name], checked, options)


def prove_all(name: str, bounds: int | Sequence[int], **options: Any) -> list[ProgramProof]:
    """:func:`prove_program` for all sizes from 1 (the inverse: 2) up to ``bounds``, one for all or one for each."""
    if name not in PROGRAMS:
        raise ValueError(f"program is {name!r}; choose one of {', '.join(PROGRAMS)}")
    names = PROGRAMS[name]
    each = [bounds] * len(names) if isinstance(bounds, int) else list(bounds)
    if len(each) != len(names):
        raise ValueError(f"{name} takes the sizes {', '.join(names)}; {len(each)} bounds given")
    first = 2 if name == "inverse" else 1
    ranges = [range(first, bound + 1) for bound in each]
    return [prove_program(name, *sizes, **options) for sizes in itertools.product(*ranges)]


def _prove(
    name: str, statement: Statement, sizes: tuple[int, ...], options: Mapping[str, Any]
) -> ProgramProof:
    start = time.perf_counter()
    inputs, length = statement.inputs(sizes), statement.length(sizes, options)
    # Where a statement excludes the inputs on which the definition divides by 0, the program may divide by the same.
    kind = _Recording(inputs, statement.exponentials(sizes) + SPARE_EXPONENTIALS, strict=not statement.where)
    run = Rasp(kind, kind.array(kind.inputs), length)
    terms, why = 0, ""
    try:
        wanted = statement.expected(kind, kind.inputs, sizes)
        allowed, kind.divisors = kind.divisors, []
        got = statement.program(run, sizes, options)
        terms = sum(len(q.above) + (0 if q.below is None else len(q.below)) for q in got)
        if not all(ours.same(theirs) for ours, theirs in zip(got, wanted, strict=True)):
            why = "an output differs from the definition as a quotient of polynomials"
        elif statement.where and not all(any(_proportional(d, a) for a in allowed) for d in kind.divisors):
            why = "the program divides by what the definition does not divide by, so it may fail elsewhere"
    except (DivisorNotPositive, DivisorVanishes, TooManyExponentials) as problem:
        why = str(problem)
    found = _search(statement, sizes, options) if why else None
    holds = True if not why else None if found is None else False
    seconds = time.perf_counter() - start
    return ProgramProof(
        name,
        sizes,
        holds,
        seconds,
        terms,
        run.layers,
        run.heads_per_layer,
        length,
        found,
        why,
        statement.where,
    )


class _Recording(Symbolic):
    """Remembers every divisor, by the polynomial whose zeros it has."""

    def __init__(self, inputs: int, exponentials: int, strict: bool):
        super().__init__(inputs, exponentials, strict)
        self.divisors: list[Any] = []

    def quotient(self, above: Quotient, below: Quotient) -> Quotient:
        self.divisors.append(below.above)
        return super().quotient(above, below)


def _proportional(first: Any, second: Any) -> bool:
    return bool(first * second.coeffs()[0] == second * first.coeffs()[0])


def _search(
    statement: Statement, sizes: tuple[int, ...], options: Mapping[str, Any]
) -> list[Fraction] | None:
    """A rational input at which enclosures of program and definition are disjoint, if one is found."""
    rng = np.random.default_rng(0)
    kind = Ball()
    for _ in range(ATTEMPTS):
        tokens = _random_tokens(statement.inputs(sizes), rng)
        with kind.precision():
            numbers = kind.array(tokens)
            try:
                run = Rasp(kind, numbers, statement.length(sizes, options))
                got = statement.program(run, sizes, options)
                wanted = statement.expected(kind, list(numbers), sizes)
            except ZeroDivisionError:
                continue
            if any(not ours.overlaps(theirs) for ours, theirs in zip(got, wanted, strict=True)):
                return tokens
    return None


def _prove_ordered(
    name: str, statement: OrderStatement, sizes: tuple[int, ...], options: Mapping[str, Any]
) -> ProgramProof:
    start = time.perf_counter()
    (count,) = sizes
    if statement.gaps(count) > MOST_PAIRS:
        raise ValueError(
            f"{count} numbers have 2^{statement.gaps(count)} orders; the proof goes through 2^{MOST_PAIRS} at most"
        )
    kind = Ordered(statement.free(count), statement.gaps(count))
    terms, why, length = 0, "", statement.length(count)
    for tokens, wanted, slope in statement.cases(kind, count):
        run = Rasp(kind, kind.array(tokens), length, basis=MAXMIN_BASIS)
        try:
            got = statement.program(run.tokens, count, slope, options).values[:count]
        except OrderUnknown as problem:
            why = str(problem)
            break
        terms += sum(len(q.above) for q in got)
        if not all(ours.same(theirs) for ours, theirs in zip(got, wanted, strict=True)):
            why = "an output differs from the definition in one order of the pairs"
            break
    found = _search_ordered(statement, count, options) if why else None
    holds = True if not why else None if found is None else False
    seconds = time.perf_counter() - start
    return ProgramProof(
        name, sizes, holds, seconds, terms, run.layers, run.heads_per_layer, length, found, why
    )


def _search_ordered(
    statement: OrderStatement, count: int, options: Mapping[str, Any]
) -> list[Fraction] | None:
    rng = np.random.default_rng(0)
    kind = Rational()
    for _ in range(ATTEMPTS):
        *tokens, slope = _random_tokens(count + 1, rng)
        run = Rasp(kind, kind.array(tokens), statement.length(count), basis=MAXMIN_BASIS)
        got = statement.program(run.tokens, count, slope, options).values[:count]
        if list(got) != list(kind.array(statement.expected(tokens, slope))):
            return tokens
    return None


def _random_tokens(count: int, rng: np.random.Generator) -> list[Fraction]:
    """Small numerators and denominators, so that exponentials stay moderate."""
    above, below = rng.integers(-9, 10, count), rng.integers(2, 8, count)
    return [Fraction(int(p), int(q)) for p, q in zip(above, below, strict=True)]
