"""The checks behind the chapter on the cubed Gram matrix: each must be able to fail."""

import math

import numpy as np
import pytest

from attention_companion.ntk import checks, condition_number, gram, normalise_rows

pytestmark = pytest.mark.torch_free


def images(n, d, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=(n, d))


def test_the_identity_is_proved_for_shapes_and_a_forgotten_transpose_is_not():
    assert checks.symbolic_shapes(3) == (9, 0)
    assert checks.prove_cube_for_shape(2, 2, forget_transpose=True) == 4
    with pytest.raises(ValueError, match=r"square shape, got \(2, 3\)"):
        checks.prove_cube_for_shape(2, 3, forget_transpose=True)


def test_the_ratio_of_condition_numbers_encloses_one_and_a_wrong_exponent_does_not():
    seen = checks.cubed_condition(images(8, 20))
    low, high = seen.ratio
    assert low <= 1 <= high
    assert high - low < 1e-15
    assert seen.square_ratio > 2
    assert seen.attended == pytest.approx(seen.gram**3, rel=1e-12)


def test_a_singular_gram_matrix_has_no_ratio():
    X = images(4, 20)
    X[3] = X[0] + X[1]
    with pytest.raises(ValueError, match="singular"):
        checks.cubed_condition(X)
    assert not checks.independent_rows(X)
    assert checks.condition_of_rows(X) == math.inf
    assert checks.condition_of_rows(images(5, 4)) == math.inf


def test_independence_beyond_64_bits_is_decided_exactly():
    big = np.array([[2**40, 1], [2**40, 2]])
    assert checks.independent_rows(big)
    assert not checks.independent_rows(np.array([[2**40, 2], [2**41, 4]]))


def test_condition_of_rows_agrees_with_the_gram_matrix():
    X = images(12, 40)
    assert checks.condition_of_rows(X) == pytest.approx(
        condition_number(gram(normalise_rows(X.astype(float)))), rel=1e-9
    )


def test_planted_rows_have_the_condition_number_asked_for():
    for kappa in (2.0, 1.2e3, 8.7e3):
        assert checks.condition_of_rows(checks.planted_rows(kappa)) == pytest.approx(kappa, rel=1e-4)
    with pytest.raises(ValueError, match="must exceed 1"):
        checks.planted_rows(1.0)


def test_nearest_size_is_the_best_of_all_sizes():
    X = images(30, 60)
    target = 20.0
    n, kappa = checks.nearest_size(X, target)
    gaps = [abs(math.log(checks.condition_of_rows(X[:k]) / target)) for k in range(1, 31)]
    assert n == 1 + int(np.argmin(gaps))
    assert kappa == checks.condition_of_rows(X[:n])
    with pytest.raises(ValueError, match="load more images"):
        checks.nearest_size(X, 1e9)


def test_the_curve_rises_with_n_and_its_samples_are_reproducible():
    X = images(40, 80)
    curve = checks.condition_curve(X, [5, 10, 20], samples=2, seed=7)
    assert list(curve.first) == sorted(curve.first)
    assert curve == checks.condition_curve(X, [5, 10, 20], samples=2, seed=7)
    assert curve.random[2][0] != curve.random[2][1]
    with pytest.raises(ValueError, match="ask for 41 images and X has 40"):
        checks.condition_curve(X, [41], samples=1, seed=7)


def test_scaling_the_rows_gives_the_scaled_cube_and_breaks_the_power():
    seen = checks.row_scaling(images(10, 30))
    assert seen.disagreement < 1e-13
    assert seen.unattended > 0.01
    assert abs(seen.ratio - 1) > 1e-3
    assert seen.cosines_before.shape == (45,)


def test_kernel_constants_hold_and_the_kernel_of_both_layers_misses_them():
    ours, both = checks.kernel_errors()
    assert ours < 1e-15
    assert both > 0.4
