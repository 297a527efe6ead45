"""Oracles for the sparse XOR kernels: they walk over all 2^d inputs and share no formula with what they judge."""

from __future__ import annotations

import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest


def errors_by_input(a, b, pair):
    """f(x) - y for every x in {-1, +1}^d, straight from the definition, in the numbers of ``a`` and ``b``."""
    p, q = pair
    for x in itertools.product((-1, 1), repeat=len(a)):
        f = -sum(s * bit for s, bit in zip(a, x, strict=True)) * sum(
            t * bit for t, bit in zip(b, x, strict=True)
        )
        yield f + x[p] * x[q]


def loss(a, b, pair):
    return Fraction(sum(error**2 for error in errors_by_input(a, b, pair))) / 2 ** len(a)


def sup(a, b, pair):
    return max(abs(error) for error in errors_by_input(a, b, pair))


def sup_vectorised(a, b, pair):
    """The sup in float64 for d up to about 20, by doubling arrays one bit at a time (bit p fixed at +1)."""
    p, q = pair
    u, w, label = np.array([a[p]]), np.array([b[p]]), np.array([-1.0])
    for i in range(len(a)):
        if i != p:
            u, w = np.concatenate([u + a[i], u - a[i]]), np.concatenate([w + b[i], w - b[i]])
            label = np.concatenate([label, -label]) if i == q else np.concatenate([label, label])
    return float(np.abs(-u * w - label).max())


def normalised(weights):
    total = sum(weights)
    return [Fraction(weight, total) for weight in weights]


@pytest.fixture(scope="session")
def oracle():
    return SimpleNamespace(loss=loss, sup=sup, sup_vectorised=sup_vectorised, normalised=normalised)
