"""Which position's score grows most, from the exact values of the inputs: for pairs that float64 leaves undecided.

The inputs are dyadic rationals: the rows and the query become integers over a common power of two, which leaves scores
s_i = S_i / 2^k and inner products exact. The growth u_j of ``all_pairs`` is then v_j . w for a vector w that contains
exponentials of rationals. Three ways lead to a decision, cheap ones first:

1. Symmetry. u_i = u_j when v_i = v_j; and when exchanging i and j changes no inner product, their scores agree, and
   {i, j} is the pair or disjoint from it (then the exchange maps the whole problem to itself). "Twins" below.
2. Ball arithmetic. w is enclosed with more and more bits; disjoint balls decide.
3. Independence of exponentials. Times Z_1^2 Z_-1, a difference u_i - u_j is a finite sum of rational multiples of e^x
   with rational x. By Lindemann and Weierstrass such a sum over different x vanishes only if each coefficient does.
   Collecting terms therefore decides equality for good; the number of terms grows with the fourth power of the number
   of different scores, so this is tried up to ``FEW_SCORES`` of them.

What all three leave open after ``BITS`` bits is called a tie.

Source: our derivation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, ctx, fmpq

from ._rational import dot as _dot
from ._validation import FloatArray

#: The answer of ``ExactGrowth.winner`` when the largest growth belongs to several positions.
TIE = -1
#: Working precision: the first attempt, and the last one for scores that lie close together.
FIRST_BITS, BITS = 128, 2048
#: Up to this many different scores a difference of growths is expanded in exponentials.
FEW_SCORES = 6

Terms = dict[int, int]


@dataclass(frozen=True)
class _Enclosed:
    """The pair-free parts of w in balls: V a, eta V a - V h, and the scores as exact numbers."""

    mean: list[arb]
    base: list[arb]


class ExactGrowth:
    """Exact comparisons of the growths of one start; nothing is computed before the first question."""

    def __init__(self, rows: FloatArray, query: FloatArray, widest_spread: float) -> None:
        """``rows`` (d, m) and ``query`` (m,), finite float64; raises OverflowError beyond ``widest_spread``."""
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.ptp(rows @ query))
        if not spread <= widest_spread:
            raise OverflowError(
                f"the scores V theta differ by {spread:g}, more than {widest_spread:g}; scale theta down "
                "(unit embeddings and a query of unit length keep them within 2)"
            )
        self.d = len(rows)
        self._rows, self._query = rows, query
        # A term may be smaller than another by a factor e^(4 spread) and still decide.
        self._bits = BITS + math.ceil(8 * spread)
        self._integers: list[tuple[int, ...]] = []
        self._scores: list[int] = []
        self._score_unit = 1
        self._classes: dict[int, int] = {}
        self._representatives: list[int] = []
        self._enclosed: dict[tuple[int, int], _Enclosed] = {}

    def winner(self, sign: int, p: int, q: int, candidates: Sequence[int]) -> int:
        """The position in ``candidates`` (which hold the largest) whose score grows most, or ``TIE``.

        ``sign`` is 1 for the head at theta and -1 for the one at -theta.
        """
        self._prepare()
        groups = self._equal_by_symmetry(p, q, candidates)
        bits, apart = FIRST_BITS, False
        while len(groups) > 1:
            groups = self._not_dominated(sign, p, q, groups, bits)
            if len(groups) > 1 and not apart and len(set(self._scores)) <= FEW_SCORES:
                # From here on the groups are known to differ, so enough bits will separate them.
                groups, apart = self._merge_equal(sign, p, q, groups), True
            if len(groups) > 1 and bits >= self._bits and not apart:
                return TIE
            bits *= 2
        return groups[0][0] if len(groups[0]) == 1 else TIE

    def _prepare(self) -> None:
        if self._integers:
            return
        exact = [[Fraction(float(x)) for x in row] for row in (*self._rows, self._query)]
        scale = max(x.denominator for row in exact for x in row)
        integers = [tuple(int(x * scale) for x in row) for row in exact]
        query = integers.pop()
        self._integers, self._score_unit = integers, scale**2
        self._scores = [_dot(row, query) for row in integers]

    def _equal_by_symmetry(self, p: int, q: int, candidates: Sequence[int]) -> list[list[int]]:
        """The candidates in groups whose growths are equal for a reason that needs no numbers."""
        groups: dict[tuple[int, bool], list[int]] = defaultdict(list)
        for j in candidates:
            groups[self._class(j), j in (p, q)].append(j)
        for twin in [twin for twin, inside in groups if inside and (twin, False) in groups]:
            # A target and a position outside are not exchangeable, but equal rows grow equally wherever they stand.
            rows = {self._integers[j] for j in groups[twin, True]}
            if rows & {self._integers[j] for j in groups[twin, False]}:
                groups[twin, False] += groups.pop((twin, True))
        return list(groups.values())

    def _class(self, j: int) -> int:
        """The first position seen that is j's twin: equal score, and exchanging the two changes no inner product."""
        if j not in self._classes:
            found = next((k for k in self._representatives if self._twins(j, k)), None)
            if found is None:
                self._representatives.append(j)
            self._classes[j] = j if found is None else found
        return self._classes[j]

    def _twins(self, i: int, j: int) -> bool:
        first, second = self._integers[i], self._integers[j]
        if self._scores[i] != self._scores[j] or _dot(first, first) != _dot(second, second):
            return False
        difference = [(k, x - y) for k, (x, y) in enumerate(zip(first, second, strict=True)) if x != y]
        return all(
            sum(x * row[k] for k, x in difference) == 0
            for n, row in enumerate(self._integers)
            if n not in (i, j)
        )

    def _not_dominated(
        self, sign: int, p: int, q: int, groups: list[list[int]], bits: int
    ) -> list[list[int]]:
        """The groups whose growth, in balls, does not lie below that of another."""
        with ctx.workprec(bits):
            parts = self._enclosure(sign, bits)
            t = arb(fmpq(sign * (self._scores[p] - self._scores[q]), self._score_unit)).exp()
            both = t + 1 / t
            w = [
                t * x + y / t - both * mean + base
                for x, y, mean, base in zip(
                    self._integers[p], self._integers[q], parts.mean, parts.base, strict=True
                )
            ]
            growths = [_ball_dot(self._integers[members[0]], w) for members in groups]
            return [
                members
                for members, growth in zip(groups, growths, strict=True)
                if not any(growth < other for other in growths)
            ]

    def _enclosure(self, sign: int, bits: int) -> _Enclosed:
        """The pair-free parts of w; the caller has set the precision to ``bits``."""
        if (sign, bits) not in self._enclosed:
            e = [arb(fmpq(sign * score, self._score_unit)).exp() for score in self._scores]
            z, back = sum(e, arb(0)), sum((1 / x for x in e), arb(0))
            ends = sum((1 / (x * x) for x in e), arb(0))
            h = [(ends * x * x + 2 * (self.d - 1)) / (z * back) for x in e]
            eta = sum(h, arb(0))
            columns = list(zip(*self._integers, strict=True))
            mean = [_ball_dot(column, e) / z for column in columns]
            base = [eta * x - _ball_dot(column, h) for x, column in zip(mean, columns, strict=True)]
            self._enclosed[sign, bits] = _Enclosed(mean, base)
        return self._enclosed[sign, bits]

    def _merge_equal(self, sign: int, p: int, q: int, groups: list[list[int]]) -> list[list[int]]:
        merged: list[list[int]] = []
        for members in groups:
            same = next((g for g in merged if self._vanishes(sign, p, q, g[0], members[0])), None)
            if same is None:
                merged.append(list(members))
            else:
                same += members
        return merged

    def _vanishes(self, sign: int, p: int, q: int, i: int, j: int) -> bool:
        """Whether u_i = u_j, by collecting the terms of Z_1^2 Z_-1 (u_i - u_j) in exponentials.

        With D_n = (v_i - v_j).v_n and A = sum_n D_n E_n the product is

            Z_1^2 Z_-1 (t D_p + D_q / t) - Z_1 Z_-1 (t + 1/t) A
                - Z_1 sum_n D_n (Z_-2 E_n^2 + 2 (d - 1)) + (Z_-2 Z_2 + 2 d (d - 1)) A.
        """
        difference = [x - y for x, y in zip(self._integers[i], self._integers[j], strict=True)]
        inner = [_dot(difference, row) for row in self._integers]
        s = [sign * score for score in self._scores]
        one = [1] * self.d
        z1, z2, back1, back2 = (_series(zip(one, s, strict=True), k) for k in (1, 2, -1, -2))
        a, squares = (_series(zip(inner, s, strict=True), k) for k in (1, 2))
        gap = s[p] - s[q]
        both = _plus({gap: 1}, {-gap: 1})
        targets = _plus({gap: inner[p]}, {-gap: inner[q]})
        first = _times(_times(z1, _times(z1, back1)), targets)
        second = _times(_times(z1, back1), _times(both, a))
        third = _times(z1, _plus(_times(back2, squares), {0: 2 * (self.d - 1) * sum(inner)}))
        fourth = _times(_plus(_times(back2, z2), {0: 2 * self.d * (self.d - 1)}), a)
        total = _plus(_plus(first, _negative(second)), _plus(_negative(third), fourth))
        return not any(total.values())


def _ball_dot(integers: Sequence[int], balls: Sequence[arb]) -> arb:
    return sum((x * y for x, y in zip(integers, balls, strict=True) if x), arb(0))


def _series(pairs: Iterable[tuple[int, int]], k: int) -> Terms:
    """The sum of coefficient * e^(k s) over (coefficient, s), as {exponent: coefficient}."""
    terms: Terms = defaultdict(int)
    for coefficient, s in pairs:
        terms[k * s] += coefficient
    return terms


def _plus(first: Terms, second: Terms) -> Terms:
    total: Terms = defaultdict(int, first)
    for exponent, coefficient in second.items():
        total[exponent] += coefficient
    return total


def _negative(terms: Terms) -> Terms:
    return {exponent: -coefficient for exponent, coefficient in terms.items()}


def _times(first: Terms, second: Terms) -> Terms:
    product: Terms = defaultdict(int)
    for x, a in first.items():
        for y, b in second.items():
            product[x + y] += a * b
    return product
