"""``companion claim``: what is said, what was measured, what it depends on, and why it was run again or not."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from attention_companion.cli.explain import differences

if TYPE_CHECKING:
    from tests.cli.conftest import Mini

pytestmark = pytest.mark.torch_free


def told(mini: Mini, tag: str = "XOR-SUM") -> dict[str, str]:
    """Label -> text of what `companion claim` prints, wrapped lines joined."""
    shown = mini.invoke("claim", tag)
    assert shown.exit_code == 0, shown.output
    found: dict[str, str] = {}
    label = ""
    for line in shown.stdout.splitlines():
        if line.startswith(" " * 16):
            found[label] += " " + line.strip()
        elif ":" in line:
            label, text = line.split(":", 1)
            found[label.strip()] = text.strip()
            label = label.strip()
    return found


def test_everything_about_a_claim(built: Mini) -> None:
    said = told(built)
    assert said["statement"] == "The first n numbers add up to n (n + 1) / 2."
    assert said["source"] == "summary"
    assert said["printed"] == "exponent: n squared (summary)"
    assert said["expectation"] == "equals 0"
    assert said["verdict"] == "confirmed on range (quick): met in the range checked"
    assert said["baseline"].endswith("first run")
    assert said["measured"] == "0, met (exact)"
    assert said["range"] == "n = 3"
    assert said["control"] == "4, unmet: one too many"
    assert said["notebook"] == "notebooks/11_sum.md (quick)"
    assert "n = 3" in said["parameters"]
    assert "src/attention_companion/sums.py" in said["files"]
    assert "src/attention_companion/ledger/recording.py" in said["files"]
    assert said["data"] == "none"
    assert said["next build"] == "does not run it again: nothing it depends on has changed"


def test_a_tag_may_be_written_in_small_letters_and_a_wrong_one_is_answered_with_the_likely(built: Mini) -> None:
    assert told(built, "xor-sum")["statement"]
    refused = built.invoke("claim", "XOR-SOME")
    assert refused.exit_code == 2
    assert "did you mean XOR-SUM" in refused.stderr
    assert "XOR-LATER" in refused.stderr


def test_a_claim_that_nobody_checked_says_why(built: Mini) -> None:
    assert told(built, "XOR-LATER")["verdict"] == "not checked: chapter to come: the second part"


def test_before_the_first_build_it_says_what_to_do(mini: Mini) -> None:
    said = told(mini)
    assert said["verdict"] == "unknown: no quick build yet (`make book`)"
    assert said["was run"] == "never under this profile"
    assert said["next build"] == "runs it: there is no result yet"


@pytest.mark.parametrize(
    ("file", "before", "after", "reason"),
    [
        ("src/attention_companion/sums.py", "n + 1", "1 + n", "source file src/attention_companion/sums.py changed"),
        ("notebooks/11_sum.md", "it was asked to fail", "as asked", "the notebook's cells changed"),
        ("notebooks/notebooks.yml", "quick: {}\n      f", "quick: {n: 4}\n      f", "parameter n changed from 3 to 4"),
        ("constraints.txt", "numpy==1", "numpy==2", "the pinned versions (constraints.txt) changed"),
    ],
)
def test_the_changed_part_is_named(built: Mini, file: str, before: str, after: str, reason: str) -> None:
    built.edit(file, before, after)
    assert told(built)["next build"] == f"runs it: {reason}"


def test_a_touched_file_and_an_edited_stranger_change_nothing(built: Mini) -> None:
    (built.root / "src" / "attention_companion" / "sums.py").touch()
    (built.root / "src" / "attention_companion" / "stranger.py").write_text("x = 1\n")
    assert told(built)["next build"].startswith("does not run it again")


def test_a_damaged_result_is_told_from_a_changed_source(built: Mini) -> None:
    (records,) = (built.root / "results" / "quick" / "11_sum").glob("*/records.json")
    records.write_text(records.read_text() + "\n")
    assert "is damaged" in told(built)["next build"]


def test_why_the_result_in_use_was_run_is_read_from_the_one_before(built: Mini) -> None:
    assert told(built)["was run"].startswith("because there was no earlier result")
    (now,) = (built.root / "results" / "quick" / "11_sum").iterdir()
    older = now.with_name("0" * 20)
    shutil.copytree(now, older)
    content = json.loads((older / "result.json").read_text())
    content["key"] = older.name
    content["provenance"]["started"] = "2001-01-01T00:00:00"
    content["digests"]["source"]["src/attention_companion/sums.py"] = "another"
    (older / "result.json").write_text(json.dumps(content))
    expected = f"again after {older.name} because source file src/attention_companion/sums.py changed"
    assert told(built)["was run"] == expected


def test_a_drifted_claim_shows_the_drift(built: Mini) -> None:
    built.edit("book/baseline/quick.json", '"total": "6"', '"total": "7"')
    assert "values.total was 7 and is now 6" in told(built)["value"]


def test_differences_of_equal_digests_are_none() -> None:
    digests = {"notebook": "a", "source": {"x.py": "1"}, "data": {}}
    assert differences(digests, dict(digests)) == []


def test_differences_name_every_part() -> None:
    before = {
        "notebook": "a", "source": {"x.py": "1", "gone.py": "1"}, "data": {"mnist": {"digest": "d", "kind": "sample"}},
        "parameters": "p", "constraints": "c", "harness": "h",
    }  # fmt: skip
    after = {
        "notebook": "b", "source": {"x.py": "1", "new.py": "1"}, "data": {"mnist": {"digest": "e", "kind": "full"}},
        "parameters": "q", "constraints": "d", "harness": "i",
    }  # fmt: skip
    assert differences(before, after, {"n": 1, "old": 2}, {"n": 3, "new": 4}) == [
        "the notebook's cells changed",
        "parameter n changed from 1 to 3",
        "parameter new is new (4)",
        "parameter old is gone (it was 2)",
        "source file gone.py is no longer among what it depends on",
        "source file new.py is now among what it depends on",
        "data set mnist changed (sample -> full)",
        "the pinned versions (constraints.txt) changed",
        "the code that runs notebooks changed",
    ]


def test_an_unheard_of_part_is_not_lost() -> None:
    assert differences({"weather": "1"}, {"weather": "2"}) == ["weather changed"]
