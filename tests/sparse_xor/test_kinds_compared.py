"""The race of attention kinds: choice of the rate, caps, proofs in place of runs, classes, intervals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from attention_companion.sparse_xor.batch import train
from attention_companion.sparse_xor.experiments import kinds_compared, kinds_regimes, odd_attention
from attention_companion.sparse_xor.experiments.kinds_compared import (
    grid,
    median_interval,
    proved_never,
    proved_unspecialised,
    race,
    starts_of,
    ways_of_ending,
)

FACTORS = [2.0**k for k in range(-4, 4)]


def test_the_race_counts_what_training_each_rate_by_itself_counts():
    """The race drops rates and starts on the way; an independent run of every rate to the cap must give the same."""
    starts, cap = starts_of("orthonormal", "independent", 12, 0, 3, seed=1), 250
    for kind in ("softmax", "linear", "erf"):
        seen = race(kind, starts, FACTORS, cap=cap)
        steps = np.empty((3, len(FACTORS)), dtype=int)
        for k in range(3):
            for j, rate in enumerate(grid(kind, 12, 12, FACTORS)):
                losses = train(
                    starts.embeddings[k], starts.theta[k], starts.pairs[k], rate, cap,
                    theta_tilde=starts.theta_tilde[k], attention=kind,
                ).losses  # fmt: skip
                below = np.flatnonzero(losses < 1e-3)
                steps[k, j] = below[0] if below.size else cap + 1
        medians = np.median(steps, axis=0)
        chosen = FACTORS.index(seen.factor)
        assert medians[chosen] == medians.min() <= cap
        assert seen.steps.tolist() == steps[:, chosen].tolist()
        assert seen.interior == (0 < chosen < len(FACTORS) - 1)
        arrived = np.array([(seen.losses[:, k] < 1e-3).argmax() for k in range(3)])
        assert arrived.tolist() == seen.steps.tolist()


def test_what_does_not_arrive_counts_one_more_than_the_cap():
    starts = starts_of("narrow", "mirrored", 16, 4, 3, seed=2)
    seen = race("linear", starts, [2.0**-9, 2.0**-8, 2.0**-7], cap=60)
    assert seen.steps.tolist() == [61] * 3
    assert np.isinf(seen.median_by_rate).all()
    assert len(seen.losses) == 61
    assert np.nanmin(seen.losses) >= 0.5
    # A cap of one step: softmax arrives or not by that one step.
    one = race(
        "softmax", starts_of("orthonormal", "independent", 64, 0, 4, seed=2), [2.0**-9, 1.0, 2.0], cap=1
    )
    assert set(one.steps.tolist()) <= {1, 2}


def test_a_grid_that_ends_at_its_best_rate_says_so():
    starts = starts_of("orthonormal", "independent", 12, 0, 5, seed=1)
    assert not race("linear", starts, [2.0**-5, 2.0**-4, 2.0**-3], cap=300).interior


@pytest.mark.parametrize(("factors", "cap"), [([1.0, 2.0], 10), ([1.0, 3.0, 2.0], 10), ([1.0, 2.0, 3.0], 0)])
def test_a_race_that_cannot_be_run(factors, cap):
    with pytest.raises(ValueError, match="increasing factors"):
        race("linear", starts_of("narrow", "mirrored", 8, 2, 3, seed=2), factors, cap=cap)


@pytest.mark.parametrize("n", [6, 7, 15, 40])
def test_the_interval_of_the_median_covers_as_often_as_it_says(n):
    """By binomial probabilities from another library: the next order statistic inward would cover too little."""
    low, high = median_interval(np.arange(1, n + 1))
    assert low + high == n + 1
    k = int(low)
    assert 1 - 2 * binom.cdf(k - 1, n, 0.5) >= 0.95
    assert 1 - 2 * binom.cdf(k, n, 0.5) < 0.95 or 2 * k == n


def test_too_few_values_for_an_interval():
    with pytest.raises(ValueError, match="5 values cannot bound"):
        median_interval([1, 2, 3, 4, 5])


def test_the_classes_on_heads_made_by_hand():
    d, pairs = 6, np.array([[1, 4]] * 6)
    unit = np.eye(d)
    spread = np.full(d, 0.5)
    spread[1] = 0.6
    first = np.stack([unit[1], -3 * unit[1], unit[1], unit[2], spread, 1e200 * unit[4]])
    second = np.stack([unit[4], unit[1], unit[1] * 0.99 + unit[4] * 0.1, unit[4], unit[4], -1e200 * unit[1]])
    ways = ways_of_ending(first, second, pairs)
    assert ways.specialised.tolist() == [True, False, False, False, False, True]
    assert ways.same.tolist() == [False, True, True, False, False, False]
    assert ways.outside.tolist() == [False, False, False, True, True, False]


def test_what_is_proved_and_what_is_not():
    narrow, free = (starts_of("narrow", s, 64, 8, 3, seed=4) for s in ("mirrored", "independent"))
    wide = starts_of("orthonormal", "independent", 16, 0, 3, seed=4)
    for proof in (proved_never, proved_unspecialised):
        assert not proof("softmax", narrow).any()
        assert proof("linear", narrow).all()
        assert proof("erf", narrow).all()
        assert proof("linear", free).all()
        assert not proof("erf", free).any()
        assert not proof("linear", wide).any()
        assert not proof("erf", wide).any()
    assert not proved_never("erf", narrow, threshold=0.6).any()
    nearly = replace(narrow, theta_tilde=np.nextafter(narrow.theta_tilde, np.inf))
    assert not proved_never("erf", nearly).any()


def test_a_run_against_a_proof_stops_everything(monkeypatch):
    monkeypatch.setattr(kinds_regimes, "proved_never", lambda *_: np.ones(4, dtype=bool))
    monkeypatch.setattr(kinds_regimes, "proved_unspecialised", lambda *_: np.ones(4, dtype=bool))
    with pytest.raises(RuntimeError, match="which a proof excludes"):
        kinds_regimes.compare("orthonormal", "independent", 12, 0, 4, 1, FACTORS, cap=300, kinds=["linear"])


def test_regimes_side_by_side():
    row = kinds_regimes.compare("orthonormal", "mirrored", 16, 0, 6, 1, FACTORS, cap=80, confirm=1)
    soft, linear = row["softmax"], row["linear"]
    assert linear.proved
    assert linear.never
    assert linear.run == 1
    assert linear.failed.all()
    assert soft.arrived == 1
    assert not soft.failed.any()
    assert (kinds_regimes.step_ratios(linear, soft) == 81 / soft.steps).all()
    assert kinds_regimes.step_values(linear, soft)["steps"] == 81
    unraced = kinds_regimes.compare(
        "orthonormal", "mirrored", 16, 0, 6, 1, FACTORS, confirm=0, kinds=["erf"]
    )["erf"]
    assert unraced.race is None
    assert unraced.never
    assert "chosen rate" not in kinds_regimes.step_values(unraced, soft)
    table = kinds_regimes.regime_table([row]).splitlines()
    assert len(table) == 3
    assert table[2].count("never (proof)") == 2
    open_end = replace(linear, proved=False)
    assert kinds_regimes.verdict_cell(open_end, soft) == "not in 80"
    slower = replace(linear, steps=10 * soft.steps)
    assert "(ratio 10)" in kinds_regimes.verdict_cell(slower, soft)
    with pytest.raises(ValueError, match="same starts"):
        kinds_regimes.step_ratios(replace(linear, steps=linear.steps[:2]), soft)


def test_settings_by_name():
    assert starts_of("narrow", "mirrored", 8, 3, 2, 1).embeddings.shape == (2, 8, 3)
    assert starts_of("square", "mirrored", 8, 3, 2, 1).embeddings.shape == (2, 8, 8)
    rows = starts_of("orthonormal", "independent", 8, 3, 1, 1).embeddings[0]
    assert np.allclose(rows @ rows.T, np.eye(8), atol=1e-12)
    with pytest.raises(ValueError, match="choose one of narrow"):
        starts_of("wide", "mirrored", 8, 3, 2, 1)
    assert kinds_compared.grid("softmax", 8, 4, [0.5]).tolist() == [64.0]
    assert kinds_compared.grid("erf", 8, 4, [0.5]).tolist() == [0.5]


def test_the_floor_is_proved_and_its_controls_fail():
    for multiple in (-1, 1):
        assert odd_attention.prove_floor_on_grid(multiple).mismatches == 0
    assert odd_attention.prove_floor_on_grid(-2).mismatches > 1000


def test_the_floor_is_attained(oracle):
    half = Fraction(1, 2)
    a = [0, half, 0, -half, 0]
    assert oracle.loss(a, [-s for s in a], (1, 3)) == half


def test_odd_attention_keeps_the_mirror_and_nothing_else_does():
    assert odd_attention.exact_departures(odd_attention.LINEAR, 3, 3, 7) == 0
    assert odd_attention.exact_departures(odd_attention.CUBIC, 3, 2, 7) == 0
    assert odd_attention.exact_departures(odd_attention.QUADRATIC, 3, 2, 7) > 0
    for kind in ("linear", "erf"):
        assert odd_attention.float_departures(kind, 12, 4, 3, 50, 0.02, 7) == 0
    assert odd_attention.float_departures("softmax", 12, 4, 3, 50, 0.02, 7) > 0


def test_the_exact_descent_is_the_engine_s():
    """One exact step of linear attention beside the engine's, so that the mirror is not kept by a step that is none."""
    rows = [[Fraction(1), Fraction(2)], [Fraction(-1), Fraction(1)], [Fraction(3), Fraction(0)]]
    queries = [[Fraction(1, 4), Fraction(1, 2)], [Fraction(1, 3), Fraction(-1, 5)]]
    moved = odd_attention._exact_step(rows, queries, (0, 2), Fraction(1, 50), odd_attention.LINEAR)
    as_floats = [[float(t) for t in query] for query in queries]
    run = train(
        np.array(rows, dtype=float),
        np.array(as_floats[0]),
        (0, 2),
        0.02,
        1,
        theta_tilde=np.array(as_floats[1]),
        attention="linear",
    )
    np.testing.assert_allclose(run.theta, [float(t) for t in moved[0]], atol=1e-14)
    np.testing.assert_allclose(run.theta_tilde, [float(t) for t in moved[1]], atol=1e-14)
