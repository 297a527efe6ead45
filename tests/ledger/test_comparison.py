"""Drift: planted one kind at a time, named in text and in Markdown; and the arithmetic of what is allowed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion import ledger as notebook_api
from attention_companion.ledger.baseline import entry_from
from attention_companion.ledger.collect import Ledger
from attention_companion.ledger.comparison import allowance, compare, drift_markdown, drift_text, failing

pytestmark = pytest.mark.torch_free

Toy = Callable[..., Ledger]
DATA = {"mnist": {"digest": {"train": "aa"}, "kind": "full"}}


@pytest.fixture
def settled(toy: Toy) -> tuple[Ledger, dict[str, Any]]:
    """A ledger and the baseline made from it."""
    found = toy(
        0.75,
        data=DATA,
        regime="d = 4",
        values={"share": 0.5, "count": 7},
        spread={"share": 0.1, "measured": 0.01},
    )
    return found, {"XOR-TOY": json.loads(json.dumps(entry_from(found.claims[0], "first run", "2025-01-02")))}


def test_a_ledger_agrees_with_its_own_baseline(settled: tuple[Ledger, dict[str, Any]]) -> None:
    found, baseline = settled
    assert compare(found, baseline) == []
    assert drift_markdown([], "quick") == "### Ledger (quick): agrees with the baseline\n"


def planted(path: list[str], value: Any) -> Callable[[dict[str, Any]], None]:
    def change(entry: dict[str, Any]) -> None:
        for key in path[:-1]:
            entry = entry[key]
        if value is None:
            entry.pop(path[-1])
        else:
            entry[path[-1]] = value

    return change


REGIME = ["regimes", "d = 4"]


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (
            planted(["verdict"], "contradicted"),
            "verdict",
            "XOR-TOY: the verdict was 'contradicted' and is now 'confirmed on range' (met in d = 4)",
        ),
        (
            planted([*REGIME, "outcome"], "undecided"),
            "outcome",
            "XOR-TOY (d = 4): the outcome was undecided and is now met",
        ),
        (
            planted([*REGIME, "method"], "exact"),
            "outcome",
            "XOR-TOY (d = 4): the method was exact and is now float",
        ),
        (
            planted([*REGIME, "measured"], 0.7425),
            "value",
            "XOR-TOY (d = 4): measured was 0.7425 and is now 0.75 (allowed: ±0.001 (0.001))",
        ),
        (
            planted([*REGIME, "values", "share"], 0.505),
            "value",
            "XOR-TOY (d = 4): values.share was 0.505 and is now 0.5 (allowed: ±0.001 (0.001))",
        ),
        (
            planted([*REGIME, "values", "share"], None),
            "value",
            "XOR-TOY (d = 4): values.share is missing in the baseline, present now",
        ),
        (
            planted([*REGIME, "values", "other"], 1.0),
            "value",
            "XOR-TOY (d = 4): values.other is present in the baseline, missing now",
        ),
        (
            planted(["expected"], "at least 0.6"),
            "expectation",
            "XOR-TOY: the expectation was 'at least 0.6' and is now 'at least 0.5'; "
            "tolerance_history does not give the reason",
        ),
        (
            planted(REGIME, None),
            "regime",
            "XOR-TOY (d = 4): missing in the baseline, checked now",
        ),
        (
            planted(["data", "mnist", "digest"], {"train": "bb"}),
            "not-compared",
            "XOR-TOY: not compared: data set mnist has another digest than in the baseline",
        ),
        (
            planted(["data", "mnist", "kind"], "sample"),
            "not-compared",
            "XOR-TOY: not compared: data set mnist is of kind 'full' here and 'sample' in the baseline",
        ),
        (
            planted(["data", "cifar10"], {"digest": "x", "kind": "full"}),
            "not-compared",
            "XOR-TOY: not compared: data set cifar10 is used only by the baseline",
        ),
    ],
)
def test_one_planted_difference_gives_one_named_line(
    settled: tuple[Ledger, dict[str, Any]], change: Callable[[dict[str, Any]], None], kind: str, text: str
) -> None:
    found, baseline = settled
    changed = copy.deepcopy(baseline)
    change(changed["XOR-TOY"])
    drift = compare(found, changed)
    assert [d.kind for d in drift] == [kind]
    assert drift_text(drift) == text
    assert "`XOR-TOY`" in drift_markdown(drift, "quick")
    assert bool(failing(drift, ci=False)) == (kind != "not-compared")
    assert failing(drift, ci=True)


def test_other_data_are_not_compared_even_when_the_verdict_differs(
    settled: tuple[Ledger, dict[str, Any]],
) -> None:
    found, baseline = settled
    changed = copy.deepcopy(baseline)
    changed["XOR-TOY"]["data"]["mnist"]["kind"] = "sample"
    changed["XOR-TOY"]["verdict"] = "contradicted"
    assert [d.kind for d in compare(found, changed)] == ["not-compared"]


def test_a_claim_without_an_entry_is_new(settled: tuple[Ledger, dict[str, Any]]) -> None:
    (item,) = compare(settled[0], {})
    assert item.kind == "new"
    assert item.text == "XOR-TOY: new: not in the baseline (verdict now: confirmed on range)"
    assert failing([item], ci=False)


def test_an_entry_without_a_check_is_an_orphan(settled: tuple[Ledger, dict[str, Any]]) -> None:
    found, baseline = settled
    (item,) = compare(found, {**baseline, "XOR-GONE": baseline["XOR-TOY"]})
    assert item.kind == "orphan"
    assert "no notebook checks it any more" in item.text


def test_a_result_of_another_profile_is_not_compared(settled: tuple[Ledger, dict[str, Any]]) -> None:
    found, baseline = settled
    found.claims[0]["depends_on"]["foreign_profile"] = (
        "the result is of profile 'full', which has no baseline here"
    )
    (item,) = compare(found, baseline)
    assert item.kind == "not-compared"
    assert "profile 'full'" in item.text


def test_markdown_survives_pipes_and_tags_in_values(settled: tuple[Ledger, dict[str, Any]]) -> None:
    found, baseline = settled
    changed = copy.deepcopy(baseline)
    changed["XOR-TOY"]["verdict"] = "a | <b>"
    text = drift_markdown(compare(found, changed), "quick")
    assert "a \\| &lt;b>" in text
    assert 'companion accept XOR-TOY --reason "..."' in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


def test_exact_records_must_agree_exactly_whatever_the_tolerance(toy: Toy) -> None:
    third, near = Fraction(2, 3), Fraction(2, 3) + Fraction(1, 10**40)
    old = toy(third, method="exact", values={"r": third})
    baseline = {"XOR-TOY": entry_from(old.claims[0], "x", "2025-01-02")}
    assert compare(toy(third, method="exact", values={"r": third}), baseline) == []
    moved = compare(toy(near, method="exact", values={"r": near}), baseline)
    assert [d.what for d in moved] == ["measured", "values.r"]
    assert all("allowed: exactly equal" in d.text for d in moved)


def test_shares_kept_as_fractions_follow_the_tolerance(toy: Toy) -> None:
    """A statistical share is exact arithmetic on a count that another machine may move."""
    kwargs = {"method": "statistical", "seeds": 10000}
    old = toy(Fraction(7500, 10000), interval=(Fraction(7, 10), Fraction(8, 10)), **kwargs)
    baseline = {"XOR-TOY": entry_from(old.claims[0], "x", "2025-01-02")}
    for hits, expected in ((7510, 0), (7511, 1)):
        now = toy(Fraction(hits, 10000), interval=(Fraction(7, 10), Fraction(8, 10)), **kwargs)
        assert len(compare(now, baseline)) == expected


def test_infinity_equals_itself_only(toy: Toy) -> None:
    baseline = {"XOR-TOY": entry_from(toy(float("inf")).claims[0], "x", "2025-01-02")}
    assert compare(toy(float("inf")), baseline) == []
    assert [d.kind for d in compare(toy(1e300), baseline)] == ["value"]


def test_noise_by_nature_is_shown_and_not_compared(
    toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    put_claims(fields(drift={"shown_only": ["noise"], "reason": "the value noise is noise"}))
    baseline = {
        "XOR-TOY": entry_from(toy(0.75, values={"noise": 1.0, "x": 1.0}).claims[0], "x", "2025-01-02")
    }
    assert [d.what for d in compare(toy(0.75, values={"noise": 9.0, "x": 2.0}), baseline)] == ["values.x"]


def test_a_truth_value_must_stay(
    toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    put_claims(fields(expectation={"operator": "true", "reason": "yes or no"}, under_specified="much"))
    no = notebook_api.Control("no", False)
    baseline = {"XOR-TOY": entry_from(toy(True, control=no).claims[0], "x", "2025-01-02")}
    now = toy(False, control=no, planted=notebook_api.Control("yes", True))
    assert [d.kind for d in compare(now, baseline)] == ["verdict", "outcome", "value"]


OLD = {
    "measured": 2.0,
    "measured_exact": None,
    "values": {"r": "1/3", "x": -4.0},
    "spread": {"measured": 0.5, "x": 1.0},
}


@pytest.mark.parametrize(
    ("name", "tolerance", "strict", "size", "words"),
    [
        ("measured", (0, 0, 0), False, 0.0, "exactly equal"),
        (
            "measured",
            (0.1, 0.01, 2),
            False,
            0.1 + 0.02 + 1.0,
            "0.1 + 0.01 of the value + 2 between-seed sd of 0.5",
        ),
        ("values.x", (0, 0.5, 1), False, 3.0, "0.5 of the value + 1 between-seed sd of 1"),
        ("values.r", (0.1, 0, 0), True, 0.0, "exactly equal"),
        ("values.r", (0.1, 0, 0), False, 0.1, "0.1"),
        ("measured", (0.1, 0, 0), True, 0.1, "0.1"),
    ],
)
def test_the_allowance_is_the_sum_of_its_parts(
    name: str, tolerance: tuple[float, float, float], strict: bool, size: float, words: str
) -> None:
    given_ = dict(zip(("abs", "rel", "between_seed_sd"), tolerance, strict=True))
    found = allowance(name, OLD, given_, strict=strict)
    assert found.size == pytest.approx(size)
    assert words in found.words


@settings(deadline=None)  # shared machines pause
@given(st.floats(-1e6, 1e6), st.floats(0, 10), st.floats(-2, 2))
def test_a_value_is_drift_exactly_when_it_leaves_the_allowance(
    base: float, allowed: float, share: float
) -> None:
    now = base + allowed * share
    entry = {
        "measured": base,
        "measured_exact": None,
        "values": {},
        "spread": {},
        "outcome": "met",
        "method": "float",
    }
    claim = {
        "tag": "XOR-TOY",
        "verdict": "confirmed on range",
        "expected": "x",
        "why": "x",
        "tolerance_history": [],
        "unavailable": False,
        "missing": [],
        "drift": {"abs": allowed, "rel": 0.0, "between_seed_sd": 0.0, "shown_only": ()},
        "depends_on": {"data": {}},
        "regimes": [{**entry, "measured": now, "regime": ""}],
    }
    baseline = {"verdict": claim["verdict"], "expected": "x", "data": {}, "regimes": {"": entry}}
    found = compare(Ledger("quick", "", [claim], {}, {}, []), {"XOR-TOY": baseline})
    assert bool(found) == (abs(Fraction(now) - Fraction(base)) > Fraction(allowed))
