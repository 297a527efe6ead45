"""The shape of a simulated layer, and where each number of <T, X> stands in the input sequence."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any


def positive_integer(value: Any, name: str) -> int:
    """``value`` as an int >= 1; TypeError or ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} is {value!r}; give a whole number of at least 1")
    if value < 1:
        raise ValueError(f"{name} is {value}; give a whole number of at least 1")
    return int(value)


@dataclass(frozen=True)
class Shape:
    """n tokens of dimension d, h heads with values of dimension d_v, and an output matrix h d_v x output_dim or none.

    The input sequence, row by row: X (n x d), then for each head A (d x d) and V (d x d_v), then the output matrix.
    """

    n: int
    d: int
    d_v: int
    heads: int = 1
    output_dim: int | None = None

    @classmethod
    def read(cls, n: Any, d: Any, d_v: Any, heads: Any = 1, output_dim: Any = None) -> Shape:
        """Check the five numbers; TypeError or ValueError names the wrong one."""
        out = None if output_dim is None else positive_integer(output_dim, "output_dim")
        return cls(
            positive_integer(n, "n"),
            positive_integer(d, "d"),
            positive_integer(d_v, "d_v"),
            positive_integer(heads, "heads"),
            out,
        )

    @property
    def joined(self) -> int:
        """Columns of the concatenated heads."""
        return self.heads * self.d_v

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return self.joined if self.output_dim is None else self.output_dim

    @property
    def inputs(self) -> int:
        """Numbers in <T, X>."""
        return self.output_at + (0 if self.output_dim is None else self.joined * self.output_dim)

    @property
    def output_at(self) -> int:
        """Index of the first number of the output matrix."""
        return self.n * self.d + self.heads * (self.d * self.d + self.d * self.d_v)

    def a_at(self, head: int) -> int:
        """Index of the first number of A of that head (0-based)."""
        return self.n * self.d + head * (self.d * self.d + self.d * self.d_v)

    def v_at(self, head: int) -> int:
        """Index of the first number of V of that head."""
        return self.a_at(head) + self.d * self.d
