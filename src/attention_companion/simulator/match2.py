"""Match2 as a program of one layer and one head: does any token sum with this one to 0 modulo M?

The finite alphabet is a set of integers, and the token-wise map is an embedding table on it: it holds the residue of
each letter and the residue that would complete it, and so computes mod. The selector compares the two, which makes it
depend on data: over a finite alphabet that is a finite table of scores. Averaging the constant 1 over the selected
tokens gives 1 where there is one and 0 where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arithmetic import Rational
from .programs.plain_sequences import read_integers
from .rasp import Numbers, Rasp
from .shape import positive_integer

MATCH2_BASIS = ("table",)


def match2_program(run: Rasp, modulus: int, alphabet: Iterable[int]) -> Numbers:
    """1 at each token that has a partner (itself allowed), 0 at the others; the run allows integer selectors."""
    letters = list(alphabet)
    residue = run.tokens.table({letter: letter % modulus for letter in letters})
    wanted = run.tokens.table({letter: -letter % modulus for letter in letters})
    partner = run.select(residue, wanted, "==", "sums to 0")
    return run.aggregate(partner, run.constant(1))


def match2(sequence: Any, modulus: int, alphabet: Iterable[int] | None = None) -> list[int]:
    """1 for each x_i with some j (j = i allowed) such that x_i + x_j is 0 modulo ``modulus``, else 0.

    Parameters
    ----------
    sequence
        Integers, shape (L,), L >= 1.
    modulus
        At least 1.
    alphabet
        The integers that the embedding table covers; left out, those that occur.

    Raises TypeError or ValueError for other numbers, an empty sequence, a modulus below 1, a token outside
    the alphabet.

    Source: the task Match2 that the paper's summary names; M and "j = i allowed" as the released program has them.
    """
    tokens = read_integers(sequence, "sequence")
    size = positive_integer(modulus, "modulus")
    letters = sorted(set(tokens)) if alphabet is None else read_integers(sorted(alphabet), "alphabet")
    run = match2_run(tokens)
    return [int(value.p) for value in match2_program(run, size, letters).values]


def match2_run(tokens: list[int]) -> Rasp:
    """A run on exact integers that may select by table entries."""
    kind = Rational()
    return Rasp(kind, kind.array(tokens), basis=MATCH2_BASIS, integer_selectors=True)
