"""The first route: the files as published, from mirrors, through pooch with a downloader that cannot hang.

A socket's own timeouts do not bound a name look-up, a server that trickles a byte a second, or a chain of
redirects. So the transfer runs in a thread that only writes to a file, and the caller watches its pace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import decode
from .arrays import Split
from .catalogue import Mirror, Source
from .errors import HostSilent, RouteFailed
from .limits import Limits, Pace

# A read returns only when it is full, so the first, which proves that content comes at all, is small.
FIRST_CHUNK, CHUNK = 1024, 16 * 1024
Report = Callable[[str], None]


class _Transfer(threading.Thread):
    """Streams one address into a file; ``received`` grows, ``failure`` is set at most once."""

    def __init__(self, url: str, target: Path, limits: Limits) -> None:
        # A daemon: a thread stuck in a name look-up must not keep the program from ending.
        super().__init__(daemon=True, name=f"fetch {url}")
        self._url, self._target, self._limits = url, target, limits
        self.received = 0
        self.answered = False
        self.failure: BaseException | None = None
        self.cancelled = threading.Event()
        self.finished = threading.Event()

    def run(self) -> None:
        try:
            self._stream()
        except BaseException as error:  # handed to the caller, who raises
            self.failure = error
        finally:
            self.finished.set()

    def _stream(self) -> None:
        import requests

        # The watcher decides when to give up; this timeout only lets an abandoned thread end.
        patience = 2 * max(self._limits.first_byte, self._limits.window)
        # identity: what the server stores is what the pinned checksum is of.
        headers = {"Accept-Encoding": "identity", "User-Agent": "attention-companion"}
        with (
            requests.Session() as session,
            session.get(self._url, stream=True, timeout=patience, headers=headers) as answer,
            self._target.open("wb") as file,
        ):
            self.answered = True
            if answer.status_code != 200:
                raise RouteFailed(f"it answered {answer.status_code} {answer.reason}")
            while not self.cancelled.is_set():
                chunk = answer.raw.read(CHUNK if self.received else FIRST_CHUNK, decode_content=False)
                if not chunk:
                    return
                file.write(chunk)
                self.received += len(chunk)


def _plainly(error: BaseException) -> str:
    """One line a person can act on, from the nested errors of the network libraries."""
    text = f"{type(error).__name__}: {error}"
    for sign, words in (
        ("NameResolutionError", "its name cannot be resolved"),
        ("ConnectTimeout", "no connection in time"),
        ("Read timed out", "it stopped sending"),
        ("Connection refused", "it refuses connections"),
        ("Network is unreachable", "the network is unreachable"),
        ("TooManyRedirects", "it redirects in circles"),
        ("IncompleteRead", "it broke off before the end"),
        ("SSLError", "its certificate cannot be checked"),
    ):
        if sign in text:
            return words
    return text.splitlines()[0][:160]


def downloader(limits: Limits) -> Callable[[str, Any, Any], None]:
    """A pooch downloader that obeys ``limits`` and raises RouteFailed with one plain line."""

    def download(url: str, output_file: Any, _: Any) -> None:
        transfer = _Transfer(url, Path(output_file), limits)
        pace = Pace(limits, limits.first_byte, limits.window)
        tick = min(0.1, limits.first_byte / 10, limits.window / 10)
        transfer.start()
        try:
            while not transfer.finished.wait(tick):
                pace.check(transfer.received)
            if transfer.failure is not None:
                raise transfer.failure
        except Exception as error:
            words = str(error) if isinstance(error, RouteFailed) else _plainly(error)
            raise (RouteFailed if transfer.answered else HostSilent)(words) from error
        finally:
            transfer.cancelled.set()

    return download


def _fetch_files(mirror: Mirror, folder: Path, limits: Limits, report: Report) -> None:
    """Bring every file of a mirror into ``folder``; a file that does not match its checksum is asked for once more."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    for name, checksum in mirror.files.items():
        for attempt in (1, 2):
            try:
                pooch.retrieve(
                    mirror.base + name, checksum, fname=name, path=folder, downloader=downloader(limits)
                )
                break
            except ValueError as error:  # pooch's word for a checksum that does not match
                if "hash" not in str(error):
                    raise
                if attempt == 2:
                    raise RouteFailed(f"{name} does not match its checksum, twice") from error
                report(f"{name} does not match its checksum: refused, asking once more")


def fetch_from_mirrors(source: Source, folder: Path, limits: Limits, report: Report) -> dict[str, Split]:
    """Both splits from the first mirror that delivers whole files; RouteFailed when none does.

    ``folder`` is an empty scratch folder. Files that one mirror delivered whole are kept for the next mirror of the
    same files. Each failure is reported in one line.
    """
    if not source.mirrors:
        raise RouteFailed("no mirror is known")
    silent: set[str] = set()
    for mirror in source.mirrors:
        host = urlsplit(mirror.base).netloc
        if host in silent:
            continue
        report(f"trying {host}")
        try:
            _fetch_files(mirror, folder, limits, report)
            return decode_folder(mirror.format, folder, tuple(mirror.files))
        except RouteFailed as failure:
            report(f"{host}: {failure}")
            if isinstance(failure, HostSilent):
                silent.add(host)
        except (ValueError, OSError) as error:
            report(f"{host}: {type(error).__name__}: {error}")
    raise RouteFailed("no mirror delivered")


def decode_folder(format: str, folder: Path, names: tuple[str, ...]) -> dict[str, Split]:
    """Decode the files ``names`` in ``folder`` by the decoder that ``sources.yml`` names."""
    if format == "idx":
        return decode.idx_folder(folder)
    decoders: dict[str, Callable[[Path], dict[str, Split]]] = {
        "keras_npz": decode.keras_npz,
        "cifar_archive": decode.cifar_archive,
        "idx_package": decode.idx_package,
        "cifar_png_package": decode.cifar_png_package,
    }
    if format not in decoders:
        raise ValueError(
            f"sources.yml names the unknown format {format!r} (known: idx, {', '.join(decoders)})"
        )
    return decoders[format](folder / names[0])
