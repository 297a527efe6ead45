"""The released RASP programs' choices, as options of programs of ours.

The authors' repository holds a transpose, products, softmaxes, MaxMin, Match2 and an inverse. What each computes is
stated here as a program of this book's own language, in which the released choice is one value of an option and the
mended one another; so every fact about them can be run, on any kind of numbers, without their code. The runs through
the reference interpreter (:mod:`.released_run`) say whether the description is right.

All of them first count the tokens (one layer, one head), because in RASP the length is not given.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ..rasp import Integers, Numbers, Rasp

Indices = npt.NDArray[np.int64]


def after_counting(run: Rasp, values: Any) -> Integers:
    """Integers computed from the number of tokens: one layer and one head behind the input; shape (length,)."""
    one = run.positions(1)
    counted = run.selector_width(run.select(one, one, "==", "all tokens"))
    column = np.broadcast_to(np.asarray(values, dtype=np.int64), run.length)
    return Integers(run, column.copy(), counted.depth)


def _fetch(run: Rasp, values: Numbers, addresses: Indices, label: str) -> Numbers:
    return run.aggregate(run.select(run.indices, after_counting(run, addresses), "==", label), values)


def transpose(run: Rasp, rows: int, columns: int) -> Numbers:
    """The transpose of a rows x columns matrix that fills the sequence: layers of 1 and 1 heads."""
    j, i = np.divmod(run.indices.values, rows)
    return _fetch(run, run.tokens, i * columns + j, "transpose")


def product(run: Rasp, r: int, k: int, c: int, stride: int | None = None) -> Numbers:
    """An r x k matrix times the k x c matrix behind it, in layers of 1, r + c and r c heads.

    ``stride`` (c) is the distance of two rows of the right matrix; the released 3 x k x 3 program takes k. Entry (i, j)
    goes to token i c + j; an entry whose token the sequence does not have is lost without a message.
    """
    t = run.indices.values
    step = c if stride is None else stride
    rows = [_fetch(run, run.tokens, t % k + i * k, f"row {i}") for i in range(r)]
    columns = [_fetch(run, run.tokens, t % k * step + r * k + j, f"column {j}") for j in range(c)]
    inner = after_counting(run, np.where(t < k, 0, 1))
    total = run.constant(0)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            place = run.positions(np.where(t == i * c + j, 0, -1))
            total = total + run.aggregate(run.select(inner, place, "==", f"entry {i},{j}"), row * column)
    return total.scale(k)


def softmax(run: Rasp, rows: int, columns: int) -> Numbers:
    """The softmax of each row, in layers of 1 and ``rows`` heads; what stands for exp is the run's own exponential."""
    t = run.indices.values
    powers = run.tokens.exp()
    sums = run.constant(0)
    for i in range(rows):
        keys = after_counting(run, np.where(t // columns == i, 0, -1))
        queries = run.positions(np.where(t // columns == i, 0, -2))
        sums = sums + run.aggregate(run.select(keys, queries, "==", f"row {i}"), powers)
    return powers / sums.scale(columns)


def maxmin(run: Rasp, alphabet: Iterable[int], odd_tokens: str = "compare with 0") -> Numbers:
    """Max and min of each pair by exchanges, for integers of a finite alphabet; the run's basis is product and table.

    A token asks whether it is smaller than its right partner; if so, both are exchanged. ``odd_tokens`` says what the
    right token of a pair, which has no partner to its right, is compared with: "compare with 0" as released (it selects
    nothing, and the mean of nothing is 0) or "compare with itself", which mends it.

    Raises ValueError for another ``odd_tokens`` or a token outside the alphabet.
    """
    if odd_tokens not in ("compare with 0", "compare with itself"):
        raise ValueError(
            f"odd_tokens is {odd_tokens!r}; choose 'compare with 0' (as released) or 'compare with itself'"
        )
    t = run.indices.values
    letters = list(alphabet)
    alone = np.where(odd_tokens == "compare with 0", -1, t)
    partner = np.where(t % 2 == 0, t + 1, alone)
    other = run.aggregate(run.select(run.indices, run.positions(partner), "==", "right partner"), run.tokens)
    gaps = {a - b: int(a < b) for a in letters for b in [*letters, 0]}
    smaller = (run.tokens - other).table(gaps).numbers()
    left = run.aggregate(run.select(run.indices, run.positions(t - 1), "==", "left neighbour"), smaller)
    flips = smaller + left
    exchange = run.select(run.indices, run.positions(t + 1 - 2 * (t % 2)), "==", "exchange")
    return flips * run.aggregate(exchange, run.tokens) + (run.constant(1) - flips) * run.tokens


def match2(
    run: Rasp,
    modulus: int,
    alphabet: Iterable[int],
    partner_of_zero: int | None = None,
    average_tokens: bool = False,
) -> Numbers:
    """1 where some token (itself allowed) sums with this one to 0 modulo ``modulus``, else 0; layers of one head.

    ``partner_of_zero`` (0) is the residue that residue 0 looks for; as released, ``modulus``, which no token has.
    ``average_tokens`` averages the partners' values instead of the constant 1, as released: partners that cancel
    in the mean are then taken for none. The run's basis is table, and its selectors read integers.
    """
    letters = list(alphabet)
    zero = 0 if partner_of_zero is None else partner_of_zero
    residue = run.tokens.table({a: a % modulus for a in letters})
    wanted = run.tokens.table({a: -a % modulus or zero for a in letters})
    partner = run.select(residue, wanted, "==", "sums to 0")
    if not average_tokens:
        return run.aggregate(partner, run.constant(1))
    mean = run.aggregate(partner, run.tokens)
    most = max(abs(a) for a in letters) * run.length
    found = {Fraction(s, m): int(s != 0) for m in range(1, run.length + 1) for s in range(-most, most + 1)}
    return mean.table(found).numbers()


def inverse(run: Rasp, size: int) -> Numbers:
    """The released adjugate, whose 2 x 2 minors take the next two rows and columns, whatever the size.

    Raises ZeroDivisionError (or the run's own error) where what it takes for the determinant is 0.
    """
    i, j = np.divmod(run.indices.values, size)

    def entry(row: int, column: int) -> Numbers:
        return _fetch(run, run.tokens, (i + row) % size * size + (j + column) % size, f"i+{row}, j+{column}")

    minors = entry(2, 2) * entry(1, 1) - entry(2, 1) * entry(1, 2)
    first = run.positions(np.where(i == 0, 0, 1))
    everywhere = run.positions(0)
    determinant = run.aggregate(run.select(first, everywhere, "==", "first row"), run.tokens * minors)
    return _fetch(run, minors / determinant.scale(size), j * size + i, "transpose")
