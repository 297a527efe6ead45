"""``companion list``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from attention_companion.cli import console

if TYPE_CHECKING:
    from tests.cli.conftest import Mini

pytestmark = pytest.mark.torch_free


def test_it_shows_names_types_defaults_meaning_and_what_a_profile_changes(mini: Mini) -> None:
    shown = mini.invoke("list")
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.output.splitlines()]
    assert ["parameter", "type", "default", "full", "meaning"] in lines
    assert ["n", "int", "3", "10", "how", "many", "are", "added"] in lines
    assert ["names", "list[str]", "[a,", "b]", "written", "under", "the", "figure"] in lines
    assert ["loud", "bool", "false", "whether", "to", "fail"] in lines
    assert "part 3; data: mnist" in shown.output
    assert "profile quick: not run yet" in shown.output


def test_the_last_cost_comes_from_the_newest_result(built: Mini) -> None:
    (newest,) = (built.root / "results" / "quick" / "11_sum").glob("*/result.json")
    content = json.loads(newest.read_text())
    content["provenance"] |= {"seconds": 125.2, "peak_memory_bytes": 310_000_000, "started": "2030-01-01T00:00:00"}
    newest.write_text(json.dumps(content))
    older = newest.parent.parent / ("0" * 20)
    older.mkdir()
    content["provenance"] |= {"seconds": 1.0, "started": "2029-01-01T00:00:00"}
    (older / "result.json").write_text(json.dumps(content))
    shown = built.invoke("list", "11")
    assert "profile quick: last run took 2 min 05 s, peak memory 310.0 MB (2030-01-01T00:00:00)" in shown.output
    assert "profile full: not run yet" in shown.output


def test_a_result_that_cannot_be_read_is_passed_over(built: Mini) -> None:
    (newest,) = (built.root / "results" / "quick" / "11_sum").glob("*/result.json")
    newest.write_text("{")
    shown = built.invoke("list", "11")
    assert shown.exit_code == 0
    assert "profile quick: not run yet" in shown.output


def test_one_notebook_by_the_beginning_of_its_name(mini: Mini) -> None:
    assert mini.invoke("list", "12").output.startswith("12_images\n")
    assert mini.invoke("list", "notebooks/12_images.md").output.startswith("12_images\n")


@pytest.mark.parametrize(("asked", "said"), [("1", "begins several"), ("99", "no notebook"), ("", "no notebook")])
def test_a_name_that_fits_none_or_several_is_refused_with_the_list(mini: Mini, asked: str, said: str) -> None:
    refused = mini.invoke("list", asked)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert "11_sum, 12_images" in refused.stderr
    assert "Traceback" not in refused.output


def test_a_parameters_cell_of_another_form_is_named(mini: Mini) -> None:
    mini.edit("notebooks/11_sum.md", "n: int = 3", "n = 3")
    refused = mini.invoke("list")
    assert refused.exit_code == 2
    assert "11_sum.md" in refused.stderr
    assert "n = 3" in refused.stderr


def test_a_terminal_gets_a_drawn_table(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "━" not in mini.invoke("list").output
    monkeypatch.setattr(console, "on_terminal", lambda: True)
    drawn = mini.invoke("list").output
    assert "━" in drawn
    assert "list[str]" in drawn, "square brackets are rich's markup and must be escaped"
