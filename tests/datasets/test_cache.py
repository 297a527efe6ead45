"""The cache under attack: altered, truncated, half-copied files, killed and simultaneous fetches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest

from attention_companion.datasets import DataCorrupt, cache
from attention_companion.datasets.store import Store

pytestmark = pytest.mark.torch_free

FETCH = """
import sys
from pathlib import Path
from attention_companion.datasets.catalogue import read_catalogue
from attention_companion.datasets.limits import Limits
from attention_companion.datasets.store import Store

store = Store(Path(sys.argv[1]), read_catalogue(Path(sys.argv[2])), Limits(first_byte=5, minimum_rate=1000, window=5))
print(store.fetch("mnist").kind, store.load("mnist", "train").kind)
"""


@pytest.fixture
def filled(world: Any, server: Any) -> Store:
    store: Store = world.store(server.url("good"))
    assert store.fetch("mnist", [].append).kind == "full"
    return store


def _folder(world: Any) -> Path:
    return Path(world.folder / "cache" / "mnist")


def _flip(path: Path, *, keep_time: bool) -> None:
    """Change one bit of the last byte; the size stays, the time too if asked."""
    state = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    if keep_time:
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _start(world: Any, catalogue: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-c", FETCH, str(world.folder / "cache"), str(catalogue)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_an_entry_is_plain_arrays_and_nothing_else(filled: Store, world: Any) -> None:
    names = {path.name for path in _folder(world).iterdir()}
    assert names == {"entry.json"} | {f"{s}_{w}.npy" for s in ("train", "test") for w in ("pixels", "labels")}
    assert {path.name for path in _folder(world).parent.iterdir()} == {"mnist", "mnist.lock"}


@pytest.mark.parametrize("file", ["train_pixels.npy", "train_labels.npy"])
def test_an_altered_file_is_refused_by_load_and_fetched_again(
    filled: Store, world: Any, server: Any, file: str
) -> None:
    assert filled.load("mnist", "train", n=1).kind == "full"  # a digest once found good is not good for ever
    _flip(_folder(world) / file, keep_time=False)
    with pytest.raises(DataCorrupt, match=r"altered.*companion data fetch mnist"):
        filled.load("mnist", "train", n=1)
    assert filled.load("mnist", "test", n=1).kind == "full"  # the other split is whole
    assert filled.stamp("mnist")["kind"] == "unavailable"
    assert not filled.verify("mnist").ok
    lines: list[str] = []
    assert filled.fetch("mnist", lines.append).kind == "full"
    assert any("refused" in line and "altered" in line for line in lines)
    assert filled.load("mnist", "train").kind == "full"
    assert filled.verify("mnist").ok


def test_an_alteration_that_keeps_size_and_time_is_seen_by_a_new_process(filled: Store, world: Any) -> None:
    _flip(_folder(world) / "train_pixels.npy", keep_time=True)
    assert not filled.verify("mnist").ok
    code = FETCH.replace('store.fetch("mnist").kind, ', "").replace("print(", "print('loaded', ")
    command = [sys.executable, "-c", code, str(world.folder / "cache"), str(world.catalogue)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "DataCorrupt" in done.stderr
    assert "loaded" not in done.stdout


@pytest.mark.parametrize(
    "damage", ["truncate", "remove", "empty", "entry", "entry-missing", "reshape", "object"]
)
def test_other_damage_is_refused_and_mended(filled: Store, world: Any, damage: str) -> None:
    path = _folder(world) / "test_pixels.npy"
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "remove":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "entry":
        (_folder(world) / "entry.json").write_text('{"files"')
    elif damage == "entry-missing":
        (_folder(world) / "entry.json").unlink()
    elif damage == "reshape":  # as many bytes, other sides
        np.save(path, np.load(path).reshape(20, 14, 56))
    else:  # an array that would need unpickling, padded to the right size
        size = path.stat().st_size
        np.save(path, np.array([{}], dtype=object))
        path.write_bytes(path.read_bytes().ljust(size, b"\0"))
    if damage in ("truncate", "remove", "empty", "entry", "entry-missing"):
        assert filled.status("mnist").kind == "unavailable"  # seen without hashing
    with pytest.raises(Exception, match=r"companion data fetch mnist|cannot be read") as caught:
        filled.load("mnist", "test")
    assert isinstance(caught.value, RuntimeError)
    assert not filled.verify("mnist").ok
    assert filled.fetch("mnist", [].append).kind == "full"
    assert filled.verify("mnist").ok


def test_when_refetching_fails_the_damaged_entry_does_not_stay(
    filled: Store, world: Any, server: Any
) -> None:
    _flip(_folder(world) / "train_pixels.npy", keep_time=False)
    assert world.store(server.url("missing")).fetch("mnist", [].append).kind == "sample"
    assert not _folder(world).exists()


def test_a_copied_cache_is_trusted_after_its_content_was_hashed(
    filled: Store, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times change in a copy or a restored backup; the stamp must not, and must not be believed unread."""
    for path in _folder(world).glob("*.npy"):
        os.utime(path)
    assert not filled.status("mnist").trusted
    assert filled.stamp("mnist")["kind"] == "full"
    assert filled.fetch("mnist", [].append).kind == "full"
    assert filled.status("mnist").trusted  # fetch noted the new times after hashing


def test_a_second_fetch_asks_nobody(filled: Store, server: Any) -> None:
    before = len(server.requests)
    lines: list[str] = []
    assert filled.fetch("mnist", lines.append).kind == "full"
    assert len(server.requests) == before
    assert lines == ["mnist: already here, digests checked"]


def test_processes_that_fetch_at_once_fetch_once(world: Any, server: Any) -> None:
    catalogue = world.write_catalogue(server.url("slow"))
    processes = [_start(world, catalogue) for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert all(output.strip().endswith("full full") for output in outputs)
    assert server.count("slow") == 4  # the four files, once
    assert sum("another process is fetching it; waiting" in output for output in outputs) == 2


@pytest.mark.parametrize("files_asked", [1, 2, 3])
def test_a_killed_fetch_leaves_no_entry_and_the_next_one_heals(
    world: Any, server: Any, files_asked: int
) -> None:
    """kill -9 in the middle of a transfer: no half entry, no stuck lock, and the debris is swept."""
    root = world.folder / "cache"
    process = _start(world, world.write_catalogue(server.url("slow")))
    deadline = time.monotonic() + 30
    while server.count("slow") < files_asked and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    assert not (root / "mnist").exists()
    assert list(root.glob(".partial-mnist-*"))  # what a kill leaves; nothing reads it
    store = world.store(server.url("good"))
    assert store.status("mnist").kind == "unavailable"
    assert store.fetch("mnist", [].append).kind == "full"
    assert not list(root.glob(".partial-*"))


def test_no_moment_of_writing_shows_half_an_entry(
    filled: Store, world: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Break off at every rename and every array: what can be read is the old entry, the new one, or none."""
    calls = {"count": 0, "until": 0}

    def breaking(real: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            calls["count"] += 1
            if calls["count"] > calls["until"]:
                raise KeyboardInterrupt
            return real(*arguments, **keywords)

        return call

    monkeypatch.setattr(cache.np, "save", breaking(np.save))
    monkeypatch.setattr(cache.os, "rename", breaking(os.rename))
    monkeypatch.setattr(cache.os, "fsync", breaking(os.fsync))
    root, splits, digest = world.folder / "cache", world.splits["mnist"], world.source("mnist").digest
    seen = set()
    for until in range(40):
        calls.update(count=0, until=until)
        try:
            cache.write_entry(root, "mnist", splits, digest, "http")
            seen.add("done")
            break
        except KeyboardInterrupt:
            state = filled.status("mnist").kind
            seen.add(state)
            assert state == "unavailable" or filled.verify("mnist").ok
            calls.update(count=0, until=1000)
            if state == "unavailable":
                cache.write_entry(root, "mnist", splits, digest, "http")
    assert "done" in seen
    assert filled.verify("mnist").ok


def test_write_atomically_writes_only_changes(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "stamp.json"
    assert cache.write_atomically(path, "one")
    before = path.stat()
    assert not cache.write_atomically(path, "one")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
    assert cache.write_atomically(path, "two")
    assert path.read_text() == "two"
    assert [entry.name for entry in path.parent.iterdir()] == ["stamp.json"]


def test_the_environment_moves_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_COMPANION_CACHE", str(tmp_path / "a b"))
    assert cache.cache_dir() == tmp_path / "a b"
    monkeypatch.delenv("ATTENTION_COMPANION_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_dir() == Path(pooch.os_cache("attention-companion"))
