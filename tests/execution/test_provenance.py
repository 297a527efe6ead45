"""Where a result came from."""

from __future__ import annotations

import subprocess
import sys

import pytest

from attention_companion.execution import provenance


def test_git_state_tells_clean_from_dirty(tmp_path):
    assert provenance.git_state(tmp_path) == (None, None)

    def git(*arguments):
        subprocess.run(
            ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-q", "-m", "m")
    commit, dirty = provenance.git_state(tmp_path)
    assert len(commit) == 40
    assert dirty is False
    (tmp_path / "a").write_text("2")
    assert provenance.git_state(tmp_path) == (commit, True)


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.git_state(tmp_path) == (None, None)


def test_cpu_model_on_macos_comes_from_sysctl(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(provenance, "_output", lambda command: "Apple M" if command[0] == "sysctl" else None)
    assert provenance.cpu_model() == "Apple M"
    monkeypatch.setattr(provenance, "_output", lambda _command: None)
    assert provenance.cpu_model()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
def test_cpu_model_on_linux_is_the_kernels_word_for_it():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        assert provenance.cpu_model() in file.read()


def test_a_package_that_is_absent_is_said_to_be(monkeypatch):
    monkeypatch.setattr(provenance, "PACKAGES", ("numpy", "surely-not-installed"))
    versions = provenance.package_versions()
    assert versions["surely-not-installed"] == "not installed"
    assert versions["numpy"][0].isdigit()
