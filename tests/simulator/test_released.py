"""The released choices as options of our programs: they reproduce every recorded run, and the mended values mend."""

from __future__ import annotations

import importlib.util
import math
from fractions import Fraction as F
from pathlib import Path

import pytest

from attention_companion.simulator.arithmetic import Rational
from attention_companion.simulator.experiments import (
    released,
    released_checks,
    released_run,
    released_softmax,
)
from attention_companion.simulator.rasp import Rasp


def run_on(tokens, **options):
    kind = Rational(lambda x: 1 + x + x * x)
    return Rasp(kind, kind.array(tokens), **options)


def test_the_programs_reproduce_every_run_and_another_choice_does_not(monkeypatch):
    assert released_checks.stride_described() == 0
    assert released_checks.inverse_described() == 0
    assert released_softmax.softmax_described("softmax, 3 x k", F("2.718"))
    assert not released_softmax.softmax_described("softmax, 3 x k", F("2.7183"))
    tokens, got = released_run.RUNS["product, 3 x k x 3"][1]
    moved = {**released_run.RUNS, "product, 3 x k x 3": [(tokens, [got[0] + 1, *got[1:]])]}
    monkeypatch.setattr(released_run, "RUNS", moved)
    assert released_checks.stride_described() == 1


def test_the_product_with_its_own_stride_is_proved_wherever_it_fits():
    for r, k, c in [(2, 3, 2), (3, 2, 4), (1, 1, 5), (4, 2, 4)]:
        assert released_checks.product_is_right(r, k, c)
    assert not released_checks.product_is_right(3, 1, 3)
    assert released_checks.product_is_right(3, 1, 3, length=9)
    assert [k for k in range(1, 6) if released_checks.product_is_right(3, k, 3, stride=k)] == [3]


def test_lost_entries_are_counted():
    assert released_checks.entries_lost(3, 1, 3) == 3
    assert released_checks.entries_lost(3, 1, 3, padded=True) == 0
    assert released_checks.entries_lost(4, 2, 4) == 0
    assert released_checks.entries_lost(5, 2, 5) == 5


def test_counts_of_our_programs_are_those_of_the_runs():
    cases = {
        "transpose, square": (lambda run: released.transpose(run, 3, 3), [6, 54, 87, 16, 19, 7, 69, 27, 59]),
        "product, 3 x k x 4": (lambda run: released.product(run, 3, 2, 4), range(1, 15)),
        "softmax, 3 x 3": (lambda run: released.softmax(run, 3, 3), range(9)),
    }
    for name, (program, tokens) in cases.items():
        run = run_on(tokens)
        program(run)
        layers = [len(layer) for layer in run.heads]
        assert (len(layers), layers[1:]) == (len(released_run.HEADS[name]), released_run.HEADS[name][1:])
    assert released_checks.counts_that_differ(released_run.HEADS) == 0
    fewer = {name: heads[:-1] for name, heads in released_run.HEADS.items()}
    assert released_checks.counts_that_differ(fewer) >= 10


def test_the_largest_error_is_enclosed():
    for base in (F("2.718"), F("2.73"), F(3)):
        low, high = released_softmax.largest_error_of_two(base)
        seen = max(released_softmax.error_of_two(base, [i / 50 for i in range(400)]))
        assert seen <= high
        assert low <= high <= low * F(10002, 10000) + F(1, 10**14)
        assert seen > low * F(999, 1000)
    with pytest.raises(ValueError, match="positive base other than 1"):
        released_softmax.largest_error_of_two(F(1))
    assert released_softmax.error_of_two(F(4), [1.0]) == pytest.approx([0.8 - 1 / (1 + math.exp(-1))])


def test_maxmin_by_exchanges():
    letters = range(-5, 6)

    def pairs(tokens, odd_tokens="compare with 0"):
        run = run_on(tokens, basis=("product", "table"))
        answer = released.maxmin(run, letters, odd_tokens)
        assert run.layers == 2
        return [int(v.p) for v in answer.values]

    assert pairs([3, -5]) == [3, 3]
    assert pairs([3, -5], "compare with itself") == [3, -5]
    assert pairs([1, 2, 4, 3]) == [2, 1, 4, 3]
    assert released_checks.maxmin_law([3, -5, 1, 2, 2, 4]) == [False, False, True]
    with pytest.raises(ValueError, match="odd_tokens"):
        pairs([1, 2], "guess")
    assert released_checks.maxmin_described(2, -3) == 0
    assert released_checks.maxmin_described(2, -3, "compare with itself") > 0


def test_match2_and_its_two_choices():
    def bits(tokens, modulus, zero=None, average=False):
        run = run_on(tokens, basis=("table",), integer_selectors=True)
        return [int(v.p) for v in released.match2(run, modulus, sorted(set(tokens)), zero, average).values]

    golden = [63, 70, 77, 94, 67, 39]
    assert (
        bits(golden, 19) == bits(golden, 19, 19, True) == [int(b) for b in released_checks.released_bits(19)]
    )
    assert bits([0, 1], 3) == [1, 0]
    assert bits([0, 1], 3, zero=3) == [0, 0]
    assert bits([1, -1], 2) == [1, 1]
    assert bits([1, -1], 2, average=True) == [0, 0]
    tokens = released_checks.match2_tokens(2)
    assert all((t.defined != t.got) == (t.residue_zero or t.cancels) for t in tokens)
    assert any(t.cancels for t in tokens)
    assert any(t.residue_zero for t in tokens)


def test_the_inverse_is_proved_for_three_and_for_no_other_size():
    assert [released_checks.inverse_is_right(size) for size in (1, 2, 3, 4)] == [None, False, True, False]
    with pytest.raises(ZeroDivisionError):
        released.inverse(run_on([1, 2, 3, 1, 2, 3, 0, 0, 1]), 3)
    # For two rows the answer is +-1 over a difference: always singular, hence never an inverse.
    top, bottom = (
        [F(int(v.p), int(v.q)) for v in released.inverse(run_on([1, 2, 3, 4]), 2).values],
        [-1, 1, 1, -1],
    )
    assert top == bottom


def test_comparisons_with_runs_see_differences():
    assert released_checks.near([1.0, 2.0], [F(1), 2])
    assert not released_checks.near([1.0, 2.0], [F(1), F(21, 10)])
    assert not released_checks.near([1.0], [1, 2])
    assert not released_checks.near("division by zero", [1])
    assert released_checks.starts_with([1.0, 2.0, 9], [1, 2])
    assert not released_checks.starts_with([1.0], [1, 2])
    assert not released_checks.starts_with([1.0, 2.1], [1, 2])
    assert released_checks.transposes_are_right()
    assert set(released_checks.products_are_right().values()) == {True}
    assert not released_softmax.softmax_is_right("softmax, 3 x k")
    assert released_softmax.softmax_is_right("softmax, 3 x k", tolerance=1e-4)


def test_the_tool_that_wrote_the_constants_asks_for_what_they_hold():
    path = Path(__file__).parents[2] / "tools/released_rasp.py"
    spec = importlib.util.spec_from_file_location("released_rasp", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert list(released_run.HEADS) == list(released_run.ON_ONE_SEQUENCE) == list(tool.PROGRAMS)
    assert tool.ONE_SEQUENCE == released_run.ONE_SEQUENCE
    assert [tokens for tokens, _ in released_run.RUNS["product, 3 x k x 3"]][:2] == [
        tool.entries(6),
        tool.entries(12),
    ]
    assert tool.in_hex([int(bit) for bit in released_checks.released_bits(3)]) == released_run.MATCH2[3]
    assert tool.OUTPUT.samefile(released_run.__file__)
