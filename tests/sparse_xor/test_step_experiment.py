"""First gradients, position by position: against autograd, by hand, and with the pair exchanged."""

from __future__ import annotations

import numpy as np
import pytest

from attention_companion.sparse_xor import one_step, population_gradient
from attention_companion.sparse_xor.experiments.step import (
    CELLS,
    alignment_ratio,
    alignments_of_start,
    cell_counts,
    disjoint_pairs,
    example_maps,
    first_gradients,
    map_readings,
    map_shows_pair,
    mean_map_shows_pair,
    ratio_law,
)
from attention_companion.sparse_xor.starts import count_outcomes, draw_starts

pytestmark = pytest.mark.torch_free


@pytest.mark.parametrize("index", range(3))
def test_alignments_are_inner_products_with_minus_the_gradient(index):
    d, m, seed = 9, 6, 5
    drawn = draw_starts(d, m, [index], seed)
    rows, theta = drawn.embeddings[0], drawn.theta[0]
    along, pair = alignments_of_start(d, m, index, seed)
    truth = [-(rows @ g) for g in population_gradient(rows, theta, -theta, pair)]
    assert pair == tuple(drawn.pairs[0])
    assert np.allclose(along, truth, rtol=0, atol=1e-15)


def test_alignments_agree_with_a_difference_quotient_of_the_scores():
    d, m, seed, rate = 8, 5, 1, 1e-3
    drawn = draw_starts(d, m, [0], seed)
    rows, theta = drawn.embeddings[0], drawn.theta[0]
    along, pair = alignments_of_start(d, m, 0, seed)
    step = one_step(rows, theta, pair, rate)
    assert np.allclose(rows @ (step.theta - theta) / rate, along[0], rtol=0, atol=1e-12)
    assert np.allclose(rows @ (step.theta_tilde + theta) / rate, along[1], rtol=0, atol=1e-12)


def test_ratio_by_hand():
    along = np.array([[[4.0, 1.0, 2.0, -1.0], [3.0, 1.0, -2.0, 6.0]]])
    pairs = np.array([[0, 2]])
    assert alignment_ratio(along, pairs).tolist() == [[2.0, -2 / 6]]


def test_ratio_where_nothing_else_is_aligned():
    along = np.array([[[4.0, -1.0, 2.0]], [[4.0, -1.0, -3.0]]])
    assert alignment_ratio(along, np.array([[0, 2], [0, 2]])).tolist() == [[np.inf], [-np.inf]]


def test_ratios_above_one_are_the_starts_that_no_other_position_can_win():
    seen = first_gradients(16, 48, 200, 3)
    distracted = count_outcomes(16, 48, 200, [np.inf], 3)[0].distracted
    outside = ~(seen.tops[:, :, np.newaxis] == seen.pairs[:, np.newaxis, :]).any(axis=-1).all(axis=-1)
    assert np.count_nonzero(outside) == distracted
    assert not (outside & (seen.ratio > 1)).any()
    assert np.median(seen.ratio) > 1


def test_the_gradient_for_another_pair_is_not_aligned_with_the_first():
    right, wrong = first_gradients(16, 48, 100, 3), first_gradients(16, 48, 100, 3, other_pair=True)
    assert np.array_equal(right.pairs, wrong.pairs)
    assert np.percentile(right.ratio, 50) > 1.2
    assert wrong.ratio.max() < 1


@pytest.mark.parametrize("d", [5, 6, 11])
def test_the_other_pair_shares_no_position(d):
    pairs = np.array([(p, q) for p in range(d) for q in range(d) if p != q])
    both = np.concatenate([pairs, disjoint_pairs(pairs, d)], axis=1)
    assert all(len(set(row)) == 4 and min(row) >= 0 and max(row) < d for row in both.tolist())
    with pytest.raises(ValueError, match="d is 4"):
        first_gradients(4, 3, 1, 0)


def test_cells_by_hand():
    tops = np.array([[0, 2], [2, 0], [0, 0], [2, 2], [0, 1], [1, 1], [2, 0]])
    pairs = np.tile([0, 2], (7, 1))
    assert cell_counts(tops, pairs) == dict(zip(CELLS, [1, 2, 1, 1, 2], strict=True))


def test_what_a_map_shows():
    pairs = np.array([[0, 2]])
    first, second = np.array([[0.6, 0.1, 0.3]]), np.array([[0.1, 0.2, 0.7]])
    assert map_shows_pair(first, second, pairs).tolist() == [True]
    # Both heads on position 0: heads do not show the pair, but the mean map's second place may.
    assert map_shows_pair(first, first, pairs).tolist() == [False]
    assert mean_map_shows_pair(first, first, pairs).tolist() == [True]
    # A tie for second place, such as two weights that have underflowed, shows nothing.
    gone = np.array([[1.0, 0.0, 0.0]])
    assert mean_map_shows_pair(gone, gone, pairs).tolist() == [False]


def test_maps_show_the_pair_after_a_step_and_not_before():
    d, m, starts = 16, 48, 150
    seen = map_readings(d, m, starts, 20 * np.sqrt(m) * d**2, 4)
    outcomes = count_outcomes(d, m, starts, [20 * np.sqrt(m) * d**2], 4)[0]
    assert seen.heads.sum() == starts - outcomes.collapsed - outcomes.distracted
    assert 0 < seen.collapsed.sum() == outcomes.collapsed
    assert not (seen.collapsed & seen.heads).any()
    assert seen.heads_before.mean() < 0.1
    assert seen.mean_before.mean() < 0.1
    assert seen.mean.mean() > seen.heads.mean()


def test_examples_are_the_first_of_each_kind_and_agree_with_one_step():
    d, m, rate, seed = 16, 48, 1e6 * np.sqrt(48) * 16**2, 20
    shown = example_maps(d, m, 60, rate, seed, succeeded=2, failed=2)
    assert shown.heads.shape == (4, 2, d)
    assert shown.outcomes[:2] == ("one head on each target",) * 2
    assert all(words != "one head on each target" for words in shown.outcomes[2:])
    drawn = draw_starts(d, m, shown.starts, seed)
    for k in range(4):
        step = one_step(drawn.embeddings[k], drawn.theta[k], tuple(drawn.pairs[k]), rate)
        assert step.specialised is (k < 2)
        assert np.allclose(shown.heads[k], [step.gamma, step.gamma_tilde], rtol=0, atol=1e-9)
        if shown.outcomes[k] == "both heads on one target":
            assert step.gamma.argmax() == step.gamma_tilde.argmax()
    specialised = [
        one_step(s.embeddings[0], s.theta[0], tuple(s.pairs[0]), rate).specialised
        for s in (draw_starts(d, m, [j], seed) for j in range(max(shown.starts) + 1))
    ]
    assert [j for j, good in enumerate(specialised) if good][:2] == list(shown.starts[:2])
    assert [j for j, good in enumerate(specialised) if not good][:2] == list(shown.starts[2:])


def test_fewer_examples_when_there_are_fewer():
    assert len(example_maps(16, 48, 1, 0.0, 3, succeeded=2, failed=2).starts) == 1


def test_the_law_of_the_ratio_meets_the_measured_median_at_large_width():
    # d = 400, m = 1600: the law says sqrt(1600 / ln 400) / 2 = 8.17; corrections are of order 1 / ln d.
    assert ratio_law(400, 1600) == pytest.approx(8.1708, abs=1e-4)
    seen = first_gradients(400, 1600, 8, 1)
    assert np.median(seen.ratio) == pytest.approx(ratio_law(400, 1600), rel=0.25)
    with pytest.raises(ValueError, match="d is 2"):
        ratio_law(2, 4)
