"""What a machine is made of: its checks, its counts, and which channels may hold data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from attention_companion.simulator import build
from attention_companion.simulator.encoder import (
    Block,
    Head,
    Machine,
    Operation,
    check_machine,
    data_channels,
    scores_read_positions_only,
)

TOKENS = np.arange(2)
TABLE = np.array([[0], [1]], dtype=np.int64)


def machine(*blocks, **changes):
    """Two tokens, channels: 0 input, 1 position, 2 and 3 data."""
    return replace(Machine(blocks, 4, TABLE, TOKENS, TOKENS, 3), **changes)


def test_counts():
    head = Head({(0, 1): F(1)}, {(0, 1): F(2), (1, 1): F(0)}, {(3, 0): F(1)})
    found = machine(Block((head, head)), Block((), ((Operation("product", 3, {0: F(1)}, {2: F(1, 2)}),),)))
    assert (found.layers, found.heads_per_layer, found.length, found.position_entries) == (2, (2, 0), 2, 2)
    assert found.nonzero_weights == 2 * 3 + 2  # the weight 0 does not count
    assert found.operations == 1
    assert head.rows == 2


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"positions": TABLE.astype(float)}, "expected integers"),
        ({"positions": TABLE[:, 0]}, "of shape"),
        ({"width": 1}, "must hold the input"),
        ({"output_channel": 4}, "output channel"),
        ({"input_tokens": np.array([2])}, "tokens are 0..1"),
        ({"output_tokens": np.array([-1])}, "tokens are 0..1"),
        ({"blocks": (Block((Head({(0, 9): F(1)}, {}, {}),)),)}, "names channel 9"),
        ({"blocks": (Block((Head({}, {}, {(4, 0): F(1)}),)),)}, "names channel 4"),
        (
            {"blocks": (Block((), ((Operation("sine", 2, {0: F(1)}),),)),)},
            "the basis is product, exp, division",
        ),
        ({"blocks": (Block((), ((Operation("exp", 4, {0: F(1)}),),)),)}, "writes channel 4"),
        ({"blocks": (Block((), ((Operation("exp", 2, {0: F(1)}, {0: F(1)}),),)),)}, "takes 1 linear form"),
        ({"blocks": (Block((), ((Operation("product", 2, {0: F(1)}),),)),)}, "takes 2 linear form"),
    ],
)
def test_a_machine_that_is_not_well_formed_is_refused(wrong, text):
    check_machine(machine())
    with pytest.raises(ValueError, match=text):
        check_machine(machine(**wrong))


def test_a_float_weight_is_refused():
    with pytest.raises(TypeError, match="weights are exact"):
        check_machine(machine(Block((Head({}, {}, {(3, 0): 0.5}),))))


def test_data_spreads_from_block_to_block():
    to_position = Block((Head({}, {}, {(1, 0): F(1)}),))
    reads_position = Block((Head({(0, 1): F(1)}, {(0, 1): F(1)}, {(3, 0): F(1)}),))
    assert data_channels(machine(to_position, reads_position)) == [{0, 2, 3}, {0, 1, 2, 3}]
    assert scores_read_positions_only(machine(reads_position, to_position))
    assert not scores_read_positions_only(machine(to_position, reads_position))
    dropped = Block((Head({}, {}, {(1, 0): F(0)}),))
    assert scores_read_positions_only(machine(dropped, reads_position))


@pytest.mark.parametrize("layout", ["positional", "paper", "constant", "universal"])
def test_built_machines_use_the_declared_basis_and_read_positions_only(layout):
    for guarded in (False, True):
        made = build(2, 2, 1, 2, layout, 2, guarded).machine
        kinds = {o.kind for b in made.blocks for s in b.stages for o in s}
        assert kinds == {"product", "exp", "division"}
        assert scores_read_positions_only(made)
        assert made.positions[0, 0] == 1
        assert 0 not in made.input_tokens
