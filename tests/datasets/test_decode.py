"""Decoders: each published format to the same arrays, and malformed bytes refused."""

from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attention_companion.datasets import decode
from attention_companion.datasets.arrays import Split, split_digest

pytestmark = pytest.mark.torch_free


def _python2_pickle(batch: Split) -> bytes:
    """A batch as Python 2 wrote it: byte-string opcodes, protocol 2, the pixels inside a numpy reconstruction."""

    def text(value: bytes) -> bytes:
        return (
            b"U" + bytes([len(value)]) + value
            if len(value) < 256
            else b"T" + len(value).to_bytes(4, "little") + value
        )

    rows = batch.pixels.transpose(0, 3, 1, 2).tobytes()
    labels = b"](" + b"".join(b"K" + bytes([label]) for label in batch.labels) + b"e"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
        + b"M" + len(batch.labels).to_bytes(2, "little") + b"M\x00\x0c\x86"
        + b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + text(rows) + b"tb"
    )  # fmt: skip
    return (
        b"\x80\x02}("
        + text(b"batch_label") + text(b"training batch 1 of 5")
        + text(b"labels") + labels
        + text(b"data") + array
        + text(b"filenames") + b"](" + text(b"a_s_000004.png") + b"e"
        + b"u."
    )  # fmt: skip


def _same(found: dict[str, Split], wanted: dict[str, Split]) -> None:
    assert {name: split_digest(split) for name, split in found.items()} == {
        name: split_digest(split) for name, split in wanted.items()
    }


def test_idx_round_trip_and_known_bytes() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    data = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]) + bytes(range(24))
    assert decode.to_idx(array) == data
    np.testing.assert_array_equal(decode.idx(data), array)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00",
        b"PK\x03\x04",
        bytes([0, 0, 13, 1, 0, 0, 0, 1, 5]),
        bytes([0, 0, 8, 1, 0, 0, 0, 2, 5]),
    ],
)
def test_bytes_that_are_not_idx_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="IDX"):
        decode.idx(data)


def test_idx_folder_reads_plain_and_gzipped_and_refuses_a_truncated_gzip(world: Any, tmp_path: Path) -> None:
    folder = tmp_path / "idx"
    folder.mkdir()
    for name, data in world.files.items():
        (folder / name).write_bytes(data)
    plain = "train-images-idx3-ubyte"
    (folder / plain).write_bytes(decode.to_idx(world.splits["mnist"]["train"].pixels))
    (folder / f"{plain}.gz").unlink()
    _same(decode.idx_folder(folder), world.splits["mnist"])
    labels = folder / "t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(labels.read_bytes()[:-12])
    with pytest.raises(ValueError, match="t10k-labels"):
        decode.idx_folder(folder)


def test_keras_npz(world: Any, tmp_path: Path) -> None:
    splits = world.splits["mnist"]
    path = tmp_path / "mnist.npz"
    np.savez(
        path,
        x_train=splits["train"].pixels,
        y_train=splits["train"].labels,
        x_test=splits["test"].pixels,
        y_test=splits["test"].labels,
    )
    _same(decode.keras_npz(path), splits)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"mnist\.npz"):
        decode.keras_npz(path)


def test_every_cifar_format_gives_the_same_arrays(world: Any, tmp_path: Path) -> None:
    splits = world.splits["cifar10"]
    batches = world.batches()
    binary = world.archive(
        tmp_path / "b.tar.gz",
        {f"x/{name}.bin": decode.to_cifar_binary(batch) for name, batch in batches.items()},
    )
    python = world.archive(
        tmp_path / "p.tar.gz", {f"x/{name}": _python2_pickle(batch) for name, batch in batches.items()}
    )
    strips = {}
    for name, batch in batches.items():
        buffer = io.BytesIO()
        Image.fromarray(batch.pixels.reshape(-1, 1024, 3)).save(buffer, "PNG")
        strips[f"package/{name}.png"] = buffer.getvalue()
    labels = {
        f"package/{split}_lables.json": json.dumps(splits[split].labels.tolist()).encode()
        for split in ("train", "test")
    }
    package = world.archive(tmp_path / "n.tgz", {**strips, **labels})
    _same(decode.cifar_archive(binary), splits)
    _same(decode.cifar_archive(python), splits)
    _same(decode.cifar_png_package(package), splits)


def test_the_handmade_python2_batch_is_what_python_reads(world: Any) -> None:
    """Keeps the test above honest: the real unpickler sees the same content in the handmade bytes."""
    batch = world.splits["cifar10"]["test"]
    content = pickle.loads(_python2_pickle(batch).replace(b"numpy.core.", b"numpy._core."), encoding="bytes")
    assert content[b"labels"] == batch.labels.tolist()
    np.testing.assert_array_equal(decode.cifar_rows(content[b"data"]), batch.pixels)


def test_a_pickle_is_read_without_being_run(tmp_path: Path) -> None:
    """A batch that would create a file when unpickled is refused, and the file is not created."""
    trap = tmp_path / "ran"

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (str(trap),))

    evil = pickle.dumps(Trap(), protocol=2)
    with pytest.raises(ValueError, match="not a CIFAR-10 batch"):
        decode.cifar_pickle(evil)
    assert not trap.exists()
    pickle.loads(evil)
    assert trap.exists()  # the control: the trap works


@pytest.mark.parametrize(
    "data", [b"", b"garbage", b"\x80\x02}", pickle.dumps({"labels": [1, 2], "data": b"short"})]
)
def test_bytes_that_are_no_batch_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="batch"):
        decode.cifar_pickle(data)
    with pytest.raises(ValueError, match="batch"):
        decode.cifar_binary(data)


def test_an_archive_without_a_batch_names_what_is_missing(world: Any, tmp_path: Path) -> None:
    batches = world.batches()
    files = {
        f"{name}.bin": decode.to_cifar_binary(batch) for name, batch in batches.items() if name[-1] != "3"
    }
    with pytest.raises(ValueError, match="lacks data_batch_3"):
        decode.cifar_archive(world.archive(tmp_path / "x.tar.gz", files))


def test_a_png_of_another_shape_is_refused() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (32, 32)).save(buffer, "PNG")
    with pytest.raises(ValueError, match="strip"):
        decode.png_strip(buffer.getvalue())
    with pytest.raises(ValueError, match="PNG"):
        decode.png_strip(buffer.getvalue()[:40])


def test_the_digest_sees_shape_labels_and_every_pixel(world: Any) -> None:
    split = world.splits["cifar10"]["test"]
    turned = Split(split.pixels.reshape(20, 32, 96), split.labels)
    pixels, labels = split.pixels.copy(), split.labels.copy()
    pixels[-1, -1, -1, -1] ^= 1
    labels[0] ^= 1
    others = {
        split_digest(turned),
        split_digest(Split(pixels, split.labels)),
        split_digest(Split(split.pixels, labels)),
    }
    assert len(others | {split_digest(split)}) == 4
