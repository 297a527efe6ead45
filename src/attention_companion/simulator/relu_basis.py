"""Product, exp and division from ReLU alone, on a stated box: K affine pieces each, and how far off they are at most.

A continuous function with K affine pieces between nodes t_0 < ... < t_K is a constant and K ReLUs:

    f(x) = f(t_0) + sum over k < K of c_k relu(x - t_k),    c_0 = s_0,  c_k = s_k - s_(k-1),

with s_k the slope of piece k. It interpolates at the nodes. For a convex function the chord lies above, and on a piece
from a to b it is off by at most

    x^2     (b - a)^2 / 4,              exactly, in the middle;
    e^x     (b - a)^2 e^b / 8,          as the second derivative is at most e^b;
    1/x     (a^(-1/2) - b^(-1/2))^2,    exactly, at the geometric mean of a and b > 0.

A product is a difference of squares, xy = u^2 - v^2 with u = (x + y)/2, v = (x - y)/2. For |x|, |y| <= 1 both lie in
[-1, 1]; with K equal pieces each square is too large by at most 1/K^2, so the product is off by at most 1/K^2.

Source: our derivation (interpolation of convex functions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import exp, inf, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from .shape import positive_integer

#: Bounds in float64 are enlarged by this share, a thousand times more than the rounding of the few operations in them.
SLACK = 2.0**-40


def upward(value: float) -> float:
    """``value`` (>= 0) enlarged by more than the rounding of the operations that led to it."""
    return value * (1 + SLACK)


@dataclass(frozen=True)
class Pieces:
    """A function with affine pieces: ``nodes`` ascending, ``values`` there, both of K + 1 exact numbers.

    ``error`` bounds the distance, on [nodes[0], nodes[-1]], from the function it stands for.
    """

    nodes: tuple[Fraction, ...]
    values: tuple[Fraction, ...]
    error: float

    @property
    def count(self) -> int:
        """Number of affine pieces K, and of ReLUs."""
        return len(self.nodes) - 1

    def relus(self) -> list[tuple[Fraction, Fraction]]:
        """(c_k, t_k) for k = 0..K-1: the function is values[0] + sum of c_k relu(x - t_k)."""
        slopes = [
            (self.values[k + 1] - self.values[k]) / (self.nodes[k + 1] - self.nodes[k])
            for k in range(self.count)
        ]
        changes = [slopes[0], *(after - before for before, after in pairwise(slopes))]
        return list(zip(changes, self.nodes, strict=False))

    def __call__(self, x: Any) -> npt.NDArray[np.float64]:
        """The function in float64, summed ReLU by ReLU, for ``x`` of any shape; affine beyond the last node."""
        points = np.asarray(x, dtype=np.float64)
        total = np.full(points.shape, float(self.values[0]))
        for change, node in self.relus():
            total += float(change) * np.maximum(points - float(node), 0.0)
        return total

    def exactly(self, x: Fraction) -> Fraction:
        """The function at one rational number, exactly."""
        return sum((change * max(x - node, Fraction(0)) for change, node in self.relus()), self.values[0])


def square_pieces(pieces: int, *, without: int | None = None) -> Pieces:
    """x^2 on [-1, 1] in K equal pieces, exact rationals; error 1/K^2.

    ``without`` leaves out one inner node (1..K-1), so that two pieces become one: a control, for which the stated error
    does not hold.
    """
    count = positive_integer(pieces, "pieces")
    if without is not None and not 1 <= without < count:
        raise ValueError(f"without is {without}; the inner nodes are 1..{count - 1}")
    nodes = tuple(Fraction(2 * k, count) - 1 for k in range(count + 1) if k != without)
    return Pieces(nodes, tuple(t * t for t in nodes), upward(1 / count**2))


def exp_pieces(low: float, high: float, pieces: int) -> Pieces:
    """e^x on [low, high] in K equal pieces; values at the nodes are the float64 nearest to e^x or next to it."""
    count = positive_integer(pieces, "pieces")
    _check_interval(low, high, -700.0)
    a, width = Fraction(low), (Fraction(high) - Fraction(low)) / count
    nodes = tuple(a + k * width for k in range(count + 1))
    values = tuple(Fraction(exp(float(t))) for t in nodes)
    return Pieces(nodes, values, upward((float(width) ** 2 / 8 + SLACK) * exp(high)))


def reciprocal_pieces(low: float, high: float, pieces: int) -> Pieces:
    """1/x on [low, high], low > 0, in K pieces whose ends grow by a constant factor: about equal relative errors."""
    count = positive_integer(pieces, "pieces")
    if low <= 0:
        raise ValueError(f"low is {low:.6g}; a divisor's interval must lie above 0")
    _check_interval(low, high, 0.0)
    inner = [Fraction(low * (high / low) ** (k / count)) for k in range(1, count)]
    nodes = (Fraction(low), *inner, Fraction(high))
    gaps = [(1 / sqrt(a) - 1 / sqrt(b)) ** 2 for a, b in pairwise(map(float, nodes))]
    return Pieces(nodes, tuple(1 / t for t in nodes), upward(max(gaps) + SLACK / low))


def relu_product(x: Any, y: Any, pieces: int, bound: float = 1.0) -> npt.NDArray[np.float64]:
    """xy to within bound^2 / K^2 for |x|, |y| <= ``bound``, from 2K ReLUs; float64, shapes broadcast.

    Raises ValueError outside the box.
    """
    a, b = _inside(x, -bound, bound, "x"), _inside(y, -bound, bound, "y")
    square = square_pieces(pieces)
    return np.asarray(bound**2 * (square((a + b) / (2 * bound)) - square((a - b) / (2 * bound))))


def relu_exp(x: Any, low: float, high: float, pieces: int) -> npt.NDArray[np.float64]:
    """e^x to within ``exp_pieces(low, high, pieces).error`` for low <= x <= high, from K ReLUs; float64.

    Raises ValueError outside the box.
    """
    return exp_pieces(low, high, pieces)(_inside(x, low, high, "x"))


def relu_division(
    x: Any, y: Any, pieces: int, bound: float = 1.0, low: float = 0.5, high: float = 2.0
) -> npt.NDArray[np.float64]:
    """x/y for |x| <= ``bound``, low <= y <= high, from 3K ReLUs: the reciprocal, then a product; float64.

    Within :func:`division_error` of x/y. Raises ValueError outside the box.
    """
    above, below = _inside(x, -bound, bound, "x"), _inside(y, low, high, "y")
    inverse = reciprocal_pieces(low, high, pieces)(below)
    # Both factors are scaled to [-1, 1]: chords of 1/x lie between 1/high and 1/low.
    return np.asarray(relu_product(above / bound, np.clip(inverse * low, 0, 1), pieces) * bound / low)


def division_error(pieces: int, bound: float = 1.0, low: float = 0.5, high: float = 2.0) -> float:
    """A bound for the error of :func:`relu_division`: bound times that of the reciprocal, plus that of the product."""
    return upward(bound * reciprocal_pieces(low, high, pieces).error + bound / low / pieces**2)


def _check_interval(low: float, high: float, least: float) -> None:
    if not (least <= low < high < (700.0 if least else inf)):
        raise ValueError(
            f"the interval is [{low:.6g}, {high:.6g}]; expected low < high, within exp's range in float64"
        )


def _inside(values: Any, low: float, high: float, name: str) -> npt.NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    outside: Sequence[float] = array[~((array >= low) & (array <= high))].ravel().tolist()
    if outside:
        raise ValueError(
            f"{name} holds {outside[0]:.6g}, outside the box [{low:.6g}, {high:.6g}]; the error is bounded inside "
            "only: choose a larger box"
        )
    return array
