"""Results on disk: verification, publishing, sweeping. No kernel is started: results are made by hand."""

from __future__ import annotations

import json
import os

import nbformat
import pytest

from attention_companion.execution import results
from attention_companion.execution.guards import BrokenRun
from attention_companion.execution.keys import compute_key
from attention_companion.execution.results import find_valid, load, publish, sweep, verify


def make_result(mini, name="11_sum", profile="quick", key=None, started="2026-01-01"):
    """A valid result folder, made without a run."""
    project = mini.project
    actual = compute_key(project, name, profile)
    key = key or actual.key
    folder = project.results(profile) / name / ".partial-0-test"
    (folder / "figures").mkdir(parents=True)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", execution_count=1)])
    (folder / "executed.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    (folder / "records.json").write_text('[{"tag": "T"}]', encoding="utf-8")
    (folder / "figures" / "a.csv").write_text("x\n1\n", encoding="utf-8")
    info = {
        "schema": 1,
        "key": key,
        "notebook": name,
        "profile": profile,
        "parameters": actual.parameters,
        "digests": actual.digests,
        "provenance": {"started": started, "seconds": 1.0},
        "files": results.file_digests(folder),
    }
    (folder / "result.json").write_text(json.dumps(info), encoding="utf-8")
    target = results.result_dir(project, name, profile, key)
    publish(folder, target)
    return target


def found(mini, path):
    return find_valid(mini.project, path.parent.name, path.parent.parent.name, path.name)


def test_a_valid_result_is_found_and_read(mini_project):
    path = make_result(mini_project)
    result = found(mini_project, path)
    assert result is not None
    assert (result.key, result.notebook, result.profile) == (path.name, "11_sum", "quick")
    assert result.records == [{"tag": "T"}]
    assert [figure.name for figure in result.figures] == ["a.csv"]
    assert find_valid(mini_project.project, "11_sum", "quick", "0" * 20) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "records.json").write_text("[]"),
        lambda path: (path / "records.json").unlink(),
        lambda path: (path / "figures" / "a.csv").write_text("x\n2\n"),
        lambda path: (path / "figures" / "b.csv").write_text("stray"),
        lambda path: (path / "executed.ipynb").write_text("{}"),
        lambda path: (path / "result.json").unlink(),
        lambda path: (path / "result.json").write_text("{"),
        lambda path: (path / "result.json").write_text("{}"),
        lambda path: edit(path, key="0" * 20),
        lambda path: edit(path, notebook="12_product"),
        lambda path: edit(path, profile="full"),
        lambda path: edit(path, schema=0),
        lambda path: edit(path, files={}),
    ],
)
def test_a_damaged_result_counts_as_absent(mini_project, damage):
    path = make_result(mini_project)
    assert found(mini_project, path) is not None
    damage(path)
    assert found(mini_project, path) is None


def edit(path, **changes):
    file = path / "result.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_digests_alone_do_not_save_a_notebook_that_fails_the_guards(mini_project):
    path = make_result(mini_project)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", execution_count=2)])
    (path / "executed.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    edit(path, files=results.file_digests(path))
    with pytest.raises(BrokenRun, match="execution count 2"):
        verify(load(path))
    assert found(mini_project, path) is None


def test_touching_a_result_leaves_it_valid(mini_project):
    path = make_result(mini_project)
    for file in path.rglob("*"):
        os.utime(file, (1, 1))
    assert found(mini_project, path) is not None


def test_publish_replaces_and_leaves_nothing_behind(mini_project):
    path = make_result(mini_project)
    (path / "records.json").write_text("[]")
    assert make_result(mini_project) == path
    assert found(mini_project, path) is not None
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_files_are_flushed_before_the_rename(mini_project, monkeypatch):
    """The order that makes a power cut harmless: every file, every folder, then the rename, then its parent."""
    happened = []
    real_fsync, real_rename = os.fsync, os.rename
    inodes = {}

    def fsync(descriptor):
        happened.append(os.fstat(descriptor).st_ino)
        real_fsync(descriptor)

    def rename(old, new):
        happened.append("rename")
        inodes.update({entry.stat().st_ino: entry.name for entry in (old, *old.rglob("*"))})
        real_rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    path = make_result(mini_project)
    where = happened.index("rename")
    flushed = {inodes[inode] for inode in happened[:where]}
    assert flushed == {"executed.ipynb", "records.json", "a.csv", "result.json", "figures", ".partial-0-test"}
    assert happened[where + 1 :] == [path.parent.stat().st_ino]


def test_sweep_removes_dead_partials_and_invalid_results_only(mini_project):
    good = make_result(mini_project)
    bad = make_result(mini_project, "12_product")
    (bad / "records.json").write_text("[]")
    dead = good.parent / ".partial-99999-dead"
    dead.mkdir()
    ledger = mini_project.write("results/quick/ledger-1.json", "{}")
    removed = sweep(mini_project.project)
    assert len(removed) == 2
    assert not bad.exists()
    assert not dead.exists()
    assert good.exists()
    assert ledger.exists()
    assert sweep(mini_project.project) == []


def test_sweep_spares_the_partial_folder_of_a_live_run(mini_project):
    from attention_companion.execution.processes import recorded

    alive = make_result(mini_project).parent / ".partial-1-alive"
    alive.mkdir()
    with recorded(mini_project.project, alive, "11_sum", "quick", True):
        sweep(mini_project.project)
        assert alive.exists()
    sweep(mini_project.project)
    assert not alive.exists()


def test_sweep_keeps_the_current_key_and_the_two_newest_others(mini_project):
    current = make_result(mini_project, started="2020-01-01")
    old = [make_result(mini_project, key=f"{n:020x}", started=f"2026-01-0{n}") for n in range(1, 6)]
    os.utime(old[0], None)  # the youngest by modification time is the oldest by date: times decide nothing
    sweep(mini_project.project)
    assert current.exists()
    assert [path.exists() for path in old] == [False, False, False, True, True]
