"""The loss of k heads against automatic differentiation of the enumerated loss (torch, float64)."""

from __future__ import annotations

import pytest

from attention_companion.sparse_xor.experiments import many_heads_checks as checks


@pytest.mark.parametrize("k", [2, 3, 4])
def test_gradient_agrees_and_its_control_does_not(k):
    assert checks.gradient_difference(k, 5, 0) < 1e-13
    assert checks.gradient_difference(k, 5, 0, shift=1) > 1e-3


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_even_point_has_the_predicted_curvatures_and_another_point_has_not(k):
    assert checks.saddle_difference(k) < 1e-14
    assert checks.saddle_difference(k, spread=0.1) > 1e-5
