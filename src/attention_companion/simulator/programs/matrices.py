"""Matrices as sequences: the row-major bijection (Proposition 2), the transpose (Lemma 3), the product (Lemma 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..rasp import NOWHERE, Numbers, Rasp

ARRANGEMENTS = ("paper", "scratch")


@dataclass(frozen=True, eq=False)
class Matrix:
    """A rows x columns matrix in a sequence: entry (i, j) stands at token ``at + i columns + j``."""

    values: Numbers
    rows: int
    columns: int
    at: int = 0

    def __post_init__(self) -> None:
        length = self.values.run.length
        if self.at < 0 or self.at + self.rows * self.columns > length:
            raise ValueError(
                f"a {self.rows} x {self.columns} matrix at token {self.at} does not fit in {length} tokens; give "
                "the run a larger length"
            )

    def entries(self) -> list[list[object]]:
        """Rows of numbers, as they stand in the sequence."""
        flat = list(self.values.values[self.at : self.at + self.rows * self.columns])
        return [flat[i * self.columns : (i + 1) * self.columns] for i in range(self.rows)]


def position_of(index: Sequence[int], shape: Sequence[int]) -> int:
    """Row-major position of an entry of an array with any number of axes: the last index runs fastest.

    Raises ValueError for an index outside the shape.
    """
    if len(index) != len(shape) or not all(0 <= i < s for i, s in zip(index, shape, strict=True)):
        raise ValueError(f"index {tuple(index)} is outside the shape {tuple(shape)}")
    position = 0
    for i, size in zip(index, shape, strict=True):
        position = position * size + i
    return position


def index_of(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The entry that stands at a row-major position; the inverse of :func:`position_of`.

    Raises ValueError for a position outside the shape.
    """
    index: list[int] = []
    rest = position
    for size in reversed(shape):
        rest, i = divmod(rest, size)
        index.append(i)
    if rest or not index:
        raise ValueError(f"position {position} is outside the shape {tuple(shape)}")
    return tuple(reversed(index))


def row_and_column(run: Rasp, columns: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Row and column of each token, when the sequence is read as a matrix with that many columns; shape (length,)."""
    return np.divmod(run.indices.values, columns)


def where_inside(run: Rasp, count: int, addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """``addresses`` at the first ``count`` tokens, nowhere behind them."""
    return np.where(run.indices.values < count, addresses, NOWHERE)


def reread(matrix: Matrix, column_major: bool = False) -> Matrix:
    """The matrix fetched entry by entry to the front of the sequence (one layer, one head): Proposition 2 at work.

    Token i columns + j fetches entry (i, j). ``column_major`` is the control: it takes entry (i, j) to stand where a
    column by column listing would have it.
    """
    run = matrix.values.run
    i, j = row_and_column(run, matrix.columns)
    inside = i + j * matrix.rows if column_major else i * matrix.columns + j
    addresses = where_inside(run, matrix.rows * matrix.columns, matrix.at + inside)
    return Matrix(run.fetch(matrix.values, addresses, "reread"), matrix.rows, matrix.columns)


def transpose(matrix: Matrix, stride: int | None = None) -> Matrix:
    """The transpose, at the front of the sequence: one layer, one head.

    Token j rows + i fetches entry (i, j). ``stride`` (the number of columns) is the distance of two entries of one
    column; another value is a control.
    """
    run = matrix.values.run
    step = matrix.columns if stride is None else stride
    j, i = row_and_column(run, matrix.rows)
    addresses = where_inside(run, matrix.rows * matrix.columns, matrix.at + i * step + j)
    return Matrix(run.fetch(matrix.values, addresses, "transpose"), matrix.columns, matrix.rows)


def product(
    left: Matrix, right: Matrix, arrangement: str = "paper", inner_stride: int | None = None
) -> Matrix:
    """The product of an r x k and a k x c matrix, at the front of the sequence, in two layers.

    Rows of ``left`` and columns of ``right`` are aligned by attention, multiplied token by token, and averaged over the
    inner index; k times the mean is the sum.

    "paper": token l < k holds entry l of every row and every column (r + c heads), then a head for each of the rc
    entries averages its own products. "scratch": token (i, l, j) of an r x k x c array holds one pair (2 heads), and
    one head averages them all; the number of heads is constant, but r k c tokens are needed.

    ``inner_stride`` (k) is the distance of two rows of ``left``; another value is a control.

    Raises ValueError for inner sizes that differ, an unknown arrangement and a length that is too small.
    """
    run = left.values.run
    r, k, c = left.rows, left.columns, right.columns
    if k != right.rows:
        raise ValueError(f"a {r} x {k} matrix times a {right.rows} x {c} matrix: the inner sizes differ")
    if arrangement not in ARRANGEMENTS:
        raise ValueError(f"arrangement is {arrangement!r}; choose one of {', '.join(ARRANGEMENTS)}")
    stride = k if inner_stride is None else inner_stride
    means = _by_entry(left, right, stride) if arrangement == "paper" else _by_scratch(left, right, stride)
    return Matrix(means.scale(k), r, c) if r * c <= run.length else _does_not_fit(r, c, run)


def _does_not_fit(r: int, c: int, run: Rasp) -> Matrix:
    raise ValueError(f"a {r} x {c} product does not fit in {run.length} tokens; give the run a larger length")


def _by_entry(left: Matrix, right: Matrix, stride: int) -> Numbers:
    run, t = left.values.run, left.values.run.indices.values
    k = left.columns
    rows = [
        run.fetch(left.values, where_inside(run, k, left.at + i * stride + t), f"row {i}")
        for i in range(left.rows)
    ]
    columns = [
        run.fetch(right.values, where_inside(run, k, right.at + t * right.columns + j), f"column {j}")
        for j in range(right.columns)
    ]
    inner = run.positions(np.where(t < k, 0, 1))
    means = None
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            # Only the token of entry (i, j) asks for the inner tokens; all others select nothing and receive 0.
            entry = run.positions(np.where(t == i * right.columns + j, 0, NOWHERE))
            mean = run.aggregate(run.select(inner, entry, "==", f"entry {i},{j}"), row * column)
            means = mean if means is None else means + mean
    assert means is not None
    return means


def _by_scratch(left: Matrix, right: Matrix, stride: int) -> Numbers:
    run, t = left.values.run, left.values.run.indices.values
    r, k, c = left.rows, left.columns, right.columns
    if r * k * c > run.length:
        raise ValueError(
            f"{r} x {k} x {c} scratch tokens do not fit in {run.length}; give the run a larger length"
        )
    i, rest = np.divmod(t, k * c)
    inner, j = np.divmod(rest, c)
    row = run.fetch(left.values, where_inside(run, r * k * c, left.at + i * stride + inner), "align rows")
    column = run.fetch(right.values, where_inside(run, r * k * c, right.at + inner * c + j), "align columns")
    # Behind the scratch tokens -1, behind the entries -2: these meet nobody.
    owner = run.positions(np.where(t < r * k * c, i * c + j, -1))
    entry = run.positions(np.where(t < r * c, t, -2))
    return run.aggregate(run.select(owner, entry, "==", "average the products"), row * column)
