"""Exact rank: against FLINT's elimination, and with primes that lie."""

import numpy as np
import pytest
from flint import fmpz_mat
from hypothesis import given
from hypothesis import strategies as st

from attention_companion.ntk import rank, rank_exact
from attention_companion.ntk.rank import PRIMES, integer_rank, rank_reaches

from .strategies import integer_rows, law

pytestmark = pytest.mark.torch_free


@law
@given(integer_rows(max_rows=6, max_columns=6, bound=2))
def test_against_elimination(rows):
    matrix = fmpz_mat(rows)
    assert integer_rank(matrix) == matrix.rank()
    for k in range(1, 8):
        assert rank_reaches(matrix, k) == (matrix.rank() >= k)


@law
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**6))
def test_products_of_known_rank(n, d, inner, seed):
    rng = np.random.default_rng(seed)
    matrix = fmpz_mat(rng.integers(-99, 99, (n, inner)).tolist()) * fmpz_mat(
        rng.integers(-99, 99, (inner, d)).tolist()
    )
    assert integer_rank(matrix) == matrix.rank() <= inner


@pytest.mark.parametrize("matrix", [[[0]], [[0, 0], [0, 0]], [[0, 0, 0]]])
def test_zero_matrices(matrix):
    assert integer_rank(fmpz_mat(matrix)) == 0
    assert not rank_reaches(fmpz_mat(matrix), 1)


def test_a_prime_that_divides_everything_is_not_believed():
    """Modulo the first prime this matrix is zero; its rank is 2 all the same."""
    p = rank.PRIMES[0]
    matrix = fmpz_mat([[p, 0], [0, 2 * p]])
    assert integer_rank(matrix) == 2
    assert rank_reaches(matrix, 2)
    assert integer_rank(fmpz_mat([[1, 0], [0, p]])) == 2
    assert rank_reaches(fmpz_mat([[1, 0], [0, p]]), 2)


def test_bad_primes_cannot_make_a_rank_too_low(monkeypatch):
    """With bad primes only, elimination over the integers decides."""
    monkeypatch.setattr(rank, "PRIMES", (2, 3))
    matrix = fmpz_mat([[6, 0], [0, 1]])
    assert integer_rank(matrix) == 2
    assert rank_reaches(matrix, 2)


def test_wide_images_with_blank_pixels_and_a_repeated_row():
    X = np.random.default_rng(0).integers(0, 256, (30, 784), dtype=np.uint8)
    X[:, :200] = 0
    assert rank_exact(X) == 30
    X[29] = X[4]
    assert rank_exact(X) == rank_exact(X.T) == 29


def test_every_column_that_matters_is_checked():
    """Modulo p the rank is 1; column 1 is dependent, column 2 is not, so one dependent column proves too little."""
    p = rank.PRIMES[0]
    assert rank_reaches(fmpz_mat([[1, 0, 0], [0, 0, 0], [0, 0, p]]), 2)


def test_entries_that_are_multiples_of_every_prime_are_decided_over_the_integers():
    product = PRIMES[0] * PRIMES[1] * PRIMES[2]
    matrix = fmpz_mat([[product, 0], [0, 1]])
    assert integer_rank(matrix) == 2
    assert rank_reaches(matrix, 2)
    assert not rank_reaches(fmpz_mat([[product, product], [product, product]]), 2)
