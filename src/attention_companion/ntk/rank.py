"""Exact rank of an integer matrix: a prime for the lower bound, dependent columns for the upper one.

Elimination over the integers takes most of a minute for a few hundred raw images, whose minors grow to thousands of
digits. Two cheap facts replace it:

* the rank modulo a prime never exceeds the rank, so full rank modulo one prime proves full rank;
* columns that are solved for exactly, and checked by multiplying out, are dependent: no bound, no probability.

One dependent column proves a matrix singular (seconds for 700 rows); proving a rank r takes d - r of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from flint import fmpq_mat, fmpz_mat, nmod_mat

PRIMES = (2**61 - 1, 2**62 - 57, 2**63 - 25)
"""Any primes do. One that divides the decisive minor makes the check fail, and the next one is taken."""


def integer_rank(matrix: fmpz_mat) -> int:
    """The rank over the rationals of an integer matrix (n, d)."""
    matrix = _without_zero_lines(matrix)
    if matrix.ncols() > matrix.nrows():
        # Fewer columns leave fewer dependent ones to prove.
        matrix = matrix.transpose()
    for prime in PRIMES:
        pivots = _pivot_columns(matrix, prime)
        if _others_depend_on(matrix, pivots, matrix.ncols() - len(pivots), prime):
            return len(pivots)
    # The decisive minors are multiples of all these primes: elimination over the integers, slow and sure.
    return int(matrix.rank())


def rank_reaches(matrix: fmpz_mat, k: int) -> bool:
    """Whether the rank of a matrix (n, d) is at least k, proved either way; cheaper than the rank itself."""
    if k > min(matrix.nrows(), matrix.ncols()):
        return False
    for prime in PRIMES:
        pivots = _pivot_columns(matrix, prime)
        if len(pivots) >= k:
            return True
        if _others_depend_on(matrix, pivots, matrix.ncols() - k + 1, prime):
            return False
    return int(matrix.rank()) >= k


def _without_zero_lines(matrix: fmpz_mat) -> fmpz_mat:
    """Rows and columns of zeros left out (images have many blank pixels); a zero matrix comes back as one zero."""
    table = [row for row in matrix.tolist() if any(row)]
    columns = [column for column in zip(*table, strict=True) if any(column)]
    return fmpz_mat([list(row) for row in zip(*columns, strict=True)]) if columns else fmpz_mat([[0]])


def _pivot_columns(matrix: fmpz_mat, prime: int) -> list[int]:
    """Columns that are independent modulo the prime, hence independent, as many as that arithmetic can find."""
    n, d = matrix.nrows(), matrix.ncols()
    echelon, rank = nmod_mat(n, d, [int(entry) % prime for entry in matrix.entries()], prime).rref()
    pivots: list[int] = []
    for column in range(d):
        if len(pivots) < rank and echelon[len(pivots), column] != 0:
            pivots.append(column)
    return pivots


def _others_depend_on(matrix: fmpz_mat, pivots: list[int], count: int, prime: int) -> bool:
    """Whether the first ``count`` columns that are no pivots are proved to be combinations of the pivots."""
    n, d = matrix.nrows(), matrix.ncols()
    others = sorted(set(range(d)) - set(pivots))[:count]
    if not others:
        return True
    right = _select(matrix, range(n), others)
    if not pivots:
        return not any(right.entries())
    left = _select(matrix, range(n), pivots)
    rows = _pivot_columns(left.transpose(), prime)
    solution = _select(left, rows, range(len(pivots))).solve(_select(right, rows, range(len(others))))
    numerators, denominator = cast(fmpq_mat, solution).numer_denom()
    # Solved on some rows only: on the others the product has to agree by itself.
    return bool(left * numerators == right * denominator)


def _select(matrix: fmpz_mat, rows: Sequence[int], columns: Sequence[int]) -> fmpz_mat:
    return fmpz_mat(len(rows), len(columns), [matrix[i, j] for i in rows for j in columns])
