"""k-PARITY as a program of one layer and one head: the parity of the bits at k given places.

A product with an indicator of the places leaves the k bits and puts 0 in place of the others; a head that attends to
all tokens alike averages them, and length times the average is their number of ones. The finite alphabet is 0..k, and
the token-wise map is an embedding table on it, from a count to its parity: it computes mod 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arithmetic import Rational
from .programs.plain_sequences import read_integers
from .rasp import Integers, Rasp

PARITY_BASIS = ("product", "table")


def parity_program(run: Rasp, subset: Sequence[int]) -> Integers:
    """The parity of the bits at the places ``subset``, at every token."""
    inside = np.isin(run.indices.values, np.array(subset, dtype=np.int64)).astype(np.int64)
    bits = run.tokens * run.positions(inside).numbers()
    everywhere = run.select(run.positions(0), run.positions(0), "==", "all tokens")
    count = run.aggregate(everywhere, bits).scale(run.length)
    return count.table({ones: ones % 2 for ones in range(len(subset) + 1)})


def parity(bits: Any, subset: Any) -> int:
    """The sum modulo 2 of the bits at the places ``subset``.

    Parameters
    ----------
    bits
        0s and 1s, shape (L,), L >= 1.
    subset
        Different places in 0..L-1, in any order; none gives 0.

    Raises TypeError for other types, ValueError for other bits, an empty string, places out of range or named twice.

    Source: the task k-PARITY that the paper's summary names.
    """
    string = read_integers(bits, "bits")
    wrong = [(i, bit) for i, bit in enumerate(string) if bit not in (0, 1)]
    if wrong:
        raise ValueError(f"bits[{wrong[0][0]}] is {wrong[0][1]}; every bit is 0 or 1")
    if isinstance(subset, set | frozenset | range):
        subset = sorted(subset)
    empty = isinstance(subset, Sequence | np.ndarray) and not isinstance(subset, str) and not len(subset)
    places = [] if empty else read_integers(subset, "subset")
    outside = [place for place in places if not 0 <= place < len(string)]
    if outside:
        raise ValueError(
            f"subset names place {outside[0]}; places of {len(string)} bits are 0..{len(string) - 1}"
        )
    if len(set(places)) != len(places):
        twice = next(place for place in places if places.count(place) > 1)
        raise ValueError(f"subset names place {twice} twice; name each place once")
    kind = Rational()
    run = Rasp(kind, kind.array(string), basis=PARITY_BASIS)
    return int(parity_program(run, places).values[0])
