"""Reading a layer <T, X> from what a user gives: shapes, finiteness, and one kind of numbers throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational as RationalNumber
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from .arithmetic import Arithmetic
from .shape import Shape


@dataclass(frozen=True, eq=False)
class Layer:
    """A checked layer: matrices as nested lists of plain numbers, and their common shape."""

    x: list[list[Any]]
    heads: list[tuple[list[list[Any]], list[list[Any]]]]
    output: list[list[Any]] | None
    shape: Shape

    def sequence(self, kind: Arithmetic) -> npt.NDArray[Any]:
        """<T, X>: X, then A and V of each head, then the output matrix, row by row."""
        matrices = [
            self.x,
            *(m for head in self.heads for m in head),
            *([self.output] if self.output else []),
        ]
        return kind.array(value for matrix in matrices for row in matrix for value in row)

    def matrices(self, kind: Arithmetic) -> tuple[Any, list[tuple[Any, Any]], Any]:
        """X, the (A, V) and the output matrix as two-dimensional arrays of that kind of number."""

        def convert(matrix: list[list[Any]]) -> npt.NDArray[Any]:
            return np.stack([kind.array(row) for row in matrix])

        heads = [(convert(a), convert(v)) for a, v in self.heads]
        return convert(self.x), heads, None if self.output is None else convert(self.output)


def read_layer(x: Any, heads: Any, output: Any, kind: Arithmetic) -> Layer:
    """Check X (n, d), heads [(A (d, d), V (d, d_v)), ...] and output (h d_v, out) or None.

    Raises TypeError for entries that are no numbers of the kind (a float is no exact rational), ValueError for ragged,
    empty, non-finite, non-square or mismatched matrices.
    """
    rows = read_matrix(x, "X", kind)
    d = len(rows[0])
    if isinstance(heads, str) or not isinstance(heads, Sequence) or not len(heads):
        raise ValueError(f"heads is {heads!r}; give a list of at least one pair (A, V)")
    read: list[tuple[list[list[Any]], list[list[Any]]]] = []
    for h, head in enumerate(heads):
        if isinstance(head, str) or not isinstance(head, Sequence | np.ndarray) or len(head) != 2:
            raise ValueError(f"head {h} is not a pair; give (A, V), two matrices")
        a, v = read_matrix(head[0], f"A of head {h}", kind), read_matrix(head[1], f"V of head {h}", kind)
        if (len(a), len(a[0])) != (d, d):
            raise ValueError(
                f"A of head {h} has shape {(len(a), len(a[0]))}; X has {d} columns, so expected ({d}, {d})"
            )
        if len(v) != d:
            raise ValueError(f"V of head {h} has {len(v)} rows; X has {d} columns, so expected {d}")
        if read and len(v[0]) != len(read[0][1][0]):
            raise ValueError(
                f"V of head {h} has {len(v[0])} columns and V of head 0 has {len(read[0][1][0])}; all heads have "
                "one d_v"
            )
        read.append((a, v))
    d_v = len(read[0][1][0])
    w = None if output is None else read_matrix(output, "output", kind)
    if w is not None and len(w) != len(read) * d_v:
        raise ValueError(
            f"output has {len(w)} rows; {len(read)} head(s) with d_v = {d_v} are joined to {len(read) * d_v} columns"
        )
    return Layer(rows, read, w, Shape(len(rows), d, d_v, len(read), None if w is None else len(w[0])))


def read_matrix(values: Any, name: str, kind: Arithmetic) -> list[list[Any]]:
    """A matrix with at least one entry, as nested lists of numbers of a kind."""
    if isinstance(values, np.ndarray):
        if values.ndim != 2:
            raise ValueError(f"{name} has shape {values.shape}; expected two dimensions")
        values = values.tolist()
    elif not isinstance(values, Sequence) or isinstance(values, str):
        to_list = getattr(values, "tolist", None)
        if to_list is None:
            raise TypeError(f"{name} is {type(values).__name__}; give a matrix as an array or a list of rows")
        values = to_list()
    rows = []
    for row in values:
        if isinstance(row, np.ndarray):
            row = row.tolist()
        if isinstance(row, str) or not isinstance(row, Sequence):
            raise ValueError(f"{name} holds {row!r} where a row belongs; give a list of rows of numbers")
        rows.append(list(row))
    if not rows or not rows[0]:
        raise ValueError(f"{name} is empty; give at least one row with at least one number")
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise ValueError(f"{name} has rows of unequal lengths {sorted(lengths)}; give a rectangular matrix")
    return [
        [_entry(value, f"{name}[{r}][{c}]", kind) for c, value in enumerate(row)]
        for r, row in enumerate(rows)
    ]


def _entry(value: Any, name: str, kind: Arithmetic) -> Any:
    if isinstance(value, flint.fmpq):
        value = Fraction(int(value.p), int(value.q))
    elif isinstance(value, flint.fmpz):
        value = int(value)
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, RationalNumber | float | np.floating | np.integer
    ):
        raise TypeError(f"{name} is {value!r}; give a real number")
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            raise ValueError(f"{name} is {value!r}; every entry must be finite")
        if kind.name == "rational":
            raise TypeError(
                f"{name} is the float {value!r}; exact arithmetic takes integers and Fractions only"
            )
        return float(value)
    fraction = Fraction(int(value)) if isinstance(value, np.integer) else Fraction(value)
    if kind.name == "float64":
        try:
            return float(fraction)
        except OverflowError:
            raise ValueError(f"{name} is too large for float64; use rational or ball arithmetic") from None
    return fraction
