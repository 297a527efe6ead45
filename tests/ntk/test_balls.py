"""Inertia counts in ball arithmetic, and the certificates built on them."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, arb_mat, ctx, fmpz_mat
from hypothesis import given
from hypothesis import strategies as st

from attention_companion.ntk import balls, condition_number_ball, gram
from attention_companion.ntk.balls import Undecided, extreme_magnitudes, positive_pivots

from .strategies import law

pytestmark = pytest.mark.torch_free


def symmetric(n, seed, bound=50):
    A = np.random.default_rng(seed).integers(-bound, bound + 1, (n, n)).astype(object)
    return A + A.T


def as_fmpz(G):
    return fmpz_mat(*G.shape, G.ravel().tolist())


@pytest.mark.parametrize("n", [1, 2, 5, 13, 40])
@pytest.mark.parametrize("leaf", [1, 12])
def test_counts_positive_eigenvalues(n, leaf, monkeypatch):
    monkeypatch.setattr(balls, "LEAF", leaf)
    G = symmetric(n, seed=n) + np.diag([1] * n)
    with ctx.workprec(200):
        assert positive_pivots(arb_mat(as_fmpz(G))) == np.sum(np.linalg.eigvalsh(G.astype(float)) > 0)


def test_a_pivot_that_may_be_zero_is_not_guessed():
    with pytest.raises(Undecided, match="pivot"):
        positive_pivots(arb_mat([[arb(1), arb(1)], [arb(1), arb(1, 1e-9)]]))


@law
@given(st.integers(2, 9), st.integers(0, 10**6))
def test_same_interval_as_the_characteristic_polynomial(n, seed):
    X = np.random.default_rng(seed).integers(0, 256, (n, n + 2))
    G = gram(X)
    by_balls = condition_number_ball(G, method="balls")
    by_polynomial = condition_number_ball(G, method="polynomial")
    assert by_balls.lower <= by_polynomial.upper
    assert by_polynomial.lower <= by_balls.upper
    assert by_balls.upper / by_balls.lower - 1 < Fraction(1, 2**38)


@pytest.mark.parametrize("seed", range(4))
def test_indefinite_matrices_by_both_routes(seed):
    G = symmetric(20, seed)
    by_balls = condition_number_ball(G, method="balls")
    by_polynomial = condition_number_ball(G, method="polynomial")
    assert by_balls.lower <= by_polynomial.upper
    assert by_polynomial.lower <= by_balls.upper
    assert by_balls.midpoint == pytest.approx(np.linalg.cond(G.astype(float)), rel=1e-9)


@pytest.mark.parametrize("values", [(3, 7, 7, 100), (-3, 7, 50), (-100, 7, 3), (-5, -3), (2, 2), (-4, 4)])
def test_known_spectra(values):
    n = len(values)
    found = extreme_magnitudes(fmpz_mat(n, n, np.diag(values).ravel().tolist()), 64)
    assert found.largest.lower <= max(map(abs, values)) <= found.largest.upper
    assert found.smallest.lower <= min(map(abs, values)) <= found.smallest.upper
    assert found.largest.upper / found.largest.lower - 1 < Fraction(1, 2**62)
    assert found.smallest.upper / found.smallest.lower - 1 < Fraction(1, 2**62)


def test_a_bad_guess_widens_the_answer_but_cannot_falsify_it(monkeypatch):
    """Guess with a vector 1e-8 off the eigenvector: the bounds still hold, and the narrowest ones are refused."""
    true_guess = balls._dominant_vector

    def bad_guess(floats):
        vector = true_guess(floats)
        return fmpz_mat(vector.nrows(), 1, [int(v) + (i % 3) * 2**36 for i, v in enumerate(vector.entries())])

    G = as_fmpz(np.diag([100, 60, 7, 3]) + symmetric(4, 0, 2))
    honest = extreme_magnitudes(G, 64)
    monkeypatch.setattr(balls, "_dominant_vector", bad_guess)
    widened = extreme_magnitudes(G, 64)
    assert widened.largest.lower < honest.largest.lower
    assert widened.largest.upper > honest.largest.lower
    assert widened.smallest.upper > honest.smallest.upper
    assert widened.smallest.lower < honest.smallest.upper
    assert widened.largest.upper - widened.largest.lower > 100 * (honest.largest.upper - honest.largest.lower)


def test_a_wrong_guess_is_refused(monkeypatch):
    """Guess another eigenvector: no certificate may come out."""
    monkeypatch.setattr(
        balls, "_dominant_vector", lambda floats: fmpz_mat(len(floats), 1, [0] * (len(floats) - 1) + [1])
    )
    with pytest.raises(Undecided, match="too close"):
        extreme_magnitudes(fmpz_mat([[9, 0], [0, 2]]), 64)


def test_singular_matrices_are_undecided():
    with pytest.raises(Undecided, match="singular"):
        extreme_magnitudes(fmpz_mat([[1, 1], [1, 1]]), 64)
    with pytest.raises(Undecided, match="zero matrix"):
        extreme_magnitudes(fmpz_mat([[0]]), 64)


@pytest.mark.parametrize(
    ("values", "below", "above", "isolated"),
    [
        ((3, 5), 2, 6, True),
        ((-5, 3), 2, 6, True),
        ((-9, 3), 2, 6, False),  # too large on the negative side only
        ((9, 3), 2, 6, False),
        ((-1, 5), 2, 6, False),  # too small on the negative side only
        ((1, 5), 2, 6, False),
    ],
)
def test_both_signs_are_looked_at(values, below, above, isolated):
    matrix = fmpz_mat(2, 2, np.diag(values).ravel().tolist())
    assert balls._isolated(matrix, Fraction(below), Fraction(above)) is isolated


def test_precision_is_raised_until_it_decides():
    tried = []

    def attempt():
        tried.append(ctx.prec)
        if len(tried) < 3:
            raise Undecided("planted") if len(tried) == 1 else ZeroDivisionError("planted")
        return "decided"

    before = ctx.prec
    assert balls._with_precision(100, attempt) == "decided"
    assert tried == [100, 200, 400]
    assert ctx.prec == before
