"""The cache on disk: whole entries or none, one writer at a time, nothing trusted without its digest.

Layout, under :func:`cache_dir`::

    mnist/entry.json  train_pixels.npy  train_labels.npy  test_pixels.npy  test_labels.npy
    mnist.sample      (a marker: every route failed and the bundled sample stands in)
    mnist.lock        (flock; released by the system when its holder dies, so it cannot go stale)
    .partial-mnist-*  (an entry being written; left by a killed process, removed by the next fetch)

Arrays are plain .npy files, memory-mapped on load. An entry appears by one rename of its folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import SPLITS, Split, split_digest
from .errors import DataCorrupt

SCHEMA = 1
ARRAYS = ("pixels", "labels")
ENVIRONMENT = "ATTENTION_COMPANION_CACHE"


def cache_dir() -> Path:
    """``ATTENTION_COMPANION_CACHE`` if set (``~`` expanded), else the user's cache folder for this project."""
    if chosen := os.environ.get(ENVIRONMENT):
        return Path(chosen).expanduser().absolute()
    # What pooch.os_cache answers (a test compares), without loading pooch's network libraries to read a file.
    import platformdirs

    return Path(platformdirs.user_cache_dir("attention-companion"))


def _sync(path: Path) -> None:
    """fsync a file or a folder: a rename is only safe once what it names has reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, text: str) -> bool:
    """Write ``text`` to ``path`` by a temporary sibling and a rename; False (and nothing done) if it is the same."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    _sync(path.parent)
    return True


@contextlib.contextmanager
def locked(root: Path, name: str, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of one set; wait for another holder, saying so once."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"{name}.lock").open("w") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    report("another process is fetching it; waiting")
                    told = True
                time.sleep(0.1)
        yield  # closing the file releases the lock


def _files(folder: Path) -> dict[str, dict[str, int]]:
    names = [f"{split}_{what}.npy" for split in SPLITS for what in ARRAYS]
    return {
        name: {"bytes": (folder / name).stat().st_size, "mtime_ns": (folder / name).stat().st_mtime_ns}
        for name in names
    }


def scratch(root: Path, name: str) -> Path:
    """A fresh private folder for one fetch, next to the entry so that a rename cannot cross disks."""
    # Not tempfile's: that makes private folders, and a cache shared by a group keeps the umask's rights.
    folder = root / f".partial-{name}-{uuid.uuid4().hex}"
    folder.mkdir(parents=True)
    return folder


def sweep(root: Path, name: str) -> None:
    """Remove what killed fetches of this set left behind. Call with the lock held: then none of it is alive."""
    for folder in root.glob(f".partial-{name}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def write_entry(
    root: Path, name: str, splits: Mapping[str, Split], digest: Mapping[str, str], route: str
) -> None:
    """Write a whole entry beside and move it into place with one rename. Call with the lock held."""
    partial = scratch(root, name)
    try:
        for split in SPLITS:
            for what in ARRAYS:
                with (partial / f"{split}_{what}.npy").open("wb") as file:
                    np.save(file, getattr(splits[split], what), allow_pickle=False)
                    file.flush()
                    os.fsync(file.fileno())
        entry = {
            "schema": SCHEMA,
            "name": name,
            "route": route,
            "digest": dict(digest),
            "files": _files(partial),
        }
        write_atomically(partial / "entry.json", json.dumps(entry, indent=1) + "\n")
        _sync(partial)
        remove_entry(root, name)
        os.rename(partial, root / name)
        _sync(root)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_entry(root: Path, name: str) -> None:
    """Remove an entry; renamed first, so that no moment shows half of it. Call with the lock held."""
    if (root / name).exists():
        doomed = scratch(root, name)
        os.rename(root / name, doomed / "old")
        shutil.rmtree(doomed, ignore_errors=True)


def read_entry(root: Path, name: str) -> dict[str, Any] | None:
    """The entry's description, None if there is none; DataCorrupt if files are missing or have another size."""
    folder = root / name
    try:
        entry: dict[str, Any] = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
        stored: dict[str, dict[str, int]] = entry["files"]
        present = _files(folder)
        different = [file for file in present if stored[file]["bytes"] != present[file]["bytes"]]
    except FileNotFoundError as error:
        if not folder.exists():
            return None
        raise DataCorrupt(f"{folder} lacks {Path(error.filename).name}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataCorrupt(
            f"{folder / 'entry.json'} cannot be read ({type(error).__name__}: {error})"
        ) from error
    if different:
        raise DataCorrupt(f"{', '.join(different)} in {folder} changed size")
    # Times differ after a copy or a restored backup; then the content is hashed before it is trusted.
    entry["untouched"] = all(stored[file]["mtime_ns"] == present[file]["mtime_ns"] for file in present)
    return entry


def confirm_entry(root: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Note the files' present times, after their content was hashed. Call with the lock held."""
    noted = {key: value for key, value in entry.items() if key != "untouched"}
    noted["files"] = _files(root / name)
    write_atomically(root / name / "entry.json", json.dumps(noted, indent=1) + "\n")


def open_split(root: Path, name: str, split: str) -> Split:
    """Memory-map one split; DataCorrupt if a file is not the array it should be."""
    arrays = []
    for what in ARRAYS:
        path = root / name / f"{split}_{what}.npy"
        try:
            arrays.append(np.load(path, mmap_mode="r", allow_pickle=False))
        except (ValueError, EOFError, OSError) as error:
            raise DataCorrupt(f"{path} cannot be read ({type(error).__name__}: {error})") from error
    try:
        return Split(*arrays)
    except (TypeError, ValueError) as error:
        raise DataCorrupt(f"{root / name}: {error}") from error


_checked: dict[tuple[object, ...], str] = {}


def checked_digest(root: Path, name: str, split: str, opened: Split, *, again: bool = False) -> str:
    """The digest of an opened split, computed once a process for files that stay as they are (inode, size, time)."""
    states = [(root / name / f"{split}_{what}.npy").stat() for what in ARRAYS]
    key = (str(root), name, split, *((state.st_ino, state.st_size, state.st_mtime_ns) for state in states))
    if again or key not in _checked:
        _checked[key] = split_digest(opened)
    return _checked[key]
