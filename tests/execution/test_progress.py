"""Progress lines from what lies on the disk, plain where there is no terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from attention_companion.execution.graph import Graph, key_of
from attention_companion.execution.progress import Follower, Screen, duration


@pytest.fixture
def graph(mini_project, monkeypatch) -> Graph:
    monkeypatch.setattr(Graph, "_run_key", lambda self, profile, notebook: key_of({"n": notebook}))
    return Graph(mini_project.project)


def _finish(graph: Graph, name: str, seconds: float = 4.2) -> None:
    path = graph.root / graph.result("quick", name)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"provenance": {"seconds": seconds}}))


def _partial(graph: Graph, name: str) -> Path:
    folder = graph.root / "results" / "quick" / name / ".partial-1-a"
    folder.mkdir(parents=True)
    return folder


def test_a_build_is_told_line_by_line(graph):
    out = io.StringIO()
    _finish(graph, "12_product")
    follower = Follower(graph, "quick", "results", Screen(out))
    partial = _partial(graph, "11_sum")
    follower.look()
    follower.look()
    partial.rmdir()
    _finish(graph, "11_sum")
    follower.finish()
    lines = out.getvalue().splitlines()
    assert lines[0] == "results (quick): 2 notebooks, 1 current, 1 to run"
    assert lines[1] == "  run 11_sum"
    assert lines[2].startswith("  [1/1] 11_sum 4.2 s, ")
    assert len(lines) == 3
    assert follower.summary() == "results (quick): 1 notebooks run, 1 current"
    assert "\x1b" not in out.getvalue()


def test_a_run_that_ends_without_a_result_is_told_at_once(graph):
    out = io.StringIO()
    follower = Follower(graph, "quick", "results", Screen(out))
    partial = _partial(graph, "11_sum")
    follower.look()
    partial.rmdir()
    follower.look()
    assert "FAILED 11_sum" in out.getvalue()


def test_a_build_with_nothing_to_do_says_one_line_only(graph):
    out = io.StringIO()
    for name in graph.notebooks():
        _finish(graph, name)
    follower = Follower(graph, "quick", "results", Screen(out))
    follower.finish()
    assert out.getvalue() == ""
    assert "nothing to do, all 2 notebooks are current" in follower.summary()


def test_a_terminal_gets_a_living_line_and_brackets_stay_text():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    screen = Screen(out)
    screen.living("[1/2] at work")
    screen.say("[bold]not markup[/bold]")
    screen.close()
    assert "[bold]not markup[/bold]" in out.getvalue()
    assert "[1/2] at work" in out.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0.44, "0.4 s"), (12.2, "12 s"), (185.0, "3 min 05 s")])
def test_durations_read_as_people_say_them(seconds, text):
    assert duration(seconds) == text
