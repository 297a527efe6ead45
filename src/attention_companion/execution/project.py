"""Where the project lies on disk and which notebooks it has.

``notebooks/notebooks.yml`` is the one list of notebooks. Everything that needs a notebook's name, part, data sets
or per-profile parameters asks :class:`Project`, never the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

MARKER = Path("notebooks") / "notebooks.yml"
ROOT_VARIABLE = "ATTENTION_COMPANION_ROOT"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_KEYS = {"name", "part", "data", "packages", "profiles"}
RESERVED_PROFILES = frozenset({"custom", "data", "failed"})


class ProjectError(ValueError):
    """The project's folder or its list of notebooks is not what it must be."""


class UnknownNotebook(KeyError):
    """No notebook has the name asked for; the message lists those that exist."""

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownProfile(KeyError):
    """The notebook has no such profile; the message lists those that exist."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class NotebookSpec:
    """One entry of the list: ``profiles`` maps a profile's name to its parameter overrides."""

    name: str
    part: int
    data: tuple[str, ...]
    profiles: Mapping[str, Mapping[str, Any]]
    source: Path
    """The MyST text, which is what runs."""
    packages: tuple[str, ...] = ()
    """Installed packages that may be missing: what needs them then says that it could not be checked."""

    @property
    def paired(self) -> Path:
        """The .ipynb without outputs that launch buttons open."""
        return self.source.with_suffix(".ipynb")

    def overrides(self, profile: str) -> Mapping[str, Any]:
        """What ``profile`` changes.

        Raises
        ------
        UnknownProfile
            If the notebook lists no such profile.
        """
        if profile not in self.profiles:
            raise UnknownProfile(
                f"notebook {self.name!r} has no profile {profile!r}; it has: {', '.join(self.profiles)}. "
                f"Add it under profiles: in {MARKER} or choose one of these."
            )
        return self.profiles[profile]


@dataclass(frozen=True)
class Project:
    """A project folder (absolute ``root``) and its notebooks in the order of the list."""

    root: Path
    notebooks: tuple[NotebookSpec, ...]

    @classmethod
    def find(cls, start: str | Path | None = None) -> Project:
        """The project that holds ``start``.

        Without ``start``: the folder in ATTENTION_COMPANION_ROOT if that is set, else the one that holds the
        working directory, else the one that this package's files lie in.

        Raises
        ------
        ProjectError
            If no folder on the way up holds notebooks/notebooks.yml, or that file is malformed.
        """
        if start is not None:
            candidates = [Path(start)]
        elif os.environ.get(ROOT_VARIABLE):
            candidates = [Path(os.environ[ROOT_VARIABLE])]
        else:
            candidates = [Path.cwd(), Path(__file__)]
        for candidate in candidates:
            here = candidate.resolve()
            for folder in (here, *here.parents):
                if (folder / MARKER).is_file():
                    return cls.at(folder)
        looked = " or ".join(str(c) for c in candidates)
        raise ProjectError(
            f"no {MARKER} at or above {looked}: run this inside a clone of the project, "
            f"or set {ROOT_VARIABLE} to its folder"
        )

    @classmethod
    def at(cls, root: str | Path) -> Project:
        """The project whose root is exactly ``root`` (ProjectError if its list is missing or malformed)."""
        folder = Path(root).resolve()
        path = folder / MARKER
        if not path.is_file():
            raise ProjectError(f"{path} does not exist: {folder} is not the root of a project")
        try:
            listed = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ProjectError(f"{path} is not YAML: {error}") from error
        if not isinstance(listed, dict) or not isinstance(listed.get("notebooks"), list):
            raise ProjectError(f"{path} must be a mapping with the list 'notebooks'")
        specs = tuple(_spec(entry, folder, path) for entry in listed["notebooks"])
        names = [spec.name for spec in specs]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ProjectError(f"{path} lists {', '.join(doubled)} more than once")
        return cls(folder, specs)

    def notebook(self, name: str) -> NotebookSpec:
        """The notebook called ``name`` (without suffix); raises UnknownNotebook."""
        for spec in self.notebooks:
            if spec.name == name:
                return spec
        names = "\n  ".join(spec.name for spec in self.notebooks) or "(none)"
        raise UnknownNotebook(f"no notebook is called {name!r}; {MARKER} lists:\n  {names}")

    @property
    def source_root(self) -> Path:
        """The folder put first on a kernel's import path: the code hashed is the code run."""
        return self.root / "src"

    @property
    def results_root(self) -> Path:
        return self.root / "results"

    def results(self, profile: str) -> Path:
        """The folder of one profile's results."""
        return self.results_root / profile

    @property
    def stamps(self) -> Path:
        """The folder of the data stamps."""
        return self.results_root / "data"


def _spec(entry: Any, root: Path, path: Path) -> NotebookSpec:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ProjectError(f"{path}: every notebook is a mapping with a name, got {entry!r}")
    name = entry["name"]
    where = f"{path}: notebook {name!r}"
    if not _NAME.fullmatch(name):
        raise ProjectError(f"{where}: a name holds letters, digits, _ and - only")
    unknown = sorted(set(entry) - _KEYS)
    if unknown:
        raise ProjectError(f"{where}: unknown keys {', '.join(unknown)}; known: {', '.join(sorted(_KEYS))}")
    part = entry.get("part")
    if isinstance(part, bool) or not isinstance(part, int):
        raise ProjectError(f"{where}: part must be an integer, got {part!r}")
    data = entry.get("data", [])
    if not isinstance(data, list) or not all(isinstance(item, str) for item in data):
        raise ProjectError(f"{where}: data must be a list of data set names, got {data!r}")
    packages = entry.get("packages", [])
    if not isinstance(packages, list) or not all(isinstance(item, str) for item in packages):
        raise ProjectError(f"{where}: packages must be a list of packages' names, got {packages!r}")
    profiles = entry.get("profiles")
    if not isinstance(profiles, dict) or not profiles:
        raise ProjectError(f"{where}: profiles must map at least one profile to its overrides ({{}} for none)")
    for profile, overrides in profiles.items():
        if not isinstance(profile, str) or not _NAME.fullmatch(profile) or profile in RESERVED_PROFILES:
            raise ProjectError(f"{where}: {profile!r} cannot name a profile")
        if not isinstance(overrides, dict):
            raise ProjectError(f"{where}: profile {profile!r} must map parameters to values, got {overrides!r}")
    frozen = MappingProxyType({key: MappingProxyType(dict(value)) for key, value in profiles.items()})
    return NotebookSpec(name, part, tuple(data), frozen, root / "notebooks" / f"{name}.md", tuple(packages))
