"""Counting over starts against the single-start kernel, and the theorem on collapsed heads against plain training."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import one_step, population_gradient, population_loss, score_gradient
from attention_companion.sparse_xor.batch import train
from attention_companion.sparse_xor.experiments import limits, limits_collapse
from attention_companion.sparse_xor.starts import draw_starts, sphere

pytestmark = pytest.mark.torch_free


def preferences(rows, theta, theta_tilde, pair):
    between = rows[pair[0]] - rows[pair[1]]
    return [-float(between @ g) for g in population_gradient(rows, theta, theta_tilde, pair)]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 9), st.integers(2, 7))
def test_same_preference_is_that_of_the_kernel_and_keeps_its_symmetries(seed, d, m):
    rng = np.random.default_rng(seed)
    rows, theta, other = sphere(rng, d, m), sphere(rng, m), sphere(rng, m)
    pair = tuple(int(i) for i in rng.choice(d, 2, replace=False))

    def same(rows, first, second, pair):
        return bool(limits.same_preference(rows[None], first[None], second[None], [pair])[0])

    first, second = preferences(rows, theta, other, pair)
    expected = same(rows, theta, other, pair)
    assert expected == (first * second > 0)
    assert same(rows, other, theta, pair) == expected
    assert same(rows, theta, other, pair[::-1]) == expected
    order = rng.permutation(d)
    moved = [int(np.flatnonzero(order == i)[0]) for i in pair]
    assert same(rows[order], theta, other, moved) == expected


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 9), st.integers(2, 7))
def test_the_split_into_parts_odd_and_even_in_the_query(seed, d, m):
    rng = np.random.default_rng(seed)
    rows, theta = sphere(rng, d, m), sphere(rng, m)
    up, down = (preferences(rows, sign * theta, -sign * theta, (0, 1)) for sign in (1, -1))
    # Head 1 from theta is head 2 from -theta: so S = (D1 - D2)/2 is odd and C = (D1 + D2)/2 is even.
    assert up == pytest.approx(down[::-1], rel=1e-9, abs=1e-15)


def test_counts_extend_and_agree_with_one_start_at_a_time():
    few, many = (limits.count_preferences(8, 6, n, 3) for n in (40, 80))
    assert few.starts == 40
    assert few.same <= many.same <= few.same + 40
    size = limits.CHUNK_BYTES // (8 * 8 * 6)
    rng = np.random.default_rng([3, 8, 6, 0])
    rows = rng.normal(size=(size, 8, 6))[:40]
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    theta = sphere(rng, size, 6)[:40]
    one = [math.prod(preferences(v, t, -t, (0, 1))) > 0 for v, t in zip(rows, theta, strict=True)]
    assert few.same == sum(one)


def test_counts_across_chunks(monkeypatch):
    monkeypatch.setattr(limits, "CHUNK_BYTES", 8 * 8 * 6 * 16)
    parts = [limits.count_preferences(8, 6, n, 3).same for n in (16, 32, 40)]
    assert 0 < parts[0] < parts[1] <= parts[2] < 40
    assert limits.count_preferences(8, 6, 40, 3, second="equal").same == 40


def test_recipes_of_embeddings_and_second_queries_differ():
    plain = limits.count_preferences(16, 12, 2000, 1).same
    assert limits.count_preferences(16, 12, 2000, 1, rows="balanced").same < plain / 3
    assert limits.count_preferences(16, 12, 2000, 1, rows="normal").same > 2 * plain
    assert limits.count_preferences(16, 12, 2000, 1, second="independent").same > 1.2 * plain
    assert (
        limits.count_preferences(64, 48, 2000, 1, kappa=0.5).same
        < 0.6 * limits.count_preferences(64, 48, 2000, 1).same
    )


def test_outcomes_by_start_are_those_of_the_single_step():
    rates = [5.0, 500.0]
    seen = limits.outcomes_by_start(12, 10, 30, 5, kappas=rates)
    assert seen.specialised.shape == (30, 2)
    drawn = draw_starts(12, 10, range(30), 5)
    for k in range(30):
        for j, rate in enumerate(rates):
            step = one_step(drawn.embeddings[k], drawn.theta[k], tuple(drawn.pairs[k]), rate * 144)
            assert step.specialised == seen.specialised[k, j]
    assert seen.specialised.any()
    assert not seen.specialised.all()


def test_several_steps_are_those_of_train_and_unit_steps_have_unit_length():
    drawn = draw_starts(10, 12, range(20), 5)
    last = train(drawn.embeddings, drawn.theta, drawn.pairs, 2.0 * 100, 3)
    seen = limits.outcomes_by_start(10, 12, 20, 5, kappas=2.0, steps=3)
    at_p = np.take_along_axis(last.gamma, drawn.pairs, axis=1)
    at_q = np.take_along_axis(last.gamma_tilde, drawn.pairs[:, ::-1], axis=1)
    assert (np.minimum(at_p, at_q).max(axis=1) >= 0.99).tolist() == seen.specialised.tolist()
    length = 30.0
    unit = limits.outcomes_by_start(10, 12, 20, 5, kappas=length, unit_steps=True)
    for k in range(20):
        gradient, _ = population_gradient(
            drawn.embeddings[k], drawn.theta[k], -drawn.theta[k], tuple(drawn.pairs[k])
        )
        step = one_step(
            drawn.embeddings[k], drawn.theta[k], tuple(drawn.pairs[k]), length / np.linalg.norm(gradient)
        )
        assert step.specialised == unit.specialised[k]


def test_centring_alone_changes_nothing():
    assert limits.centring_difference(9, 7, 30, 2, kappa=2.0, steps=3, rescaled=False) < 1e-10
    assert limits.centring_difference(9, 7, 30, 2, kappa=2.0, steps=3, rescaled=True) > 0.1
    plain = limits.outcomes_by_start(9, 7, 60, 2)
    assert (
        limits.outcomes_by_start(9, 7, 60, 2, embeddings="centred").specialised.tolist()
        == plain.specialised.tolist()
    )


def test_rate_reached_interpolates_in_the_logarithm():
    table = np.zeros((100, 4), dtype=bool)
    for column, hits in enumerate((20, 40, 80, 100)):
        table[:hits, column] = True
    # 60 percent of the ceiling lies half way between the second and the third rate: the geometric mean.
    assert limits.rate_reached(table, [1.0, 4.0, 16.0], 0.6) == pytest.approx(8.0)
    for share in (0.1, 0.95):
        with pytest.raises(ValueError, match="widen the grid"):
            limits.rate_reached(table, [1.0, 4.0, 16.0], share)
    with pytest.raises(ValueError, match="widen the grid"):
        limits.rate_reached(table, [1.0, 4.0], 0.6)


def test_pair_formulas_by_hand_and_where_they_fail():
    tenth = Fraction(1, 10)
    # c = 18/100: loss 2 (82/100)^2 and slope -4 (82/100)(8/10)(1/10)(9/10).
    assert limits_collapse.pair_loss(tenth, tenth) == Fraction(3362, 2500)
    assert limits_collapse.pair_slope(tenth, tenth) == Fraction(-738, 3125)
    assert [limits_collapse.pair_mismatches(d) for d in (2, 5)] == [0, 0]
    assert limits_collapse.pair_mismatches(5, support=(0, 2)) > 10
    assert limits_collapse.pair_mismatches(5, pair=(3, 4)) > 10


def test_a_collapsed_pair_is_worse_than_no_answer_and_feels_no_gradient():
    on_p, uniform = [Fraction(1), Fraction(0), Fraction(0)], [Fraction(0)] * 3
    assert population_loss(on_p, on_p, (0, 1)) == 2
    assert population_loss(uniform, uniform, (0, 1)) == 1
    assert score_gradient(on_p, on_p, (0, 1)) == [0, 0, 0]
    half = [Fraction(1, 2), Fraction(1, 2), Fraction(0)]
    assert population_loss(half, half, (0, 1)) == Fraction(1, 2)
    assert score_gradient(half, half, (0, 1)) == [0, 0, 0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 8), st.floats(2.5, 20), st.integers(1, 30))
def test_heads_that_satisfy_the_condition_stay(seed, d, gap, steps):
    """Any position, on the pair or not, at the largest rate that the condition allows; no score moves by over 1."""
    rng = np.random.default_rng(seed)
    rows = np.eye(d)
    top = int(rng.integers(d))
    queries = rng.uniform(-1, 1, size=(2, d))
    queries[:, top] = 1 + gap + math.log(d)
    weights = np.exp(queries - queries.max(axis=1, keepdims=True))
    off = (weights.sum(axis=1) - 1).max() / weights.sum(axis=1).min()
    if off > 0.1:
        return
    rate = (1 - off) / (18 * math.e * steps * off) * (1 - 1e-9)
    assert limits_collapse.stays(np.array([off]), rate, steps).all()
    assert not limits_collapse.stays(np.array([off]), 1.01 * rate, steps).any()
    last = train(rows, queries[0], (0, 1), rate, steps, theta_tilde=queries[1])
    for now, before in ((last.theta, queries[0]), (last.theta_tilde, queries[1])):
        assert np.abs((now - now[top]) - (before - before[top])).max() <= 1
        assert now.argmax() == top


def test_recovery_counts_add_up_and_large_rates_hold():
    seen = limits_collapse.recovery(16, 24, 300, 4, 3000.0, 20)
    assert seen.starts == 300
    assert 20 < seen.collapsed == seen.bound + seen.free
    assert seen.bound_left == 0 < seen.bound
    loose = limits_collapse.recovery(16, 24, 300, 4, 30.0, 20)
    assert loose.free_left > 0
    assert loose.recovered <= loose.free_left


def test_the_count_of_leavers_can_fail(monkeypatch):
    monkeypatch.setattr(limits_collapse, "stays", lambda off, rate, steps: np.ones(len(off), dtype=bool))
    assert limits_collapse.recovery(16, 24, 300, 4, 30.0, 20).bound_left > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: limits.count_preferences(8, 6, 10, 1, rows="cube"), "rows is 'cube'"),
        (lambda: limits.count_preferences(8, 6, 10, 1, second="other"), "second is 'other'"),
        (lambda: limits.count_preferences(2, 6, 10, 1), "d >= 3"),
        (lambda: limits.count_preferences(8, 6, 0, 1), "at least one start"),
        (lambda: limits.outcomes_by_start(8, 6, 4, 1, steps=0), "steps is 0"),
        (lambda: limits.outcomes_by_start(8, 6, 4, 1, steps=2), "infinite rates"),
        (lambda: limits.outcomes_by_start(8, 6, 4, 1, kappas=1.0, steps=2, unit_steps=True), "unit steps"),
        (lambda: limits_collapse.stays(np.array([-0.1]), 1.0, 1), "weights lie in"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
