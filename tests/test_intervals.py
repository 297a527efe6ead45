"""Intervals: golden values, coverage by simulation, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from attention_companion.intervals import bootstrap, line_fit, paired_difference, percentile_interval, wilson

pytestmark = pytest.mark.torch_free


def test_wilson_by_its_formula():
    z, n, p = 1.959963984540054, 50, 0.9
    centre, half = (p + z * z / (2 * n)), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = [(centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)]
    assert wilson(45, 50) == pytest.approx(expected, abs=1e-12)
    assert wilson(0, 10)[0] == 0
    assert wilson(10, 10)[1] == 1


def test_paired_difference_by_hand():
    # 4 seeds, differences 1, 0, 0, -1: with two seeds added the mean is 0 and the variance (1 + 1 + 1 + 1)/6.
    mean, (low, high) = paired_difference([1, 1, 0, 0], [0, 1, 0, 1])
    assert mean == 0
    assert high == -low == pytest.approx(1.959963984540054 * np.sqrt(4 / 6 / 6), abs=1e-12)


def test_paired_difference_covers_the_truth():
    rng, covered = np.random.default_rng(3), 0
    for _ in range(400):
        common = rng.random(80)
        _, (low, high) = paired_difference(common < 0.8, (common < 0.7) ^ (rng.random(80) < 0.1))
        truth = 0.8 - (0.7 * 0.9 + 0.3 * 0.1)
        covered += low <= truth <= high
    assert covered >= 366  # 95% of 400 is 380; three standard deviations below


def test_paired_difference_is_never_sure_of_nothing():
    mean, (low, high) = paired_difference(np.ones(10), np.ones(10))
    assert mean == 0
    assert low < 0 < high


def test_line_fit_by_hand():
    assert line_fit([0, 1, 2], [1, 3, 5]) == pytest.approx((2, 1))
    assert line_fit([0, 1, 2], [0, 0, 3]) == pytest.approx((1.5, -0.5))


def test_percentiles_by_hand():
    assert percentile_interval(np.arange(101), 0.9) == pytest.approx((5, 95))


def test_bootstrap_resamples_whole_seeds():
    rng = np.random.default_rng(1)
    table = np.repeat(np.arange(50.0)[:, None], 3, axis=1)
    draws = bootstrap(rng, table, lambda rows: float(np.ptp(rows, axis=1).max()), draws=20)
    assert (draws == 0).all()  # within a seed all three values are equal, in every replicate
    means = bootstrap(rng, table, lambda rows: float(rows.mean()), draws=400)
    assert means.std() == pytest.approx(np.arange(50.0).std() / np.sqrt(50), rel=0.2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wilson(1, 0), "1 hits of 0 trials"),
        (lambda: wilson(5, 4), "5 hits of 4 trials"),
        (lambda: paired_difference([1], [1, 0]), "shapes"),
        (lambda: line_fit([1, 1], [0, 1]), "two different x"),
        (lambda: percentile_interval([1.0, np.nan]), "finite"),
        (lambda: bootstrap(np.random.default_rng(0), np.ones(1), np.mean), "at least two seeds"),
        (lambda: bootstrap(np.random.default_rng(0), np.ones(3), np.mean, draws=1), "draws is 1"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
