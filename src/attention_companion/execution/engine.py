"""`python -m attention_companion.execution.engine {book,full,figures,results}`: run the Snakefile for a person.

The graph itself is the Snakefile's. The engine holds the build lock, clears away what a killed build left, runs
Snakemake in a process group of its own that it can end whole, follows the work by what appears on disk (which
is the same on a cluster), and when a job fails shows that job's own message.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import psutil

from attention_companion.execution import locking
from attention_companion.execution.atomic import write_text
from attention_companion.execution.graph import Graph, is_current
from attention_companion.execution.plain import LOCK
from attention_companion.execution.progress import Follower, Screen, duration
from attention_companion.execution.project import Project, ProjectError

LOGS = ".logs"
JOBS = ".jobs"
POLL_SECONDS = 0.25
TERMINATE_SECONDS = 5.0
LOG_LINES = 40
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal asked the engine to stop; `signal` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a target; return 0 when it stands, 1 when a job failed, 128 + n when signal n stopped the build."""
    given = _parse(arguments)
    try:
        project = Project.find(given.root)
    except ProjectError as error:
        print(error, file=sys.stderr)
        return 2
    for number in STOPPING:
        signal.signal(number, _stop)
    screen = Screen(sys.stderr)
    try:
        return build(project, given, screen)
    except locking.LockError as error:
        screen.say(str(error))
        return 1
    except Stopped as stopped:
        screen.say(f"stopped by {signal.Signals(stopped.signal).name}; what was whole is kept, run it again to go on")
        return 128 + stopped.signal
    finally:
        screen.close()


def build(project: Project, given: argparse.Namespace, screen: Screen) -> int:
    """Hold the lock, clear away, run Snakemake, tell how it went. Raises LockError, Stopped."""
    from attention_companion.execution.freshness import forget_old, incomplete_data, prepare
    from attention_companion.execution.processes import end_survivors

    started = time.monotonic()
    lock = locking.acquire(project.results_root / LOCK, lambda: end_survivors(project), screen.say, given.wait)
    try:
        for line in prepare(project):
            screen.say(line)
        if problems := refused(project, given.profile):
            screen.say("\n".join(problems))
            return 1
        logs = project.results_root / LOGS
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)
        graph = Graph(project)
        follower = Follower(graph, given.profile, given.target, screen)
        # Snakemake would find nothing to do; starting it to hear so costs a second and more.
        code = 0 if is_current(graph, given.target, given.profile) else run_snakemake(project, given, lock, follower)
        follower.finish()
        # An exit code is a claim; the pieces are the proof.
        if code != 0 or not is_current(Graph(project), given.target, given.profile):
            tell_failures(project, code, screen)
            return 1
        forget_old(project, given.profile)
        for line in incomplete_data(project):
            screen.say(line)
        tell_success(Graph(project), given, follower, time.monotonic() - started, screen)
        return 0
    finally:
        lock.close()


def refused(project: Project, profile: str) -> list[str]:
    """What is wrong with notebooks that cannot be keyed (parameters, imports, text), before anything runs."""
    from attention_companion.execution.keys import compute_key

    problems = []
    for spec in project.notebooks:
        # Stand-in digests: the data may still have to be fetched, and every other fault shows without them.
        data = {name: {"digest": "", "kind": ""} for name in spec.data}
        try:
            compute_key(project, spec.name, profile, data=data)
        except (ValueError, LookupError, OSError) as error:
            problems.append(f"{spec.name}: {error}")
    return problems


def command_of(given: argparse.Namespace) -> list[str]:
    """Snakemake's command line for a target."""
    target = given.target
    if given.profile != "quick":
        target = {"book": "full", "figures": "figures_full"}[target]
    command = [sys.executable, "-m", "snakemake", "--cores", str(given.cores), "--nocolor"]
    if given.cluster:
        command += ["--profile", given.cluster]
    return [*command, "--", target]


def run_snakemake(
    project: Project, given: argparse.Namespace, lock: locking.BuildLock, follower: Follower
) -> int:
    """Run Snakemake to its end, following it; return its exit code. However this returns, no job is left."""
    from attention_companion.execution.processes import RUN_DIR_VARIABLE, end_survivors

    log = project.results_root / LOGS / "snakemake.log"
    # Everything Snakemake starts inherits this mark, by which `end_survivors` finds jobs that lost their parent.
    # (A kernel carries the mark of its own run instead, and its run has a record of its own.)
    mark = str(project.results_root / JOBS / f"build-{os.getpid()}-{secrets.token_hex(4)}")
    environment = {**os.environ, locking.HELD_BY: str(os.getpid()), RUN_DIR_VARIABLE: mark}
    with log.open("wb") as output:
        # The shell waits for a word before it becomes Snakemake: if the engine is killed before the record below
        # is on disk, the pipe closes and nothing starts that nobody knows of.
        process = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r go && exec "$@" < /dev/null', "snakemake", *command_of(given)],
            cwd=project.root, env=environment,
            stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True, pass_fds=(lock.descriptor,),
        )
    record = project.results_root / JOBS / f"{socket.gethostname()}-{process.pid}-build.json"
    try:
        write_text(record, json.dumps(_record(process.pid, mark, given)))
        assert process.stdin is not None
        # Killed before it could be told to go: its exit code will say so.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"go\n")
            process.stdin.close()
        while process.poll() is None:
            follower.look()
            time.sleep(POLL_SECONDS)
        return process.returncode
    finally:
        _end_group(process)
        end_survivors(project)
        record.unlink(missing_ok=True)


def tell_failures(project: Project, code: int, screen: Screen) -> None:
    """Print what each failed job said; fall back on Snakemake's own words when no job explains the failure."""
    logs = project.results_root / LOGS
    failed = failed_logs(logs)
    for path in failed:
        screen.say(f"\n--- {path.stem}")
        screen.say(path.read_text("utf-8", errors="replace").strip() or "(it printed nothing; was it killed?)")
    whole = logs / "snakemake.log"
    if not failed:
        lines = whole.read_text("utf-8", errors="replace").splitlines()
        screen.say("\n".join(lines[-LOG_LINES:]))
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    if code == 0:
        how += ", yet pieces are missing"
    screen.say(f"\nThe build failed: Snakemake {how} (its log: {whole}). Run it again after mending; "
               f"what is whole is kept.")


def failed_logs(logs: Path) -> list[Path]:
    """Logs of the jobs that failed in this run: Snakemake names each in its error block."""
    text = (logs / "snakemake.log").read_text("utf-8", errors="replace")
    named = []
    for line in text.splitlines():
        word, _, rest = line.strip().partition(": ")
        if word == "log" and rest.endswith("(check log file(s) for error details)"):
            named.append(logs.parent.parent / rest.partition(" (check log")[0])
    return [path for path in dict.fromkeys(named) if path.is_file()]


def tell_success(
    graph: Graph, given: argparse.Namespace, follower: Follower, seconds: float, screen: Screen
) -> None:
    """Say what was done and where the product lies."""
    screen.say(f"{follower.summary()} ({duration(seconds)})")
    if given.target == "book":
        page = (graph.root / graph.book_folder(given.profile) / "index.html").as_posix()
        print(f"The book lies in {page} (open it in a browser; it also works from file://)", flush=True)
    elif given.target == "figures":
        folder = graph.root / graph.figures_folder(given.profile)
        print(f"The figures, their numbers and the ledger lie in {folder} and {folder}.zip", flush=True)


def _record(pid: int, mark: str, given: argparse.Namespace) -> dict[str, object]:
    """Snakemake's entry among the live processes (see `processes`), so that a later build can end it."""
    return {
        "schema": 1, "host": socket.gethostname(), "pid": pid, "create_time": psutil.Process(pid).create_time(),
        "pgid": pid, "kernel_pids": [], "run_dir": mark, "notebook": f"the graph for {given.target}",
        "profile": given.profile, "into_results": True,
    }


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ask Snakemake's process group to end, insist after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        if number == signal.SIGTERM:
            time.sleep(0.1)  # its children get the same signal; let them put their own house in order
    process.wait()


def _stop(number: int, frame: FrameType | None) -> None:
    for other in STOPPING:
        signal.signal(other, signal.SIG_IGN)  # one stop is enough; a second must not cut the clearing short
    raise Stopped(number)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="engine", description="Build the book or the figures through the graph.")
    parser.add_argument("target", choices=("book", "full", "figures", "results"))
    parser.add_argument("--profile", default="quick", help="quick (default) or full; the target full means book full")
    parser.add_argument("--cores", type=_cores, default=len(_allowed_cores()), help="notebooks run at the same time")
    parser.add_argument("--cluster", help="a Snakemake profile folder, e.g. profiles/slurm")
    parser.add_argument("--wait", type=float, help="seconds to wait for another build (default: as long as it takes)")
    parser.add_argument("--root", type=Path, help="the project's folder (default: the one around this)")
    given = parser.parse_args(arguments)
    if given.target == "full":
        given.target, given.profile = "book", "full"
    if given.profile not in ("quick", "full"):
        parser.error(f"--profile {given.profile!r}: expected quick or full")
    if given.target == "results" and given.profile != "quick":
        parser.error("the target results is for the profile quick; use figures for full")
    return given


def _cores(text: str) -> int:
    cores = int(text)
    if cores < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected at least 1")
    return cores


def _allowed_cores() -> range:
    """The cores this process may use: a container or a scheduler may allow fewer than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)
    return range(len(affinity(0)) if affinity else os.cpu_count() or 1)


if __name__ == "__main__":
    sys.exit(main())
