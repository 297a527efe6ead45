"""``companion run``: a person's own parameters, a folder of its own, and nothing else touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Mini

pytestmark = pytest.mark.torch_free

KEPT = ("results/quick", "book", "notebooks", "src")


def test_own_parameters_run_into_the_folder_asked_for_and_touch_nothing_else(built: Mini, tmp_path: Path) -> None:
    before = built.files(*KEPT)
    out = tmp_path / "my run"
    ran = built.invoke("run", "11", "-p", "n=5", "-p", "names=x,y", "--out", out)
    assert ran.exit_code == 0, ran.output
    assert built.files(*KEPT) == before
    assert json.loads((out / "result.json").read_text())["parameters"] == {"n": 5, "names": ["x", "y"], "loud": False}
    assert json.loads((out / "records.json").read_text())[0]["values"]["total"] == "15"  # exact, so kept as text
    assert str(out) in ran.stdout
    assert "XOR-SUM: confirmed on range (in this run only)" in ran.stdout
    assert "0, met (exact); expected: equals 0" in ran.stdout


def test_the_profiles_values_hold_where_nothing_is_said(built: Mini, tmp_path: Path) -> None:
    ran = built.invoke("run", "11_sum", "--profile", "full", "--out", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert json.loads((tmp_path / "out" / "result.json").read_text())["parameters"]["n"] == 10


def test_without_a_folder_it_goes_under_custom_and_the_book_does_not_see_it(built: Mini) -> None:
    before = built.files("results/quick", "book")
    ran = built.invoke("run", "11", "-p", "n=4")
    assert ran.exit_code == 0, ran.output
    (folder,) = (built.root / "results" / "custom").iterdir()
    assert folder.name.startswith("11_sum-")
    assert built.files("results/quick", "book") == before


def test_a_verdict_that_a_passing_control_makes_worthless_says_so(built: Mini, tmp_path: Path) -> None:
    built.edit("notebooks/11_sum.md", "total(n + 1) - n * (n + 1) // 2", "0")
    ran = built.invoke("run", "11", "--out", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert "BUT the control passes, so this says nothing: one too many" in ran.stdout


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("m=5", "unknown parameter 'm'"),
        ("n=many", "parameter 'n': expected int, got 'many'"),
        ("n=2.5", "parameter 'n'"),
        ("loud=perhaps", "expected true or false"),
        ("n", "expected name=value"),
    ],
)
def test_unknown_and_ill_typed_parameters_are_refused_with_the_valid_ones(
    mini: Mini, monkeypatch: pytest.MonkeyPatch, assignment: str, said: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it was run all the same")

    monkeypatch.setattr("attention_companion.execution.runner.run", never)
    refused = mini.invoke("run", "11", "-p", assignment)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert "n: int = 3  # how many are added" in refused.stderr
    assert not (mini.root / "results").exists()


def test_an_unknown_profile_is_refused_with_the_list(mini: Mini, tmp_path: Path) -> None:
    refused = mini.invoke("run", "11", "--profile", "slow", "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert "quick, full" in refused.stderr


@pytest.mark.parametrize("inside", ["results/quick/11_sum/abc", "results/data", "book/claims", "notebooks", "src/x"])
def test_the_projects_own_folders_are_no_place_for_a_run(mini: Mini, inside: str) -> None:
    refused = mini.invoke("run", "11", "--out", mini.root / inside)
    assert refused.exit_code == 2
    assert "among the project's own files" in refused.stderr


def test_a_folder_that_holds_something_else_is_refused(mini: Mini, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to_a_friend.txt").write_text("dear")
    refused = mini.invoke("run", "11", "--out", tmp_path / "letters")
    assert refused.exit_code == 2
    assert (tmp_path / "letters" / "to_a_friend.txt").read_text() == "dear"


def test_a_failing_notebook_shows_its_cell_and_where_the_partial_run_is_kept(mini: Mini, tmp_path: Path) -> None:
    failed = mini.invoke("run", "11", "-p", "loud=true", "--out", tmp_path / "out")
    assert failed.exit_code == 1
    assert "ValueError: it was asked to fail" in failed.stderr
    assert "if loud:" in failed.stderr
    assert str(mini.root / "results" / "failed") in failed.stderr
    assert 'File "' not in failed.stderr.split("The last lines")[0], "no traceback of the command itself"
    assert not (tmp_path / "out").exists()


def test_data_that_is_not_here_complete_is_asked_for_first(mini: Mini) -> None:
    refused = mini.invoke("run", "12")
    assert refused.exit_code == 2
    assert "companion data fetch mnist" in refused.stderr
    assert not (mini.root / "results" / "data").exists(), "a stamp of the sample would keep a build from fetching"
