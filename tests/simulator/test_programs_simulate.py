"""The simulator U as a program: golden values, the target, laws of attention, constant depth, controls, refusals."""

from __future__ import annotations

from fractions import Fraction as F

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.simulator import Rasp, Shape, attention, build, simulate
from attention_companion.simulator.arithmetic import Rational
from attention_companion.simulator.programs.simulate import (
    identify,
    length_needed,
    many_heads_program,
    shift,
    single_head_program,
)
from attention_companion.simulator.reading import read_layer

from .layers import GOLDEN, awkward_layers, float_layer, rational_layer, surrogate

ARRANGEMENTS = ("paper", "scratch")


def exact(layer, arrangement="paper"):
    return simulate(*layer, arithmetic="rational", exp=surrogate, arrangement=arrangement).result


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_golden_values(arrangement):
    x, a, v = GOLDEN
    rows = exact((x, [(a, v)], None), arrangement)
    assert rows[0] == [F(59191, 37800), F(77141, 8100)]
    assert rows[2] == [F(606745, 951048), F(-341677, 203796)]
    wanted = [
        [1.6592318657425537648, 10.451402593170879252],
        [1.7616459949106170524, 11.774715396031048495],
        [0.53497105571992738446, -2.8481108632833349671],
    ]
    result = simulate(x, [(a, v)], arrangement=arrangement).result
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-14)
    zero = [[F(0), F(0)], [F(0), F(0)]]
    assert exact(([[1, 2], [3, 4], [5, 7]], [(zero, [[1], [-1]])], None), arrangement) == [[F(-4, 3)]] * 3
    tall = simulate(
        [[F(1, 2)], [-1], [2], [F(1, 3)], [0]], [([[F(3, 2)]], [[2]])], arrangement=arrangement
    ).result
    golden = [
        2.2193570381683630533,
        -1.1932018242113804786,
        3.9348891776014006567,
        1.7277352546613449074,
        11 / 15,
    ]
    np.testing.assert_allclose(tall[:, 0], golden, rtol=0, atol=1e-14)


@settings(deadline=None, max_examples=25)
@given(awkward_layers(), st.sampled_from(ARRANGEMENTS))
def test_the_program_is_the_target_on_awkward_rationals(layer, arrangement):
    assert exact(layer, arrangement) == attention(*layer, arithmetic="rational", exp=surrogate)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 1, 2), (2, 4, 1, 2), (3, 2, 2, 2, 3), (6, 3, 3)])
def test_the_program_is_the_target_in_float64(sizes):
    layer = float_layer(Shape.read(*sizes), np.random.default_rng(5), 0.7)
    wanted = attention(*layer)
    for arrangement in ARRANGEMENTS:
        result = simulate(*layer, arrangement=arrangement).result
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-12 * max(1, np.abs(wanted).max()))


def test_enclosures_contain_a_reference_of_sixty_digits():
    x, a, v = GOLDEN
    result = simulate(x, [(a, v)], arithmetic="ball", bits=200).result
    with mpmath.workdps(60), flint.ctx.workprec(300):
        mx, ma, mv = (
            mpmath.matrix([[mpmath.mpf(F(e).numerator) / F(e).denominator for e in row] for row in m])
            for m in (x, a, v)
        )
        scores, values = mx * ma * mx.T, mx * mv
        for i, row in enumerate(result):
            powers = [mpmath.exp(scores[i, j]) for j in range(3)]
            for c, ball in enumerate(row):
                reference = sum(p * values[j, c] for j, p in enumerate(powers)) / sum(powers)
                assert ball.overlaps(flint.arb(mpmath.nstr(reference, 60)))
                assert ball.rad() < 1e-50
                assert not ball.overlaps(flint.arb(mpmath.nstr(reference * (1 + mpmath.mpf(10) ** -48), 60)))


def test_the_program_and_the_compiled_encoder_agree():
    shape = Shape.read(3, 2, 2, 2, 2)
    x, heads, output = rational_layer(shape, np.random.default_rng(9))
    encoder = build(3, 2, 2, 2, output_dim=2)
    assert exact((x, heads, output)) == encoder.run(x, heads, output, arithmetic="rational", exp=surrogate)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.permutations(range(4)))
def test_laws_of_attention(seed, order):
    x, heads, _ = rational_layer(Shape.read(4, 2, 1, 2), np.random.default_rng(seed), top=3)
    whole = exact((x, heads, None))
    # Rows of X permuted: rows of the result permuted.
    assert exact(([x[i] for i in order], heads, None)) == [whole[i] for i in order]
    # h heads are h single heads side by side.
    apart = [exact((x, [head], None)) for head in heads]
    assert whole == [first + second for first, second in zip(*apart, strict=True)]
    # Linear in V.
    (a, v), (_, other) = heads
    summed = [[p + 3 * q for p, q in zip(r, s, strict=True)] for r, s in zip(v, other, strict=True)]
    shifted = exact((x, [(a, other)], None))
    wanted = [[p + 3 * q for p, q in zip(r, s, strict=True)] for r, s in zip(apart[0], shifted, strict=True)]
    assert exact((x, [(a, summed)], None)) == wanted


def test_scores_shifted_along_rows_leave_the_result():
    # With a constant coordinate in X, A + w b^T for the unit vector b of it adds w.x_i to row i of the scores.
    rng = np.random.default_rng(6)
    x = np.column_stack([rng.normal(size=(4, 2)), np.ones(4)])
    a, v, w = rng.normal(size=(3, 3)), rng.normal(size=(3, 2)), rng.normal(size=3)
    moved = a + np.outer(w, [0.0, 0.0, 1.0])
    np.testing.assert_allclose(
        simulate(x, [(moved, v)]).result, simulate(x, [(a, v)]).result, rtol=0, atol=1e-13
    )
    assert not np.allclose(
        simulate(x, [(a + np.outer([0.0, 0.0, 1.0], w), v)]).result, simulate(x, [(a, v)]).result
    )


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_the_depth_is_constant_and_heads_as_stated(arrangement):
    rng = np.random.default_rng(1)
    depths = {}
    for sizes in [
        (1, 1, 1),
        (4, 2, 2),
        (2, 3, 2),
        (5, 2, 3),
        (3, 3, 3, 1, 2),
        (1, 1, 1, 2),
        (2, 2, 2, 3),
        (3, 2, 1, 2, 4),
    ]:
        shape = Shape.read(*sizes)
        run = simulate(*float_layer(shape, rng, 0.3), arrangement=arrangement).run
        depths.setdefault((shape.heads == 1, shape.output_dim is None), set()).add(run.layers)
        assert run.maps_used == {"product", "exp", "division"}
        assert not any(head.reads_data for layer in run.heads for head in layer)
        if arrangement == "scratch" and shape.heads == 1 and shape.output_dim is None and min(sizes) > 1:
            # XA and XV share heads where d = d_v.
            shared = (4, 2, 2, 1, 1, 1, 1) if shape.d == shape.d_v else (5, 3, 2, 1, 1, 1, 1)
            assert run.heads_per_layer == shared
    assert depths == {(True, True): {7}, (True, False): {11}, (False, True): {9}, (False, False): {11}}


def test_heads_of_the_paper_arrangement_grow_with_the_products():
    for n, d in [(5, 3), (2, 2), (3, 4)]:
        run = simulate(*float_layer(Shape.read(n, d, d), np.random.default_rng(0), 0.1)).run
        assert run.heads_per_layer == (
            n + 2 * d + 1,  # rows of X, columns of A and of V, the transpose
            n * d + n,  # the entries of XA and XV, columns of the transpose
            n + d,  # rows of XA, columns of XV
            n * n,  # the scores
            1,  # sums of the softmax
            n,  # its rows
            n * d,  # the result
        )


def test_a_walk_through_the_layers():
    x, a, v = GOLDEN
    run = simulate(x, [(a, v)], arithmetic="rational", exp=surrogate, keep_steps=True).run
    assert [step.layer for step in run.steps if step.selector.label == "same row"] == [5]
    assert {step.layer for step in run.steps} == set(range(1, 8))
    # The fourth layer brings the scores, each as a mean of two products.
    scores = sum(step.brought for step in run.steps if step.layer == 4)
    assert [F(int(s.p), int(s.q)) * 2 for s in scores[:3]] == [F(-1, 6), F(8, 3), F(-5, 6)]
    assert simulate(x, [(a, v)]).run.steps == []


def test_identify_and_shift():
    kind = Rational()
    run = Rasp(kind, kind.array(range(1, 7)))
    kept = identify(run.tokens, 2, 3)
    assert [int(v.p) for v in kept.values] == [0, 0, 3, 4, 5, 0]
    assert [int(v.p) for v in shift(kept, 2).values] == [3, 4, 5, 0, 0, 0]
    assert [int(v.p) for v in shift(kept, -1).values] == [0, 0, 0, 3, 4, 5]


def test_a_shift_off_by_one_head_differs():
    shape = Shape.read(2, 2, 1, 3)
    kind = Rational(surrogate)
    layer = read_layer(*rational_layer(shape, np.random.default_rng(4)), kind)

    def heads(error):
        run = Rasp(kind, layer.sequence(kind), length_needed(shape))
        return many_heads_program(run, shape, shift_error=error).entries()

    right, wrong = heads(0), heads(1)
    assert right != wrong
    # It is the same heads in another order: the control changes nothing else.
    assert [row[1:] + row[:1] for row in right] == wrong


def test_one_input_alone():
    # The program takes one sequence; a number of A changed in it changes the result as T does.
    x, a, v = GOLDEN
    shape, kind = Shape.read(3, 2, 2), Rational(surrogate)
    sequence = [value for matrix in (x, a, v) for row in matrix for value in row]
    assert len(sequence) == shape.inputs
    sequence[shape.a_at(0) + 1] = F(9)
    run = Rasp(kind, kind.array(sequence), length_needed(shape))
    wanted = attention(x, [([[a[0][0], F(9)], a[1]], v)], arithmetic="rational", exp=surrogate)
    found = single_head_program(run, shape).entries()
    assert [[F(int(e.p), int(e.q)) for e in row] for row in found] == wanted


@pytest.mark.parametrize(
    ("x", "heads", "options", "error", "match"),
    [
        ([[1, 2], [3]], [([[1]], [[1]])], {}, ValueError, "unequal lengths"),
        ([], [([[1]], [[1]])], {}, ValueError, "empty"),
        ([[np.inf]], [([[1]], [[1]])], {}, ValueError, "finite"),
        ([[1]], [([[1, 2]], [[1]])], {}, ValueError, "A of head 0"),
        ([[1]], [], {}, ValueError, "at least one pair"),
        ([[1]], [([[1]], [[1]])], {"arrangement": "loop"}, ValueError, "arrangement is 'loop'"),
        ([[1]], [([[1]], [[1]])], {"arithmetic": "float32"}, ValueError, "arithmetic is 'float32'"),
        ([[1]], [([[1]], [[1]])], {"arithmetic": "rational"}, ValueError, "give exp="),
        ([[30.0]], [([[1]], [[1]])], {}, OverflowError, r"exp\(900\) exceeds float64"),
        ([[1e200]], [([[1e200]], [[1]])], {}, OverflowError, "exceeds float64"),
        ([[1.0]], [([[0.0]], [[1e308]])], {"output": [[1e10]]}, OverflowError, "exceeds float64"),
    ],
)
def test_simulate_refuses(x, heads, options, error, match):
    with pytest.raises(error, match=match):
        simulate(x, heads, **options)


def test_the_program_of_one_head_refuses_more():
    kind = Rational(surrogate)
    run = Rasp(kind, kind.array([1] * 20))
    with pytest.raises(ValueError, match="use many_heads_program"):
        single_head_program(run, Shape.read(1, 1, 1, 2))
