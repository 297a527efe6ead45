"""Results on disk: content-addressed folders, written beside, fsynced and renamed once.

``results/<profile>/<notebook>/<key>/`` either is a whole result or does not exist. A folder that fails
:func:`verify` counts as absent: it is removed and made anew.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_companion.execution.closure import digest_bytes
from attention_companion.execution.guards import BrokenRun, check_executed
from attention_companion.execution.keys import CUSTOM, SCHEMA, compute_key
from attention_companion.execution.project import Project

RESULT = "result.json"
EXECUTED = "executed.ipynb"
RECORDS = "records.json"
FIGURES = "figures"
PARTIAL_PREFIX = ".partial-"
OLD_KEYS_KEPT = 2


@dataclass(frozen=True)
class Result:
    """One result folder; the properties read it when asked."""

    path: Path
    info: dict[str, Any]

    @property
    def key(self) -> str:
        return str(self.info["key"])

    @property
    def notebook(self) -> str:
        return str(self.info["notebook"])

    @property
    def profile(self) -> str:
        return str(self.info["profile"])

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.info["parameters"])

    @property
    def digests(self) -> dict[str, Any]:
        return dict(self.info["digests"])

    @property
    def provenance(self) -> dict[str, Any]:
        return dict(self.info["provenance"])

    @property
    def executed(self) -> Path:
        """The executed notebook."""
        return self.path / EXECUTED

    @property
    def figures(self) -> tuple[Path, ...]:
        return tuple(sorted((self.path / FIGURES).glob("*")))

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """What the notebook recorded in the ledger, in order."""
        return list(json.loads((self.path / RECORDS).read_text(encoding="utf-8")))


def result_dir(project: Project, notebook: str, profile: str, key: str) -> Path:
    """Where the result with ``key`` lies or will lie."""
    return project.results(profile) / notebook / key


def load(path: str | Path) -> Result:
    """The result in folder ``path``, its result.json parsed but its files not yet verified.

    Raises
    ------
    BrokenRun
        If there is no result.json of this form.
    """
    folder = Path(path)
    try:
        info = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except OSError as error:
        raise BrokenRun(f"{folder} holds no readable {RESULT}: {error}") from error
    except ValueError as error:
        raise BrokenRun(f"{folder / RESULT} is not JSON: {error}") from error
    needed = {"schema", "key", "notebook", "profile", "parameters", "digests", "provenance", "files"}
    if not isinstance(info, dict) or not needed <= set(info) or info["schema"] != SCHEMA:
        raise BrokenRun(f"{folder / RESULT} is not a result of schema {SCHEMA}")
    return Result(folder, info)


def verify(result: Result) -> None:
    """Compare every file with its digest and the executed notebook with the guards.

    Raises
    ------
    BrokenRun
        If a file is missing, altered or was not there when the run ended, or the notebook fails the guards.
    """
    listed = result.info["files"]
    if not isinstance(listed, dict) or not {EXECUTED, RECORDS} <= set(listed):
        raise BrokenRun(f"{result.path / RESULT} does not list {EXECUTED} and {RECORDS}")
    present = file_digests(result.path)
    for name in sorted(set(listed) | set(present)):
        if name not in present:
            raise BrokenRun(f"{result.path}: {name} is missing")
        if name not in listed:
            raise BrokenRun(f"{result.path}: {name} does not belong to the result")
        if present[name] != listed[name]:
            raise BrokenRun(f"{result.path}: {name} was altered after the run")
    check_executed(read_executed(result.executed))


def find_valid(project: Project, notebook: str, profile: str, key: str) -> Result | None:
    """The verified result of ``notebook`` under ``profile`` with exactly ``key``, or None."""
    path = result_dir(project, notebook, profile, key)
    if not path.is_dir():
        return None
    try:
        result = load(path)
        if (result.key, result.notebook, result.profile) != (key, notebook, profile):
            raise BrokenRun(f"{path} holds the result of another run")
        verify(result)
    except BrokenRun:
        return None
    return result


def read_executed(path: Path) -> Any:
    """The notebook at ``path`` as NotebookNode (v4); BrokenRun if it is not one."""
    import nbformat

    try:
        return nbformat.v4.reads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BrokenRun(f"{path} is not a readable notebook: {error}") from error


def file_digests(folder: Path) -> dict[str, str]:
    """Relative path -> SHA-256 of every file below ``folder`` but result.json."""
    return {
        path.relative_to(folder).as_posix(): digest_bytes(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / RESULT
    }


def publish(partial: Path, target: Path) -> None:
    """Make ``partial`` (same file system) appear as ``target`` in one step, on disk before it is visible.

    A folder already at ``target`` is moved away first; whoever calls has found it invalid or means to replace it.
    """
    fsync_tree(partial)
    if target.exists():
        discard(target)
    os.rename(partial, target)
    _fsync_dir(target.parent)


def discard(folder: Path) -> None:
    """Remove ``folder`` so that a kill half-way never leaves a damaged folder under a result's name."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()  # whatever a link leads to is not ours to remove
        return
    doomed = folder.with_name(f"{PARTIAL_PREFIX}doomed-{os.getpid()}-{folder.name}")
    os.rename(folder, doomed)
    shutil.rmtree(doomed)


def fsync_tree(folder: Path) -> None:
    """Flush every file and folder below ``folder`` to the disk."""
    for directory, _, names in os.walk(folder, topdown=False):
        for name in names:
            with open(os.path.join(directory, name), "rb") as file:
                os.fsync(file.fileno())
        _fsync_dir(Path(directory))


def _fsync_dir(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(project: Project) -> list[str]:
    """Remove what no run will finish or read: dead partial folders, invalid results, all but the newest old keys.

    Of each notebook and profile the result with the key of now is kept, and the 2 others that were made last.
    Returns one line per folder removed.
    """
    from attention_companion.execution.processes import live_run_dirs

    live = live_run_dirs(project)
    removed = []
    for profile, notebook, folder in _result_folders(project):
        kept = []
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith(PARTIAL_PREFIX):
                if entry.resolve() not in live:
                    entry.unlink() if entry.is_symlink() else shutil.rmtree(entry)
                    removed.append(f"{entry}: left by a run that was killed")
                continue
            try:
                if entry.is_symlink():
                    raise BrokenRun(f"{entry} is a link, not a result")
                result = load(entry)
                if result.key != entry.name:
                    raise BrokenRun(f"{entry} holds the result with key {result.key}")
                verify(result)
            except BrokenRun as error:
                discard(entry)
                removed.append(f"{entry}: {error}")
                continue
            kept.append(result)
        current = _current_key(project, notebook, profile)
        old = [result for result in kept if result.key != current]
        old.sort(key=lambda result: str(result.provenance.get("started", "")), reverse=True)
        for result in old[OLD_KEYS_KEPT + (current is None) :]:
            discard(result.path)
            removed.append(f"{result.path}: older than the {OLD_KEYS_KEPT} kept")
    return removed


def _result_folders(project: Project) -> Iterator[tuple[str, str, Path]]:
    """(profile, notebook, folder) of every folder that holds results; profiles no longer listed included."""
    profiles = {profile for spec in project.notebooks for profile in spec.profiles} - {CUSTOM}
    for profile in sorted(profiles):
        for spec in project.notebooks:
            folder = project.results(profile) / spec.name
            if folder.is_dir():
                yield profile, spec.name, folder


def _current_key(project: Project, notebook: str, profile: str) -> str | None:
    """The key of now, or None where the sources or stamps do not give one (then nothing counts as current)."""
    try:
        return compute_key(project, notebook, profile).key
    except (ValueError, KeyError, FileNotFoundError):
        return None
