"""The list of image sets, read from ``sources.yml``: one place for digests, mirrors, packages and licences."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Mirror:
    """A web address that serves the files as published: address = base + file name; checksum ``algorithm:hex``."""

    base: str
    format: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class Package:
    """A package whose client (``npm`` or ``apt-get``) finds it by name, and how its content is laid out."""

    client: str
    package: str
    format: str


@dataclass(frozen=True)
class Licence:
    """Under which terms a set is distributed and whom to name."""

    title: str
    licence: str
    note: str
    attribution: str
    homepage: str

    def __str__(self) -> str:
        return f"{self.title} ({self.licence}). {self.note} {self.attribution} {self.homepage}"


@dataclass(frozen=True)
class Source:
    """One image set.

    ``shape`` is the shape of one image, ``counts`` the images per split, ``digest`` the pinned
    :func:`~attention_companion.datasets.arrays.split_digest` per split. ``sample`` is the bundled excerpt (None where
    the licence does not allow one) with ``sample_digest``.
    """

    name: str
    shape: tuple[int, ...]
    counts: Mapping[str, int]
    classes: tuple[str, ...]
    digest: Mapping[str, str]
    licence: Licence
    mirrors: tuple[Mirror, ...] = ()
    packages: tuple[Package, ...] = ()
    sample: Path | None = None
    sample_digest: Mapping[str, str] | None = None


def _source(name: str, entry: dict[str, Any], folder: Path) -> Source:
    bundled = bool(entry["may_bundle"])
    return Source(
        name=name,
        shape=tuple(entry["shape"]),
        counts=entry["counts"],
        classes=tuple(entry["classes"]),
        digest=entry["digest"],
        licence=Licence(
            entry["title"],
            entry["licence"],
            entry["licence_note"].strip(),
            entry["attribution"].strip(),
            entry["homepage"],
        ),
        mirrors=tuple(Mirror(**mirror) for mirror in entry["mirrors"]),
        packages=tuple(Package(**package) for package in entry["packages"]),
        sample=folder / f"{name}.npz" if bundled else None,
        sample_digest=entry["sample_digest"] if bundled else None,
    )


def read_catalogue(path: Path) -> Mapping[str, Source]:
    """The sets that a YAML file describes; their samples lie in the folder ``sample`` beside it."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: _source(name, entry, path.parent / "sample") for name, entry in entries.items()}


@lru_cache(maxsize=1)
def catalogue() -> Mapping[str, Source]:
    """Every image set by name (``mnist``, ``fashion_mnist``, ``cifar10``)."""
    return read_catalogue(HERE / "sources.yml")


def lookup(name: object, sources: Mapping[str, Source]) -> Source:
    """The set called ``name``; ValueError (TypeError if not a string) that lists the names and the likely one."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a data set is a string, got {type(name).__name__} {name!r}")
    if name in sources:
        return sources[name]
    likely = difflib.get_close_matches(
        name.lower().replace("-", "_").replace(" ", "_"), list(sources), n=1, cutoff=0.5
    )
    hint = f"; did you mean {likely[0]!r}?" if likely else ""
    raise ValueError(f"there is no data set {name!r}: the names are {', '.join(sources)}{hint}")
