"""What is made again after which change: counted by what the notebooks themselves write when they run."""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest


def test_the_first_build_runs_everything_once(shared):
    assert shared.executed() == ["alpha", "beta"]
    assert shared.rendered() == ["quick"]
    assert shared.fetched() == ["mnist"]
    assert (shared.root / "_build/html/index.html").exists()


def test_nothing_changed_makes_nothing_and_costs_less_than_three_seconds(built):
    built.build()
    built.forget()

    def children() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = children()
    said = built.build()
    # Processor time, so that a busy machine does not decide; on an idle one it bounds the wall time from above.
    assert children() - before < 3.0
    assert "nothing to do, all 2 notebooks are current" in said
    assert "index.html" in said
    assert (built.executed(), built.rendered(), built.fetched()) == ([], [], [])
    # The engine did not even start Snakemake; Snakemake, asked, agrees.
    assert not (built.root / "results" / ".logs" / "snakemake.log").exists()
    assert "Nothing to be done" in built.snakemake("--cores", "1", "-n", "--", "book")


def test_touching_every_file_makes_nothing(built):
    future = time.time() + 3600
    for path in built.root.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            os.utime(path, (future, future))
    built.build()
    assert (built.executed(), built.rendered(), built.fetched()) == ([], [], [])


def test_files_from_the_future_do_not_fail_a_job_that_reads_them(built):
    """Snakemake fails a job whose input is newer than its output, whatever its triggers; `settle_times` prevents it."""
    for path in built.results("alpha") + built.results("beta"):
        os.utime(path, (time.time() + 3600,) * 2)
    before = (built.root / "book/claims/tiny.yml").read_text()
    try:
        (built.root / "book/claims/tiny.yml").write_text(before + "\n")
        assert "older modification time" not in built.build()
        assert built.rendered() == ["quick"]
    finally:
        (built.root / "book/claims/tiny.yml").write_text(before)


def test_snakemake_with_times_as_triggers_would_rerun_the_touched_project(built):
    """The fault itself: without ancient() and rerun-triggers a newer input reruns what is current."""
    built.build()
    snakefile = built.root / "Snakefile"
    text = snakefile.read_text()
    try:
        snakefile.write_text(text.replace("ancient(all_runs)", "all_runs").replace("ancient(the_ledger)", "the_ledger"))
        for result in built.results("alpha"):
            os.utime(result, (time.time() + 7200,) * 2)
        said = built.snakemake("--cores", "1", "-n", "--workflow-profile", "none", "--rerun-triggers", "mtime",
                               "--", "book")
        assert "Updated input files" in said
    finally:
        snakefile.write_text(text)
    assert "Nothing to be done" in built.snakemake("--cores", "1", "-n", "--", "book")


def test_a_restored_cache_without_snakemakes_folder_makes_nothing(built):
    shutil.rmtree(built.root / ".snakemake")
    built.build()
    assert (built.executed(), built.rendered(), built.fetched()) == ([], [], [])


def test_a_clone_with_restored_results_renders_but_executes_nothing(built, tmp_path):
    """As in CI: results come back from a cache with new times, pages do not."""
    clone = type(built)(tmp_path / "clone", built.cache)
    for name in ("src", "notebooks", "book", "profiles", "tools", "results"):
        shutil.copytree(built.root / name, clone.root / name, copy_function=shutil.copyfile)
    for name in ("Snakefile", "constraints.txt", "pyproject.toml"):
        shutil.copyfile(built.root / name, clone.root / name)
    clone.build()
    assert (clone.executed(), clone.rendered(), clone.fetched()) == ([], ["quick"], [])


CHANGES: list[tuple[str, str, str, str, list[str]]] = [
    ("a notebook's cell", "notebooks/alpha.md", "# alpha", "# alpha, edited", ["alpha"]),
    ("a kernel file reached through another", "src/attention_companion/tiny_common.py", "20", "21", ["alpha"]),
    ("a kernel file imported in a function", "src/attention_companion/tiny_far.py", "40", "41", ["beta"]),
    ("a kernel file that nothing imports", "src/attention_companion/tiny_unused.py", "0", "1", []),
    ("blank lines between cells", "notebooks/alpha.md", "answer()\n```\n", "answer()\n```\n\n\n", []),
    ("the versions", "constraints.txt", "numpy==", "# a comment\nnumpy==", ["alpha", "beta"]),
]


@pytest.mark.parametrize(("path", "old", "new", "runs"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_change_of_content_executes_exactly_what_depends_on_it(built, path, old, new, runs):
    before = (built.root / path).read_text()
    try:
        (built.root / path).write_text(before.replace(old, new, 1))
        assert (built.root / path).read_text() != before
        built.build()
        assert built.executed() == runs
    finally:
        (built.root / path).write_text(before)


def test_back_at_an_earlier_content_its_results_are_still_there(built):
    kernel = built.root / "src/attention_companion/tiny_common.py"
    before = kernel.read_text()
    built.build()
    kernel.write_text("VALUE = 99\n")
    built.build()
    kernel.write_text(before)
    built.forget()
    built.build()
    assert (built.executed(), built.rendered()) == ([], ["quick"])


def test_a_parameter_of_one_profile_executes_that_notebook_in_that_profile(built):
    listing = built.root / "notebooks" / "notebooks.yml"
    before = listing.read_text()
    listed = json.loads(before)
    listed["notebooks"][0]["profiles"]["quick"]["pause"] = 0.001
    listed["notebooks"][1]["profiles"]["full"]["pause"] = 0.002
    try:
        listing.write_text(json.dumps(listed))
        built.build()
        assert built.executed() == ["alpha"]
    finally:
        listing.write_text(before)
        built.build()


def test_cleaned_data_are_fetched_again_and_identical_data_execute_nothing(built):
    (built.cache / "mnist").unlink()
    said = built.build()
    assert built.fetched() == ["mnist"]
    assert "fetching again" in said
    assert (built.executed(), built.rendered()) == ([], [])


def test_touched_data_are_read_through_again_and_execute_nothing(built):
    built.build()
    built.forget()
    (built.cache / "mnist.touched").touch()
    assert "touched since" in built.build()
    assert (built.fetched(), built.executed(), built.rendered()) == (["mnist"], [], [])


def test_other_data_execute_exactly_the_notebooks_that_load_them(built):
    (built.cache / "mnist").unlink()
    (built.cache / "mnist.remote").write_text("other images")
    try:
        built.build()
        assert built.executed() == ["beta"]
    finally:
        (built.cache / "mnist").unlink()
        (built.cache / "mnist.remote").write_text("images")
        built.build()


@pytest.mark.parametrize("path", ["book/index.md", "book/claims/tiny.yml"])
def test_prose_and_claims_render_again_and_execute_nothing(built, path):
    file = built.root / path
    before = file.read_text()
    try:
        file.write_text(before + "\n")
        built.build()
        assert (built.executed(), built.rendered()) == ([], ["quick"])
    finally:
        file.write_text(before)


def _alter(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


@pytest.mark.parametrize("harm", [_alter, Path.unlink], ids=["altered", "removed"])
@pytest.mark.parametrize(
    ("pattern", "runs", "renders"),
    [
        ("results/quick/alpha/*/executed.ipynb", ["alpha"], ["quick"]),
        ("results/quick/ledger-*.json", [], ["quick"]),
        ("_build/html/index.html", [], ["quick"]),
    ],
)
def test_a_damaged_piece_is_made_again_with_what_shows_it(
    built, pattern: str, harm: Callable[[Path], None], runs: list[str], renders: list[str]
):
    built.build()
    current = [path for path in built.root.glob(pattern) if ".ledger" not in path.name]
    for path in current:
        harm(path)
    built.forget()
    built.build()
    assert (built.executed(), built.rendered()) == (runs, renders)


def test_the_full_profile_shares_nothing_with_the_quick_one(built):
    said = built.build("full")
    assert built.executed() == ["alpha", "beta"]
    assert "_build/full/html/index.html" in said
    quick = (built.root / "_build/html/index.html").read_text()
    assert quick != (built.root / "_build/full/html/index.html").read_text()
