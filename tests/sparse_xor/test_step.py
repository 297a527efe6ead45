"""One population step: what it computes, when it specialises, and that size does not break it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from attention_companion.sparse_xor import (
    SPECIALISED_AT,
    attention_weights,
    one_step,
    population_gradient,
    population_loss,
    worst_case_error,
)

pytestmark = pytest.mark.torch_free


def sphere(rng, *shape):
    vectors = rng.normal(size=shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def start(seed, d=16, m=48):
    rng = np.random.default_rng(seed)
    return sphere(rng, d, m), sphere(rng, m), tuple(int(i) for i in rng.choice(d, 2, replace=False))


@pytest.mark.parametrize("seed", range(5))
def test_is_one_simultaneous_gradient_step_from_the_mirrored_start(seed):
    embeddings, theta, pair = start(seed, d=8, m=5)
    rate = 3.5
    first, second = population_gradient(embeddings, theta, -theta, pair)
    step = one_step(embeddings, theta, pair, rate)
    assert np.array_equal(step.theta, theta - rate * first)
    assert np.array_equal(step.theta_tilde, -theta - rate * second)
    assert np.array_equal(step.gamma, attention_weights(embeddings, step.theta))
    assert np.array_equal(step.gamma_tilde, attention_weights(embeddings, step.theta_tilde))
    # One head after the other would use the moved first head for the second gradient: another answer.
    one_by_one = -theta - rate * population_gradient(embeddings, step.theta, -theta, pair)[1]
    assert np.abs(one_by_one - step.theta_tilde).max() > 1e-6


def test_rate_zero_stays_at_the_start():
    embeddings, theta, pair = start(0)
    step = one_step(embeddings, theta, pair, 0)
    assert np.array_equal(step.theta, theta)
    assert np.array_equal(step.theta_tilde, -theta)
    assert not step.specialised


def test_specialised_is_the_stated_threshold_on_the_better_assignment():
    seen = set()
    for seed in range(30):
        embeddings, theta, (p, q) = start(seed)
        for rate in (1e3, 1e4, 2e4, 3e4, 1e12):
            step = one_step(embeddings, theta, (p, q), rate)
            straight = min(step.gamma[p], step.gamma_tilde[q])
            crossed = min(step.gamma[q], step.gamma_tilde[p])
            assert step.specialised is bool(max(straight, crossed) >= 0.99)
            if step.specialised:
                seen.add("straight" if straight > crossed else "crossed")
            elif max(straight, crossed) > 0.9:
                seen.add("nearly")
            elif max(step.gamma[p] * step.gamma_tilde[p], step.gamma[q] * step.gamma_tilde[q]) > 0.9:
                seen.add("collapsed")
    assert seen == {"straight", "crossed", "nearly", "collapsed"}
    assert SPECIALISED_AT == 0.99


def test_mirrored_starts_exchange_the_heads():
    embeddings, theta, pair = start(2)
    step, mirrored = one_step(embeddings, theta, pair, 5e3), one_step(embeddings, -theta, pair, 5e3)
    assert np.array_equal(step.gamma, mirrored.gamma_tilde)
    assert np.array_equal(step.gamma_tilde, mirrored.gamma)
    assert step.specialised == mirrored.specialised


def test_a_specialised_pair_solves_the_task_and_a_collapsed_one_is_worse_than_silence():
    outcomes = set()
    for seed in range(40):
        embeddings, theta, pair = start(seed)
        step = one_step(embeddings, theta, pair, 1e12)
        loss = population_loss(step.gamma, step.gamma_tilde, pair)
        worst = worst_case_error(step.gamma, step.gamma_tilde, pair)
        assert worst.exact
        outcomes.add(step.specialised)
        if step.specialised:
            assert worst.upper <= 1 - (1 - 2 * 0.01) ** 2
            assert loss <= worst.upper**2
        else:
            assert loss > 1
    assert outcomes == {True, False}


@pytest.mark.parametrize("d", [2, 3])
def test_smallest_inputs(d):
    embeddings, theta = np.eye(d), np.arange(d, dtype=float)
    step = one_step(embeddings, theta, (0, 1), 1e6)
    assert step.gamma.shape == (d,)
    assert step.theta.shape == (d,)
    assert step.gamma.sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [1.0, 1e12, np.float64(1e20), Fraction(10**12), 10**12, np.array(1e12)])
def test_keeps_its_dtype_and_does_not_overflow_at_any_rate(dtype, rate):
    embeddings, theta, pair = start(1)
    step = one_step(embeddings.astype(dtype), theta.astype(dtype), pair, rate)
    for array in (step.theta, step.theta_tilde, step.gamma, step.gamma_tilde):
        assert array.dtype == dtype
        assert np.isfinite(array).all()
    assert step.gamma.sum() == pytest.approx(1, abs=1e-6)
    assert type(step.specialised) is bool


@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, 1e150), (np.float64, 1e200), (np.float32, 1e25)])
def test_huge_embeddings(dtype, scale):
    """Updated scores exceed the dtype; the attention is what their order says."""
    embeddings, theta, pair = start(3)
    huge = (embeddings * scale).astype(dtype)
    step = one_step(huge, (theta / scale).astype(dtype), pair, 1e12)
    small = one_step(embeddings.astype(dtype), theta.astype(dtype), pair, 1e20)
    assert np.isfinite(step.gamma).all()
    assert step.gamma.dtype == dtype
    assert (np.argmax(step.gamma), np.argmax(step.gamma_tilde)) == (
        np.argmax(small.gamma),
        np.argmax(small.gamma_tilde),
    )


def test_a_query_beyond_the_dtype_raises():
    embeddings, theta, pair = start(3)
    with pytest.raises(
        OverflowError, match=r"learning_rate 1000000000000.0 times a gradient as large as .* float32"
    ):
        one_step((embeddings * 1e30).astype(np.float32), (theta * 1e-30).astype(np.float32), pair, 1e12)


def test_the_arguments_are_left_alone():
    embeddings, theta, pair = start(3)
    copies = embeddings.copy(), theta.copy()
    one_step(embeddings, theta, pair, 1e3)
    assert np.array_equal(embeddings, copies[0])
    assert np.array_equal(theta, copies[1])


def test_the_heads_never_part_from_equal_starts_but_do_from_mirrored_ones():
    """The control of the mirrored start: with theta~ = theta both gradients are one, and so are the heads for ever."""
    embeddings, theta, pair = start(4)
    first, second = population_gradient(embeddings, theta, theta, pair)
    assert np.array_equal(first, second)
    first, second = population_gradient(embeddings, theta, -theta, pair)
    assert np.abs(first - second).max() > 1e-6
