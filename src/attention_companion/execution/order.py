"""One run as asked for: what the parts of the runner pass to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attention_companion.execution.keys import ResultKey
from attention_companion.execution.project import Project

Progress = Callable[[int, int], None]
"""Called with (number of the code cell that starts, how many there are)."""


@dataclass(frozen=True)
class Order:
    """All names resolved, the key computed."""

    project: Project
    notebook: str
    profile: str
    """The label in the result: the profile run, or ``custom`` where parameters differ from it."""
    base_profile: str
    overrides: Mapping[str, Any]
    key: ResultKey
    threads: int
    extra_env: Mapping[str, str]
    out: Path | None
    progress: Progress

    @property
    def where(self) -> str:
        """For messages."""
        return f"notebook {self.notebook} ({self.profile})"
