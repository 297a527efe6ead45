"""Outcomes at every operator and boundary; verdicts as a function of outcomes, by property."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.ledger.models import Claim, Expectation
from attention_companion.ledger.verdicts import (
    CONFIRMED,
    CONTRADICTED,
    METHODS,
    NOT_CHECKED,
    NOT_REPRODUCED,
    ON_RANGE,
    REGIME,
    UNDECIDED,
    VERDICTS,
    ExpectationError,
    RegimeOutcome,
    outcome,
    verdict,
)

pytestmark = pytest.mark.torch_free


def expect(operator: str, value: Any = None, tolerance: Any = 0) -> Expectation:
    return Expectation.model_validate(
        {"operator": operator, "value": value, "tolerance": tolerance, "reason": "test"}
    )


def up(x: float) -> float:
    return math.nextafter(x, math.inf)


def down(x: float) -> float:
    return math.nextafter(x, -math.inf)


@pytest.mark.parametrize(
    ("operator", "value", "tolerance", "met", "unmet"),
    [
        ("eq", 3, 0, [3, 3.0, Fraction(3)], [Fraction(3) + Fraction(1, 10**40), up(3.0), down(3.0), 4]),
        (
            "eq",
            1,
            0.25,
            [0.75, 1.25, Fraction(3, 4)],
            [down(0.75), up(1.25), Fraction(5, 4) + Fraction(1, 10**40)],
        ),
        (
            "le",
            0.95,
            0,
            [0.95, -math.inf, Fraction(19, 20)],
            [up(0.95), math.inf, Fraction(19, 20) + Fraction(1, 10**30)],
        ),
        (
            "ge",
            0.95,
            0,
            [0.95, math.inf, Fraction(19, 20)],
            [down(0.95), -1, Fraction(19, 20) - Fraction(1, 10**30)],
        ),
        ("lt", 2, 0, [down(2.0), 1], [2, 2.0, 3]),
        ("gt", 2, 0, [up(2.0), 3], [2, 2.0, 1]),
        ("le", 0, "1e-12", [1e-12, 0], [up(1e-12)]),
        ("lt", 2, 1, [down(3.0)], [3]),
        ("gt", 2, 1, [up(1.0)], [1]),
        ("between", [6, 9], 0, [6, 9, 7.5], [down(6.0), up(9.0)]),
        ("between", [6, 9], 1, [5, 10], [down(5.0), up(10.0)]),
        ("true", None, 0, [True], [False]),
    ],
)
def test_every_operator_at_its_boundary(
    operator: str, value: Any, tolerance: Any, met: list[Any], unmet: list[Any]
) -> None:
    expectation = expect(operator, value, tolerance)
    assert [outcome(expectation, x) for x in met] == ["met"] * len(met)
    assert [outcome(expectation, x) for x in unmet] == ["unmet"] * len(unmet)


@pytest.mark.parametrize(
    ("operator", "value", "interval", "expected"),
    [
        ("ge", 0.95, (0.95, 0.99), "met"),
        ("ge", 0.95, (0.94, 0.949), "unmet"),
        ("ge", 0.95, (0.94, 0.96), "undecided"),
        ("le", 1, (0.5, 1), "met"),
        ("le", 1, (1.1, 2), "unmet"),
        ("le", 1, (1, 2), "undecided"),
        ("gt", 1, (1, 2), "undecided"),
        ("lt", 1, (0, 1), "undecided"),
        ("gt", 1, (0, 1), "unmet"),
        ("eq", 1, (0.9, 1.1), "undecided"),
        ("eq", 1, (2, 3), "unmet"),
        ("eq", 1, (1, 1), "met"),
        ("between", [6, 9], (6, 9), "met"),
        ("between", [6, 9], (5, 7), "undecided"),
        ("between", [6, 9], (1, 2), "unmet"),
        ("between", [6, 9], (1, 20), "undecided"),
        ("ge", 0.5, (Fraction(1, 2), Fraction(3, 4)), "met"),
    ],
)
def test_an_interval_decides_only_when_it_lies_on_one_side(
    operator: str, value: Any, interval: Any, expected: str
) -> None:
    assert outcome(expect(operator, value), interval[0], interval) == expected


def test_truth_values_and_numbers_are_not_mixed() -> None:
    with pytest.raises(ExpectationError, match="expects a truth value, got 1"):
        outcome(expect("true"), 1)
    with pytest.raises(ExpectationError, match="has no interval"):
        outcome(expect("true"), True, (0, 1))
    with pytest.raises(ExpectationError, match=r"expects a number .*got the truth value True"):
        outcome(expect("ge", 0), True)


RATIONALS = st.fractions(min_value=-5, max_value=5, max_denominator=40)


@settings(deadline=None)  # shared machines pause
@given(st.sampled_from(["eq", "le", "ge", "lt", "gt", "between"]), RATIONALS, RATIONALS, st.data())
def test_outcomes_agree_with_every_point_of_the_interval(
    operator: str, a: Fraction, b: Fraction, data: st.DataObject
) -> None:
    """met: every point of the interval is met; unmet: none is. The judge knows only the ends."""
    value = [str(min(a, b)), str(max(a, b))] if operator == "between" else str(a)
    expectation = expect(operator, value, str(data.draw(st.fractions(0, 2, max_denominator=8))))
    low, high = sorted([data.draw(RATIONALS), data.draw(RATIONALS)])
    found = outcome(expectation, low, (low, high))
    steps = [low + (high - low) * Fraction(k, 16) for k in range(17)]
    words = {outcome(expectation, x) for x in steps}
    if found == "met":
        assert words == {"met"}
    elif found == "unmet":
        assert words == {"unmet"}
    else:
        assert low < high
        lower, upper = expectation.bounds()
        edges = [e for e in (lower, upper) if e is not None]
        assert any(low <= e <= high for e in edges)


@settings(deadline=None)  # shared machines pause
@given(st.sampled_from(["eq", "le", "ge"]), st.floats(-1e6, 1e6), RATIONALS)
def test_doubles_and_the_rationals_they_stand_for_agree_off_the_boundary(
    operator: str, x: float, bound: Fraction
) -> None:
    if Fraction(x) == bound or x == float(bound):
        return
    assert outcome(expect(operator, str(bound)), x) == outcome(expect(operator, str(bound)), Fraction(x))


@pytest.fixture(scope="module")
def claim_of() -> Callable[..., Claim]:
    def claim_of(**changes: Any) -> Claim:
        base = {
            "tag": "XOR-TOY",
            "paper": "sparse_xor",
            "place": "x",
            "source": "summary",
            "mark": "F",
            "kind": "theorem",
            "statement": "x",
            "quantifies": "x",
            "expectation": {"operator": "ge", "value": 0, "reason": "x"},
            "drift": {"reason": "x"},
            "control": "x",
            "refuted_by": "x",
            "stops_holding": "x",
            "checked_by": "toy",
        }
        return Claim.model_validate({**base, **changes})

    return claim_of


REGIMES = st.lists(
    st.builds(
        RegimeOutcome,
        st.text("abc", min_size=1, max_size=3),
        st.sampled_from(["met", "unmet", "undecided"]),
        st.sampled_from(METHODS),
    ),
    max_size=5,
)


@settings(deadline=None)  # shared machines pause
@given(REGIMES, st.booleans(), st.booleans())
def test_the_verdict_follows_from_the_outcomes(
    claim_of: Callable[..., Claim], regimes: list[RegimeOutcome], argued: bool, vague: bool
) -> None:
    claim = claim_of(argument="proofs#x" if argued else None, under_specified="much" if vague else None)
    found = verdict(claim, regimes)
    words = {r.outcome for r in regimes}
    assert found.word in VERDICTS
    assert found.why
    assert (found.word == REGIME) == ({"met", "unmet"} <= words)
    assert (found.word == NOT_CHECKED) == (not regimes)
    assert (found.word == UNDECIDED) == ("undecided" in words and "met" not in words)
    assert (found.word in (CONTRADICTED, NOT_REPRODUCED)) == (words == {"unmet"})
    if found.word in (CONTRADICTED, NOT_REPRODUCED):
        assert (found.word == NOT_REPRODUCED) == vague
    methods = {r.method for r in regimes}
    proved = words == {"met"} and "proof" in methods and methods <= {"proof", "exact"}
    assert (found.word == CONFIRMED) == (proved and argued)
    assert (found.word == ON_RANGE) == ("met" in words and "unmet" not in words and not (proved and argued))


def test_why_names_the_regimes(claim_of: Callable[..., Claim]) -> None:
    regimes = [
        RegimeOutcome("d = 16", "unmet", "float"),
        RegimeOutcome("d = 64", "met", "float"),
        RegimeOutcome("d = 32", "undecided", "float"),
    ]
    why = verdict(claim_of(), regimes).why
    assert why == "met in d = 64; not met in d = 16; undecided, so outside this verdict: d = 32"
    assert verdict(claim_of(), [RegimeOutcome("", "met", "float")]).why == "met in the range checked"


def test_a_claim_without_a_check_gives_its_typed_reason(claim_of: Callable[..., Claim]) -> None:
    claim = claim_of(checked_by=None, not_checked="chapter to come: 3")
    assert verdict(claim, []).why == "chapter to come: 3"
    assert verdict(claim_of(), []).why == "its check did not run"
