"""Condition numbers that can be believed: float64 where it suffices, exact where it does not.

kappa(G) is the ratio of the largest to the smallest eigenvalue. float64 carries a relative error of about
1e-16 * kappa in it, so beyond 1e16 it returns noise with no warning, and G^3 gets there once kappa(G) is about 2e5.
Above ``FLOAT_LIMIT`` the matrix is therefore taken as the exact rational matrix that it is (floats are dyadic
rationals), and its eigenvalues are enclosed between rationals: through the characteristic polynomial (``spectrum``),
or for larger matrices through ball arithmetic (``balls``). Neither helps a matrix that was rounded before it came
here: G^3 in float64 has another condition number than G^3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal

import numpy as np
from flint import arb, ctx, fmpq

from attention_companion.ntk.balls import Undecided, extreme_magnitudes
from attention_companion.ntk.exact import Array, as_matrix, integer_multiple, is_exact
from attention_companion.ntk.rank import integer_rank
from attention_companion.ntk.spectrum import Enclosure, ExactSpectrum

FLOAT_LIMIT = 1e12
"""Float matrices: estimates up to here are returned as float64 found them (relative error about 1e-4 at the limit)."""
EXACT_FLOAT_LIMIT = 1e7
"""Exact matrices: whoever gives integers or fractions asks for more digits (relative error below 1e-8 at the limit)."""
POLYNOMIAL_SIZE = 60
"""Up to this many rows the characteristic polynomial is the faster route; inner eigenvalues have no other."""
BALL_BITS = 90
"""Narrower enclosures than this come from the characteristic polynomial only."""

Method = Literal["auto", "polynomial", "balls"]


@dataclass(frozen=True)
class ConditionEnclosure:
    """Certified bounds: lower <= kappa <= upper, exact rationals; both ``math.inf`` for a singular matrix."""

    lower: Fraction | float
    upper: Fraction | float

    @property
    def midpoint(self) -> float:
        """The nearest float64 to the middle; ``inf`` if singular, or beyond the range of float64."""
        if not isinstance(self.lower, Fraction) or not isinstance(self.upper, Fraction):
            return math.inf
        try:
            return float((self.lower + self.upper) / 2)
        except OverflowError:
            return math.inf

    @property
    def ball(self) -> arb:
        """The enclosure as a FLINT ball, for further ball arithmetic (rounded outward to 128 bits)."""
        if not isinstance(self.lower, Fraction) or not isinstance(self.upper, Fraction):
            return arb("inf")
        with ctx.workprec(128):
            ends = [arb(fmpq(end.numerator, end.denominator)) for end in (self.lower, self.upper)]
            return ends[0].union(ends[1])

    def contains(self, value: float | int | Fraction) -> bool:
        """Whether ``value`` lies between the bounds."""
        return self.lower <= value <= self.upper


def condition_number(G: Any, rank: int | None = None) -> float:
    """The condition number of the symmetric matrix G exactly as given.

    :param G: (n, n), symmetric to the last bit: a float array, an integer array, or nested lists of ``int`` or
        ``Fraction``. It is not rescaled, shifted or symmetrised. Gram and kernel matrices are positive semi-definite;
        for other symmetric matrices (such as a Gram matrix that rounding made slightly indefinite) eigenvalues are
        ordered by absolute value, which makes this the 2-norm condition number.
    :param rank: ``None``: largest over smallest of all n eigenvalues. k: the k largest eigenvalues only, largest over
        k-th.
    :returns: float64. Estimates up to 1e12 (1e7 for exact input) are float64's own, with a relative error of about
        1e-16 times the answer. Larger ones are enclosed exactly and are correct to the last digit (eleven digits if
        more than 60 rows have eigenvalues that float64 cannot tell apart). 150 rows with 90-bit entries take about a
        second, 300 about five; ``rank`` on that path costs 1, 14, and 70 s for 150, 300, and 450 rows. ``inf`` if the
        matrix (without ``rank``) is singular, or if k exceeds its rank, decided by exact rank and never by a
        threshold; and for a regular matrix whose condition number exceeds float64 (above 1.8e308), which
        :func:`condition_number_ball` tells apart.
    :raises ValueError: not square, not symmetric (the error names the entry), empty, non-finite, ``rank`` not in 1..n.
    :raises TypeError: entries that are not real, ``rank`` not an integer.
    """
    matrix, k = _checked(G, rank)
    estimate = _float_estimate(matrix, k)
    if estimate <= (EXACT_FLOAT_LIMIT if is_exact(matrix) else FLOAT_LIMIT):
        return estimate
    return _enclose(matrix, k, bits=64).midpoint


def condition_number_ball(
    G: Any, rank: int | None = None, *, bits: int = 64, method: Method = "auto"
) -> ConditionEnclosure:
    """Certified bounds on :func:`condition_number`, by exact or ball arithmetic whatever the size of the answer.

    :param bits: the relative width of the enclosure is below 2^(2 - bits); by balls it may be up to 2^-38 where
        eigenvalues nearly coincide.
    :param method: ``"polynomial"`` (exact characteristic polynomial), ``"balls"`` (all eigenvalues only, i.e. ``rank``
        None or n), or ``"auto"``, the faster of them that can answer.
    :returns: rational ``.lower`` and ``.upper``, ``.midpoint`` (float64) and ``.ball`` (FLINT).
    :raises ValueError: as :func:`condition_number`; ``bits`` below 2; unknown method, or balls asked for what they
        cannot decide.
    """
    if bits < 2:
        raise ValueError(f"bits is {bits}; at least 2 are needed")
    if method not in ("auto", "polynomial", "balls"):
        raise ValueError(f"method is {method!r}; it must be 'auto', 'polynomial' or 'balls'")
    matrix, k = _checked(G, rank)
    if method == "balls" and k < len(matrix):
        raise ValueError(
            f"balls enclose the extreme eigenvalues only, not number {k} of {len(matrix)}; use 'polynomial'"
        )
    return _enclose(matrix, k, bits, method)


def rank_exact(G: Any) -> int:
    """The rank of a matrix (n, d) exactly as given; no tolerance (see ``rank``).

    Takes the same kinds of input as :func:`condition_number`, rectangular ones too. Note that a float Gram matrix of
    linearly dependent rows has, once rounded, mostly full rank: pass integers for a statement about the images.
    """
    return integer_rank(integer_multiple(as_matrix(G, "G")))


def _checked(G: Any, rank: int | None) -> tuple[Array, int]:
    matrix = as_matrix(G, "G")
    n, columns = matrix.shape
    if n != columns:
        raise ValueError(f"G has shape {matrix.shape}; a square Gram or kernel matrix is needed")
    unequal = np.argwhere(matrix != matrix.T)
    if len(unequal):
        i, j = (int(index) for index in unequal[0])
        raise ValueError(
            f"G is not symmetric: G[{i},{j}] = {matrix[i, j]} but G[{j},{i}] = {matrix[j, i]}; if only rounding is to "
            "blame use attention_companion.ntk.gram, or (G + G.T) / 2"
        )
    if rank is None:
        return matrix, n
    if isinstance(rank, bool) or not isinstance(rank, Integral):
        raise TypeError(f"rank is {rank!r}; it must be an integer or None")
    if not 1 <= rank <= n:
        raise ValueError(f"rank is {rank}; it must lie between 1 and n = {n}")
    return matrix, int(rank)


def _float_estimate(matrix: Array, k: int) -> float:
    """Ratio of the largest to the k-th |eigenvalue| in float64; ``inf`` when float64 sees a zero."""
    if is_exact(matrix):
        largest = max(abs(entry) for entry in matrix.ravel().tolist())
        if largest == 0:
            return math.inf
        # Quotients of integers or fractions are rounded once, and cannot overflow.
        floats = np.array([float(Fraction(entry) / largest) for entry in matrix.ravel().tolist()])
        floats = floats.reshape(matrix.shape)
    else:
        # A power of two changes no digit, and brings long doubles into the range of float64.
        floats = np.ldexp(matrix, -np.frexp(np.max(np.abs(matrix)))[1]).astype(np.float64)
    magnitudes = np.sort(np.abs(np.linalg.eigvalsh(floats)))[::-1]
    if magnitudes[k - 1] <= magnitudes[0] / (2 * FLOAT_LIMIT):
        return math.inf
    return float(magnitudes[0] / magnitudes[k - 1])


def _enclose(matrix: Array, k: int, bits: int, method: Method = "auto") -> ConditionEnclosure:
    integers = integer_multiple(matrix)
    spectrum = ExactSpectrum(integers)
    if not spectrum.reaches(k):
        return ConditionEnclosure(math.inf, math.inf)
    if k == 1:
        return ConditionEnclosure(Fraction(1), Fraction(1))
    prefers_balls = k == len(matrix) > POLYNOMIAL_SIZE and bits <= BALL_BITS
    if method == "balls" or (method == "auto" and prefers_balls):
        try:
            ends = extreme_magnitudes(integers, bits)
            return _ratio(ends.largest, ends.smallest)
        except Undecided as error:
            if method == "balls":
                raise ValueError(
                    f"balls cannot enclose this matrix ({error}); use method='polynomial'"
                ) from error
    return _ratio(spectrum.magnitude(1, bits), spectrum.magnitude(k, bits))


def _ratio(largest: Enclosure, kth: Enclosure) -> ConditionEnclosure:
    # A ratio of magnitudes in order is at least one, which the enclosures alone do not know.
    return ConditionEnclosure(max(Fraction(1), largest.lower / kth.upper), largest.upper / kth.lower)
