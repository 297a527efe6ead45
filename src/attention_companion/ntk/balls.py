"""Condition number of a large regular integer matrix: good guesses in float64, certificates in ball arithmetic.

The exact characteristic polynomial (``spectrum``) costs n^4 to n^5. This route costs n^3. With M symmetric and regular:

* An exact Rayleigh quotient r = v'Mv / v'v satisfies |r| <= max|eigenvalue| whatever v is. float64 gives a v so good
  that the bound is met to about 30 digits (the error of r is the square of that of v).
* The same with M^-1, enclosed in balls, bounds min|eigenvalue| from above; M^-1 has the smallest eigenvalue of M as
  its largest, which float64 sees sharply however ill-conditioned M is.
* The opposite bounds are certified by Sylvester's law of inertia: s I - M (and s I + M) positive definite proves
  max|eigenvalue| < s; as many positive eigenvalues of M - t I as of M + t I prove that none lies in [-t, t].

Guesses only decide how narrow the enclosure is, never whether it is true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeVar

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpz_mat

from attention_companion.ntk.exact import Array
from attention_companion.ntk.spectrum import Enclosure

T = TypeVar("T")

LEAF = 12
"""Blocks up to this size are eliminated entry by entry; larger ones are halved."""
MIN_WIDTH = 40
"""The widest enclosure worth returning, in bits: about eleven digits."""
MAX_PRECISION = 16_384
"""Bits at which the attempt is given up."""


class Undecided(Exception):
    """A ball contains zero where a sign is needed: more precision, or the polynomial route."""


@dataclass(frozen=True)
class Certified:
    """Bounds that were proved: magnitudes of the largest and the smallest eigenvalue in absolute value."""

    largest: Enclosure
    smallest: Enclosure


def extreme_magnitudes(matrix: fmpz_mat, bits: int) -> Certified:
    """Enclosures of max and min |eigenvalue| of a symmetric integer matrix, n >= 1, not singular.

    :param bits: the relative width wished for, 2^-bits, of use up to about 90 (the sharpness of the guesses). Where
        neighbouring eigenvalues are closer than float64 can tell apart the enclosure is wider, up to 2^-40.
    :raises Undecided: singular, not decided with ``MAX_PRECISION`` bits, or closer eigenvalues still.
    """
    top = _rayleigh_exact(matrix)
    inverse_top = _with_precision(2 * bits + 64, lambda: _rayleigh_balls(arb_mat(matrix).inv(), bits))
    condition_bits = (top * inverse_top).__ceil__().bit_length()
    # Elimination in balls loses up to a bit a column; starting too low costs one cheap failure, too high all of it.
    start = bits + condition_bits + matrix.nrows() + 64
    for width in range(bits, MIN_WIDTH - 1, -8):
        margin = Fraction(1, 2 ** (width + 1))
        # Dyadic points, so that shifting by them is exact.
        above = _dyadic(top * (1 + margin), width + 8)
        below = _dyadic((1 - margin) / inverse_top, width + 8)
        if above <= top or below >= 1 / inverse_top:
            raise Undecided(f"margin {margin} lost in rounding")
        if _with_precision(start, partial(_isolated, matrix, below, above)):
            return Certified(Enclosure(top, above), Enclosure(below, 1 / inverse_top))
    raise Undecided("eigenvalues too close to certify a guess")


def _with_precision(start: int, attempt: Callable[[], T]) -> T:
    """The first outcome of ``attempt`` that is decided, doubling the working precision from ``start`` bits."""
    precision = start
    while precision <= MAX_PRECISION:
        try:
            with ctx.workprec(precision):
                return attempt()
        except (Undecided, ZeroDivisionError):
            # ZeroDivisionError is FLINT's word for "not invertible as far as these balls can tell".
            precision *= 2
    raise Undecided(f"no decision with {MAX_PRECISION} bits; the matrix may be singular")


def _isolated(matrix: fmpz_mat, below: Fraction, above: Fraction) -> bool:
    """Whether below < |eigenvalue| < above for all eigenvalues: proved, or found false."""
    n = matrix.nrows()
    balls = arb_mat(matrix)
    over = positive_pivots(_shifted(balls, -below))
    if over < n and positive_pivots(_shifted(balls, below)) != over:
        return False
    if positive_pivots(_shifted(-balls, above)) < n:
        return False
    # Positive definite matrices (over == n) need no look at the negative side.
    return over == n or positive_pivots(_shifted(balls, above)) == n


def positive_pivots(matrix: arb_mat) -> int:
    """The number of positive eigenvalues of every symmetric matrix within the balls, all of them regular.

    By Haynsworth: the inertia of [[A, B'], [B, C]] is that of A plus that of the Schur complement C - B A^-1 B'.

    :raises Undecided: a pivot whose ball contains zero.
    :raises ZeroDivisionError: the same, from FLINT's solver.
    """
    n = matrix.nrows()
    if n <= LEAF:
        return _eliminate(matrix.table())
    half = n // 2
    A = _block(matrix, range(half), range(half))
    B = _block(matrix, range(half, n), range(half))
    C = _block(matrix, range(half, n), range(half, n))
    complement = C - B * A.solve(B.transpose(), algorithm="lu")
    return positive_pivots(A) + positive_pivots(complement)


def _eliminate(rows: list[list[arb]]) -> int:
    positive = 0
    for k, row in enumerate(rows):
        pivot = row[k]
        if not (pivot > 0 or pivot < 0):
            raise Undecided(f"pivot {k} is {pivot}")
        positive += bool(pivot > 0)
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / pivot
            for j in range(k + 1, i + 1):
                rows[i][j] -= factor * rows[j][k]
    return positive


def _block(matrix: arb_mat, rows: range, columns: range) -> arb_mat:
    return arb_mat(len(rows), len(columns), [matrix[i, j] for i in rows for j in columns])


def _shifted(balls: arb_mat, shift: Fraction) -> arb_mat:
    amount = arb(fmpq(shift.numerator, shift.denominator))
    result = arb_mat(balls)
    for i in range(balls.nrows()):
        result[i, i] += amount
    return result


def _rayleigh_exact(matrix: fmpz_mat) -> Fraction:
    """A rational lower bound of max |eigenvalue|, as sharp as a float64 eigenvector makes it."""
    entries = [int(entry) for entry in matrix.entries()]
    scale = max(abs(entry) for entry in entries)
    if scale == 0:
        raise Undecided("the zero matrix")
    vector = _dominant_vector(np.array([entry / scale for entry in entries]).reshape(matrix.nrows(), -1))
    quotient = vector.transpose() * matrix * vector
    return abs(Fraction(int(quotient[0, 0]), int((vector.transpose() * vector)[0, 0])))


def _rayleigh_balls(inverse: arb_mat, bits: int) -> Fraction:
    """The same for a matrix of balls: a lower bound of max |eigenvalue| of the matrix within."""
    entries = inverse.entries()
    scale = max((entry.abs_upper() for entry in entries), key=_midpoint)
    if max((entry.rad() for entry in entries), key=_midpoint) > scale * arb(2) ** -(bits + 16):
        raise Undecided("inverse too wide")
    floats = np.array([float((entry / scale).mid()) for entry in entries]).reshape(inverse.nrows(), -1)
    vector = _dominant_vector((floats + floats.T) / 2)
    balls = arb_mat(vector)
    quotient = (balls.transpose() * inverse * balls)[0, 0] / (balls.transpose() * balls)[0, 0]
    return _to_fraction(quotient.abs_lower())


def _midpoint(ball: arb) -> Fraction:
    return _to_fraction(ball.mid())


def _dominant_vector(floats: Array) -> fmpz_mat:
    values, vectors = np.linalg.eigh(floats)
    vector = vectors[:, np.argmax(np.abs(values))]
    return fmpz_mat(len(vector), 1, [int(np.rint(entry * 2.0**62)) for entry in vector])


def _to_fraction(exact: arb) -> Fraction:
    mantissa, exponent = exact.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _dyadic(value: Fraction, bits: int) -> Fraction:
    """``value`` rounded to ``bits`` significant bits."""
    unit = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - bits)
    return round(value / unit) * unit
