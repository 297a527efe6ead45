"""Names from contents: what each key covers, and what removes a piece that is not whole."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from attention_companion import datasets
from attention_companion.execution import freshness, plain
from attention_companion.execution.graph import Graph, in_ci, key_of, tree_digests


@pytest.fixture
def graph(mini_project, monkeypatch) -> Graph:
    """A graph whose run keys need no sources: they are the notebooks' names."""
    monkeypatch.setattr(Graph, "_run_key", lambda self, profile, notebook: key_of({"p": profile, "n": notebook}))
    monkeypatch.delenv("CI", raising=False)
    for name, text in {"book/index.md": "# x\n", "book/claims/a.yml": "claims: []\n", "book/baseline/quick.json": "{}",
                       "_toc.yml": "root: index\n", "src/attention_companion/ledger/collect.py": "X = 1\n",
                       "src/attention_companion/execution/render.py": "Y = 1\n"}.items():
        mini_project.write(name, text)
    return Graph(mini_project.project)


def _names(graph: Graph) -> dict[str, str]:
    fresh = Graph(graph.project)
    return {"ledger": fresh.ledger_key("quick"), "check": fresh.check_key("quick"), "book": fresh.book_key("quick"),
            "figures": fresh.figures_key("quick")}


def _changed(graph: Graph, path: str, text: str = "changed\n") -> set[str]:
    before = _names(graph)
    (graph.root / path).write_text(text)
    after = _names(graph)
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("path", "pieces"),
    [
        ("book/index.md", {"book"}),
        ("book/new.md", {"book"}),
        ("_toc.yml", {"book"}),
        ("src/attention_companion/execution/render.py", {"book"}),
        ("book/claims/a.yml", {"ledger", "check", "book", "figures"}),
        ("book/baseline/quick.json", {"ledger", "check", "book", "figures"}),
        ("src/attention_companion/ledger/collect.py", {"ledger", "check", "book", "figures"}),
        ("src/attention_companion/unused.py", set()),
        ("README.md", set()),
    ],
)
def test_a_key_covers_what_its_piece_is_made_from(graph, path, pieces):
    assert _changed(graph, path) == pieces


def test_a_touch_changes_no_name(graph):
    before = _names(graph)
    for path in graph.root.rglob("*"):
        os.utime(path, (time.time() + 1000,) * 2)
    assert _names(graph) == before


def test_ci_asks_for_its_own_check(graph, monkeypatch):
    before = _names(graph)
    monkeypatch.setenv("CI", "true")
    assert in_ci()
    after = _names(graph)
    assert {name for name in before if before[name] != after[name]} == {"check"}


def test_the_repositorys_address_is_part_of_the_pages(graph, monkeypatch):
    before = _names(graph)
    monkeypatch.setenv("ATTENTION_COMPANION_REPOSITORY", "https://example.org/a/b")
    assert _names(graph)["book"] != before["book"]


def test_profiles_share_no_path(graph):
    def paths(profile: str) -> set[Path]:
        return {graph.ledger(profile), graph.check(profile), graph.book(profile), graph.figures(profile),
                graph.book_folder(profile), graph.figures_folder(profile), *graph.results(profile).values()}

    assert not paths("quick") & paths("full")
    assert not graph.book_folder("full").is_relative_to(graph.book_folder("quick"))


def test_a_key_is_canonical():
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1}) != key_of({"a": 1, "b": [3]})
    assert len(key_of({})) == 20


def test_caches_and_editors_leave_no_trace_in_a_tree(tmp_path):
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_text("x")
    (tmp_path / "page.md").write_text("x")
    assert list(tree_digests(tmp_path)) == ["page.md"]
    assert tree_digests(tmp_path / "absent") == {}


# ---- what is not whole is removed ----------------------------------------------------------------------------------


@pytest.fixture
def made(graph) -> Graph:
    """Runs, ledger, check and pages as a build leaves them."""
    for path in graph.results("quick").values():
        _write(graph.root / path, "{}")
    ledger = graph.ledger("quick")
    _write(graph.root / ledger, "{}")
    freshness.note_ledger(graph.root, graph.root / ledger, graph.results("quick"))
    freshness.write_json(graph.root / graph.check("quick"),
                         {"ledger": ledger.name, "digest": freshness.file_digest(graph.root / ledger)})
    _write(graph.root / graph.book_folder("quick") / "index.html", "<p>")
    freshness.note_product(graph.root, graph.root / graph.book("quick"), ledger)
    return graph


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _standing(graph: Graph) -> set[str]:
    pieces = {"ledger": graph.ledger, "check": graph.check, "book": graph.book}
    return {name for name, path in pieces.items() if (graph.root / path("quick")).exists()}


def test_whole_pieces_stay(made):
    assert freshness.drop_broken_products(made.project) == []
    assert _standing(made) == {"ledger", "check", "book"}


def test_another_run_under_the_same_key_takes_ledger_check_and_pages_with_it(made):
    """A run made again says other seconds, perhaps other last digits: what shows the old one is made again too."""
    (made.root / made.result("quick", "11_sum")).write_text('{"seconds": 2}')
    assert freshness.drop_broken_products(made.project)
    assert _standing(made) == set()


@pytest.mark.parametrize("text", ["", "<p>x", None])
def test_a_changed_or_missing_page_takes_the_marker_with_it(made, text):
    page = made.root / made.book_folder("quick") / "index.html"
    page.unlink() if text is None else page.write_text(text)
    freshness.drop_broken_products(made.project)
    assert _standing(made) == {"ledger", "check"}


def test_a_marker_without_content_counts_as_none(made):
    (made.root / made.book("quick")).write_text("")
    freshness.drop_broken_products(made.project)
    assert _standing(made) == {"ledger", "check"}


def test_exports_that_were_killed_are_cleared(made):
    (made.root / "_build" / ".figures-quick-abc").mkdir()
    freshness.drop_broken_products(made.project)
    assert not list((made.root / "_build").glob(".figures-*"))


def test_old_ledgers_go_and_the_current_one_stays(made):
    old = made.root / "results" / "quick" / "ledger-0123.json"
    old.write_text("{}")
    freshness.forget_old(made.project, "quick")
    assert not old.exists()
    assert _standing(made) == {"ledger", "check", "book"}


@pytest.mark.parametrize(
    ("stamp", "now", "stale"),
    [
        ({"kind": "full"}, ("full", True), False),
        ({"kind": "full"}, ("full", False), True),
        ({"kind": "full"}, ("sample", False), True),
        ({"kind": "sample"}, ("full", True), True),
        ({"kind": "sample"}, ("sample", False), False),
        ({"kind": "full", "digest": "deadbeef"}, ("full", True), True),
        (None, ("full", True), True),
    ],
)
def test_a_stamp_holds_as_long_as_the_cache_does(monkeypatch, stamp, now, stale):
    monkeypatch.setattr(datasets, "status", lambda name: SimpleNamespace(kind=now[0], trusted=now[1]))
    monkeypatch.setattr(datasets, "stamp", lambda name: {"kind": now[0]})
    assert (freshness.stamp_is_stale("mnist", stamp) is not None) == stale


def test_a_data_set_that_is_not_whole_is_named_after_each_build(made, monkeypatch):
    assert freshness.incomplete_data(made.project) == []
    monkeypatch.setattr(Graph, "data", lambda _self, *_names: ("mnist",))
    name, stamp = "mnist", made.root / Graph(made.project).stamp("mnist")
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(json.dumps({"name": name, "kind": "sample", "digest": {}}))
    (line,) = freshness.incomplete_data(made.project)
    assert line.startswith(f"data {name}: only the bundled sample is here; `companion data fetch {name}`")


@pytest.mark.parametrize(
    ("arguments", "looks"),
    [
        (["-n", "book"], True), (["-np"], True), (["--cores", "2", "--dry-run", "book"], True), (["--unlock"], True),
        (["--cores", "2", "book"], False), (["-j", "2", "book"], False), (["-call", "book"], False),
        (["figures"], False),
    ],
)
def test_a_look_at_the_graph_is_told_from_work(arguments, looks):
    assert plain.only_looks(arguments) == looks
