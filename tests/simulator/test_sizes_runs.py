"""Costs of runs, the torch module beside them, programs beside weights, and Newton's loop."""

from __future__ import annotations

import pytest

from attention_companion.simulator import Encoder, Shape, build
from attention_companion.simulator.experiments import sizes_runs
from attention_companion.simulator.mutation import with_vanishing_divisors


def test_growth():
    small, large = sizes_runs.growth("positional", [2, 6], 2, 0, repeats=1)
    assert (small.n, large.n) == (2, 6)
    assert (large.length, large.width, large.cells) == (37, build(6, 2, 2).width, build(6, 2, 2).plan.cells)
    assert large.error < 1e-13
    assert 0 < small.bytes < large.bytes
    assert min(large.build_seconds, large.plan_seconds, large.run_seconds) > 0
    with pytest.raises(ValueError, match="repeats is 0"):
        sizes_runs.growth("positional", [2], 2, 0, repeats=0)


def test_module_beside_planned_run():
    encoder = build(2, 2, 1, 1, "constant", 1)
    assert sizes_runs.beside_module(encoder, encoder.to_torch(), 0, repeats=1).difference < 1e-13
    assert (
        sizes_runs.beside_module(encoder, sizes_runs.module_with_change(encoder), 0, repeats=1).difference
        > 1e-3
    )


def test_exported_module():
    encoder = build(1, 1, 1, layout="constant")
    assert sizes_runs.exported(encoder, 0) == sizes_runs.Exported(0, 11, 0)
    assert sizes_runs.moved_outputs(encoder, encoder.to_torch(), 0) == 0


def test_moved_outputs_notices_another_module():
    encoder = build(2, 1, 1, layout="constant")
    assert sizes_runs.moved_outputs(encoder, sizes_runs.module_with_change(encoder), 0) == 2


def test_module_read_again(tmp_path):
    encoder = build(2, 1, 1, layout="universal")
    module = encoder.to_torch()
    again, size = sizes_runs.reread(module, tmp_path)
    assert size == (tmp_path / "encoder.safetensors").stat().st_size > 0
    assert sizes_runs.differing_tensors(module, again) == 0
    assert sizes_runs.differing_tensors(module, sizes_runs.module_with_change(encoder)) == 1
    assert sizes_runs.differing_tensors(module, build(2, 1, 1).to_torch()) > 1


@pytest.mark.parametrize("layout", ["positional", "universal"])
def test_compiled(layout, monkeypatch):
    shapes = [Shape(2, 1, 1), Shape(1, 2, 1, 2), Shape(1, 1, 2, 1, 1)]
    assert sizes_runs.compiled(layout, shapes)

    def broken(shape, name, guarded):
        encoder = build(shape.n, shape.d, shape.d_v, shape.heads, name, shape.output_dim)
        return Encoder(with_vanishing_divisors(encoder.machine), shape, "changed")

    monkeypatch.setattr(sizes_runs, "build_encoder", broken)
    assert not sizes_runs.compiled(layout, shapes[:1])


def test_a_program_that_is_wrong_is_not_compiled(monkeypatch):
    right = sizes_runs.prove_program
    monkeypatch.setattr(sizes_runs, "prove_program", lambda name, *s: right(name, *s, shift_error=1))
    assert not sizes_runs.compiled("positional", [Shape(1, 1, 1, 2)])


def test_the_maximum_has_weights_but_not_in_the_declared_form():
    assert sizes_runs.maximum_compiled(2, 0, draws=3) == sizes_runs.MaximumCompiled(True, False)


def test_newton_takes_more_steps_at_worse_condition():
    steps = sizes_runs.newton_steps([1, 100, 1e4], 0)
    assert steps == sorted(steps)
    assert steps[0] < steps[1] < steps[2]
