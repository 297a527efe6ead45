"""Remove pieces that are not whole, so that "it exists under its key" means "it need not be made".

A key says what a piece was made for; these checks say that what lies there is what was made. They run once
before each build, under the build lock, in the order of the graph: what depends on a removed piece goes too.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention_companion.execution.atomic import write_text
from attention_companion.execution.graph import MARKER, Graph, file_digest

if TYPE_CHECKING:
    from attention_companion.execution.project import Project


def prepare(project: Project) -> list[str]:
    """End what killed builds left running, then remove what is not whole; return a line for each removal.

    Call it with the build lock held. A removed piece is simply made again by the graph.
    """
    from attention_companion.execution.processes import end_survivors
    from attention_companion.execution.results import sweep

    end_survivors(project)
    said = drop_stale_stamps(project)
    sweep(project)
    settle_times(project)
    return said + drop_broken_products(project)


def settle_times(project: Project) -> None:
    """Set times that lie in the future to now.

    Snakemake fails a job whose input is newer than the output just written, even where it is told to ignore
    times; a restored cache or a machine whose clock ran ahead brings such files. Times decide nothing here.
    """
    now = time.time()
    for path in project.results_root.rglob("*.json"):
        if path.stat().st_mtime > now:
            os.utime(path, (now, now))


def drop_stale_stamps(project: Project) -> list[str]:
    """Remove the stamps that no longer tell what the data cache holds (cleaned, or fetched since)."""
    graph, said = Graph(project), []
    for name in graph.data():
        path = graph.root / graph.stamp(name)
        if path.exists() and (why := stamp_is_stale(name, read_json(path))):
            remove(path)
            said.append(f"data {name}: {why}; fetching again")
    return said


def stamp_is_stale(name: str, stamp: Mapping[str, Any] | None) -> str | None:
    """Why the stamp of a data set must be made again, or None when it still holds."""
    from attention_companion import datasets

    if stamp is None:
        return "the stamp cannot be read"
    now = datasets.status(name)
    if now.kind == "full" and not now.trusted:
        # Fetching reads the files through, heals what was altered, and notes the new sizes and times.
        return "the cached files were touched since they were last read through"
    if stamp.get("kind") != now.kind:
        return f"the stamp says {stamp.get('kind')!r}, the cache now holds {now.kind!r}"
    return None if stamp == datasets.stamp(name) else "the stamp is not the one of these data"


def incomplete_data(project: Project) -> list[str]:
    """A line for each data set of which only a sample, or nothing, is here."""
    graph, said = Graph(project), []
    for name in graph.data():
        stamp = read_json(graph.root / graph.stamp(name)) or {}
        if (kind := stamp.get("kind", "full")) != "full":
            what = "only the bundled sample is here" if kind == "sample" else "nothing is here"
            said.append(f"data {name}: {what}; `companion data fetch {name}` tries its routes again")
    return said


def drop_broken_products(project: Project) -> list[str]:
    """Remove ledgers, checks, books and exported figures that are not what was written."""
    graph, said = Graph(project), []
    for profile in graph.profiles():
        folder = graph.root / "results" / profile
        for ledger in sorted(folder.glob("ledger-*.json")):
            if not ledger_is_whole(graph.root, ledger):
                remove(ledger)
                said.append(f"{ledger.name}: its runs have changed; collecting again")
        for check in sorted(folder.glob("check-*.json")):
            note = read_json(check) or {}
            if not _same(folder / str(note.get("ledger")), note.get("digest")):
                remove(check)
        for product in (graph.book_folder(profile), graph.figures_folder(profile)):
            for marker in sorted((graph.root / product).glob(f"{MARKER}*")):
                if not product_is_whole(graph.root, marker):
                    remove(marker)
                    said.append(f"{product}: files are missing or changed; making it again")
        for stage in (graph.root / "_build").glob(f".{graph.figures_folder(profile).name}-*"):
            shutil.rmtree(stage)  # left by an export that was killed
    return said


def note_ledger(root: Path, ledger: Path, results: Mapping[str, Path]) -> None:
    """Write beside a ledger what it was made from: its own digest and those of the runs (paths from root)."""
    write_json(_note_of(ledger), {
        "ledger": file_digest(ledger),
        "runs": {path.as_posix(): file_digest(root / path) for path in results.values()},
    })


def ledger_is_whole(root: Path, ledger: Path) -> bool:
    """Whether a ledger is the one written, from the runs that still lie there."""
    note = read_json(_note_of(ledger)) or {}
    runs = note.get("runs", {})
    return _same(ledger, note.get("ledger")) and all(_same(root / path, runs[path]) for path in runs)


def note_product(root: Path, marker: Path, ledger: Path) -> None:
    """Write the marker of a folder of products: the ledger it shows and the digest of every file in it."""
    write_json(marker, {
        "ledger": [ledger.as_posix(), file_digest(root / ledger)],
        "files": {path.relative_to(marker.parent).as_posix(): file_digest(path)
                  for path in product_files(marker.parent)},
    })


def product_is_whole(root: Path, marker: Path) -> bool:
    """Whether every file that the marker lists is as it was written, and the ledger it shows stands."""
    note = read_json(marker) or {}
    files = note.get("files", {})
    ledger, digest = note.get("ledger", ("", None))
    there = {path.relative_to(marker.parent).as_posix() for path in product_files(marker.parent)}
    return there == set(files) != set() and _same(root / ledger, digest) and all(
        _same(marker.parent / name, files[name]) for name in files)


def product_files(folder: Path) -> Iterable[Path]:
    """Every file of a product except markers, sorted."""
    return (path for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(MARKER))


def forget_old(project: Project, profile: str) -> None:
    """Remove ledgers and checks of other keys, and folders left empty; the current ones stay."""
    graph = Graph(project)
    folder = graph.root / "results" / profile
    ledger = graph.ledger(profile)
    if not (graph.root / ledger).exists():
        return
    kept = {ledger.name, _note_of(ledger).name, graph.check(profile).name}
    for pattern in ("ledger-*.json", "check-*.json", ".ledger-*.json"):
        for path in folder.glob(pattern):
            if path.name not in kept:
                path.unlink()
    for run in folder.glob("*/*"):
        # Snakemake makes the folder of an output before the job that makes the output has run.
        if run.is_dir() and not any(run.iterdir()):
            shutil.rmtree(run)


def remove(path: Path) -> None:
    """Remove what stands where a file of ours belongs: the file, a link, or a folder that somebody put there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, or None when there is no file or it holds anything else."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object in one step (temporary file, fsync, rename)."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _note_of(ledger: Path) -> Path:
    return ledger.with_name(f".{ledger.name}")


def _same(path: Path, digest: object) -> bool:
    return isinstance(digest, str) and path.is_file() and file_digest(path) == digest
