"""Looking up what earlier runs left under results/: cost, digests and parameters, without judging validity.

Whether a result may be used is decided by `execution.results` alone. Here a result is only read, to tell a person what
a run cost and what it depended on; one that cannot be read is passed over, because the next build removes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention_companion.cli.errors import UsageError

if TYPE_CHECKING:
    from attention_companion.execution.project import NotebookSpec, Project


@dataclass(frozen=True)
class Stored:
    """One result.json: ``key`` is the name of its folder, ``content`` the parsed file."""

    key: str
    path: Path
    content: Mapping[str, Any]

    @property
    def provenance(self) -> Mapping[str, Any]:
        return self.content.get("provenance") or {}

    @property
    def started(self) -> str:
        """ISO time at which the run began; sorts as text."""
        return str(self.provenance.get("started") or "")

    @property
    def seconds(self) -> float | None:
        return _number(self.provenance.get("seconds"))

    @property
    def peak_memory(self) -> float | None:
        """Bytes."""
        return _number(self.provenance.get("peak_memory_bytes"))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def stored_results(project: Project, profile: str, notebook: str) -> list[Stored]:
    """Readable results of a notebook under a profile, newest first."""
    found = []
    for path in sorted(project.results(profile).joinpath(notebook).glob("*/result.json")):
        # Folders with a dot are runs that never finished.
        if path.parent.name.startswith("."):
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict):
            found.append(Stored(path.parent.name, path.parent, content))
    return sorted(found, key=lambda result: result.started, reverse=True)


def pick_notebook(project: Project, asked: str) -> NotebookSpec:
    """The notebook whose name is ``asked`` or, if it is the only one, begins with it.

    Raises
    ------
    UsageError
        If none or several begin so; the message lists the names.
    """
    wanted = asked.removeprefix("notebooks/").removesuffix(".md").removesuffix(".ipynb")
    exact = [spec for spec in project.notebooks if spec.name == wanted]
    close = exact or [spec for spec in project.notebooks if wanted and spec.name.startswith(wanted)]
    if len(close) == 1:
        return close[0]
    if close:
        raise UsageError(f"{asked!r} begins several notebooks: {', '.join(spec.name for spec in close)}")
    names = ", ".join(spec.name for spec in project.notebooks) or "none"
    raise UsageError(f"no notebook is called {asked!r} or begins so; there are: {names}")


def pick_profile(project: Project, asked: str) -> str:
    """``asked`` if any notebook has that profile; raises UsageError with the list otherwise."""
    profiles = list(dict.fromkeys(name for spec in project.notebooks for name in spec.profiles))
    if asked not in profiles:
        raise UsageError(f"no profile is called {asked!r}; there are: {', '.join(profiles) or 'none'}")
    return asked
