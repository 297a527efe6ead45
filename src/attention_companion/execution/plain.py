"""What a bare `snakemake` needs that the engine otherwise does: the build lock and a clean start."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attention_companion.execution import locking

if TYPE_CHECKING:
    from attention_companion.execution.project import Project

LOCK = ".lock"
# Calls that only look: they neither wait for a running build nor remove anything.
LOOKING = frozenset({"--dry-run", "--dryrun", "--dag", "--rulegraph", "--filegraph", "--summary", "--detailed-summary",
                     "--list-rules", "--list", "-l", "--lint", "--unlock", "--version"})
# -n, alone or written together with other flags that take no value.
DRY = re.compile(r"-[pqkFfrt]*n[npqkFfrt]*")

_held: list[locking.BuildLock] = []


def hold_project(project: Project, arguments: Sequence[str]) -> None:
    """Take the build lock for the life of this process and remove pieces that are not whole.

    `arguments` are Snakemake's. Does nothing when the engine that started this process holds the lock, and
    nothing for a call that only looks.
    """
    if locking.held_by_parent() or _held or only_looks(arguments):
        return
    from attention_companion.execution.freshness import prepare
    from attention_companion.execution.processes import end_survivors

    _held.append(locking.acquire(project.results_root / LOCK, lambda: end_survivors(project), _say))
    for line in prepare(project):
        _say(line)


def only_looks(arguments: Sequence[str]) -> bool:
    """Whether Snakemake's arguments ask for a look at the graph rather than for work (-n, also within -nq)."""
    return any(word in LOOKING or DRY.fullmatch(word) for word in arguments)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
