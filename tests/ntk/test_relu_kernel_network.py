"""The kernel against the network it belongs to: gradients by autograd, wide layers by the law of large numbers."""

import numpy as np
import pytest

from attention_companion.ntk import relu_ntk


def tangent_kernel(X, width, seed):
    """<df(x)/dW, df(x')/dW> of f = m^{-1/2} sum_r a_r relu(w_r . x) by automatic differentiation."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    inputs = torch.from_numpy(X)
    weights = 0.01 * torch.randn(width, X.shape[1], generator=generator, dtype=torch.float64)
    weights.requires_grad_(True)
    signs = torch.where(torch.rand(width, generator=generator) < 0.5, -1.0, 1.0).to(torch.float64)
    gradients = []
    for x in inputs:
        output = signs @ torch.relu(weights @ x) / width**0.5
        gradients.append(torch.autograd.grad(output, weights)[0].ravel())
    jacobian = torch.stack(gradients)
    return (jacobian @ jacobian.T).numpy()


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 5)) * rng.uniform(0.2, 5, (6, 1))
    X[5] = X[0] + 0.01 * X[1]
    return X


def test_wide_network_has_this_kernel(inputs):
    """Each entry is <x,x'> times the mean of m Bernoulli variables: standard deviation at most |<x,x'>| / (2 sqrt m).

    Five of them allow a failure about once in 80,000 draws of the 21 entries; the seed is fixed besides.
    """
    width = 40_000
    allowed = 5 * np.abs(inputs @ inputs.T) / (2 * width**0.5)
    assert np.all(np.abs(tangent_kernel(inputs, width, seed=1) - relu_ntk(inputs)) <= allowed)


def test_a_wrong_kernel_would_be_noticed(inputs):
    """The control: with the other common convention (pi - angle)/pi the same comparison fails everywhere."""
    width = 40_000
    allowed = 5 * np.abs(inputs @ inputs.T) / (2 * width**0.5)
    assert not np.any(np.abs(tangent_kernel(inputs, width, seed=1) - 2 * relu_ntk(inputs)) <= allowed)
