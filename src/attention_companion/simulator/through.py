"""Match2 and k-PARITY through the simulator U: as attention layers that U is given, with token-wise tables around it.

``attend(X, heads, arithmetic=, exp=)`` may be :func:`.attention`, the ``run`` of an encoder or the program; it is asked
for exact rationals, with 1 + x + x^2 in place of exp. The token-wise maps before it (an embedding) and behind it (a
table over a finite alphabet of shares) are stated below; U itself does the attending.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from .programs.plain_sequences import read_integers
from .shape import positive_integer

Attend = Callable[..., Sequence[Sequence[Fraction]]]


def surrogate(x: Fraction) -> Fraction:
    """1 + x + x^2: positive and rational; 1 at score 0 and 3 at score 1."""
    return 1 + x + x * x


def match2_layer(sequence: Sequence[int], modulus: int) -> tuple[list[list[int]], list[tuple[Any, Any]]]:
    """X (L, M): the residues as unit vectors; A (M, M): 1 where two residues sum to 0 modulo M; V the identity."""
    tokens, size = read_integers(sequence, "sequence"), positive_integer(modulus, "modulus")
    x = [[int(r == token % size) for r in range(size)] for token in tokens]
    a = [[int((r + s) % size == 0) for s in range(size)] for r in range(size)]
    return x, [(a, [[int(r == s) for s in range(size)] for r in range(size)])]


def match2_through(attend: Attend, sequence: Sequence[int], modulus: int) -> list[int]:
    """Match2 read off T(X): is the share of attention that token i pays to the residue it needs above 0?

    That share is 3 m / (3 m + L - m) for m partners: a finite alphabet of L + 1 rationals, and the table's keys.
    """
    x, heads = match2_layer(sequence, modulus)
    length = len(x)
    table = {Fraction(3 * m, 3 * m + length - m): int(m > 0) for m in range(length + 1)}
    shares = attend(x, heads, arithmetic="rational", exp=surrogate)
    return [table[row[-token % modulus]] for row, token in zip(shares, sequence, strict=True)]


def parity_layer(bits: Sequence[int], subset: Sequence[int]) -> tuple[list[list[int]], list[tuple[Any, Any]]]:
    """X (L, 1): the bit at a place of the subset, 0 elsewhere; A = 0 (all tokens are attended to alike); V = 1."""
    return [[bit if place in subset else 0] for place, bit in enumerate(bits)], [([[0]], [[1]])]


def parity_through(attend: Attend, bits: Sequence[int], subset: Sequence[int]) -> int:
    """k-PARITY read off T(X): length times the average is a count in 0..k, and a table holds its parity."""
    table = {Fraction(ones, len(bits)): ones % 2 for ones in range(len(subset) + 1)}
    x, heads = parity_layer(bits, subset)
    return table[attend(x, heads, arithmetic="rational", exp=surrogate)[0][0]]
