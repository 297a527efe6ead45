"""Inverses are checked by multiplication, ranks by elimination, conditions by singular values."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from attention_companion.simulator.experiments import inverses

pytestmark = pytest.mark.torch_free


def test_inverses_are_right_and_without_their_signs_wrong():
    matrices = inverses.random_matrices(20, seed=1)
    assert [len(m) for m in matrices] == [2] * 20 + [3] * 20
    found = inverses.check_inverses(matrices)
    assert found.wrong == 0
    assert found.inverted + found.refused == 40
    assert inverses.check_inverses(matrices, signs=False).wrong > 10


def test_singular_matrices_are_refused():
    found = inverses.check_inverses(inverses.singular_matrices(10, seed=1))
    assert (found.inverted, found.refused, found.wrong) == (0, 20, 0)


def test_a_refusal_of_a_regular_matrix_is_counted(monkeypatch):
    def refuse(matrix):
        raise ValueError("singular")

    monkeypatch.setattr(inverses, "inverse", refuse)
    assert inverses.check_inverses([[[F(1), F(0)], [F(0), F(1)]]]).wrong == 1


def test_rank_by_elimination():
    assert inverses.has_full_rank([[F(0), F(1)], [F(2), F(0)]])
    assert not inverses.has_full_rank([[F(1), F(2)], [F(2), F(4)]])


def test_the_condition_is_as_asked_and_iterations_grow_with_it():
    matrix = inverses.conditioned(1e4, 3, np.random.default_rng(2))
    assert np.linalg.cond(matrix) == pytest.approx(1e4, rel=1e-6)
    counts = inverses.newton_iterations([1e2, 1e4], 3, 3, seed=1, tolerance=1e-9)
    assert counts.shape == (3, 2)
    # Two more for each doubling: log2(100) = 6.6.
    assert np.all(abs((counts[:, 1] - counts[:, 0]) - 2 * np.log2(100)) <= 2)
