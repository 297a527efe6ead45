"""Machines set beside the layouts, and what removing BOS or breaking a stride changes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from attention_companion.simulator import Shape, build
from attention_companion.simulator.arithmetic import Rational
from attention_companion.simulator.dense import run_densely
from attention_companion.simulator.encoder import check_machine
from attention_companion.simulator.execute import plan, run
from attention_companion.simulator.experiments import sizes_ablation, sizes_machines
from attention_companion.simulator.mutation import surrogate, with_weight

KIND = Rational(surrogate)


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 1, 1), (2, 3, 2), (3, 4, 1)])
def test_looped_product(rows, inner, columns):
    machine = sizes_machines.looped_product(rows, inner, columns)
    check_machine(machine)
    assert machine.layers == inner
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (rows, inner)), rng.integers(-9, 9, (inner, columns))
    got = run(plan(machine), KIND.array([int(v) for v in (*a.ravel(), *b.ravel())]), KIND)
    assert [int(v.p) for v in got] == (a @ b).ravel().tolist()


def test_larger_of_pairs():
    machine = sizes_machines.larger_of_pairs(2)
    check_machine(machine)
    got = run_densely(machine, KIND.array([F(1, 2), F(-3), F(-5), F(4)]), KIND)
    assert [F(int(v.p), int(v.q)) for v in got] == [F(1, 2), F(-3), F(4), F(-5)]


def test_declared_form():
    machine = build(2, 1, 1).machine
    assert sizes_machines.in_declared_form(machine)
    assert not sizes_machines.in_declared_form(sizes_machines.larger_of_pairs(1))
    address = next(a for a, _ in machine.weights() if a[3] == "query")
    assert not sizes_machines.in_declared_form(with_weight(machine, (*address[:5], 0), F(1)))


def test_breaking_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="multiplies a mean by 7"):
        sizes_machines.with_wrong_factor(build(2, 2, 2, layout="constant").machine, 7)
    with pytest.raises(ValueError, match="holds the size 7"):
        sizes_machines.with_wrong_size(build(2, 2, 2, layout="universal").machine, 7)
    machine = build(2, 1, 1).machine
    assert sizes_machines.with_swapped_stride(machine, 1) is machine


@pytest.mark.parametrize("layout", ["positional", "paper", "constant", "universal"])
def test_ablations(layout):
    shapes = [Shape(2, 2, 1), Shape(2, 3, 2, 2)]
    without, broken = (sizes_ablation.ablations(layout, shapes, 0, broken) for broken in (False, True))
    assert all(found.outputs > 0 and found.read > 0 for found in broken)
    for found in without:
        assert found.anywhere > found.read
        if layout == "paper":
            assert found.outputs > 0
        else:
            assert found.read == found.outputs == 0


def test_changed_cells_of_the_same_machine_and_of_one_that_divides_by_zero():
    machine = build(1, 1, 1).machine
    inputs = KIND.array([1, 2, 3])
    nothing = sizes_ablation.changed_cells(machine, machine, inputs, KIND)
    assert nothing == sizes_ablation.Ablation(0, 0, 0)
    address = next(
        (b, "stage", s, o, "right", c)
        for b, block in enumerate(machine.blocks)
        for s, stage in enumerate(block.stages)
        for o, operation in enumerate(stage)
        if operation.kind == "division"
        for c in operation.right
    )
    broken = with_weight(machine, address, F(0))
    found = sizes_ablation.changed_cells(machine, broken, inputs, KIND)
    assert found.outputs == 1
    assert found.anywhere == machine.width * machine.length
    shorter = replace(machine, positions=machine.positions[2:])
    with pytest.raises(ValueError, match="one may be missing"):
        sizes_ablation.changed_cells(machine, shorter, inputs, KIND)
