"""The language: selection, averaging and width against their definitions, on every kind of number; what it refuses."""

from __future__ import annotations

import operator
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.simulator import Rasp, _rasp_selector
from attention_companion.simulator.arithmetic import Ball, Float, Rational
from attention_companion.simulator.symbolic import Symbolic

SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def exact_run(tokens, **options):
    kind = Rational()
    return Rasp(kind, kind.array(tokens), **options)


def fractions(numbers):
    return [F(int(value.p), int(value.q)) for value in numbers.values]


def mean_by_definition(keys, queries, sign, values):
    """The mean over the selected, query by query, in Fractions."""
    means = []
    for query in queries:
        chosen = [value for key, value in zip(keys, values, strict=True) if SIGNS[sign](key, query)]
        means.append(sum(chosen, F(0)) / max(len(chosen), 1))
    return means


positions = st.lists(st.integers(-3, 8), min_size=6, max_size=6)
values = st.lists(st.fractions(-50, 50, max_denominator=9), min_size=6, max_size=6)


@settings(deadline=None, max_examples=60)
@given(positions, positions, st.sampled_from(sorted(SIGNS)), values)
def test_aggregate_is_the_mean_over_the_selected_on_every_kind(keys, queries, sign, tokens):
    wanted = mean_by_definition(keys, queries, sign, tokens)
    run = exact_run(tokens)
    selector = run.select(run.positions(keys), run.positions(queries), sign)
    assert fractions(run.aggregate(selector, run.tokens)) == wanted
    pattern = [[SIGNS[sign](key, query) for key in keys] for query in queries]
    assert selector.matrix.tolist() == pattern
    assert run.selector_width(selector).values.tolist() == [sum(row) for row in pattern]

    floats = Rasp(Float(), Float().array(tokens))
    means = floats.aggregate(
        floats.select(floats.positions(keys), floats.positions(queries), sign), floats.tokens
    )
    assert means.values == pytest.approx([float(w) for w in wanted], abs=1e-12)

    ball = Ball(200)
    with ball.precision():
        balls = Rasp(ball, ball.array(tokens))
        means = balls.aggregate(
            balls.select(balls.positions(keys), balls.positions(queries), sign), balls.tokens
        )
        # w itself may be no ball's midpoint: the multiple by its denominator is compared, which is an integer.
        misses = [m * w.denominator - w.numerator for m, w in zip(means.values, wanted, strict=True)]
        assert all(miss.contains(0) and miss.rad() < 1e-45 for miss in misses)


def test_aggregate_on_indeterminates():
    kind = Symbolic(3, 0)
    run = Rasp(kind, kind.array(kind.inputs))
    mean = run.aggregate(run.select(run.indices, run.positions([0, 1, 9]), "<="), run.tokens)
    x, y, z = (q.above for q in kind.inputs)
    assert [q.above for q in mean.values] == [x, (x + y) / 2, (x + y + z) / 3]
    assert all(q.below is None for q in mean.values)


def test_nothing_selected_is_zero_and_not_the_nearest():
    run = exact_run([7, 8, 9])
    assert fractions(run.fetch(run.tokens, np.array([2, -1, 3]))) == [9, 0, 0]


def test_selectors_combine_as_their_patterns():
    run = exact_run(range(5))
    before = run.select(run.indices, run.indices, "<")
    odd = run.select(run.positions(run.indices.values % 2), run.positions(1))
    assert (before & odd).matrix.tolist() == (before.matrix & odd.matrix).tolist()
    assert (before | odd).matrix.tolist() == (before.matrix | odd.matrix).tolist()
    assert (~before).matrix.tolist() == (~before.matrix).tolist()
    # None of these three may be trivial, or the comparison above would say little.
    assert 0 < (before & odd).matrix.sum() < before.matrix.sum() < (before | odd).matrix.sum() < 25


def test_weights_of_a_pattern_are_uniform_rows():
    run = exact_run(range(3))
    weights = run.select(run.indices, run.indices, "<").weights
    assert weights.tolist() == [[0, 0, 0], [1, 0, 0], [0.5, 0.5, 0]]


def test_layers_and_heads_are_counted():
    run = exact_run(range(4))
    assert (run.layers, run.heads_per_layer, run.heads) == (0, (), [])
    first = run.fetch(run.tokens, run.indices.values - 1, "left neighbour")
    # The same selection in the same layer is the same head, whatever it carries.
    again = run.fetch(run.tokens.scale(2), run.indices.values - 1)
    other = run.fetch(run.tokens, run.indices.values + 1)
    assert (run.layers, run.heads_per_layer) == (1, (2,))
    summed = first + again * other
    assert summed.depth == 1
    deeper = run.fetch(summed, run.indices.values - 1)
    assert deeper.depth == 2
    assert (run.layers, run.heads_per_layer) == (2, (2, 1))
    assert [head.label for head in run.heads[0]] == ["left neighbour", ""]
    assert run.heads[1][0] is run.heads[0][0]


def test_a_width_is_a_head_and_an_integer_that_may_select():
    run = exact_run([4, 5, 6])
    width = run.selector_width(run.select(run.indices, run.indices, "<="))
    assert (width.values.tolist(), width.depth, width.reads_data) == ([1, 2, 3], 1, False)
    shifted = run.aggregate(run.select(run.indices, width), run.tokens)
    assert (fractions(shifted), shifted.depth, run.heads_per_layer) == ([5, 6, 0], 2, (1, 1))


def test_data_may_not_select():
    run = exact_run([1, 2, 3], basis=("table",))
    with pytest.raises(TypeError, match="queries of a selector hold data"):
        run.select(run.indices, run.tokens)
    looked_up = run.tokens.table({1: 0, 2: 1, 3: 2})
    with pytest.raises(TypeError, match=r"keys of a selector depend on the data.*integer_selectors=True"):
        run.select(looked_up, run.indices)
    allowed = exact_run([1, 2, 3], basis=("table",), integer_selectors=True)
    selector = allowed.select(allowed.tokens.table({1: 2, 2: 1, 3: 0}), allowed.indices)
    assert selector.reads_data
    assert fractions(allowed.aggregate(selector, allowed.tokens)) == [3, 2, 1]
    assert allowed.selector_width(selector).reads_data
    positions_only = allowed.select(allowed.indices, allowed.indices)
    assert (selector & positions_only).reads_data
    assert (positions_only | selector).reads_data
    assert (~selector).reads_data
    assert not (positions_only | ~positions_only).reads_data
    # The same integers from positions are another selector: they read no data.
    assert not allowed.select(allowed.positions([2, 1, 0]), allowed.indices).reads_data


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("product", lambda run: run.tokens * run.tokens),
        ("exp", lambda run: run.tokens.exp()),
        ("division", lambda run: run.tokens / run.tokens),
        ("relu", lambda run: run.tokens.relu()),
        ("table", lambda run: run.tokens.table({1: 1, 2: 2})),
    ],
)
def test_only_declared_maps_may_be_used(name, use):
    everything = ("product", "exp", "division", "relu", "table")
    kind = Rational(lambda x: 1 + x * x)
    allowed = Rasp(kind, kind.array([1, 2]), basis=(name,))
    use(allowed)
    assert allowed.maps_used == {name}
    refused = Rasp(kind, kind.array([1, 2]), basis=tuple(m for m in everything if m != name))
    with pytest.raises(ValueError, match=f"'{name}' is not in this run's declared basis"):
        use(refused)
    assert refused.maps_used == set()


def test_linear_forms_are_free():
    run = exact_run([1, 2, 3], basis=())
    combined = run.tokens.scale(F(1, 2)) - run.indices.numbers() + run.constant(F(1, 3))
    assert fractions(combined) == [F(5, 6), F(1, 3), F(-1, 6)]
    assert run.maps_used == set()


def test_a_table_covers_its_alphabet_only():
    run = exact_run([1, F(1, 2)], basis=("table",))
    assert run.tokens.table({1: 7, F(1, 2): 8}).values.tolist() == [7, 8]
    with pytest.raises(ValueError, match=r"token 1 is 1/2, which is not in the table's alphabet of 1 values"):
        run.tokens.table({1: 7})
    ball = Ball()
    with ball.precision(), pytest.raises(TypeError, match="exact values, not ball numbers"):
        Rasp(ball, ball.array([1]), basis=("table",)).tokens.table({1: 1})


def test_a_vanishing_divisor_raises_at_any_token():
    run = exact_run([1, 2], length=3)
    with pytest.raises(ZeroDivisionError):
        run.constant(1) / run.tokens
    floats = Rasp(Float(), np.array([1.0, 0.0]))
    with pytest.raises(ZeroDivisionError):
        floats.constant(1) / floats.tokens


def test_overflow_of_exp_is_said():
    run = Rasp(Float(), np.array([1.0, 710.0]))
    with pytest.raises(OverflowError, match=r"exp\(710\) exceeds float64"):
        run.tokens.exp()


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: exact_run([]), ValueError, "empty"),
        (lambda: exact_run([1, 2], length=1), ValueError, "2 tokens do not fit in a length of 1"),
        (lambda: exact_run([1], basis=("sqrt",)), ValueError, "basis names sqrt"),
        (lambda: Rasp(Float(), np.array([1.0, np.nan])), ValueError, "not finite"),
        (lambda: exact_run([1, 2]).positions([0.0, 1.0]), TypeError, "float64; only integers"),
        (lambda: exact_run([1, 2]).positions([0, 1, 2]), ValueError, r"shape \(3,\); expected \(2,\)"),
    ],
)
def test_what_a_run_refuses(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_an_unknown_predicate_and_a_huge_selection_are_refused(monkeypatch):
    run = exact_run(range(10))
    with pytest.raises(ValueError, match="predicate is '=<'"):
        run.select(run.indices, run.indices, "=<")
    monkeypatch.setattr(_rasp_selector, "LARGEST_SELECTION", 99)
    assert run.select(run.indices, run.indices).widths.tolist() == [1] * 10
    with pytest.raises(ValueError, match="would hold 100 pairs, more than 99"):
        run.select(run.indices, run.indices, "<")
    with pytest.raises(ValueError, match="would hold 100 pairs"):
        run.select(run.positions(0), run.positions(0))
