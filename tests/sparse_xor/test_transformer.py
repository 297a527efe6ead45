"""The standard attention layer against the definition of the model, on every input."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import one_step, population_gradient, transformer


def start(d, m, seed=0):
    rng = np.random.default_rng([d, m, seed])
    return rng.normal(size=(d, m)), rng.normal(size=m), rng.normal(size=m)


def all_inputs(d):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=d)))


def by_definition(embeddings, theta, theta_tilde, x):
    answer = -np.ones(len(x))
    for query in (theta, theta_tilde):
        powers = np.exp(embeddings @ query)
        answer = answer * (x @ (powers / powers.sum()))
    return answer


@given(st.integers(2, 9), st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_answers_as_the_model_does_on_every_input(d, m, seed):
    arguments = start(d, m, seed)
    x = all_inputs(d)
    answer = transformer(*arguments)(x)
    assert answer.shape == (2**d,)
    assert answer.dtype == torch.float64
    assert np.abs(answer.detach().numpy() - by_definition(*arguments, x)).max() < 1e-13


def test_by_hand():
    """Scores (ln 3, 0) and (0, ln 4) give weights (3/4, 1/4) and (1/5, 4/5); f(1, -1) = -(1/2)(-3/5) = 3/10."""
    module = transformer(np.eye(2), np.log([3.0, 1.0]), np.log([1.0, 4.0]))
    assert module.attention_weights().detach().numpy() == pytest.approx(np.array([[0.75, 0.25], [0.2, 0.8]]))
    assert module([[1, -1], [1, 1]]).tolist() == pytest.approx([0.3, -1.0])


def test_it_is_the_standard_layer_and_every_part_of_the_mask_matters():
    arguments = start(6, 4)
    x = all_inputs(6)
    truth = by_definition(*arguments, x)
    module = transformer(*arguments)
    assert type(module.attention) is torch.nn.MultiheadAttention
    assert module.attention.num_heads == 2
    assert torch.equal(module.attention.out_proj.weight, torch.eye(8, dtype=torch.float64))
    assert all(weight.requires_grad for weight in module.parameters())
    module.hidden[0] = False
    assert np.abs(module(x).detach().numpy() - truth).max() > 1e-3


def test_gradient_is_that_of_the_queries_over_sqrt_m():
    embeddings, theta, theta_tilde = start(5, 3)
    pair = (1, 4)
    x = torch.tensor(all_inputs(5))
    module = transformer(embeddings, theta, theta_tilde)
    ((module(x) + x[:, 1] * x[:, 4]) ** 2).mean().backward()
    slope = module.attention.q_proj_weight.grad.numpy()
    ours = np.concatenate(population_gradient(embeddings, theta, theta_tilde, pair))
    assert np.sqrt(3) * slope[:, 0] == pytest.approx(ours, abs=1e-15)
    assert not slope[:, 1:].any()


def test_one_step_needs_m_times_the_rate():
    embeddings, theta, _ = start(5, 3)
    x = torch.tensor(all_inputs(5))
    step = one_step(embeddings, theta, (0, 2), 7.0)
    for rate, agrees in ((21.0, True), (7.0, False)):
        module = transformer(embeddings, theta, -theta)
        ((module(x) + x[:, 0] * x[:, 2]) ** 2).mean().backward()
        torch.optim.SGD([module.attention.q_proj_weight], lr=rate).step()
        moved = torch.cat(module.queries()).detach().numpy()
        difference = np.abs(moved - np.concatenate([step.theta, step.theta_tilde])).max()
        assert difference < 1e-12 if agrees else difference > 1e-3


def test_state_survives_saving_without_pickle():
    first, second = transformer(*start(5, 3, 1)), transformer(*start(5, 3, 2))
    x = all_inputs(5)
    assert not torch.equal(first(x), second(x))
    stream = io.BytesIO()
    torch.save(first.state_dict(), stream)
    stream.seek(0)
    second.load_state_dict(torch.load(stream, weights_only=True))
    assert torch.equal(first(x), second(x))


def test_float32_stays_float32():
    arguments = [part.astype(np.float32) for part in start(5, 3)]
    module = transformer(*arguments)
    answer = module(all_inputs(5))
    assert answer.dtype == torch.float32
    assert np.abs(answer.detach().numpy() - by_definition(*start(5, 3), all_inputs(5))).max() < 1e-5


def test_arguments_and_random_state_are_left_alone():
    embeddings, theta, theta_tilde = start(5, 3)
    kept, x = [part.copy() for part in (embeddings, theta, theta_tilde)], all_inputs(5)
    state, bits = torch.random.get_rng_state(), x.copy()
    module = transformer(embeddings, theta, theta_tilde)
    answer = module(x).detach().clone()
    assert torch.equal(torch.random.get_rng_state(), state)
    embeddings += 1
    theta += 1
    assert torch.equal(module(x).detach(), answer)
    assert np.array_equal(x, bits)
    assert np.array_equal(kept[2], theta_tilde)


def test_an_empty_batch_has_no_answers():
    assert transformer(*start(5, 3))(np.empty((0, 5))).shape == (0,)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.ones(5), ValueError, r"shape \(5,\); expected \(n, 5\)"),
        (np.ones((2, 4)), ValueError, r"shape \(2, 4\); expected \(n, 5\)"),
        (np.zeros((2, 5)), ValueError, r"x\[0, 0\] is 0.0; every bit is -1 or \+1"),
        (np.full((1, 5), np.nan), ValueError, "is nan; every bit"),
        (np.ones((2, 5), dtype=bool), TypeError, "dtype bool"),
        (torch.ones((2, 5), dtype=torch.bool), TypeError, "bool"),
        (np.ones((2, 5), dtype=complex), TypeError, "complex"),
        ([[1, 1], [1]], ValueError, "unequal lengths"),
        ([["a"] * 5], TypeError, "give the numbers"),
    ],
)
def test_inputs_that_are_not_signs_are_refused(x, error, message):
    with pytest.raises(error, match=message):
        transformer(*start(5, 3))(x)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"theta": np.ones(4)}, ValueError, r"theta has shape \(4,\)"),
        ({"theta_tilde": np.ones((3, 1))}, ValueError, "theta_tilde has shape"),
        ({"embeddings": np.ones(3)}, ValueError, "embeddings has shape"),
        ({"theta": [np.inf, 0.0, 0.0]}, ValueError, "must be finite"),
        ({"embeddings": np.full((5, 3), np.nan)}, ValueError, "must be finite"),
        ({"theta": ["a", "b", "c"]}, TypeError, "dtype"),
        ({"theta": [1.7e308, 0.0, 0.0]}, OverflowError, "use smaller queries"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change, error, message):
    arguments = dict(zip(("embeddings", "theta", "theta_tilde"), start(5, 3), strict=True)) | change
    with pytest.raises(error, match=message):
        transformer(**arguments)
