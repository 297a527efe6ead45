"""A small project of its own: two claims, one notebook, results made by the real record()."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from attention_companion import ledger as notebook_api
from attention_companion.ledger import recording
from attention_companion.ledger.collect import Ledger, collect

NOTEBOOK = "10_toy"


def claim_fields(tag: str = "XOR-TOY", **changes: Any) -> dict[str, Any]:
    """A well-formed claim as a mapping, with `changes`; a change to None removes the field."""
    fields: dict[str, Any] = {
        "tag": tag,
        "paper": "sparse_xor",
        "place": "Theorem 0",
        "source": "summary",
        "mark": "F",
        "kind": "number",
        "statement": "The toy number is at least one half.",
        "quantifies": "all toys",
        "expectation": {"operator": "ge", "value": 0.5, "reason": "half, decided before any run"},
        "drift": {"abs": 0.001, "reason": "float64"},
        "control": "a broken toy",
        "refuted_by": "a smaller number",
        "stops_holding": "nowhere",
        "checked_by": NOTEBOOK,
    }
    fields.update(changes)
    return {k: v for k, v in fields.items() if v is not None}


def write_claims(root: Path, *claims: Mapping[str, Any]) -> None:
    path = root / "book" / "claims" / "toy.yml"
    path.write_text(yaml.safe_dump({"claims": [dict(c) for c in claims]}, sort_keys=False), encoding="utf-8")


@pytest.fixture
def fields() -> Callable[..., dict[str, Any]]:
    return claim_fields


@pytest.fixture
def put_claims(root: Path) -> Callable[..., None]:
    """Replace the project's claims."""
    return lambda *claims: write_claims(root, *claims)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the claim XOR-TOY; record() finds it through the environment."""
    root = tmp_path / "a project"
    for folder in ("book/claims", "book/baseline", "notebooks", "results/quick"):
        (root / folder).mkdir(parents=True)
    write_claims(root, claim_fields())
    monkeypatch.setenv("ATTENTION_COMPANION_ROOT", str(root))
    monkeypatch.delenv("ATTENTION_COMPANION_RUN_DIR", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr(recording, "_first_regime", {})
    monkeypatch.setattr(recording, "_written", {})
    return root


@pytest.fixture
def run(root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Run a function as the notebook and return the result folder, as the runner would leave it."""
    count = 0

    def run(
        cells: Callable[[], Any],
        *,
        profile: str = "quick",
        data: Mapping[str, Any] | None = None,
        name: str = NOTEBOOK,
    ) -> Path:
        nonlocal count
        count += 1
        folder = root / "results" / profile / name / f"{count:020d}"
        folder.mkdir(parents=True)
        with monkeypatch.context() as patch:
            patch.setenv("ATTENTION_COMPANION_RUN_DIR", str(folder))
            patch.setenv("ATTENTION_COMPANION_NOTEBOOK", name)
            patch.setattr(recording, "_first_regime", {})
            cells()
        lines = folder / "records.jsonl"
        records = [json.loads(x) for x in lines.read_text().splitlines()] if lines.exists() else []
        (folder / "records.json").write_text(json.dumps(records))
        result = {
            "schema": 1,
            "key": folder.name,
            "notebook": name,
            "profile": profile,
            "parameters": {"n": 3},
            "digests": {"source": {"src/a.py": "0" * 64}, "data": dict(data or {})},
            "provenance": {
                "commit": "c0ffee",
                "dirty": False,
                "started": "2025-01-02T03:04:05Z",
                "seconds": 1.5,
            },
        }
        (folder / "result.json").write_text(json.dumps(result))
        return folder

    return run


@pytest.fixture
def toy(root: Path, run: Callable[..., Path]) -> Callable[..., Ledger]:
    """Collect the ledger of a toy notebook that recorded the given number."""

    def toy(measured: Any = 0.75, *, data: Mapping[str, Any] | None = None, **kwargs: Any) -> Ledger:
        arguments: dict[str, Any] = {
            "method": "float",
            "checked_range": "one toy",
            "control": notebook_api.Control("a broken toy", 0.1),
        }
        arguments.update(kwargs)
        folder = run(lambda: notebook_api.record("XOR-TOY", measured, **arguments), data=data)
        return collect(root, "quick", {NOTEBOOK: folder})

    return toy
