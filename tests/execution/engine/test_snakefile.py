"""The Snakefile alone: bare Snakemake, a look without work, and a cluster."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[3]


def test_bare_snakemake_builds_the_book_and_then_has_nothing_to_do(mini):
    mini.snakemake("--cores", "2", "book")
    assert mini.executed() == ["alpha", "beta"]
    assert (mini.root / "_build" / "html" / "index.html").exists()
    assert "Nothing to be done" in mini.snakemake("--cores", "2", "book")
    assert "nothing to do" in mini.build()
    assert mini.executed() == []


def test_a_dry_run_shows_one_job_per_notebook_and_takes_no_lock(shared):
    kernel = shared.root / "src/attention_companion/tiny_common.py"
    before = kernel.read_text()
    try:
        kernel.write_text("VALUE = 5\n")
        said = shared.snakemake("--profile", "profiles/local-cluster", "--dry-run", "book")
        assert re.search(r"^execute +1$", said, flags=re.MULTILINE), said
        for rule in ("ledger", "check", "render"):
            assert re.search(rf"^{rule} +1$", said, flags=re.MULTILINE), said
        full = shared.snakemake("--profile", "profiles/local-cluster", "--dry-run", "full")
        assert re.search(r"^execute +2$", full, flags=re.MULTILINE), full
        assert "runtime=1440" in full
    finally:
        kernel.write_text(before)
    assert shared.results("alpha")  # looking removed nothing


def test_a_cluster_gets_the_notebooks_and_the_host_keeps_the_rest(mini):
    """For real, with the generic-cluster plugin submitting to background processes of this machine."""
    said = mini.snakemake("--profile", "profiles/local-cluster", "book")
    assert mini.executed() == ["alpha", "beta"]
    assert len(re.findall(r"Submitted job \d+ with external jobid", said)) == 2
    assert len(re.findall(r"^localrule (ledger|check|render):|^localcheckpoint data:", said, flags=re.MULTILINE)) == 4
    assert (mini.root / "_build" / "html" / "index.html").exists()
    assert "nothing to do" in mini.build("book", "--cluster", "profiles/local-cluster")


def _mark_incomplete(root: Path, output: Path) -> None:
    """What a Snakemake killed after the rename, before the job's report, leaves behind."""
    marks = root / ".snakemake" / "incomplete"
    marks.mkdir(exist_ok=True)
    name = base64.urlsafe_b64encode(output.relative_to(root).as_posix().encode()).decode()
    (marks / name).write_text("{}")


def test_snakemakes_mark_on_a_whole_result_neither_reruns_it_nor_loses_the_rest(shared):
    """The fault: with --rerun-incomplete Snakemake makes the marked output, forgets the others and exits with 0."""
    shared.build()
    kernel = shared.root / "src/attention_companion/tiny_far.py"
    before = kernel.read_text()
    current = shared.results("alpha")
    assert len(current) == 1
    try:
        kernel.write_text("VALUE = 777\n")  # beta must run, alpha is whole
        _mark_incomplete(shared.root, current[0])
        shared.forget()
        look = ["--workflow-profile", "none", "--nolock", "--cores", "1", "-n", "--rerun-triggers", "software-env"]
        said = shared.snakemake(*look, "--rerun-incomplete", "--", "book")
        assert "wildcards: profile=quick, notebook=alpha" in said
        assert "notebook=beta" not in said  # the fault: the notebook that must run is lost
        shared.build()
        assert shared.executed() == ["beta"]
        assert shared.rendered() == ["quick"]
        assert "nothing to do" in shared.build()
    finally:
        kernel.write_text(before)


@pytest.mark.parametrize("profile", ["default", "slurm", "local-cluster"])
def test_profiles_are_plain_settings(profile):
    text = (REPOSITORY / "profiles" / profile / "config.yaml").read_text()
    settings = yaml.safe_load(text)
    assert "http" not in text
    if profile == "default":
        assert settings["rerun-triggers"] == ["software-env"]
        assert settings["ignore-incomplete"] is True
        assert "rerun-incomplete" not in settings
        assert settings["nolock"] is True
    else:
        assert settings["executor"] in ("slurm", "cluster-generic")


def test_no_rule_names_a_software_environment():
    """The one rerun trigger left on must never fire."""
    text = (REPOSITORY / "Snakefile").read_text()
    assert not re.search(r"^\s+(conda|container|envmodules|singularity):", text, flags=re.MULTILINE)


def test_every_input_is_ancient():
    """An input that is not would let its time decide."""
    text = (REPOSITORY / "Snakefile").read_text()
    inputs = re.findall(r"^    input:\n((?:        .*\n)+)", text, flags=re.MULTILINE)
    assert len(inputs) >= 8
    for block in inputs:
        for line in block.strip().splitlines():
            assert re.match(r"\s*(ancient\(|runs\(|pieces\()", line), line
