"""The inverse by the adjugate program, and how many iterations Newton's method takes in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ..programs import inverse, newton_inverse

Rows = list[list[Fraction]]


def random_matrices(cases: int, seed: int) -> list[Rows]:
    """``cases`` rational 2 x 2 and as many 3 x 3 matrices with small entries; a few are singular."""
    rng = np.random.default_rng([seed, cases])
    matrices = []
    for size in (2, 3):
        for _ in range(cases):
            above, below = rng.integers(-4, 5, (size, size)), rng.integers(1, 4, (size, size))
            matrices.append(
                [
                    [Fraction(int(p), int(q)) for p, q in zip(*row, strict=True)]
                    for row in zip(above, below, strict=True)
                ]
            )
    return matrices


def singular_matrices(cases: int, seed: int) -> list[Rows]:
    """As :func:`random_matrices`, with the last row a combination of the others: rank below full."""
    rng = np.random.default_rng([seed, cases, 1])
    matrices = random_matrices(cases, seed + 1)
    for matrix in matrices:
        factors = [Fraction(int(f), 2) for f in rng.integers(-3, 4, len(matrix) - 1)]
        matrix[-1] = [
            sum((f * row[j] for f, row in zip(factors, matrix[:-1], strict=True)), Fraction(0))
            for j in range(len(matrix))
        ]
    return matrices


@dataclass(frozen=True)
class Inverted:
    """How many matrices were inverted, how many were refused as singular, and how many answers are wrong."""

    inverted: int
    refused: int
    wrong: int


def check_inverses(matrices: Sequence[Rows], signs: bool = True) -> Inverted:
    """Count answers B with A B != I, and refusals of matrices whose rank (by elimination) is full.

    ``signs=False`` is a control: the answers have the signs of their cofactors taken off.
    """
    inverted = refused = wrong = 0
    for matrix in matrices:
        try:
            answer = inverse(matrix)
        except ValueError:
            refused += 1
            wrong += has_full_rank(matrix)
            continue
        inverted += 1
        if not signs:
            answer = [[-v if (i + j) % 2 else v for j, v in enumerate(row)] for i, row in enumerate(answer)]
        wrong += not _is_inverse(matrix, answer)
    return Inverted(inverted, refused, wrong)


def _is_inverse(matrix: Rows, answer: Rows) -> bool:
    size = len(matrix)
    return all(
        sum(matrix[i][k] * answer[k][j] for k in range(size)) == int(i == j)
        for i in range(size)
        for j in range(size)
    )


def has_full_rank(matrix: Rows) -> bool:
    """By Gaussian elimination in exact rationals, which knows no determinant."""
    rows = [list(row) for row in matrix]
    for column in range(len(rows)):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return False
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for r in range(column + 1, len(rows)):
            factor = rows[r][column] / rows[column][column]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    return True


def conditioned(condition: float, size: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """A size x size matrix with singular values from 1 down to 1 / ``condition`` in equal ratios, random directions."""
    left, right = (np.linalg.qr(rng.standard_normal((size, size)))[0] for _ in range(2))
    return np.asarray(left * np.geomspace(1, 1 / condition, size) @ right)


def newton_iterations(
    conditions: Sequence[float], size: int, cases: int, seed: int, tolerance: float
) -> npt.NDArray[np.int64]:
    """Iterations until max |I - A X| <= ``tolerance``, shape (cases, conditions); a case is one pair of directions."""
    counts = np.zeros((cases, len(conditions)), dtype=np.int64)
    for case in range(cases):
        for c, condition in enumerate(conditions):
            matrix = conditioned(condition, size, np.random.default_rng([seed, size, case]))
            counts[case, c] = newton_inverse(matrix, tolerance).iterations
    return counts
