"""The lower bound of linear attention against exact rationals, a search, and its refusals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor.experiments.odd_attention import (
    compare_bound,
    compare_wide,
    smallest_linear_loss,
)
from attention_companion.sparse_xor.linear_bound import (
    linear_attention_average_bound,
    linear_attention_lower_bound,
    linear_attention_pair_share,
    linear_attention_row_bound,
)
from attention_companion.sparse_xor.loss import population_loss

pytestmark = pytest.mark.torch_free


def exact_projector(columns):
    """The projector onto the span of integer columns, in Fractions (Gram-Schmidt without roots)."""
    d = len(columns[0])
    basis = []
    for column in columns:
        rest = [Fraction(v) for v in column]
        for b in basis:
            along = sum(s * t for s, t in zip(rest, b, strict=True)) / sum(t * t for t in b)
            rest = [s - along * t for s, t in zip(rest, b, strict=True)]
        if any(rest):
            basis.append(rest)
    norms = [sum(t * t for t in b) for b in basis]
    return [
        [sum((b[i] * b[j] / n for b, n in zip(basis, norms, strict=True)), Fraction(0)) for j in range(d)]
        for i in range(d)
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_bound_holds_in_exact_arithmetic(seed):
    """(1 - L)(1 - 2 max h) <= h_p h_q + H_pq^2 + 2 |H_pq| sqrt(h_p h_q), with the root squared away."""
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(4, 9)), int(rng.integers(1, 4))
    columns = [[int(v) for v in column] for column in rng.integers(-3, 4, size=(m, d))]
    h = exact_projector(columns)
    p, q = (int(i) for i in rng.choice(d, 2, replace=False))
    space = 1 - 2 * max(h[i][i] for i in range(d))
    if space == 0:
        return  # on the very edge rounding decides whether floats see room for a bound
    if space < 0:
        with pytest.raises(ValueError, match="no lower bound"):
            linear_attention_lower_bound(np.array(columns, dtype=float).T, (p, q))
        return
    product = h[p][p] * h[q][q]
    # Random weights of the space, and those towards the targets with the best size, where the bound is nearest.
    u, w = [h[i][p] + h[i][q] for i in range(d)], [h[i][p] - h[i][q] for i in range(d)]
    random = [
        [sum(int(c) * column[i] for c, column in zip(cs, columns, strict=True)) for i in range(d)]
        for cs in rng.integers(-2, 3, size=(2, m))
    ]
    for a, b in ((u, u), (u, w), ([h[i][p] for i in range(d)], [h[i][q] for i in range(d)]), random):
        for scale in (Fraction(1), Fraction(1, 3), Fraction(-1), Fraction(3)):
            loss = population_loss([scale * Fraction(s) for s in a], [Fraction(t) for t in b], (p, q))
            rest = (1 - loss) * space - product - h[p][q] ** 2
            assert rest <= 0 or rest**2 <= 4 * h[p][q] ** 2 * product
    expected = 1 - (float(product) ** 0.5 + abs(float(h[p][q]))) ** 2 / float(space)
    if space > Fraction(1, 1000):
        assert linear_attention_lower_bound(np.array(columns, dtype=float).T, (p, q)) == pytest.approx(
            expected, abs=1e-9
        )


def test_golden_values():
    # One column of d equal entries: H = 1/d everywhere, so the signal is 2/d and max h = 1/d: 1 - 4/(d (d - 2)).
    assert linear_attention_lower_bound(np.ones((8, 1)), (0, 5)) == pytest.approx(1 - 4 / 48, abs=1e-14)
    # There u = w = 1/sqrt(d) is the only direction: Q = 3 - 2/d, mu = 0 (t is a multiple of 1), so 1 - 4/d^2.
    assert linear_attention_lower_bound(np.ones((8, 1)), (0, 5), sharpened=True) == pytest.approx(
        1 - 4 / 64, abs=1e-14
    )
    assert linear_attention_pair_share(np.ones((8, 1)), (0, 5)) == pytest.approx(2 / 8, abs=1e-14)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(6, 1), (12, 2), (20, 3), (40, 6)]))
def test_no_search_goes_below_either_bound(seed, shape):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=shape)
    pair = tuple(int(i) for i in rng.choice(shape[0], 2, replace=False))
    found = smallest_linear_loss(rows, pair, rng, searches=4)
    sharpened = None
    try:
        sharpened = linear_attention_lower_bound(rows, pair, sharpened=True)
        plain = linear_attention_lower_bound(rows, pair)
    except ValueError:
        plain = -np.inf
    if sharpened is not None:
        assert plain - 1e-12 <= sharpened <= found + 1e-9


def test_the_search_itself_finds_what_there_is():
    """A search that stops early would make every bound look right: with all weights allowed it must find 0."""
    assert smallest_linear_loss(np.eye(6), (1, 4), np.random.default_rng(0), searches=5) < 1e-9
    # In one dimension the minimum is known: a = alpha u, b = beta u with u = 1/sqrt(d): 1 - B^2/Q.
    assert smallest_linear_loss(
        np.ones((8, 1)), (0, 5), np.random.default_rng(0), searches=1
    ) == pytest.approx(1 - (2 / 8) ** 2 / (3 - 2 / 8), abs=1e-12)


def test_the_comparison_fails_where_it_must():
    assert compare_bound(64, 8, 2, seed=3).excess < 0
    assert compare_bound(64, 8, 2, seed=3, searches=2, everywhere=True).excess > 0.5


def test_only_the_column_space_matters():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(30, 4))
    mixed = rows @ rng.normal(size=(4, 4))
    deficient = np.hstack([rows, rows[:, :2] @ rng.normal(size=(2, 3)), np.zeros((30, 1))])
    for sharpened in (False, True):
        bound = linear_attention_lower_bound(rows, (3, 17), sharpened=sharpened)
        for other in (mixed, deficient, 1e200 * rows, 1e-200 * rows):
            assert linear_attention_lower_bound(other, (3, 17), sharpened=sharpened) == pytest.approx(
                bound, abs=1e-10
            )
        assert linear_attention_lower_bound(rows, (17, 3), sharpened=sharpened) == pytest.approx(
            bound, abs=1e-13
        )
    assert linear_attention_lower_bound(rows.astype(np.float32), (3, 17)) == pytest.approx(
        linear_attention_lower_bound(rows, (3, 17)), abs=1e-5
    )


def test_zero_embeddings_leave_the_loss_of_answering_zero():
    assert linear_attention_lower_bound(np.zeros((5, 2)), (0, 1)) == 1.0
    assert linear_attention_lower_bound(np.zeros((5, 2)), (0, 1), sharpened=True) == 1.0
    assert linear_attention_pair_share(np.zeros((5, 2)), (0, 1)) == 0.0


def test_the_share_is_attained_and_never_exceeded():
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(20, 5))
    limit = linear_attention_pair_share(rows, (2, 9))
    weights = rows @ rng.normal(size=(5, 2000))
    shares = (weights[[2, 9]] ** 2).sum(axis=0) / (weights**2).sum(axis=0)
    assert shares.max() <= limit + 1e-12
    h = rows @ np.linalg.pinv(rows)
    top = h[:, [2, 9]] @ np.linalg.eigh(h[np.ix_([2, 9], [2, 9])])[1][:, -1]
    assert (top[[2, 9]] ** 2).sum() / (top @ top) == pytest.approx(limit, abs=1e-12)


@pytest.mark.parametrize(
    ("embeddings", "sharpened", "message"),
    [
        (np.eye(4), False, "max h is 1 .*rank 4.*sharpened=True"),
        (np.eye(4), True, "mu is 1 .*use narrower embeddings"),
        ([[1.0], [0.0], [0.0]], False, "max h is 1 "),
    ],
)
def test_where_no_bound_exists(embeddings, sharpened, message):
    with pytest.raises(ValueError, match=message):
        linear_attention_lower_bound(embeddings, (0, 1), sharpened=sharpened)


@pytest.mark.parametrize(
    ("embeddings", "pair", "error", "message"),
    [
        (np.ones((8, 1)), (3, 3), ValueError, "choose p != q"),
        (np.ones((8, 1)), (0, 8), ValueError, "0..7"),
        (np.full((8, 1), np.nan), (0, 1), ValueError, "must be finite"),
        (np.ones(8), (0, 1), ValueError, "expected \\(d, m\\)"),
        (np.ones((8, 1), dtype=complex), (0, 1), TypeError, "complex128"),
    ],
)
def test_what_it_does_not_take(embeddings, pair, error, message):
    for function in (linear_attention_lower_bound, linear_attention_pair_share):
        with pytest.raises(error, match=message):
            function(embeddings, pair)


def test_the_sharpened_bound_maximises_the_form_over_all_matrices():
    """mu by another route: the d x m^2 matrix of the (He_i)(He_i)^T in coordinates of the space, no matrix root."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.normal(size=(14, 3)))[0]
        squares = np.einsum("ia,ib->iab", basis, basis).reshape(14, 9)
        form = squares.T @ (np.eye(14) - np.ones((14, 14))) @ squares
        mu = max(0.0, float(np.linalg.eigvalsh(form)[-1]))
        h = basis @ basis.T
        expected = 1 - (np.sqrt(h[0, 0] * h[5, 5]) + abs(h[0, 5])) ** 2 / (1 - 2 * mu)
        seen = linear_attention_lower_bound(basis @ rng.normal(size=(3, 3)), (0, 5), sharpened=True)
        assert seen == pytest.approx(expected, abs=1e-10)
        # No pair of unit vectors of the space has a smaller Q.
        u, w = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in rng.normal(size=(2, 4000, 3)) @ basis.T)
        q = 1 + 2 * (u * w).sum(axis=1) ** 2 - 2 * (u**2 * w**2).sum(axis=1)
        assert q.min() >= 1 - 2 * mu - 1e-12


def least_loss_of_quadratics(rows, pair):
    """The least loss of x^T N x with N = H N H of any rank: least squares, below the loss of every two heads."""
    d = len(rows)
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    basis = left[:, singular > 1e-10 * singular.max()]
    upper = np.triu_indices(d, 1)
    features = []
    for k in range(basis.shape[1]):
        for j in range(k + 1):
            product = np.outer(basis[:, k], basis[:, j])
            features.append(np.r_[np.trace(product), (product + product.T)[upper]])
    target = np.zeros((d, d))
    target[min(pair), max(pair)] = 1
    label = np.r_[0, target[upper]]
    design = np.array(features).T
    rest = label - design @ np.linalg.lstsq(design, label, rcond=None)[0]
    return float(rest @ rest)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(4, 1), (5, 3), (7, 5), (8, 4), (9, 7), (6, 5)]))
def test_the_bounds_for_every_width_lie_below_least_squares(seed, shape):
    """Two heads are special quadratics: the least loss of all quadratics of the space is an exact lower bound."""
    rows = np.random.default_rng(seed).normal(size=shape)
    pairs = [(p, q) for p in range(shape[0]) for q in range(shape[0]) if p != q]
    least = np.array([least_loss_of_quadratics(rows, pair) for pair in pairs])
    row = np.array([linear_attention_row_bound(rows, pair) for pair in pairs])
    assert (row <= least + 1e-9).all()
    assert (row >= 0).all()
    average = linear_attention_average_bound(rows)
    # The mean of the squared projections is at most the number of features over that of pairs, and near it.
    assert 0 <= average <= least.mean() + 1e-9
    if shape[1] <= shape[0] - 2:
        # Positive for almost every V, and small where two rows are nearly dependent: no draw need stay clear of 0.
        assert row.max() > 1e-3


def test_golden_values_of_the_bounds_for_every_width():
    # One column of d equal entries, coordinate p dropped: e_q has 1 - 1/(d - 1) of its length off it. K = 2 (d - 2).
    assert linear_attention_row_bound(np.ones((8, 1)), (0, 5)) == pytest.approx(12 / 13, abs=1e-14)
    assert linear_attention_average_bound(np.ones((8, 1))) == pytest.approx(1 - 2 / 56, abs=1e-14)
    # The space of all vectors that sum to 0 has rank d - 1; e_1, e_2 alone reach the pair and nothing else.
    assert linear_attention_row_bound(np.eye(5) - 0.2, (1, 3)) == pytest.approx(0, abs=1e-12)
    assert linear_attention_average_bound(np.eye(5) - 0.2) == pytest.approx(0, abs=1e-14)
    assert linear_attention_row_bound(np.eye(6)[:, :2], (0, 1)) == pytest.approx(0, abs=1e-12)
    # A target that the space does not touch costs everything, and so does no space.
    assert linear_attention_row_bound(np.eye(6)[:, :2], (0, 4)) == 1.0
    assert linear_attention_row_bound(np.zeros((5, 2)), (0, 1)) == 1.0
    # Dropping coordinate 0 leaves a direction of length 0, whose numerical image points anywhere.
    for seed in range(5):
        turned = np.eye(6)[:, :4] @ np.random.default_rng(seed).normal(size=(4, 4))
        assert linear_attention_row_bound(turned, (0, 4)) == pytest.approx(1, abs=1e-12)
    assert linear_attention_average_bound(np.eye(3)) == -1.0
    with pytest.raises(ValueError, match="choose p != q"):
        linear_attention_row_bound(np.ones((8, 1)), (3, 3))


def test_the_comparison_at_every_width_fails_where_it_must():
    report = compare_wide(7, 5, 1, seed=3)
    assert report.excess <= 1e-9
    assert report.row.max() > 0.1
    assert compare_wide(7, 5, 1, seed=3, everywhere=True).excess > 0.1
