"""The experiments of the chapters on U and on many heads: they count what they say, and notice what is wrong."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest

from attention_companion.simulator import Shape, build
from attention_companion.simulator.arithmetic import Float
from attention_companion.simulator.experiments import (
    fooled,
    many_heads,
    mechanisms,
    one_input,
    universal,
    walk,
)

from .layers import GOLDEN

pytestmark = pytest.mark.torch_free


def test_a_range_holds_all_its_shapes():
    shapes = universal.shapes_up_to(3, (1, 2))
    assert len(shapes) == len(set(shapes)) == 2 * 27
    assert max(shapes) == (3, 3, 3, 2)
    for largest, heads in ((0, (1,)), (2, ()), (2, (0,))):
        with pytest.raises(ValueError, match="at least one shape"):
            universal.shapes_up_to(largest, heads)


@pytest.mark.parametrize("layout", ["positional", "paper", "constant", "universal"])
def test_encoders_are_proved_and_changed_ones_are_not(layout):
    shapes = [(2, 1, 2, 1), (1, 2, 1, 1)]
    good = universal.prove_encoders(layout, shapes)
    assert (good.shapes, good.failures, good.not_proved) == (2, 0, [])
    assert good.terms > 0
    bad = universal.prove_changed_encoders(layout, shapes)
    assert (2, 1, 2, 1) in bad.not_proved
    assert bad.refuted == bad.failures
    with_output = universal.prove_encoders(layout, shapes[:1], 2)
    assert with_output.failures == 0
    assert with_output.terms > good.terms / 2


def test_programs_are_proved_and_a_shift_off_by_one_is_not():
    assert universal.prove_programs("single_head", [(2, 1, 2)]).failures == 0
    assert universal.prove_programs("many_heads_output", [(2, 1, 1, 2)], 2).failures == 0
    assert universal.prove_programs("many_heads", [(2, 1, 1, 2)], shift_error=1).not_proved == [(2, 1, 1, 2)]


def test_exact_runs_agree_and_another_exponential_does_not():
    layouts, shapes = ["positional", "program"], [(3, 2, 1, 1), (2, 1, 1, 2, 3)]
    assert universal.exact_mismatches(layouts, shapes, 1, 0) == 0
    assert universal.exact_mismatches(layouts, shapes, 1, 0, targets_exp=lambda x: 2 + x * x) == 4
    assert (
        universal.misread_mismatches([(2, 2, 1, 1), (3, 1, 1, 1)], 1, 0) == 1
    )  # a 1 x 1 matrix is its own transpose


def test_the_decimal_reference_is_the_one_of_mpmath():
    x, a, v = GOLDEN
    ours = universal.decimal_attention(x, [(a, v)], [[F(1)], [F(1, 3)]])
    with mpmath.workdps(70):

        def convert(matrix):
            return mpmath.matrix(
                [[mpmath.mpf(F(e).numerator) / F(e).denominator for e in row] for row in matrix]
            )

        mx, ma, mv = (convert(matrix) for matrix in (x, a, v))
        scores, values = mx * ma * mx.T, mx * mv
        for i in range(3):
            powers = [mpmath.exp(scores[i, j]) for j in range(3)]
            row = [sum(powers[j] * values[j, c] for j in range(3)) / sum(powers) for c in range(2)]
            assert abs(mpmath.mpf(str(ours[i][0])) - (row[0] + row[1] / 3)) < mpmath.mpf(10) ** -60


def test_balls_meet_the_reference_and_miss_a_moved_one():
    shapes = [(2, 2, 1, 1), (2, 1, 1, 2, 2)]
    found = universal.enclosures(["positional", "program"], shapes, 200, 0)
    assert (found.entries, found.missed) == (12, 0)
    assert 0 < found.radius < 1e-50
    assert universal.enclosures(["positional"], shapes, 200, 0, shift=Decimal(10) ** -48).missed == 6


def test_zero_over_zero_fools_only_the_credulous():
    layouts, shapes = ["positional", "paper", "constant", "universal"], [(2, 1, 1, 1), (1, 2, 1, 1)]
    assert fooled.zero_over_zero_accepted(layouts, shapes) == 0
    assert fooled.zero_over_zero_accepted(layouts, shapes, credulous=True) == 8
    # It is not that the credulous one accepts everything.
    encoder = build(2, 1, 1)
    assert fooled.credulous_proof(encoder)
    other = one_input.with_baked_matrix(encoder, F(3))
    assert not fooled.credulous_proof(type(encoder)(other, encoder.shape, "changed"))


def test_the_walk_shows_the_matrices_on_the_way():
    encoder = build(2, 2, 1)
    x, a, v = np.array([[1, -1], [2, 1]]), np.array([[1, 1], [0, -1]]), np.array([[1], [2]])
    cells = walk.cells(encoder, (x.tolist(), [(a.tolist(), v.tolist())], None), Float())
    shown = {
        name: [cell.value for cell in cells if cell.name == name]
        for name in dict.fromkeys(c.name for c in cells)
    }
    scores = x @ a @ x.T
    np.testing.assert_allclose(shown["XA"], (x @ a).ravel())
    np.testing.assert_allclose(shown["XV"], (x @ v).ravel())
    np.testing.assert_allclose(shown["score"], scores.ravel())
    np.testing.assert_allclose(shown["exp"], np.exp(scores).ravel())
    np.testing.assert_allclose(
        shown["result"], (np.exp(scores) @ x @ v / np.exp(scores).sum(1)[:, None]).ravel()
    )
    table = walk.table(encoder, cells, str)
    assert len(table) == encoder.length
    assert table[0][:2] == ["0", "BOS"]
    assert table[5][1] == "A 0,0"
    with pytest.raises(ValueError, match="the walk knows positional"):
        walk.cells(build(2, 1, 1, layout="paper"), ([[1], [1]], [([[1]], [[1]])], None), Float())


def test_the_links_are_the_addresses_of_the_argument():
    n, d, d_v = 3, 2, 2
    encoder = build(n, d, d_v)
    read = {
        (link.block, link.query, walk.what_is_read(encoder, link), link.key) for link in walk.links(encoder)
    }
    wanted = set()
    for i in range(n):
        for c in range(d):
            for k in range(d):
                role = 1 + i * d + k
                wanted |= {(0, role, "X", 1 + i * d + c), (0, role, "A", 1 + n * d + c * d + k)}
            for v in range(d_v):
                role = 1 + i * d_v + v
                wanted |= {(0, role, "X", 1 + i * d + c), (0, role, "V", 1 + n * d + d * d + c * d_v + v)}
            for j in range(n):
                role = 1 + i * n + j
                wanted |= {(1, role, "XA", 1 + i * d + c), (1, role, "X", 1 + j * d + c)}
        for v in range(d_v):
            for j in range(n):
                role = 1 + i * d_v + v
                wanted |= {(2, role, "exp", 1 + i * n + j), (2, role, "XV", 1 + j * d_v + v)}
    assert read == wanted


def test_links_of_means_have_one_key_for_each_member():
    encoder = build(3, 1, 1, layout="constant")
    last = [link for link in walk.links(encoder) if link.block == encoder.layers - 1]
    by_query = {}
    for link in last:
        by_query.setdefault((link.query, link.target), []).append(link.key)
    assert by_query
    assert all(len(keys) == len(set(keys)) == 3 for keys in by_query.values())


@pytest.mark.parametrize("layout", ["positional", "universal", "program"])
def test_one_sequence_is_all_that_is_read(layout):
    assert one_input.reads_one_input(layout, (2, 2, 1), 2, 0)


def test_a_matrix_in_the_weights_is_noticed():
    assert not one_input.baked_reads_one_input(3, 3, 0)
    with pytest.raises(ValueError, match="positional encoder for d = 1"):
        one_input.with_baked_matrix(build(2, 2, 1), F(1))


def test_nothing_moves_in_a_built_encoder_but_in_a_trained_one(monkeypatch):
    assert one_input.changes(["positional"], [(2, 1, 1)], 2, 0) == 0
    assert one_input.trained_changes(3, 20, 0) == 2
    monkeypatch.setattr(one_input, "fingerprint", lambda machine: object())
    assert one_input.changes(["positional"], [(2, 1, 1)], 2, 0) == 2


def test_plain_layers_are_simulated_and_others_are_not():
    assert mechanisms.plain(4, 2, 2, 2, 3, "positional", 0) < 1e-13
    assert mechanisms.with_biases(4, 2, 3, "constant", 0) < 1e-13
    assert mechanisms.hardest_only(5, 2, "positional", 0) > 1e-3
    assert mechanisms.causal(5, 2, "positional", 0) > 1e-3


def test_heads_apart_are_the_heads_together_in_order():
    layouts, shapes = ["positional", "program"], [(2, 1, 1, 2)]
    assert many_heads.apart_mismatches(layouts, shapes, 1, 0) == 0
    assert many_heads.apart_mismatches(layouts, shapes, 1, 0, reverse=True) == 2


def test_identify_and_shift_bring_a_block_to_the_first_heads_place():
    shape = Shape.read(2, 1, 2, 3)
    stages = many_heads.identify_and_shift(shape, 2)
    assert stages.identified.tolist() == [0] * 8 + [9, 10, 11]
    assert stages.shifted.tolist() == [0, 0, 9, 10, 11, *[0] * 6]
    assert stages.links == [(2, 8), (3, 9), (4, 10)]
    assert many_heads.identify_and_shift(shape, 2, shift_error=1).shifted.tolist() == [
        0,
        0,
        3,
        4,
        5,
        *[0] * 6,
    ]
    with pytest.raises(ValueError, match=r"heads of .* are 0\.\.2"):
        many_heads.identify_and_shift(shape, 3)
