"""Finite samples: prefixes against the kernel, thresholds against known ones, laws at their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attention_companion.sparse_xor import one_step
from attention_companion.sparse_xor.experiments import samples
from attention_companion.sparse_xor.experiments.sample_laws import (
    geometric_sizes,
    landing_law,
    learning_law,
    size_by_law,
)
from attention_companion.sparse_xor.experiments.sample_sizes import (
    growth_of,
    planted_outcomes,
    size_that_suffices,
    slope_of,
)
from attention_companion.sparse_xor.experiments.sample_survey import (
    check_learning_law,
    flipped_labels,
    landing_size,
    predicted_sizes,
    predicted_slope,
    survey_one_step,
    survey_several_steps,
)
from attention_companion.sparse_xor.samples import one_step_from_samples
from attention_companion.sparse_xor.starts import draw_starts

pytestmark = pytest.mark.torch_free

SEED = 11


def ends(step):
    return int(step.gamma.argmax()), int(step.gamma_tilde.argmax())


@pytest.mark.parametrize("flipped", [0.0, 1.0])
def test_prefixes_of_one_stream_give_what_the_kernel_gives_for_each_sample(flipped):
    d, widths, sizes = 20, [6, 24], [[30, 400, 5000], [100, 400]]
    seen = samples.one_step_outcomes(d, widths, sizes, 12, SEED, flipped=flipped)
    patterns = set()
    for m, grid, found in zip(widths, sizes, seen, strict=True):
        assert found.sizes.tolist() == grid
        for k in range(12):
            start = draw_starts(d, m, [k], SEED)
            rows, theta, (p, q) = start.embeddings[0], start.theta[0], map(int, start.pairs[0])
            whole = ends(one_step(rows, theta, (p, q), 1e12))
            expected = [whole]
            for n in grid:
                x = np.concatenate(list(samples.first_inputs(d, k, SEED, n)))
                assert x.shape == (n, d)
                y = x[:, p] * x[:, q] * (1 if flipped else -1)
                expected.append(ends(one_step_from_samples(rows, theta, x, y, 1e12)))
            learned = [set(end) == {p, q} for end in expected]
            landed = [set(end) <= {p, q} for end in expected]
            assert [found.learned_population[k], *found.learned[k]] == learned
            assert [found.landed_population[k], *found.landed[k]] == landed
            patterns.add((found.landed[k, -1], found.learned[k, -1]))
    if not flipped:
        assert patterns == {(True, True), (True, False), (False, False)}


def test_more_sizes_starts_and_widths_do_not_change_the_others():
    few = samples.one_step_outcomes(20, [24], [[400]], 4, SEED)[0]
    many = samples.one_step_outcomes(20, [6, 24], [[7, 9000], [33, 400, 3999]], 6, SEED)[1]
    assert np.array_equal(few.learned[:, 0], many.learned[:4, 1])


def test_signs_are_balanced_and_uncorrelated():
    x = np.concatenate(list(samples.first_inputs(12, 0, SEED, 40_000)))
    assert np.array_equal(np.unique(x), [-1, 1])
    moments = x.T @ x / len(x) - np.eye(12)
    assert np.abs(x.mean(axis=0)).max() < 5 / math.sqrt(len(x))
    assert np.abs(moments).max() < 5 / math.sqrt(len(x))


def test_several_steps_begin_with_the_step_of_the_kernel():
    d, m, rate = 10, 8, 1e6
    one = samples.several_step_outcomes(d, m, [50, 3000], 10, SEED, rate=rate, steps=1)
    for k in range(10):
        start = draw_starts(d, m, [k], SEED)
        pair = tuple(map(int, start.pairs[0]))
        for place, n in enumerate([50, 3000]):
            x = np.concatenate(list(samples.first_inputs(d, k, SEED, n)))
            y = -x[:, pair[0]] * x[:, pair[1]]
            step = one_step_from_samples(start.embeddings[0], start.theta[0], x, y, rate, pair=pair)
            assert one.learned[k, place] == step.specialised
        assert (
            one.learned_population[k] == one_step(start.embeddings[0], start.theta[0], pair, rate).specialised
        )
    # Small steps on many samples learn more often than one large step: the rescue that the chapter describes.
    several = samples.several_step_outcomes(16, 48, [3000], 40, SEED, rate=256, steps=6)
    single = samples.several_step_outcomes(16, 48, [3000], 40, SEED, rate=1e7, steps=1)
    assert several.learned.sum() > single.learned.sum() + 4


def test_growth_shows_the_targets_for_the_population():
    growth, (p, q) = samples.growth_after(32, 256, [40, 20_000], 0, SEED)
    assert growth.shape == (3, 2, 32)
    assert growth[-1, :, [p, q]] == pytest.approx(1, abs=0.3)
    assert np.abs(np.delete(growth[-1], [p, q], axis=1)).max() < 0.5
    # The noise of a small sample is large and nearly the same in both heads.
    noise = growth[0] - growth[-1]
    assert np.abs(noise).max() > 1
    assert np.corrcoef(noise)[0, 1] > 0.9


def test_enumeration_agrees_and_a_missing_input_shows():
    assert samples.enumeration_disagreement([3, 6, 9], 2, SEED) < 1e-12
    assert samples.enumeration_disagreement([9], 2, SEED, left_out=1) > 1e-4


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((8, [4], [[10, 10]], 3, SEED), "sizes are"),
        ((8, [4], [[]], 3, SEED), "sizes are"),
        ((8, [4, 5], [[10]], 3, SEED), "2 widths and 1 lists"),
        ((8, [4], [[10]], 0, SEED), "starts is 0"),
    ],
)
def test_what_one_step_outcomes_does_not_take(arguments, match):
    with pytest.raises(ValueError, match=match):
        samples.one_step_outcomes(*arguments)


def test_size_that_suffices_interpolates_in_one_over_n():
    sizes = [10, 20, 40, 80]
    shares = 0.9 - 4 / np.array(sizes)  # linear in 1/n, and 0.9 at infinity
    assert size_that_suffices(sizes, shares, 0.9, 0.95) == pytest.approx(4 / (0.05 * 0.9))  # beyond the grid
    assert size_that_suffices(sizes, shares, 0.9, 0.8) == pytest.approx(4 / (0.2 * 0.9))  # inside
    assert size_that_suffices(sizes, [0.9] * 4, 0.9, 0.95) == 10
    both = size_that_suffices(sizes, [shares, [0.9] * 4], [0.9, 0.9], 0.95)
    assert both == pytest.approx([4 / 0.045, 10])
    with pytest.raises(ValueError, match="never succeeds"):
        size_that_suffices(sizes, [0] * 4, 0.0, 0.95)


@pytest.mark.parametrize("exponent", [1, 2, 5])
def test_the_fit_finds_a_planted_exponent(exponent):
    planted = planted_outcomes(exponent, [16, 32, 64], 300, SEED)
    fitted = growth_of(planted, "learned", SEED)
    assert fitted.interval[0] < exponent < fitted.interval[1]
    assert fitted.interval[1] - fitted.interval[0] < 0.5
    for size, (low, high) in zip(fitted.sizes, fitted.intervals, strict=True):
        assert low <= size <= high


def test_what_the_fit_does_not_take():
    planted = planted_outcomes(1, [16, 32], 20, SEED)
    with pytest.raises(ValueError, match="criterion is 'seen'"):
        growth_of(planted, "seen", SEED)
    with pytest.raises(ValueError, match="two values of d"):
        growth_of({16: planted[16]}, "landed", SEED)
    assert slope_of([0, 1, 2], [[0, 3, 6], [1, 1, 1]]) == pytest.approx([3, 0])


def test_laws_rise_with_n_to_the_limit_of_the_population_step():
    for law in (learning_law, landing_law):
        values = [law(64, 48, n) for n in (10, 1e2, 1e3, 1e4, 1e5, math.inf)]
        assert values == sorted(values)
        assert all(0 <= value <= 1 for value in values)
        n = size_by_law(law, 64, 48)
        assert law(64, 48, n) == pytest.approx(0.95 * law(64, 48, math.inf), rel=1e-9)
    rho = 2 * 64 * math.sqrt(62) / (2 * 64**2 - 64 - 2)
    assert learning_law(64, 48, math.inf) == pytest.approx(1 - 2 / math.pi * math.atan(rho))


def test_landing_law_against_draws():
    d, m, n = 24, 40, 300.0
    rng = np.random.default_rng(SEED)
    noise = math.sqrt(d * (1 + d / m) / n)
    targets = 1 + noise * rng.normal(size=(40_000, 2)).max(axis=1)
    others = math.hypot(noise, math.sqrt(2 / m)) * rng.normal(size=(40_000, d - 2)).max(axis=1)
    assert landing_law(d, m, n) == pytest.approx((targets > others).mean(), abs=0.01)


def test_predicted_exponents_depend_on_the_width():
    def slope(law, width):
        ds = [2**12, 2**14]
        return math.log(
            size_by_law(law, ds[1], width(ds[1])) / size_by_law(law, ds[0], width(ds[0]))
        ) / math.log(4)

    assert slope(landing_law, lambda d: d) == pytest.approx(1.1, abs=0.1)
    assert slope(learning_law, lambda d: d) == pytest.approx(2.1, abs=0.1)
    assert slope(learning_law, lambda d: 48) == pytest.approx(2.1, abs=0.1)


@pytest.mark.parametrize("arguments", [(2, 8, 10.0), (8, 0, 10.0), (8, 8, 0.0), (8, 8, math.nan)])
def test_what_the_laws_do_not_take(arguments):
    for law in (learning_law, landing_law):
        with pytest.raises(ValueError, match="the law needs"):
            law(*arguments)
    with pytest.raises(ValueError, match="share is 1"):
        size_by_law(learning_law, 8, 8, 1.0)


def test_geometric_sizes():
    assert geometric_sizes(100, below=4, above=2, per_octave=1) == [25, 50, 100, 200]
    assert geometric_sizes(3, below=16, above=1)[0] == 1
    with pytest.raises(ValueError, match="centre = 0"):
        geometric_sizes(0)


def test_the_survey_finds_at_each_width_what_its_parts_find():
    found = survey_one_step(landing_law, [12, 24], [24, None], 5, SEED)
    assert list(found) == ["m=24", "m=d"]
    assert found["m=24"][24] is found["m=d"][24]
    sizes = found["m=d"][12].sizes.tolist()
    alone = samples.one_step_outcomes(12, [12], [sizes], 5, SEED)[0]
    assert np.array_equal(alone.landed, found["m=d"][12].landed)
    law = size_by_law(landing_law, 12, 12)
    assert sizes[0] < law / 8
    assert law < sizes[-1] < 2 * law
    several = survey_several_steps([6, 8], [None], 2, SEED, rate_factor=1.0, steps=2)
    assert list(several["m=d"]) == [6, 8]
    assert several["m=d"][8].learned.shape[0] == 2


def test_predictions_are_those_of_the_law():
    sizes = predicted_sizes(landing_law, [64, 256], None)
    assert sizes == [size_by_law(landing_law, 64, 64), size_by_law(landing_law, 256, 256)]
    assert predicted_slope(landing_law, [64, 256], None) == pytest.approx(
        math.log(sizes[1] / sizes[0]) / math.log(4)
    )


def test_the_learning_law_holds_roughly_where_it_is_checked_and_the_population_fails_less():
    seen = check_learning_law(learning_law, 32, 96, 200, SEED)
    assert seen.samples == 32 * 128
    assert seen.law == pytest.approx(1 - learning_law(32, 96, seen.samples))
    assert seen.failed / 200 == pytest.approx(seen.law, abs=0.12)  # 3.5 standard errors
    assert seen.failed_population < seen.failed - 15


def test_flipped_labels_need_more_samples():
    clean, noisy = (flipped_labels(24, 48, share, 60, SEED) for share in (0.0, 0.25))
    assert landing_size(noisy) > 2 * landing_size(clean)
    with pytest.raises(ValueError, match=r"flipped is 0\.5"):
        flipped_labels(24, 48, 0.5, 4, SEED)
