"""What the released programs were seen to do, and what our programs with their choices do: counted, compared, bounded.

Everything that is counted here is a fact about the released programs: either from their runs through the reference
interpreter, or from :mod:`.released` with the released choice, for all real inputs of a size where polynomials allow
it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from ..arithmetic import Rational
from ..match2 import MATCH2_BASIS
from ..programs.statements import rows_of, times
from ..rasp import Numbers, Rasp
from ..symbolic import DivisorVanishes, Symbolic
from . import released, released_run

#: How far a float of the interpreter may lie from the exact answer, relative to the larger of it and 1.
ROUNDING = 1e-12
#: What the programs of the claim on counts use: layers, and heads in each where the claim names them.
CLAIMED_HEADS: dict[str, tuple[int, list[int] | None]] = {
    "transpose, square": (2, None),
    "transpose, 3 x k": (2, None),
    "product, 3 x k x 3": (3, [1, 6, 9]),
    "product, 3 x k x 4": (3, [1, 7, 12]),
    "product, 4 x 4 x 4": (3, [1, 8, 16]),
    "softmax, 3 x k": (2, None),
    "softmax, 3 x 3": (2, None),
    "softmax, 3 x k, other e": (2, None),
    "MaxMin": (2, None),
    "Match2": (1, None),
}


def near(got: Any, wanted: Sequence[Any]) -> bool:
    """Whether the interpreter's answer equals exact numbers (ints, Fractions, balls) up to rounding."""
    if not isinstance(got, list | tuple) or len(got) != len(wanted):
        return False
    return all(
        abs(float(a) - _float(b)) <= ROUNDING * max(1.0, abs(float(a)))
        for a, b in zip(got, wanted, strict=True)
    )


def _float(value: Any) -> float:
    if isinstance(value, flint.fmpq):
        return int(value.p) / int(value.q)
    return float(value.mid() if isinstance(value, flint.arb) else value)


def answers(program: Callable[[Rasp], Numbers], tokens: Sequence[Any], **options: Any) -> list[Fraction]:
    """What a program of ours returns on exact rationals."""
    kind = Rational()
    run = Rasp(kind, kind.array(tokens), **options)
    return [Fraction(int(v.p), int(v.q)) for v in program(run).values]


def _run_on(tokens: Sequence[Any]) -> Rasp:
    kind = Rational()
    return Rasp(kind, kind.array(int(token) for token in tokens))


def product_of(tokens: Sequence[Any], r: int, k: int, c: int) -> list[Fraction]:
    """The r x c product from its definition."""
    rows = times(_Plain(), rows_of(tokens, r, k), rows_of(tokens, k, c, r * k))
    return [value for row in rows for value in row]


class _Plain(Rational):
    """Python's own integers and Fractions, for definitions."""

    def number(self, value: Any) -> Any:
        return Fraction(value)


# -- the stride, and whether the product fits --------------------------------------------------------------------------


def product_is_right(r: int, k: int, c: int, stride: int | None = None, length: int | None = None) -> bool:
    """Whether all r c entries are there and equal the product, for ALL real matrices (polynomials are compared)."""
    kind = Symbolic(k * (r + c), 0)
    run = Rasp(kind, kind.array(kind.inputs), length)
    got = released.product(run, r, k, c, stride).values[: r * c]
    wanted = [
        value
        for row in times(kind, rows_of(kind.inputs, r, k), rows_of(kind.inputs, k, c, r * k))
        for value in row
    ]
    return len(got) == r * c and all(a.same(b) for a, b in zip(got, wanted, strict=True))


def entries_lost(r: int, k: int, c: int, padded: bool = False) -> int:
    """How many of the r c entries the run with the right stride does not return; on matrices of ones (entries k)."""
    kind = Rational()
    length = max(k * (r + c), r * c) if padded else None
    run = Rasp(kind, kind.array([1] * (k * (r + c))), length)
    got = released.product(run, r, k, c).values[: r * c]
    return r * c - sum(1 for value in got if value == k)


def stride_runs() -> dict[int, bool]:
    """Inner size k: whether the released 3 x k x 3 program returned the product, as run."""
    seen = released_run.RUNS["product, 3 x k x 3"]
    return {
        len(x) // 6: near(got[:9] if len(got) >= 9 else got, product_of(x, 3, len(x) // 6, 3))
        for x, got in seen
    }


def stride_described() -> int:
    """Runs of the released products that our program with their strides does not reproduce, entry by entry."""
    wrong = 0
    for name, r, c, own in (
        ("product, 3 x k x 3", 3, 3, True),
        ("product, 3 x k x 4", 3, 4, False),
        ("product, 4 x 4 x 4", 4, 4, False),
    ):
        for tokens, got in released_run.RUNS[name]:
            k = len(tokens) // (r + c)
            stride = k if own else c
            run = _run_on(tokens)
            wrong += not near(got, list(released.product(run, r, k, c, stride).values))
    return wrong


def fit_runs() -> dict[tuple[int, int, int, int], bool]:
    """(heads, r, k, c): whether every entry of the product was in the released program's answer, as run."""
    seen = {}
    for name, heads, r, c in (
        ("product, 3 x k x 3", 1, 3, 3),
        ("product, 3 x k x 4", 1, 3, 4),
        ("product, two heads", 2, 3, 2),
    ):
        for tokens, got in released_run.RUNS[name]:
            k = len(tokens) // (heads * (r + c))
            seen[heads, r, k, c] = len(got) >= heads * r * c
    return seen


# -- MaxMin -----------------------------------------------------------------------------------------------------------


def maxmin_of(tokens: Sequence[int]) -> list[int]:
    """Each pair as (max, min), from the definition; for an even number of tokens."""
    pairs = zip(tokens[::2], tokens[1::2], strict=True)
    return [value for a, b in pairs for value in (max(a, b), min(a, b))]


def maxmin_runs(size: int, low: int) -> list[tuple[tuple[int, ...], list[int]]]:
    """(tokens, answer) of the released program for all sequences of that size with entries low .. -low."""
    inputs = itertools.product(range(low, 1 - low), repeat=size)
    return list(zip(inputs, released_run.MAXMIN[size, low], strict=True))


def maxmin_law(tokens: Sequence[int]) -> list[bool]:
    """For each pair, whether the released program is right on it: by a law read off our program.

    A pair (a, b) comes out wrong exactly when a and b differ and b, or the second entry of the pair before it, is
    negative.
    """
    right = []
    before = 0
    for a, b in zip(tokens[::2], tokens[1::2], strict=True):
        right.append(a == b or (b >= 0 and before >= 0))
        before = b
    return right


def maxmin_described(size: int, low: int, odd_tokens: str = "compare with 0") -> int:
    """Sequences on which our program does not return what the released one did."""
    alphabet = range(low, 1 - low)
    wrong = 0
    for tokens, got in maxmin_runs(size, low):
        mine = answers(
            lambda run: released.maxmin(run, alphabet, odd_tokens), tokens, basis=("product", "table")
        )
        wrong += mine != got
    return wrong


# -- Match2 -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Match2Token:
    """One token of one sequence: the definition's bit, the released program's, and why they may differ."""

    defined: int
    got: int
    residue_zero: bool
    cancels: bool


def released_bits(modulus: int) -> str:
    """The released program's answers, one character each."""
    count = 6 if modulus == 19 else 375
    return f"{int(released_run.MATCH2[modulus], 16):0{count}b}"


def match2_tokens(modulus: int, bits: str | None = None) -> list[Match2Token]:
    """All tokens of all sequences of three entries -2 .. 2, with the answers ``bits``: the released program's."""
    answers_of = iter(released_bits(modulus) if bits is None else bits)
    found = []
    for tokens in itertools.product(range(-2, 3), repeat=3):
        for x in tokens:
            partners = [y for y in tokens if (x + y) % modulus == 0]
            cancels = bool(partners) and x % modulus != 0 and sum(partners) == 0
            found.append(Match2Token(int(bool(partners)), int(next(answers_of)), x % modulus == 0, cancels))
    return found


def match2_bits(modulus: int, as_released: bool) -> str:
    """The answers of our program on the same sequences, joined."""
    out = []
    zero = modulus if as_released else None
    for tokens in itertools.product(range(-2, 3), repeat=3):
        bits = answers(
            lambda run: released.match2(run, modulus, range(-2, 3), zero, as_released),
            tokens,
            basis=MATCH2_BASIS,
            integer_selectors=True,
        )
        out += [str(bit) for bit in bits]
    return "".join(out)


# -- the inverse ------------------------------------------------------------------------------------------------------


def inverse_is_right(size: int) -> bool | None:
    """Whether the released adjugate inverts ALL size x size matrices on which it does not divide by 0.

    None where it divides by what is 0 for every matrix.
    """
    kind = Symbolic(size * size, 0, strict=False)
    try:
        got = released.inverse(Rasp(kind, kind.array(kind.inputs)), size).values
    except DivisorVanishes:
        return None
    rows, inverted = rows_of(kind.inputs, size, size), rows_of(list(got), size, size)
    one, zero = kind.number(1), kind.number(0)
    return all(
        value.same(one if i == j else zero)
        for i, row in enumerate(times(kind, rows, inverted))
        for j, value in enumerate(row)
    )


def inverse_runs() -> list[tuple[int, bool, bool | None]]:
    """(size, singular, right or None for an error) for each run of the released inverse."""
    found = []
    for tokens, got in released_run.RUNS["inverse"]:
        size = round(len(tokens) ** 0.5)
        singular = flint.fmpz_mat(size, size, [int(x) for x in tokens]).det() == 0
        right = None if isinstance(got, str) else _inverts(tokens, got, size)
        found.append((size, bool(singular), right))
    return found


def _inverts(tokens: Sequence[float], got: Sequence[float], size: int) -> bool:
    left = np.reshape(np.asarray(tokens, dtype=float), (size, size))
    return bool(np.abs(left @ np.reshape(np.asarray(got), (size, size)) - np.eye(size)).max() <= 1e-9)


def inverse_described() -> int:
    """Runs of the released inverse that our program does not reproduce."""
    wrong = 0
    for tokens, got in released_run.RUNS["inverse"]:
        size = round(len(tokens) ** 0.5)
        try:
            mine = list(released.inverse(_run_on(tokens), size).values)
        except ZeroDivisionError:
            wrong += got != "division by zero"
        else:
            wrong += not near(got, mine)
    return wrong


# -- counts, one sequence, and whole programs --------------------------------------------------------------------------


def counts_that_differ(heads: dict[str, list[int]]) -> int:
    """Counts (layers, and heads where the claim names them) that differ from the claimed ones."""
    wrong = 0
    for name, (layers, each) in CLAIMED_HEADS.items():
        wrong += len(heads[name]) != layers
        wrong += each is not None and heads[name] != each
    return wrong


def starts_with(got: Any, wanted: Sequence[Fraction | float], tolerance: float = 1e-2) -> bool:
    """Whether an answer begins with the wanted numbers, within ``tolerance``: wide, so that another e may pass."""
    if isinstance(got, str):
        return False
    return len(got) >= len(wanted) and all(
        abs(float(a) - float(b)) <= tolerance for a, b in zip(got, wanted, strict=False)
    )


def transposes_are_right() -> bool:
    """Whether the released transposes (one head and two) returned the transposes, as run."""
    right = True
    for name, heads in (("transpose, square", 1), ("transpose, 3 x k", 1), ("transpose, two heads", 2)):
        for tokens, got in released_run.RUNS[name]:
            size = len(tokens) // heads
            rows = round(size**0.5) if name == "transpose, square" else 3
            wanted = [
                value
                for h in range(heads)
                for column in zip(*rows_of(tokens, rows, size // rows, h * size), strict=True)
                for value in column
            ]
            right = right and near(got, wanted)
    return right


def products_are_right() -> dict[str, bool]:
    """Whether each released product returned the product in all runs whose stride is right and whose entries fit."""
    right = {}
    for name, heads, r, c in (
        ("product, 3 x k x 3", 1, 3, 3),
        ("product, 3 x k x 4", 1, 3, 4),
        ("product, 4 x 4 x 4", 1, 4, 4),
        ("product, two heads", 2, 3, 2),
    ):
        judged = []
        for tokens, got in released_run.RUNS[name]:
            k = len(tokens) // (heads * (r + c))
            if k * (r + c) < r * c or (name == "product, 3 x k x 3" and k != 3):
                continue
            # All left matrices stand before all right ones.
            sides = [
                [*tokens[h * r * k : (h + 1) * r * k], *tokens[heads * r * k + h * k * c :][: k * c]]
                for h in range(heads)
            ]
            wanted = [value for side in sides for value in product_of(side, r, k, c)]
            judged.append(near(got[: len(wanted)], wanted))
        right[name] = bool(judged) and all(judged)
    return right
