"""One build of a project at a time: an advisory lock that dies with its holder.

Snakemake's own lock is a file that outlives a killed process and then needs a manual `--unlock`. This
one is flock(2) on `results/.lock`: the kernel drops it when the last process that holds it ends, however
it ends. The engine hands the open file to Snakemake, so the lock also covers a Snakemake whose engine was
killed. The file's text says who holds it; it informs people and is never trusted for exclusion.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

# Set for the Snakemake that an engine starts: the engine holds the lock on its behalf.
HELD_BY = "ATTENTION_COMPANION_BUILD_LOCK"
POLL_SECONDS = 0.2
# A new holder writes its name a moment after it has the lock; only a name that stays dead means survivors.
GRACE_SECONDS = 1.0
# How long survivors of a killed engine may take to let go once they have been ended.
SURVIVOR_SECONDS = 30.0


class LockError(RuntimeError):
    """The build lock could not be had; the message says who holds it and what to do."""


@dataclass
class BuildLock:
    """A held lock; `descriptor` may be passed to a child process. Close to release."""

    path: Path
    descriptor: int

    def close(self) -> None:
        """Release the lock, unless a child still holds the same open file."""
        os.close(self.descriptor)


def acquire(
    path: Path,
    end_survivors: Callable[[], object],
    announce: Callable[[str], None],
    wait_seconds: float | None = None,
) -> BuildLock:
    """Take the lock at `path`, waiting for a living holder and ending what a dead one left behind.

    `announce` is called once with a line for the person who waits. `wait_seconds` bounds the wait for a
    living holder (None: no bound). Raises `LockError` when the bound is passed or survivors do not end.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    started, announced, dead_since = time.monotonic(), False, None
    try:
        while not _try(descriptor):
            holder = read_holder(path)
            if is_alive(holder):
                dead_since = None
                if not announced:
                    announce(f"another build is running (process {holder.get('pid')} on {holder.get('host')}, "
                             f"since {holder.get('since')}); waiting for it to end. Ctrl-C gives up.")
                    announced = True
                if wait_seconds is not None and time.monotonic() - started > wait_seconds:
                    raise LockError(f"{path} is held by process {holder.get('pid')} on {holder.get('host')}; "
                                    f"waited {wait_seconds:g} s. Let that build end, or stop it, and run again.")
            elif dead_since is None:
                dead_since = time.monotonic()
            elif (dead_for := time.monotonic() - dead_since) > GRACE_SECONDS:
                # The engine is dead but something it started is not: nothing else can hold the open file.
                end_survivors()
                if dead_for > SURVIVOR_SECONDS:
                    raise LockError(f"{path} is held although its holder {holder or '(unknown)'} is gone; "
                                    f"find who has it open (lsof or fuser) and end that process.")
            time.sleep(POLL_SECONDS)
        _write_holder(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return BuildLock(path, descriptor)


def held_by_parent() -> bool:
    """Whether the process that started this one holds the lock for it."""
    return os.environ.get(HELD_BY) == str(os.getppid())


def read_holder(path: Path) -> dict[str, Any]:
    """Who wrote the lock's text: {"pid", "create_time", "host", "since"}, or {} when it cannot be read."""
    try:
        holder = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}  # being written at this moment, or cut short by a kill
    return holder if isinstance(holder, dict) else {}


def is_alive(holder: dict[str, Any]) -> bool:
    """Whether the holder still runs; a holder on another host counts as alive, we cannot know better."""
    if holder.get("host") not in (None, platform.node()):
        return True
    try:
        process = psutil.Process(int(holder["pid"]))
        return bool(abs(process.create_time() - float(holder["create_time"])) < 1.0
                    and process.status() != psutil.STATUS_ZOMBIE)
    except (KeyError, ValueError, TypeError, psutil.Error):
        return False


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(descriptor: int) -> None:
    text = json.dumps({
        "pid": os.getpid(),
        "create_time": psutil.Process().create_time(),
        "host": platform.node(),
        "since": time.strftime("%H:%M:%S"),
    })
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)
