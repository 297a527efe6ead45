"""The planned run against the dense run of the same weights, changed ones included, in exact numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from attention_companion.simulator import Shape, build
from attention_companion.simulator.arithmetic import Float, Rational
from attention_companion.simulator.dense import final_state, run_densely
from attention_companion.simulator.encoder import Block, Head, Machine, Operation, scores_read_positions_only
from attention_companion.simulator.execute import plan, run
from attention_companion.simulator.mutation import KINDS, mutate, with_weight
from attention_companion.simulator.reading import read_layer

from .layers import LAYOUTS, float_layer, rational_layer, surrogate

SHAPES = [(2, 1, 2, 1, None), (1, 2, 1, 2, None), (2, 2, 1, 1, 2), (3, 1, 1, 1, None)]


def sequence_of(shape, rng, kind):
    layer = float_layer(shape, rng) if kind.name == "float64" else rational_layer(shape, rng)
    return read_layer(*layer, kind).sequence(kind)


def outcome(function, *arguments):
    """The result, or the name of the error."""
    try:
        return function(*arguments).tolist()
    except ZeroDivisionError:
        return "divides by zero"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("sizes", SHAPES)
def test_planned_and_dense_agree(layout, guarded, sizes):
    shape = Shape.read(*sizes)
    machine = build(*sizes[:4], layout, sizes[4], guarded=guarded).machine
    rng = np.random.default_rng(2)
    exact, floats = Rational(surrogate), Float()
    sequence = sequence_of(shape, rng, exact)
    assert run(plan(machine), sequence, exact).tolist() == run_densely(machine, sequence, exact).tolist()
    sequence = sequence_of(shape, rng, floats)
    dense = run_densely(machine, sequence, floats)
    assert run(plan(machine), sequence, floats) == pytest.approx(dense, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_weight_changes_both_alike(layout, kind):
    encoders = [(build(*sizes[:4], layout, sizes[4]), Shape.read(*sizes)) for sizes in SHAPES[:2]]
    exact = Rational(surrogate)
    changed = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        encoder, shape = encoders[seed % 2]
        mutant = mutate(encoder.machine, rng, kind)
        sequence = sequence_of(shape, rng, exact)
        dense = outcome(run_densely, mutant.machine, sequence, exact)
        if not scores_read_positions_only(mutant.machine):
            with pytest.raises(ValueError, match="evaluate this machine densely"):
                plan(mutant.machine)
            continue
        whole = outcome(run, plan(mutant.machine, divisors_everywhere=True), sequence, exact)
        assert whole == dense, f"seed {seed}: {mutant.change} at {mutant.address}"
        if dense != "divides by zero":
            assert outcome(run, plan(mutant.machine), sequence, exact) == dense
        changed += dense != run_densely(encoder.machine, sequence, exact).tolist()
    assert changed >= 3, "hardly a change was visible: the comparison shows little"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_cell_the_plan_stores_is_the_dense_runs(layout):
    machine = build(2, 2, 1, 1, layout).machine
    exact = Rational(surrogate)
    sequence = sequence_of(Shape.read(2, 2, 1), np.random.default_rng(0), exact)
    state = final_state(machine, sequence, exact)
    # Reading another channel's tokens off the same plan: what is read there is what the machine holds.
    for channel, tokens in plan(machine).homes.items():
        probe = replace(machine, output_channel=channel, output_tokens=tokens)
        assert run(plan(probe), sequence, exact).tolist() == state[channel][tokens].tolist()


def small(blocks, width=5, positions=((0,), (1,), (2,))):
    """Three tokens; channel 1 is the token's number; the outputs are channel 4 at all tokens."""
    table = np.array(positions, dtype=np.int64)
    tokens = np.arange(len(positions))
    return Machine(tuple(blocks), width, table, tokens, tokens, 4)


def both(machine, inputs, kind):
    sequence = kind.array(inputs)
    planned, dense = run(plan(machine), sequence, kind), run_densely(machine, sequence, kind)
    assert planned.tolist() == dense.tolist()
    return plain(planned)


def plain(values):
    return [v if isinstance(v, float) else F(int(v.p), int(v.q)) for v in values.tolist()]


def test_ties_are_averaged_and_weights_apply():
    # Without a query all scores are 0: every token is selected.
    head = Head({}, {}, {(4, 0): F(3, 2)})
    assert both(small([Block((head,))]), [1, 2, 6], Rational()) == [F(9, 2)] * 3
    assert both(small([Block((head,))]), [1.0, 2.0, 6.0], Float()) == [4.5] * 3


def test_heads_read_the_state_before_any_of_them_wrote():
    first, second = Head({}, {}, {(2, 0): F(1)}), Head({}, {}, {(4, 2): F(1)})
    assert both(small([Block((first, second))]), [1, 2, 3], Rational()) == [0, 0, 0]
    assert both(small([Block((first,)), Block((second,))]), [1, 2, 3], Rational()) == [2, 2, 2]


def test_operations_of_a_stage_read_what_stood_before_it():
    double = Operation("product", 0, {0: F(1)}, {0: F(1)})
    copy = Operation("product", 4, {0: F(1)}, {1: F(1)})
    assert both(small([Block((), ((double, copy),))]), [1, 2, 3], Rational()) == [0, 2, 6]
    assert both(small([Block((), ((double,), (copy,)))]), [1, 2, 3], Rational()) == [0, 6, 24]


def test_relu_and_division_and_exp():
    relu = Operation("relu", 4, {0: F(1), 1: F(-2)})
    assert both(small([Block((), ((relu,),))]), [1, 1, 6], Rational()) == [1, 0, 2]
    divide = Operation("division", 4, {0: F(1)}, {1: F(1), 0: F(1)})
    assert both(small([Block((), ((divide,),))]), [1, 1, 2], Rational()) == [1, F(1, 2), F(1, 2)]
    power = Operation("exp", 4, {0: F(1)})
    assert both(small([Block((), ((power,),))]), [0, 1, 2], Rational(surrogate)) == [1, 3, 7]


def test_a_division_by_zero_that_is_read_raises():
    divide = Operation("division", 4, {0: F(1)}, {1: F(1)})
    machine = small([Block((), ((divide,),))])
    with pytest.raises(ZeroDivisionError):
        run(plan(machine), Rational().array([1, 1, 1]), Rational())
    unread = replace(machine, output_tokens=np.array([1, 2]))
    assert plain(run(plan(unread), Rational().array([1, 1, 1]), Rational())) == [1, F(1, 2)]
    with pytest.raises(ZeroDivisionError):
        run(plan(unread, divisors_everywhere=True), Rational().array([1, 1, 1]), Rational())


def test_a_position_overwritten_by_data_counts_as_data():
    write = Block((), ((Operation("product", 1, {0: F(1)}, {0: F(1)}),),))
    read = Block((Head({(0, 1): F(1)}, {(0, 1): F(1)}, {(4, 0): F(1)}),))
    assert scores_read_positions_only(small([read, write]))
    assert not scores_read_positions_only(small([write, read]))
    with pytest.raises(ValueError, match="reads a channel that holds data"):
        plan(small([write, read]))


@pytest.mark.parametrize("weight", [F(2**61), F(1, 2**61), F(2**70)])
def test_positions_that_leave_int64_are_refused(weight):
    head = Head({(0, 1): weight}, {(0, 1): F(3)}, {(4, 0): F(1)})
    with pytest.raises(OverflowError, match="shorter sequence"):
        plan(small([Block((head,))], positions=((0,), (1,), (8,))))


def test_a_sum_of_columns_that_leaves_int64_is_refused():
    # Each product stays below 2^61; sixteen of them make 2^64, which int64 takes for 0.
    table = [[2**60] * 16 + [1], [1] * 17, [0] * 16 + [1]]
    head = Head({(0, 17): F(1)}, {(0, c): F(1) for c in range(1, 17)}, {(18, 0): F(1)})
    tokens = np.arange(3)
    machine = Machine((Block((head,)),), 19, np.array(table, dtype=np.int64), tokens, tokens, 18)
    with pytest.raises(OverflowError, match="shorter sequence"):
        plan(machine)


def test_a_wrong_number_of_inputs_is_refused():
    machine = build(2, 1, 1).machine
    for function in (lambda s: run(plan(machine), s, Float()), lambda s: run_densely(machine, s, Float())):
        with pytest.raises(ValueError, match="has 3 numbers; this encoder reads 4"):
            function(np.zeros(3))


def test_a_dense_run_of_a_long_sequence_is_refused():
    machine = build(30, 16, 16).machine
    with pytest.raises(ValueError, match="use the planned run"):
        run_densely(build(90, 2, 2).machine, np.zeros(90 * 2 + 8), Float())
    assert machine.length**2 < 5e7


def test_with_weight_puts_it_in_its_place_alone():
    machine = build(2, 2, 1).machine
    for address, weight in machine.weights():
        changed = dict(with_weight(machine, address, weight + 1).weights())
        assert changed.pop(address) == weight + 1
        rest = dict(machine.weights())
        del rest[address]
        assert changed == rest
