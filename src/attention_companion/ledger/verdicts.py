"""From numbers to words: the outcome of one regime, and the verdict of a claim. Nothing here is ever typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from attention_companion.ledger.models import Claim, Expectation
from attention_companion.ledger.numbers import Number, is_exact

Outcome: TypeAlias = Literal["met", "unmet", "undecided"]
Method: TypeAlias = Literal["proof", "exact", "enclosure", "float", "statistical"]
METHODS: tuple[Method, ...] = ("proof", "exact", "enclosure", "float", "statistical")

CONFIRMED = "confirmed"
ON_RANGE = "confirmed on range"
REGIME = "regime-dependent"
CONTRADICTED = "contradicted"
NOT_REPRODUCED = "not reproduced: recipe under-specified"
UNDECIDED = "undecided"
NOT_CHECKED = "not checked"
VERDICTS = (CONFIRMED, ON_RANGE, REGIME, CONTRADICTED, NOT_REPRODUCED, UNDECIDED, NOT_CHECKED)

Interval: TypeAlias = tuple[Number, Number]


class ExpectationError(TypeError):
    """A measured value of the wrong kind for its claim's expectation."""


def outcome(expectation: Expectation, measured: Number, interval: Interval | None = None) -> Outcome:
    """Whether `measured` meets `expectation`.

    With an interval the whole interval must lie on one side: inside the bounds is met, outside is unmet, and an
    interval that straddles a bound is undecided. Exact numbers are compared as rationals; a double is compared with
    the bound rounded once to double, so that 0.95 meets "at least 0.95".

    Raises `ExpectationError` when 'true' is given a number or a number's operator a truth value.
    """
    if expectation.operator == "true":
        if not isinstance(measured, bool):
            raise ExpectationError(f"the claim expects a truth value, got {measured!r}; record True or False")
        if interval is not None:
            raise ExpectationError("a truth value has no interval; leave interval out")
        return "met" if measured else "unmet"
    for x in (measured, *(interval or ())):
        if isinstance(x, bool):
            raise ExpectationError(
                f"the claim expects a number ({expectation.words()}), got the truth value {x!r}"
            )
    low, high = (measured, measured) if interval is None else interval
    below, above = _inside(expectation, low), _inside(expectation, high)
    if below and above:
        return "met"
    if below or above:
        return "undecided"
    # Both ends lie outside; they may still enclose the accepted region, and then nothing is decided.
    return "undecided" if _side(expectation, low) != _side(expectation, high) else "unmet"


def _compare(x: Number, bound: Fraction) -> int:
    """-1, 0 or 1 as `x` is below, at or above `bound`."""
    if is_exact(x):
        return (x > bound) - (x < bound)
    rounded = float(bound)
    return (x > rounded) - (x < rounded)


def _inside(expectation: Expectation, x: Number) -> bool:
    return _side(expectation, x) == 0


def _side(expectation: Expectation, x: Number) -> int:
    """-1 below the accepted region, 0 inside, 1 above. Bounds are inside, except for 'lt' and 'gt'."""
    lower, upper = expectation.bounds()
    if lower is not None:
        order = _compare(x, lower)
        if order < 0 or (order == 0 and expectation.operator == "gt"):
            return -1
    if upper is not None:
        order = _compare(x, upper)
        if order > 0 or (order == 0 and expectation.operator == "lt"):
            return 1
    return 0


@dataclass(frozen=True)
class RegimeOutcome:
    """What one call of record() came to under the claim as it stands now."""

    regime: str
    outcome: Outcome
    method: Method


@dataclass(frozen=True)
class Verdict:
    """The word, and one sentence that says why."""

    word: str
    why: str


def verdict(claim: Claim, regimes: Sequence[RegimeOutcome]) -> Verdict:
    """The verdict of `claim` from the outcomes of its regimes.

    "confirmed" needs a written argument for all cases and a machine proof, with nothing weaker than exact arithmetic
    beside it; everything else that is met everywhere is "confirmed on range". "regime-dependent" means exactly that
    some regimes are met and others are not. An undecided regime never counts for either side.
    """
    if not regimes:
        return Verdict(NOT_CHECKED, claim.not_checked or "its check did not run")
    met = [r for r in regimes if r.outcome == "met"]
    unmet = [r for r in regimes if r.outcome == "unmet"]
    open_ = [r for r in regimes if r.outcome == "undecided"]
    rest = f"; undecided, so outside this verdict: {_names(open_)}" if open_ else ""
    if met and unmet:
        return Verdict(REGIME, f"met in {_names(met)}; not met in {_names(unmet)}{rest}")
    if met:
        methods = {r.method for r in met}
        if claim.argument and not open_ and "proof" in methods and methods <= {"proof", "exact"}:
            proved = _names([r for r in met if r.method == "proof"])
            why = f"met in {_names(met)}; machine proof: {proved}; argument for all cases: {claim.argument}"
            return Verdict(CONFIRMED, why)
        return Verdict(ON_RANGE, f"met in {_names(met)}{rest}")
    if unmet and open_:
        # What is undecided may yet be met, so the claim is not contradicted everywhere.
        return Verdict(UNDECIDED, f"not met in {_names(unmet)}{rest}")
    if unmet:
        if claim.under_specified:
            why = f"no reading tried gives it ({_names(unmet)}); left unsaid: {claim.under_specified}"
            return Verdict(NOT_REPRODUCED, why)
        return Verdict(CONTRADICTED, f"not met in {_names(unmet)}")
    return Verdict(UNDECIDED, f"the intervals straddle the bound in {_names(open_)}; more seeds would decide")


def _names(regimes: Sequence[RegimeOutcome]) -> str:
    """The regimes by name; the nameless one is 'the range checked'."""
    return ", ".join(r.regime or "the range checked" for r in regimes)
