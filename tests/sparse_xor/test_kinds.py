"""Kinds of attention: weights against mpmath, gradients against autograd, and what is refused."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

from attention_companion.sparse_xor.kinds import ATTENTION_KINDS, score_gradient_of, weights_of_scores

TORCH = {"softmax": lambda s: torch.softmax(s, dim=-1), "linear": lambda s: s, "erf": torch.special.erf}


def test_golden_weights():
    scores = np.array([0.0, np.log(2), np.log(5)])
    assert weights_of_scores(scores, "softmax") == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=1e-15)
    assert weights_of_scores(np.array([-2.5, 3.0]), "linear").tolist() == [-2.5, 3.0]
    erf = weights_of_scores(np.array([0.0, 0.5, -1.0]), "erf")
    assert erf == pytest.approx([0.0, 0.5204998778130465, -0.8427007929497149], abs=1e-15)
    assert erf == pytest.approx([float(mpmath.erf(x)) for x in (0, 0.5, -1)], abs=1e-15)


@pytest.mark.parametrize("attention", ATTENTION_KINDS)
def test_gradient_agrees_with_autograd(attention):
    rng = np.random.default_rng(5)
    scores, g = rng.normal(size=(3, 4, 7)), rng.normal(size=(3, 4, 7))
    tensor = torch.tensor(scores, requires_grad=True)
    (TORCH[attention](tensor) * torch.tensor(g)).sum().backward()
    ours = score_gradient_of(scores, weights_of_scores(scores, attention), g, attention)
    np.testing.assert_allclose(ours, tensor.grad.numpy(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("attention", ["linear", "erf"])
def test_linear_and_erf_are_odd_and_softmax_is_not(attention):
    scores = np.random.default_rng(6).normal(size=9)
    np.testing.assert_array_equal(
        weights_of_scores(-scores, attention), -weights_of_scores(scores, attention)
    )
    assert not np.allclose(weights_of_scores(-scores), -weights_of_scores(scores))


def test_linear_weights_are_a_copy_and_dtypes_are_kept():
    scores = np.ones(3, dtype=np.float32)
    weights = weights_of_scores(scores, "linear")
    weights[0] = 7
    assert scores[0] == 1
    for attention in ATTENTION_KINDS:
        assert weights_of_scores(scores, attention).dtype == np.float32
        assert score_gradient_of(scores, scores, scores, attention).dtype == np.float32


@pytest.mark.parametrize("function", [weights_of_scores, lambda s, a: score_gradient_of(s, s, s, a)])
def test_unknown_kinds_are_refused(function):
    with pytest.raises(ValueError, match=r"attention is 'cosine'; choose one of softmax, linear, erf"):
        function(np.zeros(3), "cosine")
    with pytest.raises(TypeError, match="attention is 3; give one of the strings"):
        function(np.zeros(3), 3)
