"""The grid behind the explorer: every cell is the kernel's own answer, and the maps are those of the counted starts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attention_companion.sparse_xor import one_step
from attention_companion.sparse_xor.experiments.try_it import (
    MAP_UNITS,
    count_differences,
    learning_rate,
    map_table,
    outcome_grid,
)
from attention_companion.sparse_xor.starts import draw_starts

pytestmark = pytest.mark.torch_free
SEED = 5


def test_rate_is_in_the_unit_that_the_chapter_names():
    assert learning_rate(3, 16, 4) == 3 * 2 * 256


def test_cells_stand_in_order_and_count_the_starts():
    cells = outcome_grid([4, 8], [2, 3], [0.1, 100.0], 6, SEED)
    expected = [(d, m, f) for d in (4, 8) for m in (2, 3) for f in (0.1, 100.0)]
    assert [(c.d, c.m, c.factor) for c in cells] == expected
    assert {c.outcomes.starts for c in cells} == {6}


def test_counts_are_those_of_one_step_and_a_wrong_count_is_seen():
    cells = outcome_grid([8, 16], [4, 24], [3.0, 1000.0], 25, SEED)
    assert count_differences(cells, SEED) == 0
    first = cells[0]
    wrong = replace(first, outcomes=replace(first.outcomes, specialised=first.outcomes.specialised + 1))
    assert count_differences([wrong], SEED) == 1
    assert count_differences(cells, SEED, shift=1) > 25


def test_maps_are_those_of_the_starts_before_and_after():
    table = map_table([6], [5], [2.0], [0, 3], SEED)
    assert table["factor"] == [0.0, 2.0, 0.0, 2.0]
    assert table["start"] == [0, 0, 3, 3]
    drawn = draw_starts(6, 5, [3], SEED)
    for row, factor in ((2, 0.0), (3, 2.0)):
        step = one_step(drawn.embeddings[0], drawn.theta[0], drawn.pairs[0], learning_rate(factor, 6, 5))
        assert [table["p"][row], table["q"][row]] == drawn.pairs[0].tolist()
        for name, weights in (("head 1", step.gamma), ("head 2", step.gamma_tilde)):
            stored = np.array([int(part) for part in table[name][row].split()]) / MAP_UNITS
            assert np.abs(stored - weights).max() <= 0.5 / MAP_UNITS + 1e-12


@pytest.mark.parametrize("empty", ["dimensions", "widths", "factors"])
def test_an_empty_axis_is_refused(empty):
    axes = {"dimensions": [4], "widths": [2], "factors": [1.0], empty: []}
    with pytest.raises(ValueError, match=empty):
        outcome_grid(**axes, starts=2, seed=SEED)
