"""The smallest width: outcomes against one_step, nested draws, crossings and fits; the theory against quadrature."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betainc

from attention_companion.sparse_xor import one_step
from attention_companion.sparse_xor.all_pairs import outcome_all_pairs
from attention_companion.sparse_xor.experiments import near_orthogonal, pairs, width, width_theory

pytestmark = pytest.mark.torch_free


def drawn(d, m, seed, k, unit=True):
    """The embeddings, query and pairs of a start, put together from the documented generators."""
    columns = -(-m // width.COLUMNS)
    blocks = [
        np.concatenate(
            [
                np.random.default_rng([seed, d, k, 2, number, c]).standard_normal(
                    (width.COLUMNS, min(width.BLOCK, d - first))
                )
                for c in range(columns)
            ]
        )
        for number, first in enumerate(range(0, d, width.BLOCK))
    ]
    rows = np.concatenate(blocks, axis=1)[:m].T
    rows = rows / (np.linalg.norm(rows, axis=1, keepdims=True) if unit else math.sqrt(m))
    query = np.concatenate(
        [np.random.default_rng([seed, d, k, 1, c]).normal(size=width.COLUMNS) for c in range(columns)]
    )[:m]
    rng = np.random.default_rng([seed, d, k, 0])
    chosen = [tuple(int(i) for i in rng.choice(d, 2, replace=False)) for _ in range(3)]
    return rows, query / np.linalg.norm(query), chosen


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("d", "m"), [(3, 2), (16, 5), (16, 9), (60, 14), (40, 20)])
def test_outcomes_are_those_of_one_large_step(d, m, unit, monkeypatch):
    monkeypatch.setattr(width, "BLOCK", 13)  # so that several blocks meet
    seen = width.outcomes_by_width(d, [1, m], 12, 5, pairs=3, unit=unit)
    assert seen.on_pair.shape == seen.success.shape == (12, 2)
    for k in range(12):
        rows, theta, chosen = drawn(d, m, 5, k, unit)
        on_pair = success = 0
        for pair in chosen:
            step = one_step(rows, theta, pair, 1e13)
            ends = {int(step.gamma.argmax()), int(step.gamma_tilde.argmax())}
            on_pair += ends <= set(pair)
            success += ends == set(pair)
        assert (seen.on_pair[k, 1], seen.success[k, 1]) == (on_pair / 3, success / 3)


def test_more_of_anything_extends_less():
    few = width.outcomes_by_width(20, [6, 9], 4, 1, pairs=2)
    more = width.outcomes_by_width(20, [6, 7, 9, 40], 7, 1, pairs=2)
    assert np.array_equal(more.on_pair[:4, [0, 2]], few.on_pair)
    assert np.array_equal(more.success[:4, [0, 2]], few.success)
    assert 0 < few.success.mean() < few.on_pair.mean() < 1


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.90, 0.94, 0.96, 0.99], 11.5),
        ([0.90, 0.96, 0.94, 0.99], 10 + 5 / 6),  # the first crossing counts
        ([0.97, 0.98, 0.99, 1.00], 10.0),
        ([0.10, 0.20, 0.30, 0.40], 13.0),
        ([0.90, 0.95, 0.96, 0.99], 11.0),
    ],
)
def test_crossing(shares, expected):
    assert width.crossing([10, 11, 12, 13], np.array(shares), 0.95) == pytest.approx(expected)


def test_smallest_width_is_where_the_share_is_first_reached():
    found = width.smallest_width(32, 120, 3, pairs=4)
    reached = [m for m, share in zip(found.widths, found.shares, strict=True) if share >= 0.95]
    assert found.width == reached[0] == math.ceil(found.crossing)
    assert found.shares[found.widths.index(found.width) - 1] < 0.95
    again = width.outcomes_by_width(32, found.widths, 120, 3, pairs=4)
    assert np.array_equal(again.on_pair.mean(axis=0), found.shares)
    low, high = found.interval
    assert found.widths[0] <= low < found.crossing < high <= found.widths[-1]
    # The window holds the interval, not only the crossing: next to no replicate may lie on its edges.
    assert np.mean((found.draws <= found.widths[0]) | (found.draws >= found.widths[-1])) < 0.04
    assert found.draws.shape == (1000,)


@pytest.mark.parametrize("off", [-7, 7])
def test_the_window_moves_to_where_the_crossing_is(off, monkeypatch):
    found = width.smallest_width(32, 40, 3, pairs=4)
    monkeypatch.setattr(width, "_rough_width", lambda *_: max(1, found.width + off))
    moved = width.smallest_width(32, 40, 3, pairs=4)
    assert moved.crossing == found.crossing
    assert moved.interval == found.interval


def test_the_interval_is_about_starts():
    """Pairs of one start share its draw: twice as many pairs are not twice as many starts."""
    wide = width.smallest_width(32, 30, 3, pairs=4)
    narrow = width.smallest_width(32, 480, 3, pairs=4)
    ratio = (wide.interval[1] - wide.interval[0]) / (narrow.interval[1] - narrow.interval[0])
    assert 2 < ratio < 8


def test_a_smaller_share_needs_less_and_longer_inputs_need_more():
    half = width.smallest_width(64, 60, 1, share=0.5)
    most = width.smallest_width(64, 60, 1)
    longer = width.smallest_width(512, 60, 1)
    assert half.crossing < most.interval[0] < most.crossing < longer.interval[0]


def found_at(d, crossing, spread=0.0):
    draws = crossing + spread * np.linspace(-1, 1, 101)
    return width.SmallestWidth(d, math.ceil(crossing), crossing, (0, 0), draws, 9, 1, (1,), np.ones(1))


def test_fits_recover_planted_laws():
    lengths = [16, 64, 256, 4096]
    line = [found_at(d, 1 + 2.5 * math.log(d)) for d in lengths]
    fit = width.fit_widths(line)
    assert (fit.slope, fit.intercept) == (pytest.approx(2.5), pytest.approx(1))
    assert fit.interval == pytest.approx((2.5, 2.5))
    square = [found_at(d, 3 * math.log(d) ** 2) for d in lengths]
    assert width.fit_widths(square, "polylog").slope == pytest.approx(2)
    root = [found_at(d, 2 * math.sqrt(d)) for d in lengths]
    assert width.fit_widths(root, "power").slope == pytest.approx(0.5)
    assert width.fit_widths(root, "polylog").slope > 2
    # Only the last length is uncertain, by up to 1 either way: the slope moves with that point's leverage.
    loose = [*line[:3], replace(found_at(4096, line[3].crossing, 1.0))]
    x = np.log(lengths)
    leverage = (x[3] - x.mean()) / ((x - x.mean()) ** 2).sum()
    low, high = width.fit_widths(loose).interval
    assert high - 2.5 == pytest.approx(0.95 * leverage) == 2.5 - low


@pytest.mark.parametrize("m", [2, 3, 7, 48, 1000])
@pytest.mark.parametrize("t", [0.0, 0.05, 0.3, 0.8])
def test_the_tail_of_an_inner_product(m, t):
    exact = betainc((m - 1) / 2, 0.5, 1 - t * t)
    ours = width_theory.inner_product_tail(t, m)
    assert ours == pytest.approx(exact, rel=1e-8, abs=1e-300)
    assert ours <= 2 * math.exp(-m * t * t / 2)


def test_the_tail_ends_at_one():
    assert width_theory.inner_product_tail(1.0, 5) == 0


def test_the_union_bound_is_a_bound():
    d, m = 40, 30
    bound = width_theory.union_bound(d, m)
    assert d * d * math.exp(-m * bound**2 / 2) == pytest.approx(0.05)
    sharp = width_theory.sharp_union_bound(d, m)
    assert d * (d - 1) / 2 * width_theory.inner_product_tail(sharp, m) == pytest.approx(0.05)
    assert sharp < bound
    largest = near_orthogonal.largest_inner_products(d, m, 300, 1)
    assert 0 < (largest > sharp).mean() < 0.1
    assert (largest > bound).mean() < 0.05
    # And not an idle one: the exact tail of one product, times the number of pairs, is near the observed share.
    middle = float(np.median(largest))
    expected = 1 - math.exp(-d * (d - 1) / 2 * width_theory.inner_product_tail(middle, m))
    assert expected == pytest.approx(0.5, abs=0.1)


def test_largest_inner_products_by_definition(monkeypatch):
    monkeypatch.setattr(near_orthogonal, "ROWS", 4)
    for positive in (False, True):
        ours = near_orthogonal.largest_inner_products(11, 5, 3, 2, positive=positive)
        for k in range(3):
            rows = np.random.default_rng([2, 11, 5, k]).normal(size=(11, 5))
            rows = np.abs(rows) if positive else rows
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            products = np.abs(rows @ rows.T)[~np.eye(11, dtype=bool)]
            assert ours[k] == pytest.approx(products.max(), rel=1e-14)


def test_the_law_against_its_own_simulation():
    """predicted_share against drawing c, D and the plane's projections: same model, no quadrature."""
    d, m, n = 200, 6, 4000
    rng = np.random.default_rng(5)
    kept = 0
    for _ in range(n):
        p, q, theta = (x / np.linalg.norm(x) for x in rng.normal(size=(3, m)))
        others = rng.normal(size=(d - 2, m))
        others /= np.linalg.norm(others, axis=1, keepdims=True)
        lean, good = (p - q) @ theta, True
        for sign in (1, -1):
            mix = np.exp(sign * lean) * p + np.exp(-sign * lean) * q
            target = max(mix @ p, mix @ q) - abs(lean) / (2 * m)
            good = good and (others @ mix).max() < target
        kept += good
    share = kept / n
    assert width_theory.predicted_share(d, m) == pytest.approx(
        share, abs=4 * math.sqrt(share * (1 - share) / n)
    )


def test_the_laws_integrals_have_converged(monkeypatch):
    """Twice the nodes change nothing that counts; a corner inside the range of an integral would show here."""
    cases = [(64, 12), (4096, 25), (262144, 36)]
    coarse = [width_theory.predicted_share(d, m) for d, m in cases]
    monkeypatch.setattr(width_theory, "_LAW", np.polynomial.legendre.leggauss(128))
    assert coarse == pytest.approx([width_theory.predicted_share(d, m) for d, m in cases], abs=2e-6)


def test_the_predicted_width_crosses_and_grows_as_derived():
    at = width_theory.predicted_width(300)
    low = math.floor(at)
    assert width_theory.predicted_share(300, low) < 0.95 <= width_theory.predicted_share(300, low + 1)
    assert width_theory.predicted_width(300, 0.5) < at
    assert width_theory.predicted_width(3, 0.01) == 4.0
    slope = (width_theory.predicted_width(10**60) - width_theory.predicted_width(10**30)) / (
        30 * math.log(10)
    )
    assert slope == pytest.approx(width_theory.LIMIT_SLOPE, rel=0.05)


def test_pair_shares_count_every_pair():
    shares = pairs.pair_shares(30, 12, 3, 4)
    assert shares.outcomes.shape == (3, 4)
    assert shares.outcomes.sum(axis=1) == pytest.approx(np.ones(3))
    rows, theta = pairs.draw(30, 12, 2, 4)
    seen, expected = outcome_all_pairs(rows, theta), pairs.first_order_outcomes(rows, theta)
    off = ~np.eye(30, dtype=bool)
    assert shares.outcomes[2] == pytest.approx([np.mean(seen[off] == kind) for kind in range(4)])
    assert shares.predicted[2] == pytest.approx(np.mean(seen[off] == expected[off]))
    assert (expected.diagonal() == -1).all()


def test_the_criterion_sees_the_collapses():
    rows, theta = pairs.draw(100, 60, 0, 1)
    seen, expected = outcome_all_pairs(rows, theta), pairs.first_order_outcomes(rows, theta)
    both = np.sum((seen == 1) & (expected == 1))
    # Agreement over all pairs could come from successes alone.
    assert both > 0.8 * np.sum(seen == 1)
    assert both > 0.8 * np.sum(expected == 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: width.outcomes_by_width(2, [4], 1, 0),
        lambda: width.outcomes_by_width(8, [], 1, 0),
        lambda: width.outcomes_by_width(8, [0], 1, 0),
        lambda: width.outcomes_by_width(8, [4], 0, 0),
        lambda: width.outcomes_by_width(8, [4], 1, 0, pairs=0),
        lambda: width.smallest_width(8, 1, 0),
        lambda: width.smallest_width(8, 10, 0, share=1.0),
        lambda: width.fit_widths([found_at(16, 3.0)]),
        lambda: width.fit_widths([found_at(16, 3.0), found_at(32, 4.0)], "linear"),
        lambda: width_theory.inner_product_tail(1.5, 4),
        lambda: width_theory.inner_product_tail(0.5, 1),
        lambda: width_theory.predicted_share(2, 8),
        lambda: width_theory.predicted_share(8, 3),
        lambda: near_orthogonal.largest_inner_products(1, 3, 1, 0),
        lambda: pairs.pair_shares(8, 4, 0, 0),
    ],
)
def test_refusals(call):
    with pytest.raises(ValueError, match="give"):
        call()
