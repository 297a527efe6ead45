"""Encoders of all layouts: equal to T in every arithmetic, of the sizes stated, and refusing what they must."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from fractions import Fraction as F

import flint
import numpy as np
import pytest
from hypothesis import given, settings

from attention_companion.simulator import Encoder, GuardedRun, Shape, attention, build
from attention_companion.simulator.arithmetic import Rational
from attention_companion.simulator.dense import final_state
from attention_companion.simulator.execute import plan, run
from attention_companion.simulator.mutation import with_weight, without_bos
from attention_companion.simulator.reading import read_layer

from .layers import GOLDEN, LAYOUTS, awkward_layers, float_layer, rational_layer, surrogate
from .test_target import inside, reference

SHAPES = [
    (1, 1, 1, 1, None),
    (1, 3, 2, 2, None),
    (4, 1, 1, 3, 1),
    (2, 3, 1, 1, 4),
    (3, 2, 4, 2, None),
    (7, 2, 1, 1, None),
    (3, 2, 2, 3, 2),
]
X, A, V = GOLDEN


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", SHAPES)
class TestAgainstTheTarget:
    def test_float64(self, layout, sizes):
        for guarded in (False, True):
            layer = float_layer(Shape.read(*sizes), np.random.default_rng(sizes[0]))
            got = build(*sizes[:4], layout, sizes[4], guarded).run(*layer)
            wanted = attention(*layer)
            assert got.shape == wanted.shape
            assert got == pytest.approx(wanted, rel=1e-11, abs=1e-11 * np.abs(wanted).max())

    def test_rational(self, layout, sizes):
        layer = rational_layer(Shape.read(*sizes), np.random.default_rng(sizes[1]))
        got = build(*sizes[:4], layout, sizes[4]).run(*layer, "rational", surrogate)
        assert got == attention(*layer, "rational", surrogate)

    def test_guarded_in_exact_numbers(self, layout, sizes):
        # 2^x on integers is an exponential: the guarded weights are then exact as well.
        def power(x):
            assert x.denominator == 1
            return F(2) ** x.numerator

        shape = Shape.read(*sizes)
        rng = np.random.default_rng(sizes[2])
        x, heads, output = rational_layer(shape, rng)
        x = [[F(int(v)) for v in row] for row in x]
        heads = [([[F(int(v)) for v in row] for row in a], v) for a, v in heads]
        kind = Rational(power)
        machine = build(*sizes[:4], layout, sizes[4], guarded=True).machine
        got = run(plan(machine), read_layer(x, heads, output, kind).sequence(kind), kind)
        wanted = attention(x, heads, output, "rational", power)
        assert [F(int(v.p), int(v.q)) for v in got] == [v for row in wanted for v in row]

    def test_balls(self, layout, sizes):
        layer = rational_layer(Shape.read(*sizes), np.random.default_rng(sizes[1]), top=3)
        for guarded in (False, True):
            got = build(*sizes[:4], layout, sizes[4], guarded).run(*layer, "ball")
            assert inside(got, reference(*layer))
            for row in got:
                assert all(float(b.rad()) <= 1e-57 * max(1, abs(float(b.mid()))) for b in row)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_golden_values(layout):
    encoder = build(3, 2, 2, layout=layout)
    balls = encoder.run(X, [(A, V)], arithmetic="ball")
    assert [ball.str(20, radius=False) for ball in balls[2]] == [
        "0.53497105571992738446",
        "-2.8481108632833349671",
    ]
    # Relative to entries above 1: the largest is near 12.
    assert all(float(ball.rad()) <= 1e-58 * max(1, abs(float(ball.mid()))) for row in balls for ball in row)
    exact = encoder.run(X, [(A, V)], arithmetic="rational", exp=surrogate)
    assert exact[0] == [F(59191, 37800), F(77141, 8100)]
    assert exact[2] == [F(606745, 951048), F(-341677, 203796)]
    uniform = build(3, 2, 1, layout=layout).run(
        [[1, 2], [3, 4], [5, 7]], [([[0, 0], [0, 0]], [[1], [-1]])], arithmetic="rational", exp=surrogate
    )
    assert uniform == [[F(-4, 3)]] * 3
    tall = build(5, 1, 1, layout=layout).run(
        [[F(1, 2)], [-1], [2], [F(1, 3)], [0]], [([[F(3, 2)]], [[2]])], arithmetic="ball"
    )
    assert tall[0][0].str(20, radius=False) == "2.2193570381683630533"
    with flint.ctx.workprec(300):
        assert tall[4][0].contains(flint.arb(flint.fmpq(11, 15)))


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=25, deadline=None)
@given(awkward_layers())
def test_awkward_rationals(layout, layer):
    x, heads, output = layer
    shape = Shape(
        len(x), len(x[0]), len(heads[0][1][0]), len(heads), None if output is None else len(output[0])
    )
    encoder = build(shape.n, shape.d, shape.d_v, shape.heads, layout, shape.output_dim)
    assert encoder.run(*layer, "rational", surrogate) == attention(*layer, "rational", surrogate)


# -- sizes ------------------------------------------------------------------------------------------------------------

SIZES = [(1, 1, 1, 1), (2, 3, 1, 1), (3, 2, 4, 2), (5, 4, 2, 3)]


@pytest.mark.parametrize(("n", "d", "d_v", "h"), SIZES)
def test_sizes_of_positional(n, d, d_v, h):
    encoder = build(n, d, d_v, h)
    assert encoder.heads_per_layer == (4 * d, 2 * d, 2 * n)
    assert encoder.layers == 3
    inputs = n * d + h * d * (d + d_v)
    assert encoder.length == 1 + max(inputs, h * n * d, h * n * d_v, h * n * n)
    with_output = build(n, d, d_v, h, output_dim=2)
    assert with_output.heads_per_layer == (4 * d, 2 * d, 2 * n, 2 * h * d_v)
    # Each head has 2 + 1 + 2 + 1 weights, less the query's offset where it is 0.
    heads_of = 6 * (6 * d + 2 * n) - (4 + 2 + 2)
    maps = 2 * 2 * d + (2 * d + 1) + (2 * n + 1 + n)
    assert encoder.nonzero_weights == heads_of + maps


@pytest.mark.parametrize(("n", "d", "d_v", "h"), SIZES)
def test_sizes_of_paper(n, d, d_v, h):
    encoder = build(n, d, d_v, h, "paper")
    assert encoder.heads_per_layer == (
        n + h * (d + d_v),  # rows of X; columns of A and V
        h * n * (d + d_v),  # one for each entry of X A and X V
        h * n + n,
        h * n * n,
        1,
        h * n + h * d_v,
        h * n * d_v,
    )
    assert build(n, d, d_v, h, "paper", 3).heads_per_layer[7:] == (n + 3, 3 * n)


@pytest.mark.parametrize("layout", ["constant", "universal"])
@pytest.mark.parametrize(("n", "d", "d_v", "h"), SIZES[1:])
def test_sizes_of_constant_do_not_depend_on_the_shape(layout, n, d, d_v, h):
    small, large = build(2, 2, 2, layout=layout), build(n, d, d_v, h, layout)
    assert large.heads_per_layer == (4, 2, 2, 1, 2)
    assert build(n, d, d_v, h, layout, 3).heads_per_layer == (4, 2, 2, 1, 2, 2, 1)
    inputs = n * d + h * d * (d + d_v)
    assert large.length == 1 + max(
        inputs, h * n * d * d, h * n * d_v * d, h * n * n * d, h * n * d_v * n, h * n * n
    )
    assert {a for a, _ in large.machine.weights()} == {a for a, _ in small.machine.weights()}
    assert large.width == small.width
    assert large.nonzero_weights == small.nonzero_weights
    assert large.position_entries == large.length * len(large.machine.position_channels)


@pytest.mark.parametrize("output_dim", [None, 3])
@pytest.mark.parametrize("guarded", [False, True])
def test_universal_is_one_weight_set(output_dim, guarded):
    shapes = [(2, 2, 2, 1), (5, 3, 2, 2), (3, 4, 1, 3), (7, 2, 5, 1)]
    machines = [build(*shape, "universal", output_dim, guarded).machine for shape in shapes]
    first = dict(machines[0].weights())
    for machine in machines[1:]:
        assert dict(machine.weights()) == first
        assert [[o.kind for s in b.stages for o in s] for b in machine.blocks] == [
            [o.kind for s in b.stages for o in s] for b in machines[0].blocks
        ]
        assert (machine.width, machine.output_channel) == (machines[0].width, machines[0].output_channel)
        assert machine.length != machines[0].length
    # In `constant` the same addresses hold the sizes d and n.
    constant = [dict(build(*shape, "constant", output_dim, guarded).machine.weights()) for shape in shapes]
    assert constant[0] != constant[1]


# -- controls ---------------------------------------------------------------------------------------------------------


def exact_run(machine, layer):
    kind = Rational(surrogate)
    return run(plan(machine), read_layer(*layer, kind).sequence(kind), kind).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_paper_needs_the_first_token(layout):
    shape = Shape.read(3, 2, 2)
    layer = rational_layer(shape, np.random.default_rng(0))
    machine = build(3, 2, 2, layout=layout).machine
    ablated = without_bos(machine)
    kind = Rational(surrogate)
    sequence = read_layer(*layer, kind).sequence(kind)
    cells = {c: t[t > 0] for c, t in plan(machine).homes.items()}
    before, after = (final_state(m, sequence, kind) for m in (machine, ablated))
    same_read = all((before[c][t] == after[c][t - 1]).all() for c, t in cells.items())
    same_everywhere = all((b[1:] == a).all() for b, a in zip(before, after, strict=True))
    assert not same_everywhere, "nothing at all depends on the first token"
    if layout == "paper":
        assert not same_read
        assert exact_run(ablated, layer) != exact_run(machine, layer)
    else:
        assert same_read
        assert exact_run(ablated, layer) == exact_run(machine, layer)


def test_a_swapped_stride_breaks_positional():
    # X A reads A down its columns, with stride d; stride 1 reads along its rows.
    layer = rational_layer(Shape.read(3, 3, 2), np.random.default_rng(0))
    encoder = build(3, 3, 2)
    broken = encoder.machine
    for c in range(1, 3):
        head = broken.blocks[0].heads[4 * c + 1]
        (offset,) = [a for a, w in head.query.items() if w == 3 * c]
        broken = with_weight(broken, (0, "head", 4 * c + 1, "query", *offset), F(c))
    assert exact_run(encoder.machine, layer) != exact_run(broken, layer)


@pytest.mark.parametrize("layout", ["paper", "constant"])
def test_a_wrong_averaging_factor_breaks_sums_of_means(layout):
    layer = rational_layer(Shape.read(3, 4, 2), np.random.default_rng(0))
    machine = build(3, 4, 2, layout=layout).machine
    sums = [a for a, w in machine.weights() if a[1] == "head" and a[3] == "value" and w == 4]
    assert sums, "no head averages over the 4 inner indices"
    assert exact_run(with_weight(machine, sums[0], F(3)), layer) != exact_run(machine, layer)


# -- large scores -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [1e4, 1e5, 1e6])
def test_large_scores_run_guarded_and_say_so(layout, size):
    rng = np.random.default_rng(4)
    x, heads, _ = float_layer(Shape.read(3, 2, 2), rng)
    largest = max(np.abs(x @ a @ x.T).max() for a, _ in heads)
    heads = [(a * (size / largest), v) for a, v in heads]
    encoder = build(3, 2, 2, layout=layout)
    with pytest.warns(
        GuardedRun, match=f"exceeds 700; ran the guarded encoder.*{encoder.guard.nonzero_weights}"
    ):
        got = encoder.run(x, heads)
    exact = [[F(v) for v in row] for row in x.tolist()]
    pairs = [
        ([[F(w) for w in row] for row in a.tolist()], [[F(w) for w in row] for row in v.tolist()])
        for a, v in heads
    ]
    balls = attention(exact, pairs, arithmetic="ball", bits=300)
    wanted = np.array([[float(ball.mid()) for ball in row] for row in balls])
    # Rounding of scores of this size moves exp of their differences by size x 2^-52.
    assert np.abs(got - wanted).max() <= (4 * size * 2.0**-52 + 4e-16) * np.abs(x @ heads[0][1]).max()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (encoder.guard.run(x, heads) == got).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_far_below_zero_are_guarded_as_well(layout):
    with pytest.warns(GuardedRun):
        assert build(1, 1, 1, layout=layout).run([[30.0]], [([[-2.0]], [[0.1]])]) == pytest.approx(3.0)


def test_moderate_scores_run_plainly():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(1, 1, 1).run([[26.0]], [([[1.0]], [[1.0]])])


def test_a_guarded_encoder_refuses_surrogates():
    with pytest.raises(ValueError, match="no rational surrogate"):
        build(2, 1, 1, guarded=True).run([[1], [2]], [([[1]], [[1]])], arithmetic="rational", exp=surrogate)


def test_results_beyond_float64_are_an_error():
    layer = ([[1e200]], [([[0.0]], [[1e200]])])
    for function in (build(1, 1, 1).run, attention):
        with pytest.raises(OverflowError, match="ball arithmetic"):
            function(*layer)


def test_a_changed_machine_runs_itself_even_past_the_guard():
    encoder = build(2, 1, 1)
    changed = Encoder(encoder.machine, encoder.shape, "changed")
    layer = ([[40.0], [1.0]], [([[1.0]], [[1.0]])])
    with pytest.raises(OverflowError):
        changed.run(*layer)
    with pytest.raises(ValueError, match="not made by build"):
        _ = changed.guard


def test_a_machine_whose_scores_read_data_is_run_densely():
    encoder = build(2, 1, 1)
    (address, _) = next((a, w) for a, w in encoder.machine.weights() if a[3] == "query")
    moved = with_weight(encoder.machine, (*address[:5], 0), F(1))
    changed = Encoder(moved, encoder.shape, "changed")
    layer = ([[F(1, 2)], [F(2)]], [([[F(1)]], [[F(3)]])])
    got = changed.run(*layer, arithmetic="rational", exp=surrogate)
    kind = Rational(surrogate)
    state = final_state(moved, read_layer(*layer, None, kind).sequence(kind), kind)
    assert [row[0] for row in got] == [
        F(int(v.p), int(v.q)) for v in state[moved.output_channel][moved.output_tokens]
    ]


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((0, 1, 1), ValueError, "n is 0"),
        ((1, -2, 1), ValueError, "d is -2"),
        ((1, 1, True), TypeError, "d_v is True"),
        ((1, 1, 1, 1.0), TypeError, "heads is 1.0"),
        ((1, 1, 1, 1, "positional", 0), ValueError, "output_dim is 0"),
        ((1, 1, 1, 1, "rotary"), ValueError, "choose one of positional, paper, constant, universal"),
        (("2", 1, 1), TypeError, "n is '2'"),
    ],
)
def test_wrong_sizes_and_layouts_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        build(*arguments)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        (([[1, 2]], [(A, V)]), {}, ValueError, "this encoder simulates .*n=3.* the layer has .*n=1"),
        ((X, [(A, V)], [[1], [1]]), {}, ValueError, "build one for it"),
        ((X, [(A, V), (A, V)]), {}, ValueError, "build one for it"),
        ((X, [([[1, 2, 3], [1, 2, 3]], V)]), {}, ValueError, r"A of head 0 has shape \(2, 3\)"),
        (([[1, 2], [3]], [(A, V)]), {}, ValueError, "unequal lengths"),
        (([[1, 2], [3, float("inf")], [1, 1]], [(A, V)]), {}, ValueError, "finite"),
        (([], [(A, V)]), {}, ValueError, "empty"),
        ((X, [(A, V)]), {"arithmetic": "rational"}, ValueError, "give exp="),
        ((X, [(A, V)]), {"exp": surrogate}, ValueError, "leave it out"),
        ((X, [(A, V)]), {"arithmetic": "decimal"}, ValueError, "choose one of"),
        (
            ([[0.5, 1], [1, 1], [1, 1]], [(A, V)]),
            {"arithmetic": "rational", "exp": surrogate},
            TypeError,
            "0.5",
        ),
    ],
)
def test_wrong_layers_are_refused(arguments, options, error, text):
    with pytest.raises(error, match=text):
        build(3, 2, 2).run(*arguments, **options)


def test_a_machine_of_another_shape_is_refused():
    machine = build(2, 2, 2).machine
    with pytest.raises(ValueError, match=r"12 inputs; .* has 18"):
        Encoder(machine, Shape.read(2, 3, 1), "changed")
    with pytest.raises(ValueError, match="1 outputs"):
        Encoder(replace(machine, output_tokens=np.array([1])), Shape.read(2, 2, 2), "changed")


def test_repr_names_the_sizes():
    text = repr(build(2, 1, 1, guarded=True))
    assert "positional, guarded" in text
    assert "position entries" in text


def test_importing_the_simulator_does_not_import_torch():
    code = "import sys, attention_companion.simulator; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
