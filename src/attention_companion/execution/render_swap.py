"""Put a finished book in place by renaming, and clear away what killed builds left.

A folder cannot be replaced by one portable rename, so there are two: the old book steps aside, the new
one steps in. Killed between the two, the old book still lies beside and `recover` puts it back.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

STAGE_PREFIX = ".stage-"


def new_stage(out: Path) -> Path:
    """A fresh folder beside `out` (same file system, so that it can be renamed); its name holds our pid."""
    out.parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{STAGE_PREFIX}{os.getpid()}-", dir=out.parent))


def swap(built: Path, out: Path) -> None:
    """Rename `built` to `out`; an older `out` is removed after. On failure the older one is put back."""
    aside = _aside(out)
    if out.exists():
        os.rename(out, aside)
    try:
        os.rename(built, out)
    except OSError:
        if aside.exists():
            os.rename(aside, out)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def recover(out: Path) -> None:
    """Undo what a killed build left: put an old book back where none stands, remove dead stages."""
    aside = _aside(out)
    if aside.exists():
        if out.exists():
            shutil.rmtree(aside)
        else:
            os.rename(aside, out)
    for stage in out.parent.glob(f"{STAGE_PREFIX}*"):
        pid = stage.name.removeprefix(STAGE_PREFIX).split("-")[0]
        if not (pid.isdigit() and psutil.pid_exists(int(pid))):
            shutil.rmtree(stage, ignore_errors=True)


def _aside(out: Path) -> Path:
    return out.with_name(f".{out.name}-before")
