"""The infinite-width neural tangent kernel of the two-layer ReLU network with trained first layer.

Network (as quoted from arXiv 2603.13085): f(x) = m^{-1/2} sum_r a_r relu(<w_r, x>), a_r = +1 or -1 and fixed, only the
w_r trained, w_r Gaussian with any isotropic variance (relu' does not see the scale of w). The gradient by w_r is
m^{-1/2} a_r 1[<w_r, x> > 0] x, so the tangent kernel is

    <x, x'> (1/m) sum_r 1[<w_r, x> > 0] 1[<w_r, x'> > 0]   ->   <x, x'> P(<w, x> > 0, <w, x'> > 0),

and the plane spanned by x, x' sees w in a uniform direction: both half-planes contain it with probability
(pi - angle)/(2 pi). Hence K(x, x') = <x, x'> (pi - arccos cos(x, x')) / (2 pi).

Numerics. arccos has an infinite slope at 1: an error e in the cosine costs sqrt(2 e) in the angle, 3e-4 in float32 and
2e-8 in float64, exactly where linearized attention collects its rows. For nearly parallel pairs the angle is
therefore taken from the distance of the unit vectors, 2 arcsin(|u - v| / 2), and likewise from |u + v| for nearly
opposite ones. All is computed in float64 (also for float32 input) and rounded once at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from attention_companion.ntk.exact import Array, as_matrix, is_exact

NEAR = 1e-6
"""Pairs with |cos| > 1 - NEAR go by distance; arccos at 1 - NEAR still has an error below 1e-12."""
BLOCK_BYTES = 32 * 2**20
"""Size of the largest temporary array."""


@dataclass(frozen=True)
class _Rows:
    """Rows x = 2^exponent |x'| u: unit vectors, squared norms of x', and powers of two, so that nothing overflows."""

    unit: Array
    square: Array
    exponent: Array


def relu_ntk(X: Any, Z: Any = None) -> Array:
    """K(x, z) = <x, z> (pi - angle(x, z)) / (2 pi) for every row x of X and z of Z.

    :param X: (n, d), rows of any norm. Integers and fractions are computed in float64.
    :param Z: (k, d); ``None`` takes X itself, and the result is then symmetric to the last bit.
    :returns: (n, k), in the dtype of floating input (the wider one if X and Z differ; at most float64), else float64.
        Entries err by less than 1e-12 |x| |z| before rounding to that dtype. K(x, x) = |x|^2/2 exactly (one rounding
        of the squared norm), on the diagonal and for equal rows anywhere. A zero row has K = 0, the limit from every
        direction, although it has no angle.
    :raises ValueError: shapes that do not match, empty or non-finite input.
    :raises OverflowError: values beyond the range of the result's dtype.
    """
    left_input = as_matrix(X, "X")
    right_input = left_input if Z is None else as_matrix(Z, "Z")
    if left_input.shape[1] != right_input.shape[1]:
        raise ValueError(
            f"X has rows of length {left_input.shape[1]}, Z of length {right_input.shape[1]}; they must be equal"
        )
    floating = [a.dtype for a in (left_input, right_input) if not is_exact(a)]
    dtype = np.result_type(*floating) if floating else np.dtype(np.float64)
    if dtype.itemsize > 8:
        dtype = np.dtype(np.float64)
    left = _rows(left_input)
    right = left if Z is None else _rows(right_input)
    n, k = len(left.unit), len(right.unit)
    # NaN rather than whatever memory holds: an entry that no block writes must not pass for a value.
    result = np.full((n, k), np.nan, dtype=dtype)
    block = max(1, BLOCK_BYTES // (8 * k))
    for start in range(0, n, block):
        stop = min(start + block, n)
        # With one set of rows, columns left of the block are the mirror image of earlier blocks.
        first = start if Z is None else 0
        values = _kernel_block(left, slice(start, stop), right, slice(first, k))
        with np.errstate(over="ignore", under="ignore"):
            result[start:stop, first:] = values
        if Z is None:
            square = result[start:stop, start:stop]
            square[...] = np.tril(square) + np.tril(square, -1).T
            result[stop:, start:stop] = result[start:stop, stop:].T
    if not np.all(np.isfinite(result)):
        raise OverflowError(f"the kernel exceeds the largest {dtype} number; scale the rows down")
    return result


def _rows(matrix: Array) -> _Rows:
    if is_exact(matrix):
        rows, shifts = _exact_rows(matrix)
    else:
        rows, shifts = np.ascontiguousarray(matrix, dtype=np.float64), np.zeros(len(matrix), dtype=np.int64)
    powers = np.frexp(np.max(np.abs(rows), axis=1))[1].astype(np.int64)
    rows = np.ldexp(rows, -powers[:, np.newaxis])
    # Contiguous rows are summed in the same order wherever they stand: equal rows have equal norms, to the bit.
    square = np.sum(rows * rows, axis=1)
    norm = np.sqrt(np.where(square == 0, 1.0, square))
    return _Rows(unit=rows / norm[:, np.newaxis], square=square, exponent=shifts + powers)


def _exact_rows(matrix: Array) -> tuple[Array, Array]:
    """Integers or fractions as float64 rows times exact powers of two, which bring any length into range first."""
    largest = [max(abs(Fraction(entry)) for entry in set(row)) for row in matrix.tolist()]
    shifts = [
        0 if 1 <= m <= 2**900 else m.numerator.bit_length() - m.denominator.bit_length() for m in largest
    ]
    rows = [
        [float(entry if shift == 0 else entry / Fraction(2) ** shift) for entry in row]
        for row, shift in zip(matrix.tolist(), shifts, strict=True)
    ]
    return np.array(rows), np.array(shifts, dtype=np.int64)


def _kernel_block(left: _Rows, i: slice, right: _Rows, j: slice) -> Array:
    u, v = left.unit[i], right.unit[j]
    cosine = np.clip(u @ v.T, -1.0, 1.0)
    share = (np.pi - np.arccos(cosine)) / (2 * np.pi)
    _by_distance(u, v, cosine, share)
    # sqrt(s s) = s in IEEE arithmetic: this is |x|^2 itself where the two rows are equal.
    scale = np.sqrt(np.outer(left.square[i], right.square[j]))
    exponents = left.exponent[i][:, np.newaxis] + right.exponent[j][np.newaxis, :]
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(scale * cosine * share, exponents)


def _by_distance(u: Array, v: Array, cosine: Array, share: Array) -> None:
    """Replace cosine and share of half-planes, in place, for nearly parallel and nearly opposite pairs."""
    rows, columns = np.nonzero(np.abs(cosine) > 1 - NEAR)
    chunk = max(1, BLOCK_BYTES // (8 * u.shape[1]))
    for start in range(0, len(rows), chunk):
        r, c = rows[start : start + chunk], columns[start : start + chunk]
        sign = np.where(cosine[r, c] > 0, 1.0, -1.0)
        gap = u[r] - sign[:, np.newaxis] * v[c]
        distance = np.sqrt(np.sum(gap * gap, axis=1))
        angle = 2 * np.arcsin(np.minimum(distance / 2, 1.0))
        share[r, c] = np.where(sign > 0, 0.5 - angle / (2 * np.pi), angle / (2 * np.pi))
        cosine[r, c] = sign * (1 - distance * distance / 2)
