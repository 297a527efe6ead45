"""Proofs of the programs on small sizes; controls are refuted at a concrete input, and no proof comes for free."""

from __future__ import annotations

import math
from fractions import Fraction as F

import pytest

from attention_companion.simulator import PROGRAMS, prove_all, prove_program
from attention_companion.simulator.arithmetic import Rational
from attention_companion.simulator.programs import proofs
from attention_companion.simulator.programs.matrices import product
from attention_companion.simulator.programs.ordered import Ordered, OrderUnknown
from attention_companion.simulator.programs.statements import STATEMENTS, Statement

SMALL = {
    "bijection": 3,
    "transpose": 3,
    "softmax": 3,
    "product": 3,
    "single_head": 2,
    "many_heads": 2,
    "many_heads_output": (2, 2, 1, 2, 2),
    "inverse": 3,
    "maxmin": 5,
    "relu": 3,
    "leaky_relu": 3,
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_program_is_proved_at_small_sizes(name):
    found = prove_all(name, SMALL[name])
    bounds = [SMALL[name]] * len(PROGRAMS[name]) if isinstance(SMALL[name], int) else SMALL[name]
    assert len(found) == (2 if name == "inverse" else math.prod(bounds))
    assert [proof.holds for proof in found] == [True] * len(found)
    assert all(proof.terms > 0 and proof.counterexample is None and not proof.why for proof in found)
    # Constant depth: one number of layers for all sizes.
    assert len({proof.layers for proof in found}) == 1


@pytest.mark.parametrize("name", ["product", "single_head", "many_heads_output"])
def test_the_scratch_arrangement_is_proved_with_a_constant_number_of_heads(name):
    found = prove_all(name, SMALL[name], arrangement="scratch")
    assert {proof.holds for proof in found} == {True}
    if name != "many_heads_output":
        small, large = (prove_program(name, *[size] * 3, arrangement="scratch") for size in (2, 3))
        assert large.holds
        assert large.heads_per_layer == small.heads_per_layer


@pytest.mark.parametrize(
    ("name", "sizes", "options"),
    [
        ("bijection", (2, 3), {"column_major": True}),
        ("transpose", (2, 3), {"stride": 4}),
        ("transpose", (2, 3), {"stride": 2}),
        ("product", (2, 3, 2), {"inner_stride": 4}),
        ("product", (2, 3, 2), {"inner_stride": 2, "arrangement": "scratch"}),
        ("softmax", (2, 3), {"factor": 2}),
        ("softmax", (2, 3), {"factor": 4}),
        ("maxmin", (4,), {"distance": 2}),
        ("maxmin", (4,), {"distance": 3}),
        ("relu", (2,), {"read": 1}),
        ("leaky_relu", (2,), {"read": 1}),
        ("many_heads", (2, 2, 1, 2), {"shift_error": 1}),
    ],
)
def test_controls_are_refuted_at_an_input(name, sizes, options):
    proof = prove_program(name, *sizes, **options)
    assert proof.holds is False
    assert proof.why
    assert all(isinstance(value, F) for value in proof.counterexample)


def test_a_control_that_changes_nothing_is_proved():
    # One head has no other to be shifted to; a single row needs no stride.
    assert prove_program("many_heads", 2, 2, 1, 1, shift_error=1).holds
    assert prove_program("product", 1, 3, 2, inner_stride=7).holds


def with_program(monkeypatch, program, **changes):
    old = STATEMENTS["softmax"]
    fields = {name: getattr(old, name) for name in Statement.__dataclass_fields__}
    monkeypatch.setitem(STATEMENTS, "softmax", Statement(**{**fields, "program": program, **changes}))


def test_a_divisor_that_vanishes_identically_proves_nothing(monkeypatch):
    # 0 / 0 against anything would compare 0 with 0.
    def program(run, sizes, options):
        nothing = run.tokens - run.tokens
        return list((nothing / nothing).values)

    with_program(monkeypatch, program)
    proof = prove_program("softmax", 1, 2)
    assert proof.holds is not True
    assert "identically 0" in proof.why


def test_a_divisor_that_may_vanish_proves_nothing(monkeypatch):
    # x / x is 1 as a quotient, yet fails where x = 0: the identity must not be taken for a proof.
    with_program(
        monkeypatch,
        lambda run, sizes, options: list((run.tokens / run.tokens).values),
        expected=lambda kind, tokens, sizes: [kind.number(1)] * 2,
    )
    proof = prove_program("softmax", 1, 2)
    assert (proof.holds, proof.counterexample) == (None, None)
    assert "may vanish" in proof.why


def test_exponentials_that_differ_are_not_confused(monkeypatch):
    with_program(
        monkeypatch,
        lambda run, sizes, options: list(run.tokens.exp().values),
        expected=lambda kind, tokens, sizes: list(kind.exp(kind.array(tokens[::-1]))),
    )
    proof = prove_program("softmax", 1, 2)
    assert proof.holds is False
    assert proof.counterexample[0] != proof.counterexample[1]


def test_the_inverse_is_proved_where_the_determinant_is_not_zero():
    assert prove_program("inverse", 3).where == "wherever the determinant is not 0"
    assert prove_program("product", 1, 1, 1).where == ""


def test_a_division_that_the_definition_lacks_is_no_proof(monkeypatch):
    # x inverse(A) / x is the inverse, yet fails at invertible matrices with x = 0.
    old = STATEMENTS["inverse"]

    def program(run, sizes, options):
        found = old.program(run, sizes, options)
        factor = run.tokens.values[:1].repeat(len(found))
        return list(run.kind.divide(run.kind.array(found) * factor, factor))

    fields = {name: getattr(old, name) for name in Statement.__dataclass_fields__}
    monkeypatch.setitem(STATEMENTS, "inverse", Statement(**{**fields, "program": program}))
    proof = prove_program("inverse", 2)
    assert (proof.holds, proof.counterexample) == (None, None)
    assert "may fail elsewhere" in proof.why


def test_relu_knows_only_signs_that_follow_from_the_order():
    kind = Ordered(1, 2)
    (free,), (gap, other) = kind.free, kind.gaps
    image = kind.relu(kind.array([gap, kind.minus(gap), gap + other, kind.number(0)]))
    assert [q.above for q in image] == [gap.above, 0 * gap.above, gap.above + other.above, 0 * gap.above]
    for unknown in (free, gap + kind.minus(other), free + gap):
        with pytest.raises(OrderUnknown, match="does not follow"):
            kind.relu(kind.array([unknown]))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: prove_program("sort", 2), ValueError, "program is 'sort'; choose one of"),
        (lambda: prove_all("sort", 2), ValueError, "program is 'sort'"),
        (
            lambda: prove_program("product", 2, 2),
            ValueError,
            "product takes the sizes rows, inner, columns; 2 given",
        ),
        (lambda: prove_all("product", (2, 2)), ValueError, "2 bounds given"),
        (lambda: prove_program("product", 2, 0, 2), ValueError, "inner is 0"),
        (lambda: prove_program("product", 2, 1.0, 2), TypeError, "inner is 1.0"),
        (lambda: prove_program("inverse", 4), ValueError, "4 x 4"),
        (lambda: prove_program("transpose", 2, 2, factor=1), TypeError, "factor"),
        (lambda: prove_program("relu", 11), ValueError, "orders; the proof goes through"),
    ],
)
def test_what_is_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_definitions_share_no_addresses_with_the_programs():
    # Expected values come from nested lists: a broken product must not break them too.
    kind = Rational()
    wanted = STATEMENTS["product"].expected(kind, list(kind.array([1, 2, 3, 4, 5, 6])), (1, 3, 1))
    assert [int(v.p) for v in wanted] == [32]
    assert product.__module__ != STATEMENTS["product"].expected.__module__
    assert proofs.PROGRAMS["inverse"] == ("size",)
