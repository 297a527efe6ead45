"""Starts: their distribution, their independence of how many are drawn, and the counts against single steps."""

from __future__ import annotations

import numpy as np
import pytest

from attention_companion.sparse_xor import one_step, starts
from attention_companion.sparse_xor.starts import chunks_of_starts, count_outcomes, draw_starts


def test_a_start_is_known_by_its_index():
    many, some = draw_starts(8, 5, range(6), 9), draw_starts(8, 5, [4, 1], 9)
    np.testing.assert_array_equal(some.embeddings, many.embeddings[[4, 1]])
    np.testing.assert_array_equal(some.pairs, many.pairs[[4, 1]])
    assert not np.array_equal(draw_starts(8, 5, [1], 10).theta, some.theta[1:])


@pytest.mark.parametrize("embeddings", ["sphere", "balanced", "orthonormal"])
def test_kinds_of_embeddings(embeddings):
    drawn = draw_starts(6, 6, range(3), 2, embeddings=embeddings)
    np.testing.assert_allclose(np.linalg.norm(drawn.embeddings, axis=-1), 1, atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(drawn.theta, axis=-1), 1, atol=1e-13)
    grams = drawn.embeddings @ drawn.embeddings.swapaxes(-1, -2)
    assert np.allclose(grams, np.eye(6), atol=1e-12) == (embeddings == "orthonormal")


def test_random_rotations_are_uniform_in_their_first_two_moments():
    # Without the signs of R's diagonal the first coordinate of the first row is always of one sign.
    first = draw_starts(3, 3, range(400), 7, embeddings="orthonormal").embeddings[:, 0, 0]
    assert abs(first.mean()) < 4 * np.sqrt(1 / 3 / 400)
    assert first.var() == pytest.approx(1 / 3, abs=0.08)


def test_balancing_removes_most_of_the_mean():
    plain, balanced = (
        draw_starts(200, 12, range(3), 3, embeddings=kind).embeddings.mean(axis=1)
        for kind in ("sphere", "balanced")
    )
    assert (np.linalg.norm(balanced, axis=-1) < np.linalg.norm(plain, axis=-1) / 5).all()


def test_second_queries():
    drawn = {kind: draw_starts(5, 4, range(2), 1, second=kind) for kind in starts.SECOND_QUERIES}
    np.testing.assert_array_equal(drawn["mirrored"].theta_tilde, -drawn["mirrored"].theta)
    np.testing.assert_array_equal(drawn["equal"].theta_tilde, drawn["equal"].theta)
    assert abs((drawn["independent"].theta_tilde * drawn["independent"].theta).sum(axis=-1)).max() < 1
    np.testing.assert_array_equal(drawn["independent"].pairs, drawn["mirrored"].pairs)


def test_chunks_cover_all_starts_whatever_their_size(monkeypatch):
    whole = draw_starts(8, 5, range(7), 9).theta
    monkeypatch.setattr(starts, "CHUNK_BYTES", 8 * 8 * 5 * 3)
    parts = [part.theta for part in chunks_of_starts(8, 5, 7, 9)]
    assert [len(part) for part in parts] == [3, 3, 1]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_counts_agree_with_single_steps():
    rates = [10.0 * 32**2, 1e7]
    ours = count_outcomes(32, 10, 60, rates, 4)
    for rate, seen in zip(rates, ours, strict=True):
        expected = [0, 0]
        for k in range(60):
            start = draw_starts(32, 10, [k], 4)
            step = one_step(start.embeddings[0], start.theta[0], start.pairs[0], rate)
            expected[0] += step.specialised
            expected[1] += not {int(step.gamma.argmax()), int(step.gamma_tilde.argmax())} <= set(
                start.pairs[0]
            )
        assert [seen.specialised, seen.distracted] == expected
    assert 0 < ours[0].specialised != ours[1].specialised


def test_equal_queries_never_specialise_and_more_steps_change_the_counts():
    [equal] = count_outcomes(16, 24, 50, [1e6], 4, second="equal")
    assert equal.specialised == 0
    assert equal.collapsed == 50 - equal.distracted
    [one], [two] = (count_outcomes(16, 24, 200, [2 * 16**2], 4, steps=n) for n in (1, 2))
    assert two.specialised > one.specialised


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"second": "other"}, "second is 'other'; choose one of mirrored, independent, equal"),
        ({"embeddings": "cube"}, "embeddings is 'cube'"),
        ({"embeddings": "orthonormal"}, "orthonormal embeddings of 8 positions need m >= 8, got m = 5"),
        ({"d": 1}, "d is 1"),
        ({"m": 0}, "m is 0"),
        ({"starts": 0}, "starts is 0"),
        ({"learning_rates": []}, "at least one rate"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        count_outcomes(**{"d": 8, "m": 5, "starts": 3, "learning_rates": [1.0], "seed": 1} | change)


def test_no_index_is_refused():
    with pytest.raises(ValueError, match="no start was asked for"):
        draw_starts(8, 5, [], 1)
