"""Accepting: a reason is required, nothing else is touched, the file is whole at every moment."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attention_companion import ledger as notebook_api
from attention_companion.ledger import baseline as module
from attention_companion.ledger.baseline import (
    BaselineError,
    accept,
    baseline_path,
    load_baseline,
    write_atomically,
)
from attention_companion.ledger.collect import Ledger, collect, latest_path

pytestmark = pytest.mark.torch_free

NOTEBOOK = "10_toy"
Toy = Callable[..., Ledger]


def test_accepting_makes_the_drift_go_away(root: Path, toy: Toy) -> None:
    found = toy(0.75)
    assert [d["kind"] for d in found.drift] == ["new"]
    path = accept(root, "quick", "XOR-TOY", "  first run ", ledger=found, date="2025-01-02")
    assert path == root / "book/baseline/quick.json"
    entry = load_baseline(root, "quick")["XOR-TOY"]
    assert (entry["verdict"], entry["reason"], entry["date"]) == (
        "confirmed on range",
        "first run",
        "2025-01-02",
    )
    assert toy(0.75).drift == []
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_last_ledger_is_collected_anew_when_none_is_given(root: Path, toy: Toy) -> None:
    with pytest.raises(BaselineError, match="no ledger of profile 'quick' yet"):
        accept(root, "quick", "XOR-TOY", "x")
    latest_path(root, "quick").write_text(toy(0.75).to_json())
    accept(root, "quick", "XOR-TOY", "x")
    assert "XOR-TOY" in load_baseline(root, "quick")


def test_accepting_is_all_or_nothing(root: Path, toy: Toy) -> None:
    found = toy(0.75)
    with pytest.raises(BaselineError, match="XOR-NONE is neither checked"):
        accept(root, "quick", ["XOR-TOY", "XOR-NONE"], "x", ledger=found)
    assert not baseline_path(root, "quick").exists()


def test_other_entries_stay_as_they_are(
    root: Path, toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    accept(root, "quick", "XOR-TOY", "first", ledger=toy(0.75), date="2025-01-02")
    before = load_baseline(root, "quick")["XOR-TOY"]
    put_claims(fields(), fields(tag="XOR-MORE"))

    found = toy(0.9)
    other = {**found.claims[0], "tag": "XOR-MORE"}
    both = Ledger("quick", "", [found.claims[0], other], {}, {}, [])
    accept(root, "quick", "XOR-MORE", "second", ledger=both, date="2025-02-02")
    entries = load_baseline(root, "quick")
    assert entries["XOR-TOY"] == before
    assert entries["XOR-MORE"]["reason"] == "second"


@pytest.mark.parametrize("reason", ["", "   ", "\n"])
def test_a_reason_is_required(root: Path, toy: Toy, reason: str) -> None:
    with pytest.raises(BaselineError, match="needs a reason"):
        accept(root, "quick", "XOR-TOY", reason, ledger=toy(0.75))


def test_what_no_acceptance_can_mend_is_refused(root: Path, toy: Toy) -> None:
    passing = toy(0.75, control=notebook_api.Control("not broken", 0.9))
    with pytest.raises(BaselineError, match=r"cannot be accepted: .*the control passes"):
        accept(root, "quick", "XOR-TOY", "x", ledger=passing)


def test_a_ledger_of_another_profile_is_refused(root: Path, toy: Toy) -> None:
    with pytest.raises(BaselineError, match="of profile 'quick', not of 'full'"):
        accept(root, "full", "XOR-TOY", "x", ledger=toy(0.75))


def test_unavailable_claims_keep_their_baseline(root: Path, toy: Toy, run: Callable[..., Path]) -> None:
    accept(root, "quick", "XOR-TOY", "x", ledger=toy(0.75))
    folder = run(lambda: notebook_api.unavailable("XOR-TOY", "no data"))
    with pytest.raises(BaselineError, match="was not checked whole in this run"):
        accept(root, "quick", "XOR-TOY", "x", ledger=collect(root, "quick", {NOTEBOOK: folder}))
    assert "XOR-TOY" in load_baseline(root, "quick")


def test_a_changed_expectation_needs_its_history(
    root: Path, toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    accept(root, "quick", "XOR-TOY", "x", ledger=toy(0.75))
    new = {"operator": "ge", "value": 0.6, "reason": "x"}
    put_claims(fields(expectation=new))
    with pytest.raises(BaselineError, match="add an entry with the reason to its tolerance_history"):
        accept(root, "quick", "XOR-TOY", "x", ledger=toy(0.75))
    history = [
        {"date": "2025-03-04", "before": "at least 0.5", "after": "at least 0.6", "reason": "found a bug"}
    ]
    put_claims(fields(expectation=new, tolerance_history=history))
    accept(root, "quick", "XOR-TOY", "x", ledger=toy(0.75))
    assert load_baseline(root, "quick")["XOR-TOY"]["expected"] == "at least 0.6"


def test_accepting_an_orphan_removes_it(
    root: Path, toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    accept(root, "quick", "XOR-TOY", "x", ledger=toy(0.75))
    put_claims(fields(checked_by=None, not_checked="its chapter was dropped", drift=None))
    found = collect(root, "quick", {})
    assert [d["kind"] for d in found.drift] == ["orphan"]
    accept(root, "quick", "XOR-TOY", "dropped", ledger=found)
    assert load_baseline(root, "quick") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected schema 1"),
        ('{"schema": 2, "profile": "quick", "entries": {}}', "expected schema 1"),
        ('{"schema": 1, "profile": "full", "entries": {}}', "baseline of profile 'full', not of 'quick'"),
    ],
)
def test_a_damaged_baseline_is_an_error_and_stays(root: Path, toy: Toy, text: str, message: str) -> None:
    found = toy(0.75)
    path = baseline_path(root, "quick")
    path.write_text(text)
    with pytest.raises(BaselineError, match=message):
        load_baseline(root, "quick")
    with pytest.raises(BaselineError, match=message):
        accept(root, "quick", "XOR-TOY", "x", ledger=found)
    assert path.read_text() == text


@pytest.mark.parametrize("profile", ["", "../quick", "a/b", "Quick"])
def test_a_profile_is_a_plain_word(root: Path, profile: str) -> None:
    with pytest.raises(BaselineError, match="expected a word"):
        baseline_path(root, profile)


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    root: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = accept(root, "quick", "XOR-TOY", "first", ledger=toy(0.75))
    before, files = path.read_text(), sorted(path.parent.iterdir())

    def broken(handle: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(module.os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        accept(root, "quick", "XOR-TOY", "second", ledger=toy(0.8))
    assert path.read_text() == before
    assert sorted(path.parent.iterdir()) == files


def test_what_agrees_with_the_baseline_is_not_accepted_again(root: Path, toy: Toy) -> None:
    """A second acceptance would only overwrite the reason of the first."""
    path = accept(root, "quick", "XOR-TOY", "first", ledger=toy(0.75))
    before = path.read_text()
    with pytest.raises(BaselineError, match="agrees with the accepted baseline; there is nothing to accept"):
        accept(root, "quick", "XOR-TOY", "second", ledger=toy(0.75))
    assert path.read_text() == before


def test_content_reaches_the_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real_sync, real_rename = os.fsync, os.rename
    monkeypatch.setattr(module.os, "fsync", lambda fd: (calls.append("fsync"), real_sync(fd))[1])
    monkeypatch.setattr(module.os, "rename", lambda a, b: (calls.append("rename"), real_rename(a, b))[1])
    write_atomically(tmp_path / "x.json", "{}")
    assert calls == ["fsync", "rename", "fsync"]


def _accept_one(root: str, tag: str, found: Ledger, barrier: Any) -> None:
    barrier.wait()
    accept(Path(root), "quick", tag, f"by {tag}", ledger=found)


def test_eight_people_accepting_at_once_lose_nothing(root: Path, toy: Toy) -> None:
    claim = toy(0.75).claims[0]
    tags = [f"XOR-T{i}" for i in range(8)]
    found = Ledger("quick", "", [{**claim, "tag": t} for t in tags], {}, {}, [])
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(tags))
    workers = [context.Process(target=_accept_one, args=(str(root), t, found, barrier)) for t in tags]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [w.exitcode for w in workers] == [0] * len(tags)
    assert {t: e["reason"] for t, e in load_baseline(root, "quick").items()} == {t: f"by {t}" for t in tags}


def _rewrite_for_ever(path: str) -> None:
    number = 0
    while True:
        number += 1
        write_atomically(Path(path), json.dumps({"number": number, "filler": "x" * 200_000}))


@pytest.mark.slow
def test_a_kill_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "quick.json"
    context = multiprocessing.get_context("spawn")
    for seed in range(10):
        worker = context.Process(target=_rewrite_for_ever, args=(str(path),))
        worker.start()
        deadline = time.monotonic() + 30
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(random.Random(seed).uniform(0, 0.3))
        os.kill(worker.pid or 0, signal.SIGKILL)
        worker.join(10)
        assert set(json.loads(path.read_text())) == {"number", "filler"}
