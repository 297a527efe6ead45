"""Independent checks for the chapter on the cubed Gram matrix: symbolic shapes, enclosures, and condition against n."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import Ordering, fmpz_mpoly_ctx, nmod_mat

from attention_companion.ntk.attention import gram, linearized_attention, normalise_rows
from attention_companion.ntk.condition import condition_number_ball, rank_exact
from attention_companion.ntk.exact import Array
from attention_companion.ntk.relu_kernel import relu_ntk


def prove_cube_for_shape(n: int, d: int, forget_transpose: bool = False) -> int:
    """How many entries of Z Z^T - G^3 are not the zero polynomial, for an (n, d) matrix of indeterminates.

    Zero is a proof of the identity for every matrix of that shape over every commutative ring.

    Parameters
    ----------
    forget_transpose
        The control: Z is taken as X X X with the transpose left out (square shapes only).
    """
    if forget_transpose and n != d:
        raise ValueError(f"X X X needs a square shape, got ({n}, {d})")
    ring = fmpz_mpoly_ctx.get([f"x{i}" for i in range(n * d)], Ordering.lex)
    entries = np.empty(n * d, dtype=object)
    entries[:] = ring.gens()  # assigned, because numpy would take a polynomial for a sequence of terms
    X: Array = entries.reshape(n, d)
    G = X @ X.T
    Z = X @ X @ X if forget_transpose else X @ X.T @ X
    return int(sum(1 for entry in (Z @ Z.T - G @ G @ G).ravel() if entry != 0))


@dataclass(frozen=True)
class CubedCondition:
    """kappa(G) and kappa(Z Z^T), enclosed by exact arithmetic, and their ratio."""

    gram: float
    """kappa(G), middle of its enclosure."""
    attended: float
    """kappa(Z Z^T), middle of its enclosure."""
    ratio: tuple[float, float]
    """Certified bounds on kappa(Z Z^T) / kappa(G)^3, rounded outward."""
    square_ratio: float
    """Certified lower bound on kappa(Z Z^T) / kappa(G)^2: what the check says of a wrong exponent."""
    float64: float
    """What float64 eigenvalues give for kappa(Z Z^T), with no warning."""


def cubed_condition(X: Array, bits: int = 64) -> CubedCondition:
    """Compare kappa(Z Z^T) with kappa(G)^3 for integer images X (n, d), Z = X X^T X.

    Parameters
    ----------
    bits
        Each condition number is enclosed to a relative width below 2**(2 - bits).

    Raises
    ------
    ValueError
        If the Gram matrix is singular: a ratio of infinities says nothing.
    """
    kappa = condition_number_ball(gram(X), bits=bits)
    attended_gram = gram(linearized_attention(X))
    attended = condition_number_ball(attended_gram, bits=bits)
    if math.inf in (kappa.lower, attended.lower):
        raise ValueError(f"the Gram matrix of these {len(X)} images is singular; take fewer images")
    low, high = Fraction(kappa.lower), Fraction(kappa.upper)
    first, last = Fraction(attended.lower), Fraction(attended.upper)
    eigenvalues = np.abs(np.linalg.eigvalsh(attended_gram.astype(np.float64)))
    return CubedCondition(
        gram=kappa.midpoint,
        attended=attended.midpoint,
        ratio=(_below(first / high**3), -_below(-last / low**3)),
        square_ratio=_below(first / high**2),
        float64=float(eigenvalues.max() / eigenvalues.min()),
    )


def _below(x: Fraction) -> float:
    """The largest float64 that is certainly not above x."""
    nearest = float(x)
    return nearest if Fraction(nearest) <= x else math.nextafter(nearest, -math.inf)


#: 2**61 - 1, a prime.
_PRIME = 2**61 - 1


def independent_rows(X: Array) -> bool:
    """Whether the rows of the integer matrix X are linearly independent over the rationals, decided exactly.

    The Gram matrix of independent rows has full rank, and a determinant that is not zero modulo a prime is not zero:
    full rank modulo 2**61 - 1 settles it in a moment where elimination over the integers takes seconds to minutes.
    Only a rank that drops is looked at again in the integers.
    """
    n, d = X.shape
    if n > d:
        return False
    products = X.astype(np.int64) @ X.astype(np.int64).T if _fits(X) else gram(X)
    return (
        nmod_mat(n, n, [int(v) % _PRIME for v in products.ravel()], _PRIME).rank() == n or rank_exact(X) == n
    )


def _fits(X: Array) -> bool:
    """Whether the Gram matrix of X fits into 64-bit integers."""
    return int(np.abs(X).max()) ** 2 * X.shape[1] < 2**63


def condition_of_rows(X: Array) -> float:
    """kappa of the Gram matrix of X's rows scaled to unit length, from the singular values of the scaled rows.

    The squares of singular values keep twice the digits that eigenvalues of the Gram matrix would: the relative
    error is about 1e-16 * sqrt(kappa). Whether the matrix is singular is decided exactly, on the integers.

    Parameters
    ----------
    X
        (n, d) integers (raw pixels), n <= d or singular.

    Returns
    -------
    float
        ``inf`` if the rows are linearly dependent.
    """
    if not independent_rows(X):
        return math.inf
    return _squared_spread(normalise_rows(X.astype(np.float64)))


@dataclass(frozen=True)
class ConditionCurve:
    """Condition numbers against n: for the first n images, and for random samples (rows: n, columns: samples)."""

    sizes: tuple[int, ...]
    first: tuple[float, ...]
    random: tuple[tuple[float, ...], ...]


def condition_curve(X: Array, sizes: Sequence[int], samples: int, seed: int) -> ConditionCurve:
    """:func:`condition_of_rows` of the first n rows of X and of ``samples`` random choices of n rows, for each n.

    Sample k of size n is drawn without replacement by ``np.random.default_rng([seed, n, k])``.
    """
    largest = max(sizes)
    if largest > len(X):
        raise ValueError(
            f"sizes ask for {largest} images and X has {len(X)}; load more images or lower the sizes"
        )

    def drawn(n: int, k: int) -> float:
        return condition_of_rows(X[np.random.default_rng([seed, n, k]).choice(len(X), n, replace=False)])

    return ConditionCurve(
        sizes=tuple(sizes),
        first=tuple(condition_of_rows(X[:n]) for n in sizes),
        random=tuple(tuple(drawn(n, k) for k in range(samples)) for n in sizes),
    )


def nearest_size(X: Array, target: float) -> tuple[int, float]:
    """The n for which kappa of the first n unit rows is nearest to ``target`` (as a ratio), and that kappa.

    A row more never lowers kappa (eigenvalues interlace), so bisection finds the place.
    """

    def kappa(n: int) -> float:
        return condition_of_rows(X[:n])

    low, high = 1, len(X)
    if kappa(high) < target:
        raise ValueError(
            f"kappa of all {high} images is {kappa(high):.4g}, below the target {target:.4g}; load more images"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kappa(middle) < target else (low, middle)
    ends = [(n, kappa(n)) for n in (low, high)]
    return min(ends, key=lambda end: abs(math.log(end[1] / target)))


def planted_rows(kappa: float) -> Array:
    """Two integer rows whose unit-row Gram matrix [[1, c], [c, 1]] has condition number (1 + c)/(1 - c) = kappa.

    Right to about 9 digits: the second row's angle is rounded to integers of size 10**9. ``kappa`` must exceed 1.
    """
    if not kappa > 1:
        raise ValueError(f"kappa is {kappa}; it must exceed 1")
    cosine = (kappa - 1) / (kappa + 1)
    sine = 2 * math.sqrt(kappa) / (kappa + 1)
    return np.array([[10**9, 0], [round(1e9 * cosine), round(1e9 * sine)]])


@dataclass(frozen=True)
class RowScaling:
    """What unit rows of Z do to the cube. All in float64, X with unit rows too."""

    disagreement: float
    """max |Gram of the unit rows of Z - D^-1 G^3 D^-1|, whose entries are cosines."""
    unattended: float
    """The same against the cosines before attention, D^-1 G D^-1 = G: the control."""
    kappa: float
    """kappa of G."""
    kappa_scaled: float
    """kappa of the Gram matrix of the unit rows of Z."""
    cosines_before: Array
    """Cosines between different rows of X, shape (n (n - 1) / 2,)."""
    cosines_after: Array
    """Cosines between different rows of Z, shape (n (n - 1) / 2,)."""

    @property
    def ratio(self) -> float:
        """kappa_scaled / kappa^3: 1 if scaling the rows left the cube alone."""
        return self.kappa_scaled / self.kappa**3


def row_scaling(X: Array) -> RowScaling:
    """Compare the Gram matrix of the unit rows of Z = X X^T X with D^-1 G^3 D^-1, X being scaled to unit rows first.

    Condition numbers are squares of ratios of singular values of the rows themselves, which keeps twice the digits
    that the rounded Gram matrices have.
    """
    unit = normalise_rows(X.astype(np.float64))
    G = gram(unit)
    cube = G @ G @ G
    attended = normalise_rows(linearized_attention(unit))
    scaled = gram(attended)
    lengths = np.sqrt(np.diag(cube))
    upper = np.triu_indices(len(X), k=1)
    return RowScaling(
        disagreement=float(np.abs(scaled - cube / np.outer(lengths, lengths)).max()),
        unattended=float(np.abs(scaled - G).max()),
        kappa=_squared_spread(unit),
        kappa_scaled=_squared_spread(attended),
        cosines_before=G[upper],
        cosines_after=scaled[upper],
    )


def _squared_spread(rows: Array) -> float:
    singular = np.linalg.svd(rows, compute_uv=False)
    return float((singular[0] / singular[-1]) ** 2)


#: Angle in degrees and the kernel of two unit vectors at that angle, by hand: cos(t) (180 - t) / 360.
KERNEL_AT_ANGLE: dict[int, float] = {0: 1 / 2, 45: 3 * math.sqrt(2) / 16, 60: 1 / 6, 120: -1 / 12, 180: 0.0}


def kernel_errors() -> tuple[float, float]:
    """Largest error of ``relu_ntk`` at the angles of ``KERNEL_AT_ANGLE``, and that of another kernel, the control.

    The control trains both layers, which adds the term (sin t + (pi - t) cos t) / (2 pi) for unit vectors.
    """
    ours, both = 0.0, 0.0
    for angle, value in KERNEL_AT_ANGLE.items():
        t = math.radians(angle)
        kernel = float(relu_ntk(np.array([[1.0, 0.0]]), np.array([[math.cos(t), math.sin(t)]]))[0, 0])
        second_layer = (math.sin(t) + (math.pi - t) * math.cos(t)) / (2 * math.pi)
        ours, both = max(ours, abs(kernel - value)), max(both, abs(kernel + second_layer - value))
    return ours, both


def symbolic_shapes(largest: int) -> tuple[int, int]:
    """Number of shapes (n, d) with n, d <= ``largest`` and of entries, over all of them, where the identity fails."""
    shapes = list(itertools.product(range(1, largest + 1), repeat=2))
    return len(shapes), sum(prove_cube_for_shape(n, d) for n, d in shapes)
