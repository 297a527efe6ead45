"""The list of sources itself, and the command that the build calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from attention_companion import datasets
from attention_companion.datasets import __main__ as command
from attention_companion.datasets.catalogue import HERE, catalogue

pytestmark = pytest.mark.torch_free


def test_the_names_and_terms_are_all_there() -> None:
    assert datasets.NAMES == ("mnist", "fashion_mnist", "cifar10")
    assert set(datasets.LICENCES) == set(datasets.NAMES)
    assert "CIFAR-10 states no licence" in datasets.LICENCES["cifar10"].note
    for licence in datasets.LICENCES.values():
        assert licence.attribution
        assert licence.homepage.startswith("http")


def test_only_what_its_licence_allows_is_bundled() -> None:
    assert {path.name for path in (HERE / "sample").iterdir()} == {
        "mnist.npz",
        "fashion_mnist.npz",
        "LICENCES.md",
    }
    terms = (HERE / "sample" / "LICENCES.md").read_text(encoding="utf-8")
    for name in ("mnist", "fashion_mnist"):
        author = datasets.LICENCES[name].attribution.split(",")[0]
        assert author in terms
    assert catalogue()["cifar10"].sample is None


@pytest.mark.parametrize("name", datasets.NAMES)
def test_every_source_has_several_mirrors_a_package_and_pinned_digests(name: str) -> None:
    source = catalogue()[name]
    assert len({urlsplit(mirror.base).netloc for mirror in source.mirrors}) >= 3
    assert source.packages
    for mirror in source.mirrors:
        assert mirror.base.endswith("/")
        for checksum in mirror.files.values():
            assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", checksum)
    for digest in (*source.digest.values(), *(source.sample_digest or {}).values()):
        assert re.fullmatch("[0-9a-f]{64}", digest)


def test_the_throttled_original_host_of_cifar_comes_last() -> None:
    hosts = [urlsplit(mirror.base).netloc for mirror in catalogue()["cifar10"].mirrors]
    original = hosts.index("www.cs.toronto.edu")
    assert original > 0
    assert set(hosts[original:]) == {"www.cs.toronto.edu"}


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and only the sample allowed."""
    monkeypatch.setenv("ATTENTION_COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTENTION_COMPANION_ROUTES", "sample")
    return tmp_path


def test_the_command_writes_the_stamp_only_when_it_changes(alone: Path, capsys: Any) -> None:
    path = alone / "results" / "mnist.json"
    assert command.main(["fetch", "mnist", "--stamp", str(path)]) == 0
    assert "NOT THE FULL SET" in capsys.readouterr().out
    stamp = json.loads(path.read_text())
    assert stamp["kind"] == "sample"
    assert stamp == datasets.stamp("mnist")
    before = path.stat()
    assert command.main(["fetch", "mnist", "--stamp", str(path)]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_command_reports_what_is_unavailable_or_wrong(
    alone: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = alone / "cifar10.json"
    assert command.main(["fetch", "cifar10", "--stamp", str(path)]) == 0
    assert json.loads(path.read_text())["kind"] == "unavailable"
    assert "may not be bundled" in capsys.readouterr().out
    assert command.main(["verify", "cifar10"]) == 1
    assert command.main(["verify", "mnist"]) == 0
    assert command.main(["status", "mnist"]) == 0
    monkeypatch.setenv("ATTENTION_COMPANION_ROUTES", "fax")
    assert command.main(["fetch", "mnist"]) == 1
    assert "the routes are http, packages, sample" in capsys.readouterr().err
