"""The gradient against automatic differentiation of the enumerated loss (torch, float64)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from attention_companion.sparse_xor import population_gradient, population_loss


def enumerated_loss(embeddings, theta, theta_tilde, pair):
    """The mean of (f(x) - y)^2 over all 2^d inputs, from the definition."""
    inputs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=len(embeddings))), dtype=torch.float64)
    first, second = (inputs @ torch.softmax(embeddings @ query, dim=0) for query in (theta, theta_tilde))
    labels = -inputs[:, pair[0]] * inputs[:, pair[1]]
    return ((-first * second - labels) ** 2).mean()


@pytest.mark.parametrize(("d", "m"), [(2, 1), (2, 3), (3, 2), (5, 4), (8, 5), (10, 3)])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_equals_autograd_through_enumeration(d, m, scale):
    rng = np.random.default_rng([d, m])
    for _ in range(5):
        # Rows of any length: no normalisation is assumed.
        embeddings = scale * rng.normal(size=(d, m))
        queries = rng.normal(size=(2, m))
        pair = tuple(int(i) for i in rng.choice(d, 2, replace=False))
        theta, theta_tilde = (torch.tensor(q, requires_grad=True) for q in queries)
        loss = enumerated_loss(torch.tensor(embeddings), theta, theta_tilde, pair)
        loss.backward()
        ours = population_gradient(embeddings, *queries, pair)
        for mine, query in zip(ours, (theta, theta_tilde), strict=True):
            reference = query.grad.numpy()
            assert mine == pytest.approx(reference, abs=1e-14 * max(1.0, scale) * d)
        weights = [torch.softmax(torch.tensor(embeddings) @ q, dim=0).detach() for q in (theta, theta_tilde)]
        assert population_loss(*weights, pair) == pytest.approx(loss.item(), abs=1e-14)


def test_exchanged_queries_are_noticed():
    """The control: giving the queries in the wrong order must not pass the check above."""
    rng = np.random.default_rng(0)
    embeddings, queries = rng.normal(size=(6, 4)), rng.normal(size=(2, 4))
    theta, theta_tilde = (torch.tensor(q, requires_grad=True) for q in queries)
    enumerated_loss(torch.tensor(embeddings), theta, theta_tilde, (0, 1)).backward()
    wrong = population_gradient(embeddings, queries[1], queries[0], (0, 1))
    assert np.abs(wrong[0] - theta.grad.numpy()).max() > 1e-3


def test_torch_tensors_are_read_as_arrays():
    tensor = torch.tensor([0.25, 0.75])
    value = population_loss(tensor, tensor, (0, 1))
    assert value.dtype == np.float32
