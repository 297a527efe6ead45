"""The experiments on the model as a standard layer: each agrees, and each control disagrees."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attention_companion.sparse_xor import one_step, population_gradient, transformer
from attention_companion.sparse_xor.experiments import model
from attention_companion.sparse_xor.starts import count_outcomes

SHAPES = [(2, 3), (5, 4), (7, 2)]


def test_outputs_and_gradients_agree_only_with_the_mask():
    same = model.differences(SHAPES, 2, 0)
    assert same.cases == 6
    assert max(same.outputs, same.gradients) < 1e-13
    unmasked = model.differences(SHAPES, 2, 0, masked=False)
    assert min(unmasked.outputs, unmasked.gradients) > 1e-3


def test_step_agrees_only_with_the_converted_rate():
    assert model.step_difference(SHAPES, 2, 16.0, 0) < 1e-12
    assert model.step_difference(SHAPES, 2, 16.0, 0, converted=False) > 1e-2


def test_step_on_keys_too_follows_the_formula_only_with_its_second_order():
    assert model.key_step_difference(SHAPES, 2, 16.0, 0) < 1e-12
    assert model.key_step_difference(SHAPES, 2, 16.0, 0, crossed=False) > 1e-2


def test_effective_step_by_hand():
    """m = 2, theta = (1, 0), g = (1, 1), r = 2: length 2/2 + 2 - (4/2) 1 = 1, so theta - g = (0, -1)."""
    theta, gradient = np.array([1.0, 0.0]), np.array([1.0, 1.0])
    assert model.effective_step(theta, gradient, 2.0).tolist() == [0.0, -1.0]
    assert model.effective_step(theta, gradient, 2.0, keys=False).tolist() == [0.0, -1.0]
    assert model.effective_step(theta, gradient, 2.0, crossed=False).tolist() == [-2.0, -3.0]


def test_gradient_of_the_keys_is_rank_one():
    case = model.draw_case(5, 3, [0], mirrored=False)
    module = transformer(case.embeddings, case.theta, case.theta_tilde)
    (slope,) = torch.autograd.grad(model.enumerated_loss(module, case.pair), [module.attention.k_proj_weight])
    first, second = population_gradient(case.embeddings, case.theta, case.theta_tilde, case.pair)
    ours = np.concatenate([np.outer(case.theta, first), np.outer(case.theta_tilde, second)])
    assert slope.numpy() == pytest.approx(ours, abs=1e-15)


def test_gradient_norms():
    norms = model.gradient_norms(5, 3, 2, 0)
    assert norms["W_Q elsewhere"] == 0
    assert min(norms[name] for name in ("W_Q column 0", "W_K", "W_V", "W_O")) > 0
    # Mirrored queries of length one: the gradient of W_K is sqrt(m) times as long as that of W_Q.
    assert norms["W_K"] == pytest.approx(3**0.5 * norms["W_Q column 0"], rel=1e-12)


def test_counting_agrees_with_the_engine_and_with_the_step():
    counts = model.specialised_after_step(16, 24, 60, [0.0, 1.0, 100.0], 3)
    (engine,) = count_outcomes(16, 24, 60, [100.0 * 24**0.5 * 16**2], 3)
    assert counts["W_Q"].tolist()[2] == engine.specialised
    assert counts["W_Q"][0] == counts["W_Q and W_K"][0] == 0
    assert counts["W_Q and W_K"][2] < 30 < counts["W_Q"][2]
    case = model.draw_case(16, 24, [3, 16, 24, 0])
    assert case.theta_tilde.tolist() == (-case.theta).tolist()
    assert one_step(case.embeddings, case.theta, case.pair, 0.0).specialised is False


def test_nothing_to_compare_is_refused():
    with pytest.raises(ValueError, match="at least one of each"):
        model.differences([], 2, 0)
    with pytest.raises(ValueError, match="cases is 0"):
        model.step_difference(SHAPES, 0, 1.0, 0)
