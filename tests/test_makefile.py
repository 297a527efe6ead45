"""The Makefile: thin, complete, every target phony; the browser's absence is a failure in CI and said elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {
    "book", "test", "test-slow", "full", "figures", "serve", "clean", "pair", "lint", "constraints", "models",
}  # fmt: skip


def _text() -> str:
    return (ROOT / "Makefile").read_text()


def test_every_target_is_there_and_phony():
    phony = re.search(r"^\.PHONY: (.*)$", _text(), flags=re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == TARGETS == set(re.findall(r"^([a-z-]+):", _text(), flags=re.MULTILINE))


def test_book_is_made_although_a_folder_has_its_name():
    """Without .PHONY `make book` would call book/ up to date and do nothing."""
    assert (ROOT / "book").is_dir()
    said = subprocess.run(["make", "-n", "book"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    assert "execution.engine book" in said


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["full", "CORES=3"], "execution.engine full --cores 3"),
        (["figures", "PROFILE=full"], 'execution.engine figures --profile "full"'),
        (["book", "CLUSTER=profiles/slurm"], '--cluster "profiles/slurm"'),
        (["serve", "PORT=1234"], "http.server 1234 --bind 127.0.0.1"),
    ],
)
def test_options_reach_the_engine(call, words):
    said = subprocess.run(["make", "-n", *call], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    assert words in said


def test_make_test_builds_the_book_first_and_leaves_nothing_out():
    said = subprocess.run(["make", "-n", "test"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    steps = ["execution.engine book", "ruff check", "-m mypy", "execution.pairing", "pytest -q -n",
             "pytest -q -m browser"]
    places = [said.index(step) for step in steps]
    assert places == sorted(places)
    assert "-m slow" not in said
    assert "|| true" not in _text()
    assert not re.search(r"^\t-", _text(), flags=re.MULTILINE)  # make would go on after a failure


def _browser(tmp_path: Path, ci: str, present: bool) -> subprocess.CompletedProcess[str]:
    if present:
        (tmp_path / "chromium").write_text("#!/bin/sh\n")
        (tmp_path / "chromium").chmod(0o755)
    command = [sys.executable, str(ROOT / "tools" / "check_browser.py"), sys.executable, "-c", "print('ran'); exit(7)"]
    return subprocess.run(command, text=True, capture_output=True, check=False, env={"PATH": str(tmp_path), "CI": ci})


def test_without_a_browser_ci_fails_and_a_person_is_told(tmp_path):
    in_ci, at_home = _browser(tmp_path, "true", False), _browser(tmp_path, "", False)
    assert in_ci.returncode == 1
    assert at_home.returncode == 0
    assert "did NOT run" in at_home.stderr
    for done in (in_ci, at_home):
        assert "apt install chromium" in done.stderr
        assert "ran" not in done.stdout


def test_with_a_browser_the_tests_status_is_the_answer(tmp_path):
    done = _browser(tmp_path, "true", True)
    assert (done.stdout.strip(), done.returncode) == ("ran", 7)
