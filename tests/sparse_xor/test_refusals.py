"""What the batched kernels, the starts, the nets and the module refuse, and extremes that they must get right."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from attention_companion.sparse_xor import (
    batch_loss,
    classify,
    count_outcomes,
    draw_starts,
    one_step,
    outcome_all_pairs,
    step_batch,
    train,
    transformer,
)
from attention_companion.sparse_xor.many_heads import product_loss
from attention_companion.sparse_xor.relu_net import NetTrainer, draw_nets

RNG = np.random.default_rng(3)
ROWS, THETA, PAIR = RNG.normal(size=(6, 4)), RNG.normal(size=4), (1, 3)
HALF = np.full(3, 1 / 3)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e200])
def test_the_limit_of_large_rates_does_not_depend_on_the_scale_of_the_embeddings(scale):
    # theta shrinks as the embeddings grow: the scores stay, so does the direction of the step.
    factor = 2.0 ** round(np.log2(scale))
    expected = step_batch(ROWS, THETA, PAIR, np.inf)
    scaled = step_batch(ROWS * factor, THETA / factor, PAIR, np.inf)
    assert np.array_equal(scaled.gamma, expected.gamma)
    assert np.array_equal(scaled.gamma_tilde, expected.gamma_tilde)
    assert np.array_equal(outcome_all_pairs(ROWS * factor, THETA / factor), outcome_all_pairs(ROWS, THETA))


@pytest.mark.parametrize("attention", ["softmax", "linear", "erf"])
def test_scores_beyond_the_dtype_are_an_error_and_no_warning(attention):
    with pytest.raises(
        OverflowError, match=r"scores of embeddings as large as .* exceed float64; use smaller"
    ):
        step_batch(ROWS * 1e200, THETA * 1e200, PAIR, 1.0, attention=attention)


def test_scores_further_apart_than_the_dtype_reaches_still_have_weights():
    rows, theta = np.array([[1e154], [-1e154], [0.0]]), np.array([1.5e154])
    step = step_batch(rows, theta, (0, 1), 0.0)
    assert step.gamma.tolist() == [1, 0, 0]
    assert step_batch(rows, theta, (0, 1), np.inf).gamma.tolist() == [1, 0, 0]
    assert one_step(rows, theta, (0, 1), 0.0).gamma.tolist() == [1, 0, 0]


@pytest.mark.parametrize("run", [lambda *a: step_batch(*a, 1.0), lambda *a: train(*a, 1.0, 1)])
def test_a_batch_refuses_scalars_that_are_not_finite_and_truth_values_among_numbers(run):
    with pytest.raises(ValueError, match="theta is nan; every entry must be finite"):
        run(ROWS, np.nan, PAIR)
    with pytest.raises(TypeError, match="pairs holds True; give integers"):
        run(ROWS, THETA, (True, 2))
    with pytest.raises(ValueError, match="unequal lengths; give integers"):
        run(ROWS, THETA, [[0, 1], [2]])


def test_rates_are_real_numbers():
    for rates, kind in (([True, 2.0], TypeError), ([[1.0], [2.0, 3.0]], ValueError)):
        with pytest.raises(kind, match=r"learning rates .*; give real numbers"):
            step_batch(ROWS, THETA, PAIR, rates)
        with pytest.raises(kind, match=r"learning rates .*; give real numbers"):
            count_outcomes(6, 4, 2, rates, 0)
    with pytest.raises(TypeError, match="learning rates have dtype <U1"):
        count_outcomes(6, 4, 2, ["1"], 0)


@pytest.mark.parametrize("judge", [batch_loss, classify])
def test_weights_are_read_before_they_are_judged(judge):
    cases = (
        ((HALF, HALF, (0, 7)), ValueError, "pairs holds 7; with d = 3"),
        ((HALF, HALF, (-1, 0)), ValueError, "pairs holds -1"),
        ((HALF, HALF, (1, 1)), ValueError, "choose p != q"),
        ((HALF, HALF, (0.0, 1.0)), TypeError, "pairs has dtype float64"),
        ((HALF, np.full(4, 0.25), (0, 1)), ValueError, r"gamma has shape \(3,\) and gamma_tilde \(4,\)"),
        ((np.array([1, np.nan, 0]), HALF, (0, 1)), ValueError, r"gamma\[1\] is nan"),
        ((HALF > 0, HALF, (0, 1)), TypeError, "gamma has dtype bool"),
        ((np.ones((2, 3)), np.ones((3, 3)), (0, 1)), ValueError, "batch axes do not broadcast"),
    )
    for arguments, kind, message in cases:
        with pytest.raises(kind, match=message):
            judge(*arguments)
    judge([1, 0, 0], [0, 1, 0], [0, 1])


def test_losses_beyond_the_dtype_are_an_error_and_no_warning():
    weights = np.full((2, 4), 1e100)
    with pytest.raises(OverflowError, match="the loss of weights as large as 1e\\+100 exceeds float64"):
        batch_loss(*weights, (0, 1))
    with pytest.raises(OverflowError, match="the loss of weights as large as 1e\\+100 exceeds float64"):
        product_loss(weights, (0, 1))


def test_a_product_of_heads_refuses_mixed_and_ragged_arguments():
    exact = [[Fraction(1, 2), 0.5], [0, 1]]
    with pytest.raises(TypeError, match=r"heads holds 0\.5 beside Fractions"):
        product_loss(exact, (0, 1))
    with pytest.raises(ValueError, match="rows of unequal lengths"):
        product_loss([[1, 2], [3]], (0, 1))
    with pytest.raises(ValueError, match=r"heads \(3, 2, 4\) and support \(2, 2\) do not broadcast"):
        product_loss(np.ones((3, 2, 4)), [[0, 1], [0, 1]])
    with pytest.raises(TypeError, match=r"support is \(True, 2\)"):
        product_loss(np.ones((2, 4)), (True, 2))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((2.5, 3, [0], 0), TypeError, r"d is 2\.5; give an integer"),
        ((3, True, [0], 0), TypeError, "m is True; give an integer"),
        ((3, 3, [0], -1), ValueError, "seed is -1; give an integer >= 0"),
        ((3, 3, [0], None), TypeError, "seed is None; give an integer"),
        ((3, 3, [-1], 0), ValueError, "indices holds -1"),
        ((3, 3, [1.5], 0), TypeError, r"indices is 1\.5; give an integer"),
    ],
)
def test_starts_are_numbered_by_integers(arguments, kind, message):
    with pytest.raises(kind, match=message):
        draw_starts(*arguments)


def test_balanced_embeddings_need_a_second_coordinate():
    with pytest.raises(ValueError, match="give m >= 2"):
        draw_starts(2, 1, range(8), 0, embeddings="balanced")
    assert np.isfinite(draw_starts(2, 2, range(8), 0, embeddings="balanced").embeddings).all()


def test_counts_of_starts_and_steps_are_integers():
    for values in ({"starts": True}, {"starts": 2.0}, {"steps": True}, {"steps": 1.0}):
        with pytest.raises(TypeError, match=f"{next(iter(values))} is .*; give an integer"):
            count_outcomes(6, 4, values.get("starts", 2), [1.0], 0, steps=values.get("steps", 1))


def test_runs_that_diverge_are_not_counted_as_outcomes():
    with pytest.raises(OverflowError, match=r"learning rates \[1e\+200\]"):
        count_outcomes(6, 4, 3, [1e-3, 1e200], 0, steps=4, attention="linear")


def test_a_net_is_not_moved_by_inputs_that_do_not_fit():
    x = np.sign(RNG.normal(size=(4, 5))).astype(np.float32)
    y = -x[0] * x[1]
    nan = x.copy()
    nan[3, 4] = np.nan
    nets = draw_nets(np.random.default_rng(0), 4, [2, 3])
    before = [array.copy() for array in nets.arrays()]
    trainer = NetTrainer(nets, 0.01)
    cases = ((x[:3], y), (x, y[:1]), (x[:, :2], y[:2, np.newaxis]), (x, np.float32(1)), (x[:, :0], y[:0]))
    for inputs, labels in cases:
        with pytest.raises(ValueError, match=r"expected \(..., 4, n\) and \(..., n\)"):
            trainer.step(inputs, labels)
    for inputs, labels in ((np.stack([x] * 3), np.stack([y] * 3)), (x, np.stack([[y]] * 3))):
        with pytest.raises(ValueError, match=r"batch axes .*; those of the nets are \(2,\)"):
            trainer.step(inputs, labels)
    for inputs, labels in ((nan, y), (x, y * np.float32(np.inf)), (x * np.float32(1e30), y)):
        with pytest.raises(
            ValueError, match=r"a loss is (nan|inf): x, y or a net holds NaN or numbers too large"
        ):
            trainer.step(inputs, labels)
    assert trainer.steps == 0
    assert all(np.array_equal(*arrays) for arrays in zip(before, nets.arrays(), strict=True))
    trainer.step(x.tolist(), y.tolist())
    assert trainer.steps == 1


@pytest.mark.parametrize("rate", [True, "1", None, [0.1]])
def test_a_net_trains_at_one_real_rate(rate):
    with pytest.raises(TypeError, match="give one real number above 0"):
        NetTrainer(draw_nets(np.random.default_rng(0), 4, [2]), rate)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16])
def test_the_largest_unsigned_number_is_no_minus_one(dtype):
    module = transformer(ROWS, THETA, -THETA)
    largest = torch.iinfo(dtype).max
    with pytest.raises(ValueError, match=rf"x\[0, 0\] is {largest}; every bit is -1 or \+1"):
        module(torch.full((1, 6), largest, dtype=dtype))
    assert torch.equal(module(torch.ones(1, 6, dtype=dtype)), module(torch.ones(1, 6)))


def test_the_module_reads_arrays_of_any_layout_and_byte_order():
    x = np.sign(RNG.normal(size=(5, 6)))
    expected = transformer(ROWS[::-1].copy(), THETA[::-1].copy(), THETA)(x[::-1].copy())
    turned = transformer(ROWS[::-1], THETA[::-1], THETA)(x[::-1])
    assert torch.equal(turned, expected)
    assert torch.equal(transformer(ROWS[::-1], THETA[::-1], THETA)(x[::-1].astype(">f8")), expected)


def test_the_module_refuses_scores_beyond_the_dtype():
    with pytest.raises(OverflowError, match=r"scores of embeddings as large as .* exceed float64"):
        transformer(ROWS * 1e200, THETA * 1e200, -THETA)
