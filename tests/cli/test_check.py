"""``companion check`` and ``companion accept``."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Mini

pytestmark = pytest.mark.torch_free

BASELINE = "book/baseline/quick.json"


def test_an_accepted_build_agrees(built: Mini) -> None:
    agreed = built.invoke("check")
    assert agreed.exit_code == 0, agreed.output
    assert "quick: 2 claims, 1 checked; all agree with the accepted baseline" in agreed.stdout


def test_a_value_that_left_the_baseline_is_named_and_fails(built: Mini) -> None:
    built.edit(BASELINE, '"total": "6"', '"total": "7"')
    drifted = built.invoke("check")
    assert drifted.exit_code == 1
    assert "drift: XOR-SUM: values.total was 7 and is now 6" in drifted.stdout
    assert "When CI says drift" in drifted.stdout


def test_a_verdict_that_follows_from_an_edited_expectation_is_seen_without_a_run(built: Mini) -> None:
    built.edit("book/claims/mini.yml", "operator: eq, value: 0", "operator: eq, value: 1")
    drifted = built.invoke("check")
    assert drifted.exit_code == 1
    assert "the verdict was 'confirmed on range' and is now 'contradicted'" in drifted.stdout


def test_markdown_for_a_job_summary(built: Mini) -> None:
    built.edit(BASELINE, '"total": "6"', '"total": "7"')
    report = built.invoke("check", "--markdown")
    assert report.exit_code == 1
    assert "| `XOR-SUM` |" in report.stdout
    assert 'companion accept XOR-SUM --reason "..."' in report.stdout


def test_a_claim_not_in_the_baseline_is_drift(built: Mini) -> None:
    (built.root / BASELINE).unlink()
    drifted = built.invoke("check")
    assert drifted.exit_code == 1
    assert "XOR-SUM: new" in drifted.stdout


def test_a_claim_that_cannot_be_compared_fails_in_ci_only(built: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.loads((built.root / BASELINE).read_text())
    content["entries"]["XOR-SUM"]["data"] = {"mnist": {"kind": "full", "digest": {}}}
    (built.root / BASELINE).write_text(json.dumps(content))
    lenient = built.invoke("check")
    assert lenient.exit_code == 0
    assert "note: XOR-SUM: not compared" in lenient.stdout
    monkeypatch.setenv("CI", "true")
    assert built.invoke("check").exit_code == 1


def test_a_source_edited_since_the_build_is_noted(built: Mini) -> None:
    built.edit("src/attention_companion/sums.py", "range(n + 1)", "range(1, n + 1)")
    noted = built.invoke("check")
    assert noted.exit_code == 0
    said = "note: 11_sum has changed since (source file src/attention_companion/sums.py changed)"
    assert said in noted.stdout
    assert f"- {said}" in built.invoke("check", "--markdown").stdout


def test_without_a_build_it_says_so(mini: Mini) -> None:
    refused = mini.invoke("check")
    assert refused.exit_code == 1
    assert "build the book first" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_an_unknown_profile_is_refused_with_the_list(mini: Mini) -> None:
    refused = mini.invoke("check", "--profile", "slow")
    assert refused.exit_code == 2
    assert "quick, full" in refused.stderr


def test_accepting_writes_reason_and_value_and_then_all_agrees(built: Mini) -> None:
    built.edit(BASELINE, '"total": "6"', '"total": "7"')
    assert built.invoke("check").exit_code == 1
    accepted = built.invoke("accept", "XOR-SUM", "--reason", "the count was off by one")
    assert accepted.exit_code == 0, accepted.output
    assert BASELINE in accepted.stdout
    entry = json.loads((built.root / BASELINE).read_text())["entries"]["XOR-SUM"]
    assert entry["reason"] == "the count was off by one"
    assert built.invoke("check").exit_code == 0


@pytest.mark.parametrize("arguments", [(), ("--reason", ""), ("--reason", "  ")])
def test_accepting_without_a_reason_is_refused_and_writes_nothing(built: Mini, arguments: tuple[str, ...]) -> None:
    before = built.files("book")
    assert built.invoke("accept", "XOR-SUM", *arguments).exit_code == 2
    assert built.files("book") == before


def test_accepting_an_unknown_claim_writes_nothing_not_even_for_the_known(built: Mini) -> None:
    built.edit(BASELINE, '"total": "6"', '"total": "7"')
    before = built.files("book")
    refused = built.invoke("accept", "XOR-SUM", "XOR-NOPE", "--reason", "because")
    assert refused.exit_code == 1
    assert "XOR-NOPE" in refused.stderr
    assert built.files("book") == before


def test_the_console_script_exits_with_the_same_statuses(built: Mini) -> None:
    """Once through the installed script itself: status, streams, no traceback."""
    import sys
    from pathlib import Path

    built.edit(BASELINE, '"total": "6"', '"total": "7"')
    script = Path(sys.executable).with_name("companion")
    done = subprocess.run([script, "check"], env=os.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "drift: XOR-SUM" in done.stdout
    assert done.stderr == ""
