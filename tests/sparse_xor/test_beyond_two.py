"""Where one step sends k heads: starts, counting, the law of leading order, and small steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attention_companion.intervals import wilson
from attention_companion.sparse_xor.checks import collapse_law
from attention_companion.sparse_xor.experiments import beyond_two as many
from attention_companion.sparse_xor.experiments.beyond_two import Counts, share_over_law
from attention_companion.sparse_xor.starts import count_outcomes, draw_starts

pytestmark = pytest.mark.torch_free


def test_two_heads_start_and_end_as_in_the_engine():
    ours, theirs = many.draw_many(2, 12, 8, range(5), 3), draw_starts(12, 8, range(5), 3)
    assert np.array_equal(ours.embeddings, theirs.embeddings)
    assert np.array_equal(ours.queries, np.stack([theirs.theta, theirs.theta_tilde], axis=1))
    assert np.array_equal(ours.support, theirs.pairs)
    (limit,) = count_outcomes(12, 24, 200, [np.inf], 3)
    seen = many.outcomes_of_one_step(2, 12, 24, 200, 3)
    assert seen == Counts(200, limit.specialised, 200 - limit.distracted)


def test_kinds_of_start():
    four = many.draw_many(4, 6, 5, [0, 1], 0).queries
    assert np.array_equal(four[:, 1::2], -four[:, ::2])
    assert np.linalg.norm(four, axis=-1) == pytest.approx(1)
    assert abs(float(four[0, 0] @ four[0, 2])) < 0.999
    three = many.draw_many(3, 6, 5, [0], 0, start="zero", length=2.0).queries[0]
    assert np.array_equal(three[1], -three[0])
    assert np.linalg.norm(three, axis=-1).tolist() == pytest.approx([2, 2, 0])
    same = many.draw_many(3, 6, 5, [0], 0, start="equal").queries[0]
    assert np.array_equal(same[0], same[2])
    free = many.draw_many(3, 6, 5, [0], 0, start="independent").queries[0]
    assert np.linalg.matrix_rank(free) == 3


def test_a_start_depends_on_its_number_only():
    assert np.array_equal(
        many.draw_many(3, 6, 5, [7], 0).queries[0], many.draw_many(3, 6, 5, range(9), 0).queries[7]
    )


def test_orthonormal_embeddings():
    rows = many.draw_many(3, 6, 8, [0], 0, orthonormal=True).embeddings[0]
    assert rows @ rows.T == pytest.approx(np.eye(6), abs=1e-12)


def test_counting():
    support = np.array([[4, 1, 2]] * 3)
    hits, within = many._counted(np.array([[1, 2, 4], [1, 1, 4], [1, 2, 3]]), support)
    assert hits.tolist() == [True, False, False]
    assert within.tolist() == [True, True, False]


def test_equal_heads_never_specialise_in_one_step():
    assert many.outcomes_of_one_step(3, 8, 32, 100, 0, start="equal").specialised == 0


def test_law_for_two_heads_is_the_collapse_law():
    share, error = many.law(2, 64, 40000, 0)
    assert abs(share - (1 - collapse_law(64))) < 4 * error
    assert many.law(2, math.inf, 1000, 0)[0] == 1


def test_law_of_two_pairs_without_a_common_part_is_one_sixth():
    """Each pair picks two of four targets in order, evenly: disjoint in 2 of 12 cases."""
    share, error = many.law(4, math.inf, 40000, 0, common=False)
    assert abs(share - 1 / 6) < 4 * error
    # Equal heads pick alike, and a query of length zero leaves the common part alone.
    assert many.law(3, 32, 500, 0, start="equal")[0] == 0
    assert many.law(3, 32, 500, 0, length=0.0)[0] == 0


def test_law_agrees_with_one_step_at_large_width_and_only_with_its_common_part():
    share, _ = many.law(3, 16, 40000, 0)
    seen = many.outcomes_of_one_step(3, 16, 1024, 800, 5)
    low, high = wilson(seen.specialised, seen.starts)
    # A fifth for the orders that the law leaves out.
    assert low < 1.2 * share
    assert high > 0.8 * share
    assert high < many.law(3, math.inf, 40000, 0, common=False)[0]
    assert seen.in_support == 800


def test_small_steps_specialise_where_one_step_does_not():
    small = many.outcomes_of_steps(3, 16, 64, 60, 0, growth=0.4, steps=60)
    assert small[0].specialised == 0
    assert small[-1].specialised >= 57
    assert many.outcomes_of_one_step(3, 16, 64, 60, 0).specialised < 30
    fixed = many.outcomes_of_steps(3, 16, 64, 60, 0, growth=0.05, steps=60, scaled=False)
    assert fixed[-1].specialised > 30


def test_one_huge_scaled_step_is_the_limit():
    huge = many.outcomes_of_steps(3, 16, 64, 100, 0, growth=1e9, steps=1)[1]
    limit = many.outcomes_of_one_step(3, 16, 64, 100, 0)
    assert huge == limit


def test_share_difference_by_hand():
    """Newcombe: 0/10 and 10/10; Wilson gives (0, w) and (1 - w, 1) with w = z^2/(10 + z^2), so 1 - sqrt(2) w to 1."""
    w = 1.959964**2 / (10 + 1.959964**2)
    change, (low, high) = many.share_difference(Counts(10, 0, 10), Counts(10, 10, 10))
    assert change == 1
    assert low == pytest.approx(1 - math.sqrt(2) * w, abs=1e-6)
    assert high == pytest.approx(1)
    assert many._wilson(3, 17) == pytest.approx(wilson(3, 17))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: many.draw_many(3, 6, 5, [0], 0, start="odd"), "start is 'odd'; expected one of mirrored"),
        (lambda: many.draw_many(7, 6, 5, [0], 0), "k is 7; with d = 6"),
        (lambda: many.draw_many(3, 6, 5, [0], 0, orthonormal=True), "need a width of at least 6"),
        (lambda: many.outcomes_of_one_step(3, 6, 5, 0, 0), "starts is 0"),
        (lambda: many.outcomes_of_steps(3, 6, 5, 1, 0, growth=0, steps=1), "positive growth"),
        (lambda: many.outcomes_of_steps(3, 6, 5, 1, 0, growth=1.0, steps=0), "at least 1 step"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_share_over_a_law_knows_the_errors_of_both():
    counts = Counts(400, 100, 400)
    ratio, (low, high) = share_over_law(counts, (0.2, 0.0))
    assert ratio == pytest.approx(1.25)
    assert low == pytest.approx(wilson(100, 400)[0] / 0.2)
    assert high == pytest.approx(wilson(100, 400)[1] / 0.2)
    same, (wider_low, wider_high) = share_over_law(counts, (0.2, 0.01))
    assert same == ratio
    assert wider_low < low
    assert wider_high > high
    with pytest.raises(ValueError, match="more draws"):
        share_over_law(counts, (0.01, 0.01))
