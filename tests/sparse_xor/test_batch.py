"""Batched steps against the single-start kernels, autograd and enumeration; the laws of batching; what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import one_step, population_loss
from attention_companion.sparse_xor.batch import batch_loss, classify, step_batch, train
from attention_companion.sparse_xor.starts import draw_starts

PHI = {"softmax": lambda s: torch.softmax(s, dim=-1), "linear": lambda s: s, "erf": torch.special.erf}


def enumerated_loss(a, b, pair):
    """Mean of (f - y)^2 over all inputs, differentiable, from the definition."""
    x = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=len(a))), dtype=torch.float64)
    return ((-(x @ a) * (x @ b) + x[:, pair[0]] * x[:, pair[1]]) ** 2).mean()


def autograd_training(embeddings, queries, pair, rate, steps, attention):
    queries = torch.tensor(np.stack(queries))
    rows = torch.tensor(embeddings)
    losses = []
    for step in range(steps + 1):
        queries.requires_grad_(True)
        a, b = (PHI[attention](rows @ q) for q in queries)
        loss = enumerated_loss(a, b, pair)
        losses.append(float(loss.detach()))
        if step < steps:
            (slope,) = torch.autograd.grad(loss, queries)
            queries = (queries - rate * slope).detach()
    return queries.detach().numpy(), losses


@pytest.mark.parametrize("attention", ["softmax", "linear", "erf"])
@pytest.mark.parametrize("second", ["mirrored", "independent"])
def test_training_agrees_with_autograd_through_enumeration(attention, second):
    starts = draw_starts(7, 4, range(3), 21, second=second)
    rate, steps = (40.0, 4) if attention == "softmax" else (0.02, 6)
    run = train(
        starts.embeddings,
        starts.theta,
        starts.pairs,
        rate,
        steps,
        theta_tilde=starts.theta_tilde,
        attention=attention,
    )
    for k in range(3):
        queries, losses = autograd_training(
            starts.embeddings[k],
            (starts.theta[k], starts.theta_tilde[k]),
            starts.pairs[k],
            rate,
            steps,
            attention,
        )
        np.testing.assert_allclose(run.theta[k], queries[0], atol=1e-11)
        np.testing.assert_allclose(run.theta_tilde[k], queries[1], atol=1e-11)
        np.testing.assert_allclose(run.losses[:, k], losses, atol=1e-12)


def test_a_grid_of_rates_equals_single_steps():
    starts, rates = draw_starts(16, 6, range(4), 3), np.array([0.0, 30.0, 2e4])
    heads = step_batch(starts.embeddings[:, None], starts.theta[:, None], starts.pairs[:, None], rates)
    assert heads.gamma.shape == (4, 3, 16)
    assert heads.theta_tilde.shape == (4, 3, 6)
    for k, r in itertools.product(range(4), range(3)):
        single = one_step(starts.embeddings[k], starts.theta[k], starts.pairs[k], rates[r])
        np.testing.assert_allclose(heads.theta[k, r], single.theta, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(heads.gamma[k, r], single.gamma, atol=1e-11)
        np.testing.assert_allclose(heads.gamma_tilde[k, r], single.gamma_tilde, atol=1e-11)
        seen = classify(heads.gamma[k, r], heads.gamma_tilde[k, r], starts.pairs[k])
        assert bool(seen.specialised) == single.specialised


def test_many_pairs_at_one_set_of_embeddings():
    start = draw_starts(9, 5, [0], 8)
    rows, theta = start.embeddings[0], start.theta[0]
    pairs = np.array(list(itertools.permutations(range(9), 2)))
    heads = step_batch(rows, theta, pairs, 500.0)
    assert heads.gamma.shape == (72, 9)
    for k in (0, 17, 71):
        np.testing.assert_allclose(heads.gamma[k], one_step(rows, theta, pairs[k], 500.0).gamma, atol=1e-12)


def test_padding_with_zeros_stands_for_a_narrower_embedding():
    starts = draw_starts(12, 8, range(2), 4)
    narrow = starts.embeddings[0, :, :5], starts.theta[0, :5]
    wide = starts.embeddings[1], starts.theta[1]
    rows, theta = np.zeros((2, 12, 8)), np.zeros((2, 8))
    rows[0, :, :5], theta[0, :5] = narrow
    rows[1], theta[1] = wide
    both = step_batch(rows, theta, starts.pairs, 300.0)
    for k, (v, t) in enumerate((narrow, wide)):
        np.testing.assert_allclose(both.gamma[k], step_batch(v, t, starts.pairs[k], 300.0).gamma, atol=1e-13)
    assert not both.theta[0, 5:].any()


def test_an_infinite_rate_is_the_limit_of_large_ones():
    starts = draw_starts(32, 12, range(40), 6)
    args = starts.embeddings[:, None], starts.theta[:, None], starts.pairs[:, None]
    limit, large = step_batch(*args, [np.inf, 7.0]), step_batch(*args, [1e9, 7.0])
    np.testing.assert_allclose(limit.gamma, large.gamma, atol=1e-9)
    np.testing.assert_array_equal(np.sort(limit.gamma[:, 0], axis=-1)[:, -1], 1)
    # The queries then are the direction of the step.
    np.testing.assert_allclose(
        limit.theta[:, 0], (large.theta[:, 0] - starts.theta) / 1e9, rtol=1e-6, atol=1e-12
    )


def test_at_an_infinite_rate_ties_share_the_weight_as_before_the_step():
    # d = 2 and equal scores: both positions grow alike by symmetry, so the weights stay 1/2 and 1/2.
    heads = step_batch(np.eye(2), np.array([0.5, 0.5]), [0, 1], np.inf)
    assert heads.gamma.tolist() == [0.5, 0.5]
    # Both targets have one embedding: whatever the step, their scores grow alike, and they share as equal scores do.
    rows = np.array([[1.0, 0], [1.0, 0], [0, 1.0], [-0.6, -0.8]])
    heads = step_batch(rows, np.array([0.2, -0.1]), [0, 1], np.inf)
    assert heads.gamma.tolist() == heads.gamma_tilde.tolist() == [0.5, 0.5, 0, 0]


def test_golden_losses():
    a, b = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.48, 0.24, 0.16, 0.12])
    assert batch_loss(a, b, [0, 3]) == pytest.approx(23303 / 31250, abs=1e-15)
    uniform = np.full(10, 0.1)
    assert batch_loss(uniform, uniform, [4, 7]) == pytest.approx(1 - 1 / 100 - 2 / 1000, abs=1e-15)
    e = np.eye(3)
    assert batch_loss(e[[0, 0]], e[[0, 1]], [0, 1]).tolist() == [2, 0]
    odd = (e[0] - e[1]) / 2
    assert batch_loss(odd, -odd, [0, 1]) == 0.5


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_loss_agrees_with_the_single_kernel_for_any_weights(d, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 3, d))
    pairs = np.array([rng.choice(d, 2, replace=False) for _ in range(3)])
    ours = batch_loss(a, b, pairs)
    for k in range(3):
        assert ours[k] == pytest.approx(
            population_loss(a[k], b[k], tuple(int(i) for i in pairs[k])), rel=1e-12
        )


@settings(deadline=None, max_examples=25)
@given(
    st.integers(3, 8),
    st.integers(2, 5),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["softmax", "linear", "erf"]),
)
def test_positions_and_heads_can_be_renamed(d, m, seed, attention):
    rng = np.random.default_rng(seed)
    rows, theta, other = rng.normal(size=(d, m)), rng.normal(size=m), rng.normal(size=m)
    pair, order = rng.choice(d, 2, replace=False), rng.permutation(d)
    place = np.argsort(order)
    plain = step_batch(rows, theta, pair, 0.3, theta_tilde=other, attention=attention)
    moved = step_batch(rows[order], theta, place[pair], 0.3, theta_tilde=other, attention=attention)
    swapped = step_batch(rows, other, pair[::-1].copy(), 0.3, theta_tilde=theta, attention=attention)
    np.testing.assert_allclose(moved.gamma, plain.gamma[order], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(swapped.gamma, plain.gamma_tilde, rtol=1e-9, atol=1e-9)


def test_training_stops_when_all_have_arrived_and_says_when():
    starts = draw_starts(16, 24, range(6), 2)
    run = train(starts.embeddings, starts.theta, starts.pairs, 30 * 16**2, 50, stop_below=1e-3)
    assert (run.reached > 0).all()
    assert run.losses.shape == (run.reached.max() + 1, 6)
    for k, step in enumerate(run.reached):
        assert run.losses[step, k] < 1e-3 <= run.losses[:step, k].min()
    whole = train(starts.embeddings, starts.theta, starts.pairs, 30 * 16**2, 50)
    assert whole.losses.shape == (51, 6)
    assert (whole.reached == -1).all()
    none = train(starts.embeddings, starts.theta, starts.pairs, 1.0, 0)
    np.testing.assert_array_equal(none.theta, starts.theta)


def test_a_run_that_diverges_is_marked_and_leaves_the_others_alone():
    starts = draw_starts(8, 8, range(3), 5, second="independent")
    args = starts.embeddings[:, None], starts.theta[:, None], starts.pairs[:, None]
    other = starts.theta_tilde[:, None]
    run = train(*args, [0.01, 1e5], 40, theta_tilde=other, attention="linear", stop_below=1e-9)
    alone = train(*args, [0.01], 40, theta_tilde=other, attention="linear", stop_below=1e-9)
    assert run.diverged.tolist() == [[False, True]] * 3
    assert np.isinf(run.losses[-1, :, 1]).all()
    assert (run.reached[:, 1] == -1).all()
    assert np.isfinite(run.theta).all()
    np.testing.assert_allclose(run.losses[:, :, 0], alone.losses[:, :, 0], rtol=1e-10)


def test_outcomes_by_hand():
    e = np.eye(4)
    first = np.stack([e[0], e[1], e[1], e[0], e[2], 0.9 * e[0] + 0.1 * e[1], -e[0]])
    second = np.stack([e[1], e[0], e[1], e[3], e[1], e[1], 0.5 * e[1]])
    seen = classify(first, second, [0, 1])
    assert seen.specialised.tolist() == [True, True, False, False, False, False, False]
    assert seen.settled.tolist() == [True, True, True, False, False, False, False]
    assert seen.collapsed.tolist() == [False, False, True, False, False, False, False]
    assert seen.distracted.tolist() == [False, False, False, True, True, False, False]


def test_float32_stays_float32():
    starts = draw_starts(8, 4, range(2), 1)
    rows, theta = starts.embeddings.astype(np.float32), starts.theta.astype(np.float32)
    for attention in ("softmax", "linear", "erf"):
        heads = step_batch(rows, theta, starts.pairs, 0.1, attention=attention)
        assert {heads.theta.dtype, heads.gamma_tilde.dtype} == {np.dtype(np.float32)}
        assert train(rows, theta, starts.pairs, 0.1, 2, attention=attention).losses.dtype == np.float32


GOOD = {"embeddings": np.eye(3), "theta": np.ones(3), "pairs": [0, 1], "learning_rates": 1.0}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"pairs": [1, 1]}, ValueError, r"pairs holds \(1, 1\)"),
        ({"pairs": [0, 3]}, ValueError, r"pairs holds 3; with d = 3 positions an index lies in 0..2"),
        ({"pairs": [-1, 0]}, ValueError, r"pairs holds -1"),
        ({"pairs": [0.0, 1.0]}, TypeError, r"pairs has dtype float64"),
        ({"pairs": [0, 1, 2]}, ValueError, r"pairs has shape \(3,\)"),
        (
            {"theta": np.ones(2)},
            ValueError,
            r"theta has shape \(2,\); with embeddings \(3, 3\) expected \(..., 3\)",
        ),
        ({"theta_tilde": np.ones(4)}, ValueError, r"theta_tilde has shape \(4,\)"),
        ({"embeddings": np.ones(3)}, ValueError, r"embeddings has shape \(3,\)"),
        ({"embeddings": np.ones((1, 3))}, ValueError, r"d >= 2"),
        ({"embeddings": np.full((3, 3), np.nan)}, ValueError, r"embeddings\[0, 0\] is nan"),
        ({"theta": np.array([1, np.inf, 0])}, ValueError, r"theta\[1\] is inf"),
        ({"embeddings": np.eye(3, dtype=complex)}, TypeError, r"dtype complex128"),
        ({"learning_rates": -1.0}, ValueError, r"learning rates hold -1.0"),
        ({"learning_rates": np.nan}, ValueError, r"learning rates hold nan"),
        ({"learning_rates": "fast"}, TypeError, r"learning rates have dtype"),
        (
            {"learning_rates": np.inf, "attention": "linear"},
            ValueError,
            r"limit of large rates exists for one step",
        ),
        ({"attention": "cosine"}, ValueError, r"choose one of softmax, linear, erf"),
        ({"theta": np.ones((2, 3)), "pairs": [[0, 1]] * 3}, ValueError, r"batch axes do not broadcast"),
    ],
)
def test_bad_arguments_are_refused(change, error, message):
    arguments = GOOD | change
    keywords = {name: arguments.pop(name) for name in ("theta_tilde", "attention") if name in arguments}
    with pytest.raises(error, match=message):
        step_batch(*arguments.values(), **keywords)


def test_a_step_out_of_the_dtype_is_an_error():
    with pytest.raises(OverflowError, match="moves a query beyond float64"):
        step_batch(np.eye(3) * 1e150, np.ones(3) * 1e-150, [0, 1], 1e300)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"steps": -1}, ValueError, "steps is -1"),
        ({"steps": 2.5}, TypeError, "steps is 2.5"),
        ({"steps": True}, TypeError, "steps is True"),
        ({"stop_below": 0.0}, ValueError, "stop_below is 0.0"),
        ({"stop_below": "small"}, TypeError, "stop_below is 'small'"),
        ({"learning_rate": np.inf}, ValueError, "give finite numbers"),
    ],
)
def test_bad_training_arguments_are_refused(change, error, message):
    arguments = {"learning_rate": 1.0, "steps": 2} | change
    with pytest.raises(error, match=message):
        train(np.eye(3), np.ones(3), [0, 1], **arguments)
