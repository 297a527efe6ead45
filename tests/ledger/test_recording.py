"""record(): what it stores, what it refuses, and that nothing is written outside a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_companion import ledger
from attention_companion.ledger import recording
from attention_companion.ledger.recording import RecordError

pytestmark = pytest.mark.torch_free

CONTROL = ledger.Control("a broken toy", 0.1)


def record(measured: Any = 0.75, **changes: Any) -> ledger.Recorded:
    arguments: dict[str, Any] = {"method": "float", "checked_range": "one toy", "control": CONTROL, **changes}
    return ledger.record(arguments.pop("tag", "XOR-TOY"), measured, **arguments)


@pytest.fixture
def run_dir(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = root / "results" / "run"
    folder.mkdir()
    monkeypatch.setenv("ATTENTION_COMPANION_RUN_DIR", str(folder))
    monkeypatch.setenv("ATTENTION_COMPANION_NOTEBOOK", "10_toy")
    return folder


def test_outside_a_run_the_verdict_is_shown_and_nothing_is_written(root: Path) -> None:
    before = sorted(root.rglob("*"))
    again = [record(), record()]
    assert repr(again[1]) == "XOR-TOY: met; measured 0.75, expected at least 0.5; float"
    assert again[1].outcome == "met"
    assert sorted(root.rglob("*")) == before


def test_a_run_appends_one_line_a_record(run_dir: Path) -> None:
    record(
        Fraction(2, 3),
        method="exact",
        regime="d = 4",
        values={"n": 3, "r": Fraction(1, 3), "x": np.float64(0.5)},
    )
    record(
        0.25,
        method="statistical",
        regime="d = 9",
        interval=(0.2, 0.3),
        seeds=range(3),
        n=10,
        spread={"measured": 0.02},
        figure="toys",
        planted=ledger.Control("a true toy", 0.9),
    )
    first, second = [json.loads(x) for x in (run_dir / "records.jsonl").read_text().splitlines()]
    assert first["measured"] == pytest.approx(2 / 3)
    assert first["measured_exact"] == "2/3"
    assert first["values"] == {"n": "3", "r": "1/3", "x": 0.5}
    assert first["cell"] == "check-XOR-TOY--d-4"
    assert first["notebook"] == "10_toy"
    assert first["control"] == {
        "description": "a broken toy",
        "interval": None,
        "measured": 0.1,
        "measured_exact": None,
        "outcome": "unmet",
    }
    assert first["seconds"] >= 0
    assert first["peak_memory_bytes"] > 1_000_000
    assert second["measured_exact"] is None
    assert second["interval"] == [0.2, 0.3]
    assert second["seeds"] == [0, 1, 2]
    assert second["spread"] == {"measured": 0.02}
    assert second["planted"]["outcome"] == "met"
    assert second["outcome"] == "unmet"


def test_infinity_survives_the_file(run_dir: Path) -> None:
    record(float("inf"))
    entry = json.loads((run_dir / "records.jsonl").read_text())
    assert entry["measured"] == "inf"
    assert entry["outcome"] == "met"


def test_one_regime_is_recorded_once_a_run(run_dir: Path) -> None:
    record(regime="d = 4")
    with pytest.raises(RecordError, match="regime 'd=4' was already recorded in this run"):
        record(regime="d=4")
    record(regime="d = 5")
    assert len((run_dir / "records.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tag": "XOR-NONE"}, r"record\('XOR-NONE'\): no such claim in book/claims; there are XOR-TOY"),
        ({"measured": float("nan")}, "measured is NaN"),
        ({"measured": [0.5]}, "expected one number"),
        ({"measured": "0.5"}, "expected one number"),
        ({"measured": True}, "expects a number .* got the truth value"),
        ({"measured": 10**400}, "too large for a double"),
        ({"method": "guess"}, "method is 'guess'; expected one of proof, exact"),
        ({"checked_range": " "}, "say in words what was tried"),
        ({"control": None}, "a control is obligatory"),
        ({"control": 0.1}, "control is a float; pass a ledger.Control"),
        ({"planted": (1, 2)}, "planted is a tuple; pass a ledger.Control"),
        ({"control": ledger.Control("", 0.1)}, "the control has no description"),
        ({"control": ledger.Control("x", float("nan"))}, r"control \(x\) is NaN"),
        ({"control": ledger.Control("x", 0.1, (0.2, 0.3))}, r"control \(x\) = 0.1 lies outside its interval"),
        ({"method": "statistical"}, "needs both interval and seeds"),
        ({"method": "statistical", "interval": (0.7, 0.8)}, "needs both interval and seeds"),
        ({"method": "statistical", "seeds": 3}, "needs both interval and seeds"),
        ({"interval": (0.1, 0.2)}, r"measured = 0.75 lies outside its interval \[0.1, 0.2\]"),
        ({"interval": (0.8, 0.7)}, "lies outside its interval"),
        ({"interval": (0.7,)}, r"has 1 entries; expected \(low, high\)"),
        ({"interval": (float("nan"), 1)}, "lower end of measured is NaN"),
        ({"values": {"x": None}}, "value 'x' is None"),
        ({"values": {"x": float("nan")}}, "value 'x' is NaN"),
        ({"spread": {"y": 0.1}}, r"spread names \['y'\]"),
    ],
)
def test_a_call_that_cannot_stand_is_refused_and_writes_nothing(
    run_dir: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecordError, match=message) as caught:
        record(**{"measured": 0.75, **changes})
    assert "XOR-" in str(caught.value)
    assert not (run_dir / "records.jsonl").exists()


def test_a_missing_run_folder_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_COMPANION_RUN_DIR", str(root / "gone"))
    with pytest.raises(RecordError, match="which is no folder"):
        record()


def test_a_planted_case_may_stand_in_for_the_control(root: Path) -> None:
    entry = record(0.1, control=None, planted=ledger.Control("a true toy", 0.9)).entry
    assert entry["control"] is None
    assert entry["planted"]["outcome"] == "met"


def test_the_card_warns_of_a_control_that_does_not_fail(root: Path) -> None:
    passing = record(control=ledger.Control("not broken", 0.9))
    assert "The control does not fail (met)" in repr(passing)
    assert "The control does not fail (met)" in passing._repr_html_()
    unsure = record(control=ledger.Control("hardly broken", 0.5, (0.4, 0.6)))
    assert "The control does not fail (undecided)" in repr(unsure)
    planted = record(0.1, planted=ledger.Control("not true", 0.2))
    assert "The planted true case is not confirmed (unmet)" in repr(planted)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_card_is_escaped_and_holds_no_script_or_colour(root: Path) -> None:
    evil = "<script>alert(1)</script>\" onclick='x' & more"
    html = record(
        regime=evil, checked_range=evil, control=ledger.Control(evil, 0.1), planted=ledger.Control(evil, 0.9)
    )._repr_html_()
    found = Tags(html)
    assert "script" not in found.tags
    assert {name for name, _ in found.attributes} <= {"class", "id", "scope", "aria-hidden"}
    assert found.text.count(evil) == 5
    assert "✓ met" in found.text
    assert "style" not in html


def test_the_first_regime_also_carries_the_plain_anchor(root: Path) -> None:
    first, second = record(regime="d = 4"), record(regime="d = 5")
    assert 'id="check-XOR-TOY--d-4"' in first._repr_html_()
    assert 'id="check-XOR-TOY"' in first._repr_html_()
    assert 'id="check-XOR-TOY"' not in second._repr_html_()
    again = record(regime="d = 4")
    assert 'id="check-XOR-TOY"' in again._repr_html_(), "running a cell again in JupyterLab keeps the anchor"


def test_without_regimes_the_anchor_is_the_plain_one(root: Path) -> None:
    html = record()._repr_html_()
    assert html.count('id="check-XOR-TOY"') == 1


def test_unavailable_writes_a_record_without_a_number(run_dir: Path) -> None:
    shown = ledger.unavailable("XOR-TOY", "only the bundled sample of toys is here")
    entry = json.loads((run_dir / "records.jsonl").read_text())
    assert entry["outcome"] == "unavailable"
    assert entry["checked_range"] == "only the bundled sample of toys is here"
    assert "not checked in this run: only the bundled sample" in repr(shown)
    assert "only the bundled sample" in shown._repr_html_()
    with pytest.raises(RecordError, match="give the reason"):
        ledger.unavailable("XOR-TOY", " ")
    with pytest.raises(RecordError, match="no such claim"):
        ledger.unavailable("XOR-NONE", "x")


def test_seconds_count_from_the_record_before(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 12.5])
    monkeypatch.setattr(recording.time, "perf_counter", lambda: next(times))
    monkeypatch.setitem(recording._clock, "last", 9.0)
    assert [record().entry["seconds"], record().entry["seconds"]] == [1.0, 2.5]


def test_a_truth_value_is_judged(
    root: Path, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    put_claims(fields(expectation={"operator": "true", "reason": "yes or no"}))
    entry = record(np.bool_(True), control=ledger.Control("a false toy", False)).entry
    assert entry["outcome"] == "met"
    assert entry["measured"] is True
    assert entry["control"]["outcome"] == "unmet"
