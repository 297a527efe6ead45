"""Is (X X^T X)(X X^T X)^T = (X X^T)^3?  In unbounded integers, and in 64-bit integers that wrap.

The identity holds over every commutative ring, and the integers modulo 2^64 are one. So 64-bit machine arithmetic
confirms it *while every number in it is wrong*: agreement of two sides that wrap alike is no evidence about the
numbers themselves. :func:`cube_identity` therefore computes in unbounded integers, and keeps the wrapping variant
only so that a reader can watch it "hold".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from attention_companion.ntk.exact import Array, as_matrix, from_flint, is_exact, multiply, to_flint

Arithmetic = Literal["integer", "int64"]


@dataclass(frozen=True)
class CubeIdentity:
    """What :func:`cube_identity` found."""

    holds: bool
    """Every entry of the two sides agrees."""
    differing: int
    """How many of the n^2 entries differ."""
    largest_difference: int | Fraction
    """max |left - right| over the entries, exact."""
    largest_entry: int | Fraction
    """max |right|, the largest entry of the cube in the arithmetic used."""
    arithmetic: Arithmetic

    def __bool__(self) -> bool:
        return self.holds


def cube_identity(X: Any, right: Any = None, *, arithmetic: Arithmetic = "integer") -> CubeIdentity:
    """Compare Z Z^T, Z = X X^T X, with (Y Y^T)^3, where Y is ``right`` or, by default, X itself.

    :param X: (n, d) exact: an integer array of any width, or nested lists of ``int`` or ``Fraction``.
    :param right: (n, d) the images on the right-hand side. Giving a copy of X with one pixel changed is the negative
        control: the comparison must then fail.
    :param arithmetic: ``"integer"`` is exact. ``"int64"`` wraps modulo 2^64, and is there to be distrusted.
    :raises TypeError: floats (rounding would decide the answer), or fractions with ``"int64"``.
    :raises ValueError: unequal numbers of rows, unknown arithmetic, entries beyond 64 bits with ``"int64"``.
    """
    if arithmetic not in ("integer", "int64"):
        raise ValueError(f"arithmetic is {arithmetic!r}; it must be 'integer' or 'int64'")
    left_images = _exact_images(X, "X")
    right_images = left_images if right is None else _exact_images(right, "right")
    if len(left_images) != len(right_images):
        raise ValueError(f"X has {len(left_images)} rows, right has {len(right_images)}; they must be equal")
    if arithmetic == "integer":
        left, cube = _exact_sides(left_images, right_images)
    else:
        left, cube = _wrapping_sides(left_images, right_images)
    difference = left - cube
    return CubeIdentity(
        holds=not difference.any(),
        differing=int(np.count_nonzero(difference)),
        largest_difference=max(abs(entry) for entry in difference.ravel().tolist()),
        largest_entry=max(abs(entry) for entry in cube.ravel().tolist()),
        arithmetic=arithmetic,
    )


def _exact_images(value: Any, name: str) -> Array:
    images = as_matrix(value, name)
    if not is_exact(images):
        raise TypeError(
            f"{name} holds {images.dtype} numbers; the identity is decided on integers or fractions only"
        )
    return images


def _exact_sides(left_images: Array, right_images: Array) -> tuple[Array, Array]:
    X, Y = to_flint(left_images), to_flint(right_images)
    Z = multiply(multiply(X, X.transpose()), X)
    G = multiply(Y, Y.transpose())
    return from_flint(multiply(Z, Z.transpose())), from_flint(multiply(multiply(G, G), G))


def _wrapping_sides(left_images: Array, right_images: Array) -> tuple[Array, Array]:
    X, Y = (_to_int64(images) for images in (left_images, right_images))
    Z = (X @ X.T) @ X
    G = Y @ Y.T
    # As Python integers, so that only the products wrap and not the comparison after them.
    return (Z @ Z.T).astype(object), (G @ G @ G).astype(object)


def _to_int64(images: Array) -> Array:
    for entry in images.ravel().tolist():
        if isinstance(entry, Fraction):
            raise TypeError(f"{entry!r} is a fraction; arithmetic='int64' takes integers only")
        if not -(2**63) <= entry < 2**63:
            raise ValueError(f"{entry} does not fit in 64 bits; use arithmetic='integer'")
    return images.astype(np.int64)
