"""Kills, stale locks, survivors and two builds at once: what the next `make book` needs a person for is nothing."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

PAUSE = 1.5


@pytest.fixture
def slow_mini(mini):
    """Notebooks long enough to be killed in the middle."""
    listing = mini.root / "notebooks" / "notebooks.yml"
    listed = json.loads(listing.read_text())
    for entry in listed["notebooks"]:
        entry["profiles"]["quick"]["pause"] = PAUSE
    listing.write_text(json.dumps(listed))
    return mini


def _wait(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def _records(mini) -> list[dict]:
    found = []
    for path in (mini.root / "results" / ".jobs").glob("*.json"):
        try:
            found.append(json.loads(path.read_text()))
        except (OSError, ValueError):
            continue  # ended or being written at this moment
    return found


def _kernels(mini) -> list[int]:
    return [pid for record in _records(mini) for pid, _ in record["kernel_pids"]]


def _snakemakes(mini) -> list[int]:
    return [record["pid"] for record in _records(mini) if record["notebook"].startswith("the graph")]


def _mine(mini) -> list[psutil.Process]:
    """Every process that works in this small project: by its working folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(mini.root):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _kill(pid: int) -> None:
    # It may have ended by itself a moment ago: as good a moment as any.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _heals(mini) -> None:
    """The next build succeeds by itself, every result is whole, and nothing is left running."""
    mini.build()
    for notebook in ("alpha", "beta"):
        assert len(mini.results(notebook)) == 1
    assert not list(mini.root.glob("results/quick/*/.partial-*"))
    assert not list((mini.root / "results" / ".jobs").glob("*.json"))
    assert (mini.root / "_build" / "html" / "index.html").exists()
    _wait(lambda: not _mine(mini), 15)


def test_a_killed_engine_leaves_a_living_build_that_the_next_one_ends(slow_mini):
    """Children outlive kill -9. The lock is still held by the orphaned Snakemake; the next build ends it."""
    engine = slow_mini.start()
    _wait(lambda: _kernels(slow_mini))
    snakemake, = _snakemakes(slow_mini)
    kernel = psutil.Process(_kernels(slow_mini)[0])
    os.kill(engine.pid, signal.SIGKILL)
    engine.communicate()
    assert psutil.pid_exists(snakemake)  # the fault: it goes on
    said = slow_mini.build()
    assert "another build is running" not in said
    assert not kernel.is_running() or kernel.status() == psutil.STATUS_ZOMBIE
    _heals(slow_mini)


def test_interrupt_ends_the_whole_group_and_says_so(slow_mini):
    engine = slow_mini.start()
    _wait(lambda: _kernels(slow_mini))
    os.kill(engine.pid, signal.SIGINT)
    said, _ = engine.communicate(timeout=60)
    assert engine.returncode == 128 + signal.SIGINT
    assert "stopped by SIGINT" in said
    _wait(lambda: not _mine(slow_mini), 15)
    _heals(slow_mini)


def test_two_builds_at_once_run_everything_once(slow_mini):
    first = slow_mini.start()
    _wait(lambda: (slow_mini.root / "results" / ".logs" / "snakemake.log").exists())
    second = slow_mini.start()
    said_first, _ = first.communicate(timeout=120)
    said_second, _ = second.communicate(timeout=120)
    assert (first.returncode, second.returncode) == (0, 0), said_first + said_second
    assert "another build is running" in said_second
    assert slow_mini.executed() == ["alpha", "beta"]
    assert "nothing to do" in said_second


def test_waiting_can_be_bounded(slow_mini):
    first = slow_mini.start()
    _wait(lambda: (slow_mini.root / "results" / ".logs" / "snakemake.log").exists())
    said = slow_mini.build("book", "--wait", "0.5", ok=False)
    assert "is held by process" in said
    first.communicate(timeout=120)
    assert first.returncode == 0


def test_snakemakes_own_lock_survives_a_kill_and_ours_does_not(slow_mini):
    """Bare Snakemake, killed, asks for --unlock; the project's settings need no hand."""
    command = ["--workflow-profile", "none", "--cores", "1", "--", "results"]
    with subprocess.Popen([*_snakemake(slow_mini), *command], cwd=slow_mini.root, env=slow_mini.environment(),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as raw:
        _wait(lambda: _kernels(slow_mini))
        os.killpg(raw.pid, signal.SIGKILL)
    assert list((slow_mini.root / ".snakemake" / "locks").iterdir())
    said = slow_mini.snakemake(*command, ok=False)
    assert "unlock" in said.lower()  # the fault
    said = slow_mini.snakemake("--cores", "2", "--", "book")  # the guard: profiles/default and our own lock
    assert "unlock" not in said.lower()
    _heals(slow_mini)


def _snakemake(mini) -> list[str]:
    command = mini.command("book")
    return [command[0], "-m", "snakemake"]


def _whole_group(mini, engine) -> list[int]:
    return [engine.pid, *_snakemakes(mini), *(record["pid"] for record in _records(mini)), *_kernels(mini)]


VICTIMS: dict[str, Callable] = {
    "engine": lambda mini, engine: [engine.pid],
    "snakemake": lambda mini, engine: _snakemakes(mini),
    "runner": lambda mini, engine: [r["pid"] for r in _records(mini) if not r["notebook"].startswith("the graph")],
    "kernel": lambda mini, engine: _kernels(mini),
    "everything": _whole_group,
}


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("victim", sorted(VICTIMS))
def test_kills_at_ten_random_moments_heal_by_themselves(slow_mini, victim):
    """The moments are drawn over the whole length of a build, from before the first job to after the last."""
    began = time.monotonic()
    slow_mini.build()
    length = time.monotonic() - began
    drawn = random.Random(f"storm {victim}")
    for round_ in range(10):
        slow_mini.edit("src/attention_companion/tiny_common.py", "VALUE = ", f"ROUND_{round_} = ")
        slow_mini.edit("src/attention_companion/tiny_common.py", f"ROUND_{round_} = ", f"# {round_}\nVALUE = ")
        slow_mini.edit("src/attention_companion/tiny_far.py", "VALUE = ", f"# {round_}\nVALUE = ")
        engine = slow_mini.start()
        time.sleep(drawn.uniform(0.0, length))
        for pid in VICTIMS[victim](slow_mini, engine):
            _kill(pid)
        engine.communicate(timeout=120)
        slow_mini.build()
        for notebook in ("alpha", "beta"):
            assert slow_mini.results(notebook)
        assert not list(slow_mini.root.glob("results/quick/*/.partial-*"))
        assert not list((slow_mini.root / "results" / ".jobs").glob("*.json"))
        assert "nothing to do" in slow_mini.build()
        _wait(lambda: not _mine(slow_mini), 15)
