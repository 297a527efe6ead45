"""Exact eigenvalue counts: Descartes' rule on the characteristic polynomial, and the bisection built on it."""

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpz_mat
from hypothesis import given
from hypothesis import strategies as st

from attention_companion.ntk.spectrum import ExactSpectrum, roots_above, sign_changes

from .strategies import integer_rows, law

pytestmark = pytest.mark.torch_free


def coefficients(roots):
    """Of the product of (x - r), constant term first."""
    result = [1]
    for root in roots:
        shifted = [0, *result]
        for i, c in enumerate(result):
            shifted[i] -= root * c
        result = shifted
    return result


@law
@given(st.lists(st.integers(-30, 30), max_size=8), st.integers(-30, 30), st.integers(-3, 3))
def test_counts_equal_the_roots_above_any_dyadic_point(roots, mantissa, exponent):
    point = mantissa * Fraction(2) ** exponent
    assert roots_above(coefficients(roots), mantissa, exponent) == sum(root > point for root in roots)


def test_the_count_needs_real_roots():
    """The hypothesis that symmetry supplies: x^3 - x^2 + x - 1 has one positive root but three sign changes."""
    assert sign_changes([-1, 1, -1, 1]) == 3


def test_zeros_are_left_out_of_sign_changes():
    assert sign_changes([-1, 0, 0, 1, 0, -2, 0]) == 2
    assert sign_changes([0, 0]) == 0


@law
@given(st.lists(st.integers(-50, 50).filter(bool), min_size=1, max_size=6), st.integers(2, 40))
def test_known_eigenvalues_are_enclosed_to_the_width_asked(values, bits):
    n = len(values)
    spectrum = ExactSpectrum(fmpz_mat(n, n, [values[i] if i == j else 0 for i in range(n) for j in range(n)]))
    assert spectrum.rank == n
    for k, magnitude in enumerate(sorted(map(abs, values), reverse=True), start=1):
        found = spectrum.magnitude(k, bits)
        assert found.lower < magnitude <= found.upper
        assert found.upper - found.lower <= magnitude * Fraction(2) ** -bits


@law
@given(integer_rows(max_rows=6, max_columns=3))
def test_gram_matrices_against_numpy(rows):
    X = np.array(rows, dtype=object)
    G = X.dot(X.T)
    spectrum = ExactSpectrum(fmpz_mat(len(G), len(G), G.ravel().tolist()))
    assert not spectrum.has_negative
    floats = np.sort(np.linalg.eigvalsh(G.astype(float)))[::-1]
    for k in range(1, spectrum.rank + 1):
        found = spectrum.magnitude(k, 30)
        assert float(found.upper) == pytest.approx(floats[k - 1], abs=1e-7 * max(1, floats[0]))


def test_integers_beyond_float_range():
    huge = 10**400
    spectrum = ExactSpectrum(fmpz_mat([[huge, 0], [0, 1]]))
    assert spectrum.magnitude(1, 8).upper >= huge > spectrum.magnitude(1, 8).lower
    assert spectrum.magnitude(2, 8).upper >= 1 > spectrum.magnitude(2, 8).lower


@pytest.mark.parametrize("k", [0, 2, 3])
def test_numbers_beyond_the_rank_are_refused(k):
    with pytest.raises(ValueError, match=f"number {k} .* has 1 that are not zero"):
        ExactSpectrum(fmpz_mat([[1, 1], [1, 1]])).magnitude(k, 8)
