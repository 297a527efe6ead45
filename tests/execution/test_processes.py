"""Records of live runs, and ending what an earlier build left alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from attention_companion.execution.processes import end_survivors, is_alive, jobs_dir, live_run_dirs, recorded

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
# A runner that starts a kernel (own session) that starts a child of its own; prints both pids.
TREE = """
import subprocess, sys, time
kernel = subprocess.Popen([sys.executable, "-c", '''
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
'''], stdout=subprocess.PIPE, text=True, start_new_session=True)
print(kernel.pid, kernel.stdout.readline().strip(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def spawn():
    """Start processes that end with the test."""
    started = []

    def start(command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def write_record(mini, pid, create_time=None, **changes):
    import socket

    record = {
        "host": socket.gethostname(),
        "pid": pid,
        "create_time": psutil.Process(pid).create_time() if create_time is None else create_time,
        "kernel_pids": [],
        "run_dir": str(mini.root / "results" / "quick" / "11_sum" / f".partial-{pid}-x"),
        "into_results": True,
        **changes,
    }
    return mini.write(f"results/.jobs/{pid}.json", json.dumps(record))


def gone(pid, seconds=5.0):
    """Whether ``pid`` ends (or is a zombie) within ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_a_record_lives_as_long_as_its_run(mini_project):
    project = mini_project.project
    run_dir = mini_project.root / "results" / "quick" / "11_sum" / ".partial-1-a"
    with recorded(project, run_dir, "11_sum", "quick", True) as job:
        job.add_kernel(os.getpid())
        (path,) = jobs_dir(project).glob("*.json")
        record = json.loads(path.read_text())
        assert record["pid"] == os.getpid()
        assert record["kernel_pids"] == [[os.getpid(), psutil.Process().create_time()]]
        assert live_run_dirs(project) == {run_dir}
        assert end_survivors(project) == []  # a process never ends itself
    assert list(jobs_dir(project).iterdir()) == []


def test_the_whole_tree_of_a_live_runner_is_ended(mini_project, spawn):
    runner = spawn([sys.executable, "-c", TREE])
    kernel, child = map(int, runner.stdout.readline().split())
    record = write_record(mini_project, runner.pid, kernel_pids=[[kernel, psutil.Process(kernel).create_time()]])
    assert len(end_survivors(mini_project.project)) == 3
    assert all(gone(pid) for pid in (runner.pid, kernel, child))
    assert not record.exists()
    assert end_survivors(mini_project.project) == []


def test_a_kernel_that_survived_its_runner_is_ended_with_its_children(mini_project, spawn):
    runner = spawn([sys.executable, "-c", TREE])
    kernel, child = map(int, runner.stdout.readline().split())
    write_record(mini_project, runner.pid, kernel_pids=[[kernel, psutil.Process(kernel).create_time()]])
    runner.kill()
    runner.wait()
    assert not gone(kernel, 0.2)
    end_survivors(mini_project.project)
    assert gone(kernel)
    assert gone(child)


def test_an_unrecorded_orphan_is_known_by_the_run_folder_in_its_environment(mini_project, spawn):
    run_dir = str(mini_project.root / "results" / "quick" / "11_sum" / ".partial-7-x")
    orphan = spawn(SLEEP, env={**os.environ, "ATTENTION_COMPANION_RUN_DIR": run_dir})
    stranger = spawn(SLEEP, env={**os.environ, "ATTENTION_COMPANION_RUN_DIR": run_dir + "y"})
    write_record(mini_project, 2**22 - 1, create_time=1.0, run_dir=run_dir)
    for process in (orphan, stranger):  # until exec has happened, the environment is still this test's
        while psutil.Process(process.pid).environ().get("ATTENTION_COMPANION_RUN_DIR") is None:
            time.sleep(0.01)
    end_survivors(mini_project.project)
    assert gone(orphan.pid)
    assert not gone(stranger.pid, 0.2)


def test_a_reused_pid_is_not_a_survivor(mini_project, spawn):
    bystander = spawn(SLEEP)
    born = psutil.Process(bystander.pid).create_time()
    write_record(mini_project, bystander.pid, create_time=born - 100, kernel_pids=[[bystander.pid, born - 50]])
    assert end_survivors(mini_project.project) == []
    assert not gone(bystander.pid, 0.2)
    assert is_alive(bystander.pid, born)
    assert not is_alive(bystander.pid, born - 100)


def test_a_live_run_with_a_folder_of_its_own_is_left_alone(mini_project, spawn):
    runner = spawn(SLEEP)
    record = write_record(mini_project, runner.pid, into_results=False)
    assert end_survivors(mini_project.project) == []
    assert not gone(runner.pid, 0.2)
    assert record.exists()


def test_records_of_another_host_are_left_alone_for_a_week(mini_project, spawn):
    runner = spawn(SLEEP)
    path = write_record(mini_project, runner.pid, host="another")
    assert end_survivors(mini_project.project) == []
    assert not gone(runner.pid, 0.2)
    assert len(live_run_dirs(mini_project.project)) == 1
    write_record(mini_project, runner.pid, create_time=time.time() - 8 * 86400, host="another")
    assert live_run_dirs(mini_project.project) == set()
    assert path.exists()


def test_a_damaged_record_is_removed(mini_project):
    texts = ["", "{", "[]", '{"pid": 1}']
    damaged = [mini_project.write(f"results/.jobs/{n}.json", text) for n, text in enumerate(texts)]
    assert end_survivors(mini_project.project) == []
    assert not any(path.exists() for path in damaged)
