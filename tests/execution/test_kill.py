"""SIGKILL at any moment: the old good result or none, and the next build heals it. One quick case of each kind, and
the storms (slow): ten random moments each for the runner, the kernel and the whole process group.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from attention_companion.execution.guards import check_executed
from attention_companion.execution.keys import compute_key
from attention_companion.execution.processes import end_survivors, jobs_dir
from attention_companion.execution.results import find_valid, read_executed, sweep
from attention_companion.execution.runner import run

NAME = "13_gate"


@pytest.fixture
def gate(mini_project):
    """A notebook that waits in its last cell while the file ``gate`` exists, and an old result under another key."""
    path = mini_project.root / "gate"
    code = f"import pathlib, time\nwhile pathlib.Path({str(path)!r}).exists():\n    time.sleep(0.02)\nprint(n)"
    mini_project.notebook(NAME, "print('first')", code, parameters="n: int = 1")
    mini_project.old = run(mini_project.project, NAME, "quick")
    mini_project.notebook(NAME, "print('first')", code, parameters="n: int = 2")
    path.touch()
    return path


def start(mini):
    """A runner in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "attention_companion.execution.runner", NAME, "--profile", "quick"],
        cwd=mini.root,
        env={**os.environ, "ATTENTION_COMPANION_ROOT": str(mini.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_last_cell(runner):
    for line in runner.stdout:
        if "cell 3/3" in line:
            return
    pytest.fail("the runner ended before its last cell")


def kernel_of(mini):
    """The recorded kernel's process, or None."""
    for path in jobs_dir(mini.project).glob("*.json"):
        for pid, created in json.loads(path.read_text())["kernel_pids"]:
            try:
                process = psutil.Process(pid)
                if abs(process.create_time() - created) < 0.1:
                    return process
            except psutil.NoSuchProcess:
                return None
    return None


def finish(runner):
    runner.wait(timeout=30)
    text = runner.stdout.read()
    runner.stdout.close()
    return text


def ended(process, seconds=3.0):
    try:
        process.wait(seconds)
    except psutil.TimeoutExpired:
        return False
    return True


def old_or_none(mini):
    """Whatever lies under a key is whole; the old result is untouched."""
    project = mini.project
    folder = project.results("quick") / NAME
    assert find_valid(project, NAME, "quick", mini.old.key) is not None
    for entry in folder.iterdir():
        if not entry.name.startswith(".partial-"):
            assert find_valid(project, NAME, "quick", entry.name) is not None, entry


def heals(mini, gate):
    """What a build does first, then the run: no manual step."""
    gate.unlink(missing_ok=True)
    project = mini.project
    end_survivors(project)
    sweep(project)
    folder = project.results("quick") / NAME
    assert not [entry for entry in folder.iterdir() if entry.name.startswith(".partial-")]
    result = run(project, NAME, "quick")
    assert result.key == compute_key(project, NAME, "quick").key
    check_executed(read_executed(result.executed))
    assert list(jobs_dir(project).glob("*.json")) == []


def test_a_killed_runner_takes_its_kernel_along_and_leaves_no_result(mini_project, gate):
    runner = start(mini_project)
    wait_for_last_cell(runner)
    kernel = kernel_of(mini_project)
    runner.kill()
    assert ended(kernel), "the kernel outlived its runner"
    finish(runner)
    old_or_none(mini_project)
    assert len(list((mini_project.project.results("quick") / NAME).glob(".partial-*"))) == 1
    heals(mini_project, gate)


def start_without_poller(mini, death_signal):
    """A runner whose kernel lacks ipykernel's poller (subreapers defeat it), with or without our death signal."""
    hide = "" if death_signal else "'ATTENTION_COMPANION_KERNEL_PARENT': ''"
    code = (
        "import subprocess, sys\n"
        "import jupyter_client.launcher as launcher\n"
        "from attention_companion.execution import runner\n"
        "real = runner.kernel_environment\n"
        f"runner.kernel_environment = lambda *a, **k: {{**real(*a, **k), {hide}}}\n"
        "class Popen(subprocess.Popen):\n"
        "    def __init__(self, cmd, **options):\n"
        "        options['env'].pop('JPY_PARENT_PID', None)\n"
        "        super().__init__(cmd, **options)\n"
        "launcher.Popen = Popen\n"
        f"sys.exit(runner.main(['{NAME}', '--profile', 'quick']))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=mini.root, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere only ipykernel's poller ends the kernel")
def test_the_death_signal_ends_a_kernel_whose_poller_is_defeated(mini_project, gate):
    runner = start_without_poller(mini_project, death_signal=True)
    wait_for_last_cell(runner)
    kernel = kernel_of(mini_project)
    runner.kill()
    assert ended(kernel)
    finish(runner)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere only ipykernel's poller ends the kernel")
def test_without_poller_and_death_signal_the_next_build_ends_the_kernel(mini_project, gate):
    runner = start_without_poller(mini_project, death_signal=False)
    wait_for_last_cell(runner)
    kernel = kernel_of(mini_project)
    runner.kill()
    assert not ended(kernel, 1.5)  # the fault, raw
    finish(runner)
    old_or_none(mini_project)
    assert len(end_survivors(mini_project.project)) == 1
    assert ended(kernel)
    heals(mini_project, gate)


def test_a_killed_kernel_is_reported_and_the_partial_run_kept(mini_project, gate):
    runner = start(mini_project)
    wait_for_last_cell(runner)
    kernel_of(mini_project).kill()
    text = finish(runner)
    assert runner.returncode == 1
    assert "the kernel died (probably out of memory)" in text
    (kept,) = (mini_project.project.results_root / "failed").iterdir()
    assert "first" in (kept / "executed.ipynb").read_text(encoding="utf-8")
    old_or_none(mini_project)
    heals(mini_project, gate)


def test_a_killed_process_group_leaves_nothing_running(mini_project, gate):
    runner = start(mini_project)
    wait_for_last_cell(runner)
    kernel = kernel_of(mini_project)
    os.killpg(runner.pid, signal.SIGKILL)
    assert ended(kernel)
    finish(runner)
    old_or_none(mini_project)
    heals(mini_project, gate)


def test_a_polite_kill_cleans_up_by_itself(mini_project, gate):
    runner = start(mini_project)
    wait_for_last_cell(runner)
    kernel = kernel_of(mini_project)
    runner.terminate()
    finish(runner)
    assert runner.returncode == 128 + signal.SIGTERM
    assert ended(kernel)
    assert list(jobs_dir(mini_project.project).iterdir()) == []
    assert [entry.name for entry in (mini_project.project.results("quick") / NAME).iterdir()] == [mini_project.old.key]


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["runner", "kernel", "group"])
@pytest.mark.parametrize("moment", range(10))
def test_storm(mini_project, gate, victim, moment):
    """Killed at a random moment from before the kernel starts to after the rename; the gate is open."""
    gate.unlink()
    rng = random.Random(f"{victim}-{moment}")
    began = time.monotonic()
    runner = start(mini_project)
    # An undisturbed run lasts 2 to 3 s on the slowest machine seen: moments are spread over all of it.
    delay = rng.uniform(0.05, 2.5)
    while time.monotonic() - began < delay:
        time.sleep(0.005)
    kernel = kernel_of(mini_project)
    if victim == "kernel":
        while kernel is None and runner.poll() is None:
            kernel = kernel_of(mini_project)
        if kernel is not None:
            kernel.kill()
    elif victim == "runner":
        runner.kill()
    else:
        os.killpg(runner.pid, signal.SIGKILL)
    finish(runner)
    assert kernel is None or ended(kernel)
    old_or_none(mini_project)
    heals(mini_project, gate)
