"""The build lock: it ends with its holder, it covers an orphan of its holder, and it names who has it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from attention_companion.execution import locking
from attention_companion.execution.locking import BuildLock, LockError, acquire, is_alive, read_holder

HOLD = """\
import sys, time
from pathlib import Path
from attention_companion.execution.locking import acquire
acquire(Path(sys.argv[1]), lambda: None, print)
print("held", flush=True)
time.sleep(60)
"""

# Holds the lock through an inherited descriptor, as Snakemake does for the engine, and outlives its parent.
HAND_ON = """\
import os, subprocess, sys
from pathlib import Path
from attention_companion.execution.locking import acquire
lock = acquire(Path(sys.argv[1]), lambda: None, print)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=(lock.descriptor,),
                         stdout=subprocess.DEVNULL, start_new_session=True)
print(child.pid, flush=True)
os._exit(0)
"""


def _never() -> None:
    raise AssertionError("there are no survivors to end")


def _holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "held"
    return process


def _take(path: Path, **options: float) -> BuildLock:
    return acquire(path, _never, lambda line: None, **options)


def test_the_lock_says_who_holds_it_and_can_be_taken_again(tmp_path):
    path = tmp_path / "results" / ".lock"
    lock = _take(path)
    assert read_holder(path)["pid"] == os.getpid()
    assert is_alive(read_holder(path))
    lock.close()
    _take(path).close()


def test_a_living_holder_is_waited_for_and_named(tmp_path):
    path, said = tmp_path / ".lock", []
    with _holder(path) as process:
        try:
            with pytest.raises(LockError, match=f"process {process.pid}"):
                acquire(path, _never, said.append, wait_seconds=0.3)
        finally:
            process.kill()
    assert len(said) == 1
    assert str(process.pid) in said[0]


def test_a_killed_holder_leaves_nothing_to_remove(tmp_path):
    """The fault it replaces: a lock that is a file stays after kill -9. The file stays here too, unlocked."""
    path = tmp_path / ".lock"
    with _holder(path) as process:
        process.kill()
    assert path.exists()
    assert not is_alive(read_holder(path))
    _take(path, wait_seconds=0).close()


def test_an_orphan_that_inherited_the_lock_keeps_it_until_it_is_ended(tmp_path):
    path = tmp_path / ".lock"
    done = subprocess.run([sys.executable, "-c", HAND_ON, str(path)], stdout=subprocess.PIPE, text=True, check=True)
    orphan = psutil.Process(int(done.stdout))
    ended = []

    def end() -> None:
        ended.append(orphan.pid)
        orphan.kill()

    began = time.monotonic()
    acquire(path, end, lambda line: None).close()
    assert ended
    assert time.monotonic() - began >= locking.GRACE_SECONDS  # a name is given a moment to appear


def test_an_orphan_that_cannot_be_ended_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(locking, "SURVIVOR_SECONDS", 1.5)
    path = tmp_path / ".lock"
    done = subprocess.run([sys.executable, "-c", HAND_ON, str(path)], stdout=subprocess.PIPE, text=True, check=True)
    try:
        with pytest.raises(LockError, match="although its holder"):
            acquire(path, lambda: None, lambda line: None)
    finally:
        psutil.Process(int(done.stdout)).kill()


def test_a_reused_pid_is_not_the_holder(tmp_path):
    me = psutil.Process()
    holder = {"pid": me.pid, "create_time": me.create_time(), "host": platform.node()}
    assert is_alive(holder)
    assert not is_alive({**holder, "create_time": me.create_time() - 100})
    assert is_alive({**holder, "pid": 0, "host": "another host"})
    assert not is_alive({})


@pytest.mark.parametrize("text", ["", "{", "[]", "null", json.dumps({"pid": "x"})])
def test_a_lock_file_of_any_content_can_be_taken(tmp_path, text):
    path = tmp_path / ".lock"
    path.write_text(text)
    _take(path, wait_seconds=0).close()


def test_only_the_parent_holds_for_its_child(monkeypatch):
    monkeypatch.setenv(locking.HELD_BY, str(os.getppid()))
    assert locking.held_by_parent()
    monkeypatch.setenv(locking.HELD_BY, "1234567")
    assert not locking.held_by_parent()
