"""The inverse of a 2 x 2 or 3 x 3 matrix by its adjugate, exactly; and Newton's iteration to compare it with.

The adjugate takes two layers whatever the matrix. Newton's iteration takes as many products as the matrix is
ill-conditioned: it is the loop that a construction of constant depth has to avoid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Ball, Rational
from ..rasp import NOWHERE, Numbers, Rasp
from ..reading import read_matrix
from ..target import as_rows
from .matrices import Matrix, product, transpose

SIZES = (2, 3)


def adjugate_inverse(matrix: Matrix) -> Matrix:
    """adj(A) / det A for a matrix that fills the run's tokens: two layers, at most six heads.

    Raises ValueError for another size, ZeroDivisionError where the determinant is 0 (or a ball that contains 0).
    """
    run, size = matrix.values.run, matrix.rows
    if matrix.columns != size or size not in SIZES:
        raise ValueError(
            f"the matrix is {matrix.rows} x {matrix.columns}; the adjugate program covers 2 x 2 and 3 x 3"
        )
    if run.length != size * size or matrix.at:
        raise ValueError(
            f"the run has {run.length} tokens; the program needs the {size * size} of the matrix alone"
        )
    i, j = np.divmod(run.indices.values, size)
    adjugate = _adjugate_of_two(matrix, i, j) if size == 2 else _adjugate_of_three(matrix, i, j)
    # det A = sum over l of A[0, l] adj[l, 0]; the products stand at the tokens of column 0.
    first_row = run.fetch(matrix.values, np.where(j == 0, i, NOWHERE), "first row")
    first_column = run.select(run.positions(j), run.positions(0), "==", "first column")
    determinant = run.aggregate(first_column, first_row * adjugate).scale(size)
    return Matrix(adjugate / determinant, size, size)


def _adjugate_of_two(matrix: Matrix, i: npt.NDArray[np.int64], j: npt.NDArray[np.int64]) -> Numbers:
    run = matrix.values.run
    opposite, even = (1 - j) * 2 + 1 - i, (i + j) % 2 == 0
    plus = run.fetch(matrix.values, np.where(even, opposite, NOWHERE), "cofactor +")
    return plus - run.fetch(matrix.values, np.where(even, NOWHERE, opposite), "cofactor -")


def _adjugate_of_three(matrix: Matrix, i: npt.NDArray[np.int64], j: npt.NDArray[np.int64]) -> Numbers:
    # With indices modulo 3 the signs of the cofactors take care of themselves.
    run = matrix.values.run

    def entry(row: int, column: int) -> Numbers:
        address = (j + row) % 3 * 3 + (i + column) % 3
        return run.fetch(matrix.values, address, f"entry j+{row}, i+{column}")

    return entry(1, 1) * entry(2, 2) - entry(1, 2) * entry(2, 1)


def inverse(matrix: Any) -> list[list[Any]]:
    """The exact inverse of a 2 x 2 or 3 x 3 matrix of ints, Fractions or floats, by the adjugate program.

    Returns rows of Fractions, or of floats (the exact inverse, rounded once) if any entry is a float. Raises ValueError
    for a singular matrix, another size, ragged, empty or non-finite input, TypeError for entries that are no numbers.
    """
    # The ball kind reads rationals exactly and floats as they are: what tells us the type to hand back.
    entries = read_matrix(matrix, "matrix", Ball())
    kind = Rational()
    run = Rasp(kind, kind.array(value for row in entries for value in row))
    try:
        result = adjugate_inverse(Matrix(run.tokens, len(entries), len(entries[0])))
    except ZeroDivisionError:
        raise ValueError("the matrix is singular: its determinant is exactly 0") from None
    rounded = any(isinstance(value, float) for row in entries for value in row)
    exact = as_rows(np.array(result.entries(), dtype=object), kind)
    return [[float(value) for value in row] for row in exact] if rounded else exact


def newton_program(matrix: Matrix, steps: int, scale: Any, arrangement: str = "paper") -> Matrix:
    """``steps`` iterations X <- X (2 I - A X) from X = ``scale`` A^T: each adds four layers to the depth.

    The loop that the construction avoids, as a control for constant depth.
    """
    run, size = matrix.values.run, matrix.rows
    t = run.indices.values
    i, j = np.divmod(t, size)
    twice = run.positions(np.where((t < size * size) & (i == j), 2, 0)).numbers()
    guess = Matrix(transpose(matrix).values.scale(scale), size, size)
    for _ in range(steps):
        rest = Matrix(twice - product(matrix, guess, arrangement).values, size, size)
        guess = product(guess, rest, arrangement)
    return guess


@dataclass(frozen=True, eq=False)
class NewtonRun:
    """``inverse`` (size, size), the ``iterations`` taken, and max |I - A X| before each and after the last."""

    inverse: npt.NDArray[np.float64]
    iterations: int
    residuals: list[float]


def newton_inverse(matrix: npt.NDArray[np.float64], tolerance: float = 1e-9, most: int = 200) -> NewtonRun:
    """Newton's iteration in float64 from A^T / (|A|_1 |A|_inf), until max |I - A X| <= ``tolerance``.

    Raises ValueError for what is no finite square matrix, ArithmeticError if ``most`` iterations do not suffice.
    """
    a = np.asarray(matrix, dtype=np.float64)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not a.size or not np.isfinite(a).all():
        raise ValueError(f"the matrix has shape {a.shape}; give a finite square one")
    if not a.any():
        raise ArithmeticError("the matrix is 0: Newton's iteration has no inverse to find")
    identity = np.eye(len(a))
    x = a.T / (np.abs(a).sum(axis=0).max() * np.abs(a).sum(axis=1).max())
    residuals = [float(np.abs(identity - a @ x).max())]
    while residuals[-1] > tolerance:
        if len(residuals) > most:
            raise ArithmeticError(
                f"{most} iterations leave a residual of {residuals[-1]:.3g}, above {tolerance:g}; the matrix is "
                "singular or too ill-conditioned for float64"
            )
        x = x @ (2 * identity - a @ x)
        residuals.append(float(np.abs(identity - a @ x).max()))
    return NewtonRun(x, len(residuals) - 1, residuals)
