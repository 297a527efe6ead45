"""``companion data``, with the bundled samples only: no network, a cache of the test's own."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from attention_companion import datasets

if TYPE_CHECKING:
    from tests.cli.conftest import Mini

pytestmark = pytest.mark.torch_free


def test_the_state_of_every_set_and_its_licence(mini: Mini) -> None:
    shown = mini.invoke("data")
    assert shown.exit_code == 0, shown.output
    for name in datasets.NAMES:
        assert f"{name}: {datasets.LICENCES[name]}" in shown.stdout
    (row,) = [line.split() for line in shown.stdout.splitlines() if line.startswith("cifar10 ")]
    assert row[1] == "unavailable"


def test_a_fetch_that_ends_with_the_sample_fails_says_so_and_stamps_what_is_there(mini: Mini) -> None:
    fetched = mini.invoke("data", "fetch", "mnist")
    assert fetched.exit_code == 1
    assert "mnist: sample" in fetched.stdout
    assert "not checked: data unavailable" in fetched.stderr
    assert json.loads((mini.root / "results" / "data" / "mnist.json").read_text())["kind"] == "sample"


def test_a_complete_fetch_succeeds(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(name: str, report: object) -> SimpleNamespace:
        return SimpleNamespace(name=name, kind="full")

    monkeypatch.setattr(datasets, "fetch", fetched)
    monkeypatch.setattr(datasets, "stamp", lambda name: {"name": name, "kind": "full", "digest": {}})
    assert mini.invoke("data", "fetch").exit_code == 0
    stamps = sorted(path.stem for path in (mini.root / "results" / "data").iterdir())
    assert stamps == sorted(datasets.NAMES)


def test_verify_reports_what_is_missing_and_how_to_mend_it(mini: Mini) -> None:
    verified = mini.invoke("data", "verify")
    assert verified.exit_code == 1
    assert "companion data fetch cifar10" in verified.stdout


@pytest.mark.parametrize("command", ["fetch", "verify"])
def test_an_unknown_name_is_refused_with_the_list(mini: Mini, command: str) -> None:
    refused = mini.invoke("data", command, "imagenet")
    assert refused.exit_code == 2
    assert ", ".join(datasets.NAMES) in refused.stderr
