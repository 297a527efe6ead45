"""Mirrors that truncate, stall, corrupt, redirect and vanish: each is one line, soon, and the next mirror."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from attention_companion.datasets.arrays import SPLITS, split_digest
from attention_companion.datasets.errors import RouteFailed
from attention_companion.datasets.http_route import fetch_from_mirrors
from attention_companion.datasets.limits import Limits

pytestmark = pytest.mark.torch_free
QUICK = Limits(first_byte=0.6, minimum_rate=20_000, window=0.6)


@pytest.fixture
def attempt(world: Any, tmp_path: Any) -> Callable[..., tuple[dict[str, str], list[str], float]]:
    """Fetch from the mirrors given: digests, lines reported, seconds."""

    def run(
        *mirrors: str, name: str = "mnist", limits: Limits = QUICK
    ) -> tuple[dict[str, str], list[str], float]:
        folder = tmp_path / "files"
        folder.mkdir()
        lines: list[str] = []
        source = world.source(name, mirrors=tuple(world.mirror(base, name) for base in mirrors))
        start = time.monotonic()
        try:
            splits = fetch_from_mirrors(source, folder, limits, lines.append)
        except RouteFailed as failure:
            return {}, [*lines, f"failed: {failure}"], time.monotonic() - start
        return {split: split_digest(splits[split]) for split in SPLITS}, lines, time.monotonic() - start

    return run


def _pinned(world: Any, name: str = "mnist") -> dict[str, str]:
    return dict(world.source(name).digest)


@pytest.mark.parametrize("behaviour", ["good", "moved", "slow", "corrupt-once"])
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_working_mirror_delivers(attempt: Any, server: Any, world: Any, behaviour: str, name: str) -> None:
    found, lines, _ = attempt(server.url(behaviour), name=name)
    assert found == _pinned(world, name), lines


def test_a_corrupt_file_is_refused_and_asked_for_once_more(attempt: Any, server: Any, world: Any) -> None:
    found, lines, _ = attempt(server.url("corrupt-once"))
    assert found == _pinned(world)
    assert server.count("corrupt-once") == 8
    assert sum("refused, asking once more" in line for line in lines) == 4


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("corrupt", "does not match its checksum, twice"),
        ("short", "does not match its checksum, twice"),
        ("truncate", "it broke off before the end"),
        ("missing", "it answered 404 Not Found"),
        ("error", "it answered 500"),
        ("circle", "it redirects in circles"),
        ("silent", "nothing arrived within 0.6 s"),
        ("drip-headers", "nothing arrived within 0.6 s"),
        ("trickle", "KiB/s, less than"),
        ("stall", "KiB/s, less than"),
    ],
)
def test_a_failing_mirror_is_one_line_and_the_next_one_serves(
    attempt: Any, serve: Any, server: Any, world: Any, behaviour: str, why: str
) -> None:
    other = serve(world.files)
    found, lines, seconds = attempt(server.url(behaviour), other.url("good"))
    assert found == _pinned(world), lines
    reasons = [line for line in lines if line.startswith(f"127.0.0.1:{server.port}: ")]
    assert len(reasons) == 1
    assert why in reasons[0]
    assert seconds < 6  # limits of 0.6 s each; the rest is room for a busy machine


def test_the_window_for_a_stall_is_the_one_given(attempt: Any, server: Any) -> None:
    """The same server, a longer window: the limit decides, not a socket timeout."""
    limits = Limits(first_byte=5, minimum_rate=20_000, window=2.0)
    _, lines, seconds = attempt(server.url("trickle"), limits=limits)
    assert 2.0 <= seconds < 5, lines
    assert "over 2 s" in lines[1]


def test_a_flood_is_cut_off(attempt: Any, server: Any) -> None:
    _, lines, _ = attempt(server.url("slow"), limits=Limits(first_byte=1, window=5, maximum_bytes=9000))
    assert "more than 9000 bytes" in lines[1]


def test_a_closed_port_and_an_unknown_name_fail_at_once(
    attempt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found, lines, seconds = attempt(f"http://127.0.0.1:{port}/", "http://no-such-host.invalid/")
    assert found == {}
    assert f"127.0.0.1:{port}: it refuses connections" in lines
    assert any(line.startswith("no-such-host.invalid: ") for line in lines)
    assert seconds < 3


def test_a_name_server_that_never_answers_costs_no_more_than_the_limit(
    attempt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No socket timeout bounds a name look-up: only watching from outside does."""

    def hang(*_: object, **__: object) -> list[object]:
        time.sleep(4)
        raise socket.gaierror("late")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    found, lines, seconds = attempt("http://slow-name.invalid/")
    assert found == {}
    assert "slow-name.invalid: nothing arrived within 0.6 s" in lines
    assert seconds < 3


def test_a_silent_host_is_asked_once_and_files_of_a_broken_mirror_are_kept(
    attempt: Any, serve: Any, server: Any, world: Any
) -> None:
    half = dict(list(world.files.items())[:2])
    partial, whole = serve({**half, "t10k-images-idx3-ubyte.gz": b"wrong"}), serve(world.files)
    silent = server.url("silent")
    found, lines, _ = attempt(silent, silent, partial.url("good"), whole.url("good"))
    assert found == _pinned(world), lines
    assert server.count("silent") == 1
    assert whole.count("good") == 2  # the two that the partial mirror had were not fetched again


def test_without_a_mirror_the_route_says_so(attempt: Any) -> None:
    assert attempt()[1] == ["failed: no mirror is known"]
