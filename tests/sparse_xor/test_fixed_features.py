"""Fixed features: the bound against brute-force least squares, equality in rationals, and each refusal."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from attention_companion.sparse_xor.fixed_features import (
    FAMILIES,
    bessel_bound,
    bit_products,
    draw_features,
    exact_mean_least_loss,
    mean_least_loss,
    sign_table,
)

pytestmark = pytest.mark.torch_free


def test_the_table_holds_every_input_once():
    table = sign_table(4)
    assert {tuple(row) for row in table.tolist()} == set(product((-1, 1), repeat=4))
    assert len(table) == 16


@pytest.mark.parametrize(("d", "k"), [(4, 0), (4, 1), (5, 2), (6, 3), (5, 5)])
def test_products_are_products_and_orthonormal(d, k):
    table, products = sign_table(d), bit_products(d, k)
    assert products.shape == (2**d, comb(d, k))
    for column, support in zip(products.T, combinations(range(d), k), strict=True):
        assert np.array_equal(column, np.prod([table[:, i] for i in support], axis=0) * np.ones(2**d, int))
    assert np.array_equal(products.T @ products, 2**d * np.eye(comb(d, k), dtype=int))


@pytest.mark.parametrize("family", [*FAMILIES, "targets"])
@pytest.mark.parametrize(("d", "k", "count"), [(5, 2, 4), (6, 3, 9), (5, 4, 1)])
def test_least_losses_are_those_of_a_regression_for_each_target(family, d, k, count):
    features = draw_features(np.random.default_rng([d, k, count]), family, d, count, k)
    targets = bit_products(d, k)
    brute = []
    for target in targets.T.astype(float):
        solution = np.linalg.lstsq(features, target, rcond=None)[0]
        brute.append(float(((features @ solution - target) ** 2).mean()))
    assert features.shape == (2**d, count)
    assert mean_least_loss(features, targets) == pytest.approx(np.mean(brute), abs=1e-12)
    assert mean_least_loss(features, targets) >= float(bessel_bound(count, d, k)) - 1e-12


def test_a_repeated_feature_explains_nothing_more():
    products = bit_products(5, 2)
    once, twice = products[:, :1].astype(float), products[:, [0, 0]].astype(float)
    assert mean_least_loss(twice, products) == pytest.approx(mean_least_loss(once, products), abs=1e-12)
    assert mean_least_loss(once, products) == pytest.approx(0.9, abs=1e-12)


def test_equality_in_rationals_and_what_breaks_it():
    d, k, count = 6, 3, 7
    targets = bit_products(d, k)
    assert exact_mean_least_loss(targets[:, :count], targets) == bessel_bound(count, d, k) == Fraction(13, 20)
    # Products of two bits are orthogonal to every product of three: nothing is explained.
    assert exact_mean_least_loss(bit_products(d, 2)[:, :count], targets) == 1


def test_other_scales_of_orthogonal_features_explain_the_same():
    targets = bit_products(4, 2)
    assert exact_mean_least_loss(3 * targets[:, :2], targets) == Fraction(2, 3)


def test_more_features_than_targets_leave_a_bound_that_says_nothing():
    assert bessel_bound(12, 4, 2) == -1
    everything = np.concatenate([bit_products(4, size) for size in range(3)], axis=1).astype(float)
    assert mean_least_loss(everything, bit_products(4, 2)) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sign_table(0), "d is 0"),
        (lambda: sign_table(13), "d is 13"),
        (lambda: bit_products(4, 5), "k is 5"),
        (lambda: bessel_bound(-1, 4, 2), "features is -1"),
        (lambda: bessel_bound(1, 4, 5), "k is 5"),
        (lambda: mean_least_loss(np.ones((4, 1)), np.ones((8, 1))), "one row an input"),
        (lambda: exact_mean_least_loss(bit_products(3, 1)[:, [0, 0]], bit_products(3, 2)), "not orthogonal"),
        (lambda: exact_mean_least_loss(0 * bit_products(3, 1), bit_products(3, 2)), "not orthogonal"),
        (lambda: draw_features(np.random.default_rng(0), "wavelets", 4, 2, 2), "choose one of"),
        (lambda: draw_features(np.random.default_rng(0), "targets", 4, 7, 2), "has 6"),
        (lambda: draw_features(np.random.default_rng(0), "parities", 2, 5, 2), "has 4"),
    ],
)
def test_what_it_does_not_take(call, said):
    with pytest.raises(ValueError, match=said):
        call()
