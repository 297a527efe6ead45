"""Who is running: records that let a later build end what a kill left alive.

kill -9 on a build leaves runners and kernels that keep computing and would finish while the next build runs. Every
run therefore writes ``results/.jobs/<host>-<pid>-<random>.json`` before it starts a kernel and removes it at its end::

    {"schema", "host", "pid", "create_time", "pgid", "kernel_pids": [[pid, create_time], ...], "run_dir", "notebook",
     "profile", "into_results"}

A pid counts only together with its process's creation time, so a reused pid is never mistaken for a survivor.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from attention_companion.execution.project import Project

RUN_DIR_VARIABLE = "ATTENTION_COMPANION_RUN_DIR"
_TOLERANCE = 0.02
"""Seconds by which two readings of one creation time may differ (it is derived from clock ticks)."""
_GRACE = 5.0
_FOREIGN_LIFETIME = 7 * 86400
"""Seconds after which a record of another host, whose processes cannot be seen from here, counts as dead."""


@dataclass
class Job:
    """The record of one run; :meth:`add_kernel` is called once the kernel's pid is known."""

    path: Path
    record: dict[str, Any] = field(default_factory=dict)

    def add_kernel(self, pid: int) -> None:
        """Note the kernel ``pid`` (nothing if it has ended already)."""
        try:
            created = psutil.Process(pid).create_time()
        except psutil.Error:
            return
        self.record["kernel_pids"].append([pid, created])
        self._write()

    def _write(self) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self.record), encoding="utf-8")
        os.replace(fresh, self.path)


def jobs_dir(project: Project) -> Path:
    return project.results_root / ".jobs"


@contextmanager
def recorded(project: Project, run_dir: Path, notebook: str, profile: str, into_results: bool) -> Iterator[Job]:
    """Keep a record of this process's run in ``run_dir`` for as long as the block lasts."""
    folder = jobs_dir(project)
    folder.mkdir(parents=True, exist_ok=True)
    me = psutil.Process()
    job = Job(
        folder / f"{socket.gethostname()}-{me.pid}-{secrets.token_hex(4)}.json",
        {
            "schema": 1,
            "host": socket.gethostname(),
            "pid": me.pid,
            "create_time": me.create_time(),
            "pgid": os.getpgrp(),
            "kernel_pids": [],
            "run_dir": str(run_dir.resolve()),
            "notebook": notebook,
            "profile": profile,
            "into_results": into_results,
        },
    )
    job._write()
    try:
        yield job
    finally:
        # A process that a cell started in a session of its own outlives its kernel; nobody else would end it.
        near = {me.pid, *(parent.pid for parent in me.parents())}
        _kill(process for process in _marked(str(run_dir)) if process.pid not in near)
        job.path.unlink(missing_ok=True)


def read_records(project: Project) -> list[tuple[Path, dict[str, Any]]]:
    """Every readable record; files that are not records (a write cut short) are removed."""
    found = []
    for path in sorted(jobs_dir(project).glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            record["pid"], record["create_time"], record["host"], record["kernel_pids"], record["run_dir"]
        except FileNotFoundError:
            continue  # its run ended just now
        except (ValueError, KeyError, TypeError):
            path.unlink(missing_ok=True)
            continue
        found.append((path, record))
    return found


def is_alive(pid: int, create_time: float) -> bool:
    """Whether the process that had ``pid`` and was created at ``create_time`` (seconds since 1970) still runs."""
    return _process(pid, create_time) is not None


def live_run_dirs(project: Project) -> set[Path]:
    """The folders that live runs write to; a run recorded by another host is taken to be alive for a week."""
    return {
        Path(record["run_dir"])
        for _, record in read_records(project)
        if (
            is_alive(record["pid"], record["create_time"])
            if record["host"] == socket.gethostname()
            else time.time() - record["create_time"] < _FOREIGN_LIFETIME
        )
    }


def end_survivors(project: Project) -> list[str]:
    """End every recorded run of an earlier build, its whole process tree and its kernel's session.

    To be called by a build that holds the build lock, before it starts anything: whatever is recorded then as writing
    into results/ is left over. Runs with an output folder of their own (``companion run``) are ended only if their
    runner is dead and the kernel survived. This process and its ancestors are never touched, nor are records of
    other hosts. Returns one line per process ended.
    """
    me = psutil.Process()
    spared = {me.pid, *(parent.pid for parent in me.parents())}
    ended: list[str] = []
    for path, record in read_records(project):
        if record["host"] != socket.gethostname():
            continue
        runner = _process(record["pid"], record["create_time"])
        if runner is not None and (record["pid"] in spared or not record.get("into_results", True)):
            continue
        roots = [runner] if runner is not None else []
        kernels = [(int(pid), float(created)) for pid, created in record["kernel_pids"]]
        roots += [process for pid, created in kernels if (process := _process(pid, created)) is not None]
        victims = {process.pid: process for root in roots for process in _tree(root)}
        victims.update({process.pid: process for process in _marked(str(record["run_dir"]))})
        for pid in spared:
            victims.pop(pid, None)
        what = f"{record.get('notebook')} ({record.get('profile')})"
        ended += [f"pid {pid} of {what}" for pid in sorted(victims)]
        _kill(victims.values())
        path.unlink(missing_ok=True)
    return ended


def _process(pid: int, create_time: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - create_time) <= _TOLERANCE
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def _tree(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _marked(run_dir: str) -> list[psutil.Process]:
    """Processes whose environment names ``run_dir``: a kernel's children that lost their parent, a kernel that was
    started in the instant before its pid was recorded."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(RUN_DIR_VARIABLE) == run_dir:
                found.append(process)
        except (psutil.Error, OSError):
            continue  # another user's, or ended meanwhile: not a child of ours
    return found


def _kill(processes: Iterable[psutil.Process]) -> None:
    victims = list(processes)
    for process in victims:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(victims, timeout=_GRACE)
    if alive:
        listed = ", ".join(str(process.pid) for process in alive)
        raise RuntimeError(f"processes {listed} of an earlier build do not end; end them by hand and try again")
