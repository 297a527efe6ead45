"""Sizes of the encoders: formulas against counts, one weight set, depth, and pictures of what heads attend to."""

from __future__ import annotations

import ast
import importlib
import inspect
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from attention_companion.simulator import Encoder, Shape, build
from attention_companion.simulator.build import build_encoder
from attention_companion.simulator.experiments import sizes
from attention_companion.simulator.mutation import with_vanishing_divisors, with_weight

SHAPES = sizes.shapes_up_to(3, 2, 2, 2, (None, 2))


def test_shapes_up_to_lists_each_once():
    assert len(SHAPES) == len(set(SHAPES)) == 3 * 2 * 2 * 2 * 2
    assert Shape(3, 2, 2, 2, 2) in SHAPES


def test_sizes_are_those_of_the_encoder():
    encoder = build(3, 2, 1, 2, "paper")
    found = sizes.sizes(encoder.shape, "paper")
    assert (found.layers, found.heads) == (encoder.layers, sum(encoder.heads_per_layer))
    assert (found.width, found.length) == (encoder.width, encoder.length)
    assert (found.nonzero_weights, found.position_entries) == (
        encoder.nonzero_weights,
        encoder.position_entries,
    )
    guarded = sizes.sizes(encoder.shape, "paper", guarded=True)
    assert guarded.nonzero_weights == encoder.guard.nonzero_weights > found.nonzero_weights


@pytest.mark.parametrize("layout", sizes.ORDER)
def test_formulas_hold_and_a_wrong_one_is_noticed(layout, monkeypatch):
    assert sizes.formula_misses(SHAPES, layout) == 0
    assert sizes.formula_misses(SHAPES, layout, exchanged=True) > 0
    right = sizes.predicted
    for field in ("data_channels", "nonzero_weights", "length"):

        def wrong(shape, name, field=field):
            prediction = right(shape, name)
            return replace(prediction, **{field: getattr(prediction, field) + 1})

        monkeypatch.setattr(sizes, "predicted", wrong)
        assert sizes.formula_misses(SHAPES[:4], layout) == 4
    # Too few columns are a miss everywhere, also where the formula is a bound.
    monkeypatch.setattr(sizes, "predicted", lambda shape, name: replace(right(shape, name), columns=1))
    assert sizes.formula_misses(SHAPES[:4], layout) == 4


def test_formulas_of_an_unknown_layout_are_refused():
    with pytest.raises(ValueError, match="layout is 'rotary'"):
        sizes.predicted(Shape(1, 1, 1), "rotary")


def test_slope_is_the_exponent():
    assert sizes.slope([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)
    assert sizes.slope([1, 5, 9], [7, 7, 7]) == 0
    for x, y in (([1], [1]), ([1, 2], [1])):
        with pytest.raises(ValueError, match="at least two points"):
            sizes.slope(x, y)


def test_different_sizes_tells_constant_from_growing():
    shapes = [s for s in SHAPES if s.output_dim is None]
    assert sizes.different_sizes("constant", shapes) == sizes.different_sizes("universal", shapes) == 1
    # n <= 3 times d <= 2, and position columns that happen to be equal are merged.
    assert sizes.different_sizes("positional", shapes) >= 6


# -- depth ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "plain", "joined"),
    [("positional", 3, 4), ("paper", 7, 9), ("constant", 5, 7), ("universal", 5, 7)],
)
def test_depths(layout, plain, joined):
    found = sizes.depths(layout, [Shape(1, 1, 1), Shape(2, 1, 2)], [Shape(4, 5, 3, 2)])
    assert found == sizes.Depths((plain,), 3, 2)
    assert sizes.depths(layout, [Shape(1, 1, 1, 1, 1)], [Shape(2, 2, 2)]).layers == (plain, joined)


def test_depths_of_what_is_no_simulator_are_refused(monkeypatch):
    encoder = build(1, 1, 1)
    broken = Encoder(with_vanishing_divisors(encoder.machine), encoder.shape, "changed")
    monkeypatch.setattr(sizes, "build_encoder", lambda *_: broken)
    with pytest.raises(ArithmeticError, match="not proved"):
        sizes.depths("positional", [Shape(1, 1, 1)])


#: Functions that open layers: ``block`` itself, and the helpers that do so for their callers.
OPENERS = {"block", "_multiply", "_softmax", "_guard", "_output"}
LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def layers_opened(source):
    """Lines of calls that open layers: all, and those inside a loop or a comprehension."""
    tree = ast.parse(source)

    def lines(node):
        calls = (c for c in ast.walk(node) if isinstance(c, ast.Call))
        return [c.lineno for c in calls if getattr(c.func, "attr", getattr(c.func, "id", "")) in OPENERS]

    loops = [node for node in ast.walk(tree) if isinstance(node, LOOPS)]
    return lines(tree), [line for loop in loops for line in lines(loop)]


@pytest.mark.parametrize("name", ["positional", "paper", "constant"])
def test_no_layer_is_opened_in_a_loop(name):
    """The chapter's argument for all shapes: each builder opens its layers at fixed places of its text."""
    module = importlib.import_module(f"attention_companion.simulator.layout_{name}")
    opened, in_loops = layers_opened(inspect.getsource(module))
    assert len(opened) >= 3
    assert not in_loops
    looped = importlib.import_module(
        "attention_companion.simulator.experiments.sizes_machines"
    ).looped_product
    assert layers_opened(inspect.getsource(looped))[1], "the loop of the control is not seen"
    assert layers_opened("[w.block() for c in range(d)]")[1]


def test_applied_once_notices_a_layer_too_many():
    encoder = build(2, 1, 1)
    assert sizes.applied_once(encoder)
    encoder.plan.blocks.append(encoder.plan.blocks[0])
    assert not sizes.applied_once(encoder)


# -- one weight set ---------------------------------------------------------------------------------------------------


def test_weight_sets():
    shapes = [Shape(1, 1, 1), Shape(2, 3, 1, 2), Shape(4, 2, 2)]
    assert sizes.different_weight_sets("universal", shapes) == 1
    assert sizes.different_weight_sets("constant", shapes) == 3
    assert sizes.different_weight_sets("universal", [*shapes, Shape(1, 1, 1, 1, 1)]) == 2
    machine = build(2, 2, 2, layout="universal").machine
    address = next(a for a, _ in machine.weights() if a[1] == "stage")
    assert sizes.weight_set(with_weight(machine, address, F(2))) != sizes.weight_set(machine)


def test_weights_carried_over_compute_another_shape():
    small, large = Shape(1, 1, 1), Shape(3, 2, 2, 2)
    assert sizes.carried_over_misses("universal", small, [large, Shape(2, 3, 1)]) == 0
    # n is a factor above and below the quotient, so `constant` fails only where d differs.
    assert sizes.carried_over_misses("constant", small, [large, Shape(2, 3, 1), Shape(4, 1, 1)]) == 2
    carried = sizes.with_weights_of(build_encoder(large, "universal"), build_encoder(small, "universal"))
    assert carried.machine.blocks == build_encoder(small, "universal").machine.blocks
    with pytest.raises(ValueError, match="columns"):
        sizes.with_weights_of(build(2, 2, 2), build(2, 2, 2, layout="paper"))


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_patterns():
    fetch = sizes.pattern(build(2, 2, 1).machine, 0, 0)
    assert fetch.shape == (build(2, 2, 1).length,) * 2
    assert (fetch.sum(axis=1) == 1).all()
    # Tokens 1..4 hold (i, k): each fetches X[i, 0], which stands at token 1 + 2 i; all others look at BOS.
    assert fetch[1:5].argmax(axis=1).tolist() == [1, 1, 3, 3]
    assert (fetch[5:].argmax(axis=1) == 0).all()
    mean = sizes.pattern(build(2, 3, 1, layout="constant").machine, 1, 0)
    assert sorted(mean[1][mean[1] > 0]) == pytest.approx([1 / 3] * 3)
    # A head for one token has a query of 1/2: integers after doubling.
    alone = sizes.pattern(build(2, 2, 1, layout="paper").machine, 1, 0)
    assert np.nonzero(alone[1])[0].tolist() == [1, 2]
    assert (alone[2:].argmax(axis=1) == 0).all()


def test_a_pattern_with_thirds_is_refused():
    machine = build(1, 1, 1).machine
    address = next(a for a, _ in machine.weights() if a[3] == "query")
    with pytest.raises(ValueError, match="multiple of 1/2"):
        sizes.pattern(with_weight(machine, address, F(1, 3)), 0, 0)
