"""Why the worst case cannot be exact for all heads: it contains number partitioning.

Theorem. Computing sup_x |f(x) - y| for rational weights that sum to 1 is NP-hard.

Proof. Let n_1, ..., n_k be positive integers, N their sum, alpha_i = n_i / N, and take d = k + 3, p = 0, q = 1,

    gamma  = (3/10,  0,    33/50, alpha_1/25, ..., alpha_k/25),      sum 3/10 + 33/50 + 1/25 = 1,
    gamma~ = (9/20,  9/20, 0,     alpha_1/10, ..., alpha_k/10),      sum 9/20 + 9/20 + 1/10 = 1.

Let s = sum_i x_i alpha_i over the last k bits, so -1 <= s <= 1, and let z = +-1 be bit 2. As f - y does not change
under x -> -x, take x_p = 1.

- x_q = -1: f - y = -(1 + h) with h = (3/10 + 33 z/50 + s/25)(s/10), and h <= (1)(1/10). As h >= -1, |f - y| <= 11/10.
- x_q = +1, z = +1: f - y = 1 - h with h = (48/50 + s/25)(9/10 + s/10) between 0 and 1, so |f - y| <= 1.
- x_q = +1, z = -1: h = (-9/25 + s/25)(9/10 + s/10) = (s - 9)(s + 9)/250 = (s^2 - 81)/250, so
  |f - y| = 1 + (81 - s^2)/250, which is at least 1 + 80/250 and so above both others.

Hence sup |f - y| = 1 + (81 - sigma^2)/250 with sigma = min |sum +-alpha_i| over all signs: the sup reveals the
smallest difference N sigma between the two sides of a division of the n_i, and it equals 331/250 iff they can be
divided into two halves of equal sum. QED.

Two heads that are equal do not show it. The inputs with x_p = x_q do contain partitioning then, as
E+ = 1 - min (gamma_p + gamma_q + u)^2, but E+ <= 1 <= 1 + max (gamma_p - gamma_q + u)^2 = E-, and E- is easy. In the
construction above the second head puts nine tenths of its weight on the pair and the first only three: one head below
a half is enough.

Source: our reconstruction; the instance and its proof are checked by exact enumeration in the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral

#: The pair that ``partition_heads`` is made for.
PARTITION_PAIR = (0, 1)


def partition_heads(numbers: Sequence[int]) -> tuple[list[Fraction], list[Fraction]]:
    """The heads (gamma, gamma~) of the theorem for positive integers, each k + 3 exact Fractions that sum to 1.

    Use them with ``PARTITION_PAIR``. Raises TypeError for entries that are not integers, ValueError for an empty list
    or a number below 1.
    """
    values = _read_numbers(numbers)
    total = sum(values)
    alphas = [Fraction(value, total) for value in values]
    gamma = [Fraction(3, 10), Fraction(0), Fraction(33, 50), *(alpha / 25 for alpha in alphas)]
    gamma_tilde = [Fraction(9, 20), Fraction(9, 20), Fraction(0), *(alpha / 10 for alpha in alphas)]
    return gamma, gamma_tilde


def partition_worst_case(numbers: Sequence[int], difference: int) -> Fraction:
    """The sup that the theorem gives when ``difference`` is the least difference between two sides of ``numbers``.

    That is 1 + (81 - sigma^2)/250 with sigma = difference / sum(numbers). Errors as in ``partition_heads``.
    """
    sigma = Fraction(difference, sum(_read_numbers(numbers)))
    return 1 + (81 - sigma**2) / 250


def _read_numbers(numbers: Sequence[int]) -> list[int]:
    values = list(numbers)
    if not values:
        raise ValueError("numbers is empty; give at least one positive integer to divide")
    for index, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"numbers[{index}] is {value!r}; give positive integers")
        if value < 1:
            raise ValueError(f"numbers[{index}] is {value}; give positive integers")
    return [int(value) for value in values]
