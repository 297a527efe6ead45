"""Match2 and k-PARITY, exhaustively: by one layer of hard attention with explicit weights, and through U."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ..build import build
from ..target import attention
from ..through import match2_through, parity_through, surrogate


def match2_defined(sequence: Sequence[int], modulus: int) -> list[int]:
    """The definition: 1 where some j (j = i allowed) has x_i + x_j = 0 modulo M."""
    return [int(any((x + y) % modulus == 0 for y in sequence)) for x in sequence]


def parity_defined(bits: Sequence[int], subset: Sequence[int]) -> int:
    """The definition: the sum of the bits at the places of the subset, modulo 2."""
    return sum(bits[place] for place in subset) % 2


def hard_attention(scores: npt.NDArray[np.int64], values: Sequence[int]) -> list[tuple[Fraction, list[int]]]:
    """For each query, a row of integer ``scores`` (queries, keys), the mean of the values over its largest ones, and
    those keys; exact."""
    results = []
    for row in scores:
        top = np.flatnonzero(row == row.max()).tolist()
        results.append((Fraction(sum(values[k] for k in top), len(top)), top))
    return results


@dataclass(frozen=True)
class Match2Layer:
    """One layer for Match2: ``table`` (the embedding, letter -> M + 2 integers), the vector of BOS, and A and V.

    The table holds the unit vector of the letter's residue, then 1 and 0; BOS has 1 in the last coordinate alone. A
    joins residues whose sum is 0 modulo M with score 2, and any letter with BOS with score 1: above a mismatch, below a
    match. V reads the last coordinate but one, which is 1 at letters and 0 at BOS.
    """

    table: dict[int, list[int]]
    bos: list[int]
    score: npt.NDArray[np.int64]
    value: npt.NDArray[np.int64]

    def run(self, sequence: Sequence[int]) -> tuple[list[int], list[list[int]]]:
        """The answers, and whom each token attends to (0 is BOS). KeyError for a letter outside the alphabet."""
        tokens = np.array([self.bos, *(self.table[letter] for letter in sequence)], dtype=np.int64)
        found = hard_attention(tokens @ self.score @ tokens.T, (tokens @ self.value).tolist())[1:]
        return [int(mean) for mean, _ in found], [top for _, top in found]


def match2_weights(alphabet: Sequence[int], modulus: int) -> Match2Layer:
    """The layer for a finite alphabet of integers and a modulus M >= 1."""
    if modulus < 1:
        raise ValueError(f"modulus is {modulus}; give a whole number of at least 1")
    table = {letter: [int(r == letter % modulus) for r in range(modulus)] + [1, 0] for letter in alphabet}
    score = np.zeros((modulus + 2, modulus + 2), dtype=np.int64)
    residues = np.arange(modulus)
    score[residues, -residues % modulus] = 2
    score[modulus, modulus + 1] = 1
    value = np.zeros(modulus + 2, dtype=np.int64)
    value[modulus] = 1
    return Match2Layer(table, [0] * (modulus + 1) + [1], score, value)


def parity_by_layer(bits: Sequence[int], subset: Sequence[int]) -> int:
    """One layer for k-PARITY: A = 0, so all tokens are attended to; V reads the bit where the place is in the subset.

    L times the mean is a count in 0..k, and a table of k + 1 entries holds its parity.
    """
    inside = set(subset)
    values = [bit if place in inside else 0 for place, bit in enumerate(bits)]
    mean, _ = hard_attention(np.zeros((1, len(bits)), dtype=np.int64), values)[0]
    table = {ones: ones % 2 for ones in range(len(inside) + 1)}
    return table[int(mean * len(bits))]


@dataclass(frozen=True)
class Counted:
    """Cases tried and cases answered wrongly."""

    cases: int
    wrong: int


Solver = Callable[[Sequence[int], int], list[int]]


def by_layer(sequence: Sequence[int], modulus: int) -> list[int]:
    """Match2 by one layer whose alphabet is the letters -1..M."""
    return match2_weights(range(-1, modulus + 1), modulus).run(sequence)[0]


def through_encoder(layout: str) -> Callable[[int, int], Any]:
    """``run`` of the built encoder for n tokens of dimension d (= d_v), each built once."""
    built: dict[tuple[int, int], Any] = {}

    def attend(n: int, d: int) -> Any:
        if (n, d) not in built:
            built[n, d] = build(n, d, d, layout=layout).run
        return built[n, d]

    return attend


def count_match2(solve: Solver, moduli: Sequence[int], lengths: Sequence[int], *, asked: int = 0) -> Counted:
    """All sequences over the letters -1..M, at each modulus M and length. ``asked`` is added to the modulus asked of
    the solver: a control."""
    cases = wrong = 0
    for modulus, length in itertools.product(moduli, lengths):
        for sequence in itertools.product(range(-1, modulus + 1), repeat=length):
            cases += 1
            wrong += solve(sequence, modulus + asked) != match2_defined(sequence, modulus)
    return Counted(cases, wrong)


def match2_by_encoder(layout: str) -> Solver:
    """Match2 through U: the encoder of the layout, on exact rationals."""
    attend = through_encoder(layout)
    return lambda sequence, modulus: match2_through(attend(len(sequence), modulus), sequence, modulus)


def subsets(length: int) -> Iterator[tuple[int, ...]]:
    """All subsets of the places 0..length-1."""
    for k in range(length + 1):
        yield from itertools.combinations(range(length), k)


def count_parity(
    solve: Callable[[Sequence[int], Sequence[int]], int], lengths: Sequence[int], *, one_more: bool = False
) -> Counted:
    """All bit strings of each length with all subsets. ``one_more`` asks the solver for a subset with one more member
    (the first place that is missing; full subsets are left out): a control."""
    cases = wrong = 0
    for length in lengths:
        for bits in itertools.product((0, 1), repeat=length):
            for subset in subsets(length):
                if one_more and len(subset) == length:
                    continue
                more = next((p for p in range(length) if p not in subset), 0)
                asked = (*subset, more) if one_more else subset
                cases += 1
                wrong += solve(bits, asked) != parity_defined(bits, subset)
    return Counted(cases, wrong)


def parity_by_encoder(layout: str) -> Callable[[Sequence[int], Sequence[int]], int]:
    """k-PARITY through U: the encoder of the layout, on exact rationals."""
    attend = through_encoder(layout)
    return lambda bits, subset: parity_through(attend(len(bits), 1), bits, subset)


def attention_solved(layout: str, *, without_exp: bool = False) -> bool:
    """Whether the encoder's balls enclose attention on a fixed layer. ``without_exp`` replaces the exponential by the
    polynomial 1 + x + x^2, all that products alone can offer of it: a control."""
    x = [[Fraction(1, 2), Fraction(-1)], [Fraction(2, 3), Fraction(3)], [Fraction(0), Fraction(-5, 4)]]
    heads = [
        (
            [[Fraction(1), Fraction(2)], [Fraction(-1, 2), Fraction(1, 3)]],
            [[Fraction(2), Fraction(-1, 3)], [Fraction(1, 7), Fraction(4)]],
        )
    ]
    encoder = build(3, 2, 2, layout=layout)
    wanted = attention(x, heads, arithmetic="ball", bits=300)
    if without_exp:
        rows = encoder.run(x, heads, arithmetic="rational", exp=surrogate)
        return all(
            abs(float(value) - float(ball.mid())) < 1e-12
            for row, balls in zip(rows, wanted, strict=True)
            for value, ball in zip(row, balls, strict=True)
        )
    found = encoder.run(x, heads, arithmetic="ball")
    return all(
        ball.overlaps(other) and ball.rad() < 1e-40
        for row, balls in zip(found, wanted, strict=True)
        for ball, other in zip(row, balls, strict=True)
    )
