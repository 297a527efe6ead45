"""The runs of the chapter on a real layer, on small random layers."""

from __future__ import annotations

import numpy as np
import pytest

from attention_companion.simulator.experiments import real_layer as runs
from attention_companion.simulator.real_layer import Projections, merge

RNG = np.random.default_rng(3)
X = RNG.standard_normal((3, 4))
LAYER = Projections(*(RNG.standard_normal((4, 4)) for _ in range(3)), None, *(RNG.standard_normal(4) for _ in range(3)))


def answers() -> np.ndarray:
    halves = [
        Projections(*(m[:, part] for m in (LAYER.query, LAYER.key, LAYER.value)), None,
                    *(b[part] for b in (LAYER.query_bias, LAYER.key_bias, LAYER.value_bias) if b is not None))
        for part in (slice(0, 2), slice(2, 4))
    ]  # fmt: skip
    return np.concatenate([runs.direct(X, half) for half in halves], axis=1)


@pytest.mark.parametrize("layout", ["positional", "constant", "paper"])
def test_all_ways_to_run_a_layer_agree_with_the_layer_itself(layout: str) -> None:
    joined = merge(X, LAYER, 2)
    ran = runs.simulate(joined, layout)
    np.testing.assert_allclose(ran.answer, answers(), rtol=0, atol=1e-12)
    assert ran.cells > 0
    assert min(ran.build_seconds, ran.plan_seconds, ran.run_seconds) > 0
    one = runs.encoder_for(merge(X, LAYER, 2, only=[0]), layout)
    np.testing.assert_allclose(runs.heads_one_by_one(one, joined), answers(), rtol=0, atol=1e-12)
    assert runs.target_error(joined, answers()) < 1e-12
    assert runs.target_error(merge(X, LAYER, 2, constant=False), answers()) > 1e-2


def test_errors_are_counted_head_by_head() -> None:
    off = answers().copy()
    off[1, 3] += 0.5
    assert runs.error_by_head(off, answers(), 2) == [0.0, pytest.approx(0.5)]


def test_a_cut_is_the_corner_and_weights_are_rows_that_sum_to_one() -> None:
    small = runs.cut(LAYER, 2, 3)
    assert small.query.shape == (2, 3)
    assert small.value_bias is not None
    np.testing.assert_array_equal(small.value_bias, LAYER.value_bias[:3])
    weights = runs.attention_weights(merge(X, LAYER, 2), 1)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)
    assert weights.shape == (3, 3)
