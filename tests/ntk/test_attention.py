"""Linearized attention, Gram matrices and row normalisation."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_companion.ntk import gram, linearized_attention, normalise_rows

from .strategies import fraction_rows, integer_rows, law

pytestmark = pytest.mark.torch_free


def by_hand(query, keys):
    """query X^T X by the definition, three nested sums over Python numbers."""
    scores = [[sum(q * x for q, x in zip(a, b, strict=True)) for b in keys] for a in query]
    return [
        [sum(s * x for s, x in zip(row, column, strict=True)) for column in zip(*keys, strict=True)]
        for row in scores
    ]


@law
@given(st.one_of(integer_rows(bound=10**12), fraction_rows()))
def test_exact_input_against_the_definition(rows):
    result = linearized_attention(rows)
    assert result.tolist() == by_hand(rows, rows)
    kind = Fraction if any(isinstance(v, Fraction) for row in rows for v in row) else int
    assert all(type(entry) is kind for entry in result.ravel())


@law
@given(integer_rows(max_columns=1), integer_rows(max_columns=1))
def test_queries_against_the_definition(rows, queries):
    assert linearized_attention(rows, queries).tolist() == by_hand(queries, rows)


@law
@given(fraction_rows())
def test_its_gram_matrix_is_the_cube(rows):
    G = gram(rows)
    assert gram(linearized_attention(rows)).tolist() == G.dot(G).dot(G).tolist()


def test_golden_two_by_two():
    Z = linearized_attention([[2, 1], [1, 3]])
    assert Z.tolist() == [[15, 20], [20, 35]]
    assert gram(Z).tolist() == [[625, 1000], [1000, 1625]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_pixels_do_not_wrap(dtype):
    X = np.full((3, 5), 100, dtype=dtype)
    assert set(linearized_attention(X).ravel()) == {3 * 5 * 100**3}
    assert set(linearized_attention(X, X[:1]).ravel()) == {3 * 5 * 100**3}
    assert set(gram(X).ravel()) == {5 * 100**2}


def test_beyond_sixty_four_bits():
    X = np.full((1, 1), 2**31, dtype=np.int64)
    assert linearized_attention(X).tolist() == [[2**93]]
    # The product in the array's own dtype, for contrast, is zero.
    assert (X @ X.T @ X).tolist() == [[0]]


@pytest.mark.parametrize("shape", [(3, 7), (7, 3)])
def test_float_queries_whichever_product_is_cheaper(shape):
    rng = np.random.default_rng(4)
    X, query = rng.integers(-3, 4, shape), rng.integers(-3, 4, (5, shape[1]))
    expected = linearized_attention(X, query).astype(float)
    np.testing.assert_array_equal(linearized_attention(X.astype(float), query.astype(float)), expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 7), (7, 3)])
def test_floats_keep_their_dtype_and_agree_with_the_exact_product(dtype, shape):
    X = np.random.default_rng(1).integers(-3, 4, shape)
    result = linearized_attention(X.astype(dtype))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, linearized_attention(X).astype(float))


def test_mixed_input_takes_the_floating_dtype():
    pixels = np.array([[200, 100], [50, 25]], dtype=np.uint8)
    query = np.array([[0.5, 0.25]], dtype=np.float32)
    result = linearized_attention(pixels, query)
    assert result.dtype == np.float32
    assert result.tolist() == by_hand(query.tolist(), pixels.tolist())
    assert linearized_attention(query, pixels).dtype == np.float32
    assert linearized_attention(query.astype(np.float64), query).dtype == np.float64


def test_one_query_gives_one_row():
    X = [[2, 1], [1, 3]]
    assert linearized_attention(X, [2, 1]).tolist() == [15, 20]
    assert linearized_attention(X, np.array([2.0, 1.0])).shape == (2,)
    assert linearized_attention(X, [[2, 1]]).tolist() == [[15, 20]]


def test_rows_are_not_rescaled():
    X = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(linearized_attention(3 * X), 27 * linearized_attention(X), rtol=1e-12)


def test_a_query_from_the_training_set_gives_its_own_row():
    X = np.random.default_rng(0).normal(size=(4, 6))
    np.testing.assert_allclose(linearized_attention(X, X[2]), linearized_attention(X)[2], rtol=1e-12)


def test_normalising_rows_breaks_the_cube():
    X = np.random.default_rng(3).normal(size=(4, 6))
    G = gram(X)
    Z = linearized_attention(X)
    cube = G @ G @ G
    inverse_norms = 1 / np.sqrt(np.diag(cube))
    np.testing.assert_allclose(
        gram(normalise_rows(Z)), inverse_norms[:, None] * cube * inverse_norms, rtol=1e-10, atol=1e-12
    )
    assert np.max(np.abs(gram(normalise_rows(Z)) - cube)) > 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_of_floats_is_symmetric_to_the_last_bit(dtype):
    G = gram(np.random.default_rng(2).normal(size=(65, 33)).astype(dtype))
    assert G.dtype == dtype
    assert np.array_equal(G, G.T)


@law
@given(
    st.lists(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_normalised_rows_have_unit_norm_or_are_zero(rows):
    unit = normalise_rows(np.array(rows))
    for given_row, row in zip(rows, unit, strict=True):
        norm = np.linalg.norm(row)
        assert norm == 0 if not any(given_row) else abs(norm - 1) < 1e-14


def test_normalised_rows_dtype_and_extremes():
    assert normalise_rows(np.array([[3, 4]], dtype=np.float32)).dtype == np.float32
    np.testing.assert_allclose(normalise_rows([[3 * 10**400, 4 * 10**400]]), [[0.6, 0.8]], rtol=1e-15)
    np.testing.assert_allclose(normalise_rows([[Fraction(3, 10**400), Fraction(4, 10**400)]]), [[0.6, 0.8]])
    np.testing.assert_allclose(normalise_rows([[3e-320, 4e-320]]), [[0.6, 0.8]], rtol=1e-3)
    np.testing.assert_allclose(normalise_rows(np.array([[30, 40]], np.uint8)), [[0.6, 0.8]], rtol=1e-15)


@pytest.mark.parametrize(
    ("X", "query", "error", "says"),
    [
        ([[1, 2]], [[1, 2, 3]], ValueError, "length 3, X of length 2"),
        ([[1, 2]], [[[1, 2]]], ValueError, r"query must have shape \(n, d\) or \(d,\)"),
        ([1, 2], None, ValueError, "X must have shape"),
        ([[1.0, np.nan]], None, ValueError, "is nan"),
        ([[1e200]], None, OverflowError, "largest float64"),
        (np.array([[1e20]], np.float32), None, OverflowError, "largest float32"),
    ],
)
def test_refused_input(X, query, error, says):
    with pytest.raises(error, match=says):
        linearized_attention(X, query)


def test_gram_refuses_overflow():
    with pytest.raises(OverflowError, match="Gram"):
        gram([[1e200]])
