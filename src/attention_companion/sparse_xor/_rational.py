"""Integer scaling: a vector of Fractions as integers over one common denominator.

Sums and products of Fractions reduce at every step; over a common denominator the same work is plain integer
arithmetic with one reduction at the end, which is what keeps exact results affordable for hundreds of weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction


def over_common_denominator(values: Sequence[Fraction]) -> tuple[list[int], int]:
    """Integers n_i and one denominator D > 0 with values[i] = n_i / D."""
    denominator = math.lcm(*(value.denominator for value in values))
    return [value.numerator * (denominator // value.denominator) for value in values], denominator


def dot(first: Iterable[int], second: Iterable[int]) -> int:
    """The inner product of two integer vectors of equal length."""
    return sum(x * y for x, y in zip(first, second, strict=True))
