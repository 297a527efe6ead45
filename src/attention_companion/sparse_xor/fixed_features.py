"""What N fixed features can do for products of k unknown bits: Bessel's inequality, measured and in rationals.

The targets are the C(d, k) functions chi_S(x) = prod_{i in S} x_i with |S| = k (the label -x_p x_q is one of them with
k = 2, up to its sign), and a model answers c_0 phi_0(x) + c_1 phi_1(x) + ... with features phi that were fixed before S
was known; only the c are fitted, for each S anew, over all 2^d inputs.

Bound. Let u_1, ..., u_r be an orthonormal basis of the span of the features under the mean over all inputs, r <= N.
The least loss for chi_S is 1 - sum_j <u_j, chi_S>^2. Summed over S, sum_S <u_j, chi_S>^2 <= |u_j|^2 = 1 because the
chi_S are orthonormal themselves (Bessel), so

    mean over S of the least loss >= 1 - r / C(d, k) >= 1 - N / C(d, k),

with equality exactly when the features are independent and lie in the span of the chi_S.

Source: our derivation; the argument is the standard one for orthonormal families.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from ._validation import FloatArray

#: Families of features that ``draw_features`` knows.
FAMILIES = ("relu", "fourier", "parities", "monomials", "orthogonal")
#: Longest input for which all 2^d inputs are held as a table.
LARGEST = 12


def sign_table(d: int) -> npt.NDArray[np.int64]:
    """All sign strings of length ``d`` as rows, int64 (2^d, d). ValueError for d outside 1..12."""
    if not 1 <= d <= LARGEST:
        raise ValueError(f"d is {d}; a table of all 2^d inputs is made for d = 1 to {LARGEST}")
    return 2 * ((np.arange(2**d)[:, np.newaxis] >> np.arange(d)) & 1) - 1


def bit_products(d: int, k: int) -> npt.NDArray[np.int64]:
    """The products of ``k`` different bits at all inputs, int64 (2^d, C(d, k)); the constant 1 for k = 0."""
    if not 0 <= k <= d:
        raise ValueError(f"k is {k}; with d = {d} bits a product has 0 to {d} factors")
    table = sign_table(d)
    supports = np.array(list(combinations(range(d), k)), dtype=np.int64).reshape(comb(d, k), k)
    return np.asarray(table[:, supports].prod(axis=-1))


def bessel_bound(features: int, d: int, k: int) -> Fraction:
    """1 - N / C(d, k), exactly; negative (and so saying nothing) when there are more features than targets."""
    if features < 0 or not 0 <= k <= d:
        raise ValueError(f"features is {features}, d is {d} and k is {k}; need features >= 0 and 0 <= k <= d")
    return 1 - Fraction(features, comb(d, k))


def mean_least_loss(features: FloatArray, targets: npt.NDArray[np.generic]) -> float:
    """The least mean squared error of a linear function of the features, averaged over the targets; float64.

    ``features`` is (n, N) and ``targets`` (n, T), one row an input, all inputs equally likely; the targets' own mean
    squares are 1. Directions of the features weaker than 1e-10 of the strongest count as absent, which can only raise
    the loss. ValueError for unequal numbers of rows.
    """
    if features.ndim != 2 or targets.ndim != 2 or len(features) != len(targets):
        raise ValueError(
            f"features has shape {features.shape} and targets {targets.shape}; give one row an input in both"
        )
    wanted = np.asarray(targets, dtype=np.float64)
    basis, strength, _ = np.linalg.svd(np.asarray(features, dtype=np.float64), full_matrices=False)
    basis = basis[:, strength > 1e-10 * strength.max(initial=0)]
    left = wanted - basis @ (basis.T @ wanted)
    return float((left * left).mean())


def exact_mean_least_loss(features: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]) -> Fraction:
    """The same in rationals for integer features that are orthogonal to each other, such as products of bits.

    Raises ValueError when two features are not orthogonal or one is zero: the sum of squared projections would then
    not be the explained part.
    """
    gram = features.T @ features
    if np.any(gram != np.diag(np.diag(gram))) or np.any(np.diag(gram) == 0):
        raise ValueError("features are not orthogonal to each other; use mean_least_loss for such features")
    inner, sizes = features.T @ targets, np.diag(gram)
    n, count = targets.shape
    explained = sum(
        Fraction(int((row * row).sum()), int(size) * n) for row, size in zip(inner, sizes, strict=True)
    )
    return Fraction(int((targets * targets).sum()), n * count) - explained / count


def draw_features(rng: np.random.Generator, family: str, d: int, count: int, k: int) -> FloatArray:
    """``count`` features of a family at all inputs, float64 (2^d, count).

    "relu": relu(w.x + b) with w normal of variance 1/d and b normal; "fourier": cos(w.x + b), w normal, b uniform;
    "parities": products of bits over random supports of any size; "monomials": products of at most 2 bits, the shorter
    ones first (all of them when there are no more than ``count``); "orthogonal": orthonormal directions in random
    position, which know nothing of bits; "targets": ``count`` of the products of ``k`` bits, the best possible choice.

    Raises ValueError for another family or more features than it has.
    """
    table = sign_table(d)
    if family in ("relu", "fourier"):
        weights, shift = rng.standard_normal((d, count)), rng.standard_normal(count)
        if family == "relu":
            return np.maximum(table @ weights / np.sqrt(d) + shift, 0)
        return np.cos(table @ weights + rng.uniform(0, 2 * np.pi, count))
    if family == "orthogonal":
        return np.linalg.qr(rng.standard_normal((2**d, count)))[0]
    if family == "monomials":
        return np.concatenate([bit_products(d, size) for size in range(3)], axis=1)[:, :count].astype(float)
    if family == "targets":
        products = bit_products(d, k)
        _enough(count, products.shape[1], family)
        return products[:, rng.choice(products.shape[1], count, replace=False)].astype(float)
    if family == "parities":
        _enough(count, 2**d, family)
        supports = sign_table(d)[rng.choice(2**d, count, replace=False)] > 0
        return np.stack([table[:, support].prod(axis=1) for support in supports], axis=1).astype(float)
    raise ValueError(f"family is {family!r}; choose one of {', '.join((*FAMILIES, 'targets'))}")


def _enough(count: int, available: int, family: str) -> None:
    if count > available:
        raise ValueError(f"{count} features were asked for; the family {family!r} has {available}")
