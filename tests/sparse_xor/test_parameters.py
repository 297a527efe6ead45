"""The experiments of the chapter on parameters: sizes, resampling, what a first layer shows, and planted faults."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attention_companion.sparse_xor.experiments.parameters import (
    Recipe,
    around,
    column_verdict,
    feature_losses,
    learned_losses,
    log_slopes,
    net_sizes,
    one_unit_losses,
    resampled_nets,
    smallest_nets,
    two_unit_mismatches,
    unit_share,
    watch_nets,
)
from attention_companion.sparse_xor.fixed_features import bessel_bound

pytestmark = pytest.mark.torch_free

SHORT = Recipe(steps=500, batch=64, learning_rate=0.03, test=1024)


def test_nets_of_one_unit_fail_and_wide_ones_learn():
    losses = learned_losses(6, [1, 8], 4, 3, SHORT)
    assert losses.shape == (4, 2)
    assert losses[:, 0].min() > 0.6
    assert losses[:, 1].max() < 0.05


def test_more_seeds_extend_fewer_and_other_widths_do_not_move_the_inputs():
    few, more = learned_losses(5, [2, 4], 2, 7, SHORT), learned_losses(5, [2, 4], 3, 7, SHORT)
    assert np.allclose(few, more[:2], rtol=0, atol=1e-4)
    assert not np.allclose(few, learned_losses(5, [2, 4], 2, 8, SHORT), rtol=0, atol=1e-4)


def test_the_smallest_net_is_the_first_that_enough_seeds_learn():
    shares = np.array([[0.0, 0.94, 0.95, 1.0], [0.96, 0.2, 0.2, 0.99]])
    assert smallest_nets(shares, [1, 2, 3, 4], 0.95).tolist() == [3, 1]
    assert smallest_nets(np.array([19 / 20]), [5], 0.95) == 5
    with pytest.raises(ValueError, match="wider nets"):
        smallest_nets(shares[:, :2], [1, 2], 0.95)


def test_resampling_seeds_moves_only_what_is_uncertain():
    # 20 seeds; at the first d width 2 always works, at the second 1 of 20 fails width 2, so some resamplings need 3.
    learned = np.zeros((20, 2, 3), dtype=bool)
    learned[:, :, 1:] = True
    learned[0, 1, 1] = False
    drawn = resampled_nets(np.random.default_rng(0), learned, [1, 2, 3], 0.95, 4000)
    assert set(drawn[:, 0].tolist()) == {2}
    # Two or more copies of the failing seed among 20: 1 - (19/20)^20 - 20 (1/20) (19/20)^19.
    expected = 1 - 0.95**20 - 0.95**19
    assert np.mean(drawn[:, 1] == 3) == pytest.approx(expected, abs=4 * math.sqrt(expected / 4000))


def test_sizes_and_slopes_by_hand():
    sizes = net_sizes([16, 64], np.array([4, 3]))
    assert sizes.tolist() == [73.0, 199.0]
    d = [16, 32, 64]
    assert log_slopes(d, np.array([[5.0, 10.0, 20.0], [3.0, 3.0, 3.0]])) == pytest.approx([1.0, 0.0], abs=1e-12)


def test_columns_and_units_show_the_pair():
    hidden = np.zeros((2, 3, 5))
    hidden[0, 0] = [0, 3, 0, -3, 1]  # shows (1, 3)
    hidden[0, 1] = [0, 0, 1, 0, 0.5]
    hidden[0, 2] = [0, -2, 0, 2, 0.1]  # shows it
    hidden[1, :, 0], hidden[1, :, 2] = 4, 1
    pairs = np.array([[3, 1], [0, 1]])
    assert column_verdict(hidden, pairs).tolist() == [True, False]
    assert unit_share(hidden, pairs) == pytest.approx([2 / 3, 0])


def test_watched_nets_show_the_pair_only_after_they_have_learned_something():
    seen = watch_nets(8, 12, 6, [0.5, 0.1], 2, SHORT)
    assert seen.reached.all()
    assert seen.columns[:, 2].all()
    assert not seen.columns[:, 0].all()
    assert np.nanmean(seen.units[:, 2]) > np.nanmean(seen.units[:, 0])
    top = set(np.argsort(seen.lengths[2])[-2:].tolist())
    assert top == set(seen.pair)


def test_a_level_that_is_not_reached_is_said_to_be_so():
    seen = watch_nets(8, 1, 3, [0.9, 0.2], 2, SHORT)
    assert not seen.reached[:, 2].any()
    assert not seen.columns[:, 2].any()
    assert np.isnan(seen.units[:, 2]).all()
    with pytest.raises(ValueError, match="descending"):
        watch_nets(8, 4, 1, [0.1, 0.5], 2, SHORT)
    with pytest.raises(ValueError, match="seeds is 0"):
        watch_nets(8, 4, 0, [0.5], 2, SHORT)


@pytest.mark.parametrize("d", [2, 4, 7])
def test_one_unit_never_beats_two_thirds_and_its_mirror_image_does(d):
    losses = one_unit_losses(d, 200, 1)
    assert losses[0] == pytest.approx(2 / 3, abs=1e-14)
    assert losses.min() >= 2 / 3 - 1e-12
    assert one_unit_losses(d, 20, 1, mirrored=True).min() < 1e-12


def test_two_units_never_err_and_one_does():
    assert two_unit_mismatches([2, 3, 5]) == 0
    # Without the second unit the net is wrong where both bits are -1: a quarter of the inputs of each pair.
    assert two_unit_mismatches([3], units=1) == 3 * 2
    assert two_unit_mismatches([5], units=1) == 10 * 8


def test_no_family_beats_the_bound_and_the_targets_attain_it():
    losses = feature_losses(6, 2, [3, 9], ["relu", "parities", "targets"], 4)
    bounds = np.array([float(bessel_bound(n, 6, 2)) for n in (3, 9)])
    assert losses["targets"] == pytest.approx(bounds, abs=1e-12)
    assert min((found - bounds).min() for found in losses.values()) >= -1e-12
    assert (losses["relu"] > bounds + 0.01).all()


def test_lengths_are_resampled_independently():
    # Two lengths with the same outcomes: resampled together they would always agree.
    learned = np.zeros((20, 2, 2), dtype=bool)
    learned[:, :, 1] = True
    learned[1:, :, 0] = True
    drawn = resampled_nets(np.random.default_rng(1), learned, [1, 2], 0.95, 500)
    assert np.any(drawn[:, 0] != drawn[:, 1])


def test_an_interval_is_stretched_to_its_estimate_only():
    assert around(3.0, (1.0, 2.0)) == (1.0, 3.0)
    assert around(0.5, (1.0, 2.0)) == (0.5, 2.0)
    assert around(1.5, (1.0, 2.0)) == (1.0, 2.0)
