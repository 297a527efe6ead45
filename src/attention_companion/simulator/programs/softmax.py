"""Softmax of each row of a matrix by hard attention (Lemma 4): exponentials, their mean over the row, a division."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .matrices import Matrix, row_and_column


def softmax_rows(matrix: Matrix, factor: Fraction | int | None = None) -> Matrix:
    """exp of each entry over the sum of its row's exponentials: one layer, one head.

    The head averages the exponentials over the row; the number of columns times the mean is the sum. The matrix must
    stand at the front of the sequence. A token behind it attends to itself alone, so that its divisor is exp of its own
    value and never 0. ``factor`` (the number of columns) is what the mean is multiplied by; another value is a control.

    Raises ValueError for a matrix that does not stand at the front, OverflowError where exp leaves float64.
    """
    if matrix.at:
        raise ValueError(f"the matrix stands at token {matrix.at}; softmax_rows reads it from token 0")
    run = matrix.values.run
    powers = matrix.values.exp()
    t = run.indices.values
    row, _ = row_and_column(run, matrix.columns)
    # Labels of tokens behind the matrix start where those of its rows end.
    label = run.positions(np.where(t < matrix.rows * matrix.columns, row, matrix.rows + t))
    sums = run.aggregate(run.select(label, label, "==", "same row"), powers)
    scaled = sums.scale(matrix.columns if factor is None else factor)
    return Matrix(powers / scaled, matrix.rows, matrix.columns)
