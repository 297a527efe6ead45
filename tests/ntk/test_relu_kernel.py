"""The infinite-width kernel against mpmath, its laws, and the corners where arccos fails."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_companion.ntk import gram, linearized_attention, normalise_rows, relu_kernel, relu_ntk

from .strategies import integer_rows, law

pytestmark = pytest.mark.torch_free


def oracle(x, z):
    """The formula at 60 digits, by the angle between exact vectors; the convention for zero rows is the limit."""
    with mpmath.workdps(60):
        x, z = ([mpmath.mpf(float(entry)) for entry in row] for row in (x, z))
        inner, nx, nz = mpmath.fdot(x, z), mpmath.fdot(x, x), mpmath.fdot(z, z)
        if nx == 0 or nz == 0:
            return mpmath.mpf(0)
        # atan2 of the exact area and inner product: the area by Lagrange's identity, without cancellation trouble.
        area = mpmath.sqrt(max(nx * nz - inner**2, 0))
        return inner * (mpmath.pi - mpmath.atan2(area, inner)) / (2 * mpmath.pi)


def probability_by_integral(cosine):
    """P(g > 0, h > 0) for standard normal g, h with this correlation, by quadrature: no arccos in it."""
    sine = mpmath.sqrt(1 - cosine**2)
    return mpmath.quad(lambda t: mpmath.npdf(t) * mpmath.ncdf(cosine * t / sine), [0, 1, 3, mpmath.inf])


def assert_close(result, X, Z, tolerance):
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            scale = float(np.linalg.norm(np.float64(x)) * np.linalg.norm(np.float64(z)))
            assert abs(float(oracle(x, z)) - float(result[i, j])) <= tolerance * scale, (i, j)


@pytest.mark.parametrize(
    ("degrees", "golden"),
    [(0, 1 / 2), (45, 0.2651650429449553), (60, 1 / 6), (120, -1 / 12), (180, 0)],
)
def test_golden_angles(degrees, golden):
    angle = np.deg2rad(degrees)
    K = relu_ntk([[1.0, 0.0]], [[np.cos(angle), np.sin(angle)]])
    assert K.item() == pytest.approx(golden, abs=1e-15)


@pytest.mark.parametrize("cosine", [-0.99, -0.5, 0, 0.3, 0.999])
def test_the_formula_is_the_gaussian_integral(cosine):
    value = relu_ntk([[1.0, 0.0]], [[cosine, np.sqrt(1 - cosine**2)]]).item()
    expected = float(cosine * probability_by_integral(mpmath.mpf(cosine)))
    assert value == pytest.approx(expected, abs=1e-13)


def test_against_mpmath_at_all_scales():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 6)) * 10.0 ** rng.integers(-8, 9, (9, 1))
    Z = rng.normal(size=(7, 6)) * 10.0 ** rng.integers(-8, 9, (7, 1))
    assert_close(relu_ntk(X, Z), X, Z, 1e-15)
    assert_close(relu_ntk(X), X, X, 1e-15)


@pytest.mark.parametrize("gap", [1e-2, 1e-3, 1.5e-3, 1e-5, 1e-8, 1e-12, 1e-15])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearly_parallel_and_nearly_opposite_rows(gap, sign, dtype):
    rng = np.random.default_rng(1)
    x = rng.normal(size=50)
    Z = (sign * x + gap * rng.normal(size=(5, 50))).astype(dtype)
    X = x[np.newaxis].astype(dtype)
    assert_close(relu_ntk(X, Z), X, Z, 4e-13 if dtype == np.float64 else 4e-8)


def test_plain_float32_route_loses_what_we_keep():
    """The planted failure: arccos of a float32 cosine is wrong by more than 1e-5 on the diagonal."""
    X = normalise_rows(np.random.default_rng(2).normal(size=(64, 784)).astype(np.float32))
    cosine = np.clip(X @ X.T, -1, 1)
    plain = cosine * (np.float32(np.pi) - np.arccos(cosine)) / np.float32(2 * np.pi)
    exact = np.sum(X.astype(np.float64) ** 2, axis=1) / 2
    assert np.max(np.abs(np.diag(plain) - exact)) > 1e-5
    assert np.max(np.abs(np.diag(relu_ntk(X)) - exact)) < 1e-7


def test_equal_rows_have_the_diagonal_value_wherever_they_stand():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(33, 17)) * 10.0 ** rng.integers(-3, 4, (33, 1))
    half_square = np.array([np.sum(x * x) for x in X]) / 2
    np.testing.assert_allclose(np.diag(relu_ntk(X)), half_square, rtol=4e-16)
    order = rng.permutation(33)
    across = relu_ntk(X, X[order])
    assert np.array_equal(np.diag(relu_ntk(X)), np.diag(across[:, np.argsort(order)]))
    doubled = relu_ntk(np.vstack([X, X]))
    assert np.array_equal(np.diag(doubled[:33, 33:]), np.diag(doubled)[:33])
    assert np.array_equal(np.diag(relu_ntk(X, np.asfortranarray(X))), np.diag(relu_ntk(X)))


def test_float32_diagonal_is_the_rounded_half_square():
    X = np.random.default_rng(4).normal(size=(20, 300)).astype(np.float32)
    exact = np.array([float(sum(Fraction(float(v)) ** 2 for v in row) / 2) for row in X])
    np.testing.assert_allclose(np.diag(relu_ntk(X)), exact, rtol=6e-8)


def test_collapsed_rows_after_attention():
    """Where linearized attention puts its rows: all cosines close to one."""
    X = np.abs(np.random.default_rng(5).normal(size=(12, 30))) + 1
    Z = normalise_rows(linearized_attention(X))
    assert np.min(gram(Z)) > 0.999
    assert_close(relu_ntk(Z), Z, Z, 4e-13)


def test_zero_rows_are_the_limit():
    K = relu_ntk([[0.0, 0.0], [1.0, 2.0]])
    assert np.array_equal(K, [[0, 0], [0, 2.5]])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (np.float32, None, np.float32),
        (np.float64, None, np.float64),
        (np.float16, None, np.float16),
        (np.longdouble, None, np.float64),
        (np.uint8, None, np.float64),
        (np.float32, np.float64, np.float64),
        (np.float32, np.uint8, np.float32),
        (np.int64, np.float32, np.float32),
    ],
)
def test_dtype(left, right, expected):
    X = np.array([[1, 2], [3, 4]], dtype=left)
    Z = None if right is None else np.array([[1, 2], [3, 4]], dtype=right)
    result = relu_ntk(X, Z)
    assert result.dtype == expected
    assert_close(result, [[1, 2], [3, 4]], [[1, 2], [3, 4]], 1e-3 if expected == np.float16 else 1e-7)


def test_unsigned_pixels_do_not_wrap():
    X = np.random.default_rng(6).integers(0, 256, (5, 784), dtype=np.uint8)
    np.testing.assert_allclose(relu_ntk(X), relu_ntk(X.astype(np.float64)), rtol=1e-15)


def test_norms_beyond_the_range_of_their_squares():
    np.testing.assert_allclose(relu_ntk([[3e200, 4e200]], [[3e-200, 4e-200]]), [[12.5]], rtol=1e-15)
    np.testing.assert_allclose(relu_ntk([[3e-200, 4e-200]], [[3e100, 4e100]]), [[12.5e-100]], rtol=1e-15)
    big = [[3 * 10**400, 4 * 10**400]]
    small = [[Fraction(3, 10**400), Fraction(4, 10**400)]]
    np.testing.assert_allclose(relu_ntk(big, small), [[12.5]], rtol=1e-15)


def test_blocks_do_not_show(monkeypatch):
    X = np.random.default_rng(7).normal(size=(50, 8))
    X[30:40] = X[:10]
    whole, whole_pair = relu_ntk(X), relu_ntk(X, X[:20])
    monkeypatch.setattr("attention_companion.ntk.relu_kernel.BLOCK_BYTES", 8 * 50 * 7)
    np.testing.assert_allclose(relu_ntk(X), whole, atol=1e-15 * 50)
    np.testing.assert_allclose(relu_ntk(X, X[:20]), whole_pair, atol=1e-15 * 50)


def test_symmetric_to_the_last_bit_across_blocks(monkeypatch):
    X = np.random.default_rng(8).normal(size=(131, 37))
    monkeypatch.setattr("attention_companion.ntk.relu_kernel.BLOCK_BYTES", 8 * 131 * 33)
    K = relu_ntk(X)
    assert np.array_equal(K, K.T)


def test_symmetric_even_where_the_matrix_product_is_not(monkeypatch):
    """BLAS libraries may round (i, j) and (j, i) differently; planted here, since the one at hand may not."""
    block = relu_kernel._kernel_block
    noise = np.random.default_rng(9).normal(size=(20, 20)) * 1e-16
    monkeypatch.setattr(relu_kernel, "_kernel_block", lambda *arguments: block(*arguments) + noise)
    K = relu_ntk(np.random.default_rng(10).normal(size=(20, 4)))
    assert np.array_equal(K, K.T)


coordinates = st.integers(-1000, 1000).map(lambda k: k / 8)
real_rows = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.lists(coordinates, min_size=d, max_size=d), min_size=1, max_size=6)
)


@law
@given(real_rows)
def test_law_symmetric_and_positive_semidefinite(rows):
    K = relu_ntk(rows)
    assert np.array_equal(K, K.T)
    assert np.min(np.linalg.eigvalsh(K)) >= -1e-12 * max(1.0, np.max(np.abs(K)))


@law
@given(real_rows)
def test_law_one_argument_is_two_equal_arguments(rows):
    scale = max(1.0, np.max(np.abs(rows)) ** 2)
    np.testing.assert_allclose(relu_ntk(rows), relu_ntk(rows, rows), atol=1e-13 * scale)


@law
@given(real_rows, st.integers(-40, 40), st.integers(-40, 40))
def test_law_positively_homogeneous_in_each_argument(rows, a, b):
    # Powers of two make it exact to the bit.
    X = np.array(rows)
    assert np.array_equal(relu_ntk(2.0**a * X, 2.0**b * X), 2.0 ** (a + b) * relu_ntk(X, X))


@law
@given(integer_rows(min_rows=2), st.randoms(use_true_random=False))
def test_law_permutation_equivariant(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    X = np.array(rows, dtype=float)
    np.testing.assert_allclose(relu_ntk(X[order]), relu_ntk(X)[np.ix_(order, order)], atol=1e-7)


@law
@given(real_rows)
def test_law_opposite_row_splits_the_inner_product(rows):
    # A weight vector is on the positive side of z or of -z: the two shares (pi - angle)/(2 pi) add up to one half.
    X = np.array(rows)
    scale = max(1.0, np.max(np.abs(rows)) ** 2)
    np.testing.assert_allclose(relu_ntk(X, X) - relu_ntk(X, -X), X @ X.T / 2, atol=1e-11 * scale)


@pytest.mark.parametrize(
    ("X", "Z", "error", "says"),
    [
        ([1.0, 2.0], None, ValueError, r"\(2,\)"),
        ([[1.0, 2.0]], [[1.0]], ValueError, "length 2, Z of length 1"),
        ([[1.0]], [[np.nan]], ValueError, r"Z\[0, 0\] is nan"),
        ([[1e200]], None, OverflowError, "largest float64"),
        (np.array([[1e30]], np.float32), None, OverflowError, "largest float32"),
    ],
)
def test_refused_input(X, Z, error, says):
    with pytest.raises(error, match=says):
        relu_ntk(X, Z)
