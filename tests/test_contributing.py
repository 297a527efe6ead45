"""CONTRIBUTING's worked examples, carried out: the claim is read, the kernel is tested, the chapter runs and is met."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from attention_companion.datasets.catalogue import read_catalogue
from attention_companion.execution import runner
from attention_companion.execution.project import Project
from attention_companion.ledger.collect import collect
from attention_companion.ledger.models import Claim

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "attention_companion"

pytestmark = pytest.mark.torch_free


def blocks(language: str) -> list[str]:
    """Contents of CONTRIBUTING's fenced blocks of one language, in order."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    pattern = r"^(`{3,})(\w+)\n(.*?)^\1$"
    return [body for _, tag, body in re.findall(pattern, text, re.MULTILINE | re.DOTALL) if tag == language]


@pytest.fixture
def examples() -> dict[str, str]:
    claim, listing, source = blocks("yaml")
    kernel, test, _digest = blocks("python")
    (chapter,) = blocks("md")
    return {"claim": claim, "listing": listing, "source": source, "kernel": kernel, "test": test, "chapter": chapter}


@pytest.fixture
def project(tmp_path: Path, examples: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Project:
    """A scratch project with what CONTRIBUTING says, at the places it says."""
    monkeypatch.delenv("CI", raising=False)
    root = tmp_path / "scratch"
    package = root / "src" / "attention_companion"
    for folder in ("ledger", "sparse_xor"):
        shutil.copytree(SOURCES / folder, package / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(SOURCES / "__init__.py", package)
    shutil.copy(ROOT / "constraints.txt", root)
    (package / "sparse_xor" / "balance.py").write_text(examples["kernel"])
    for folder, name, text in (
        ("notebooks", "13_balance.md", examples["chapter"]),
        ("notebooks", "notebooks.yml", examples["listing"]),
        ("book/claims", "sparse_xor.yml", "claims:\n" + examples["claim"]),
        ("tests", "test_balance.py", examples["test"]),
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / name).write_text(text)
    return Project.at(root)


def test_the_claim_is_one(examples: dict[str, str]) -> None:
    (entry,) = yaml.safe_load(examples["claim"])
    assert Claim.model_validate(entry).tag == "XOR-BALANCE"


def test_the_kernels_test_passes_and_fails_on_a_broken_kernel(project: Project) -> None:
    def outcome() -> int:
        # A process of its own, in which the scratch project's package comes first.
        code = (
            "import sys, pytest; sys.path.insert(0, 'src'); "
            "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-c', '/dev/null', '--rootdir', '.', 'tests']))"
        )
        done = subprocess.run([sys.executable, "-B", "-c", code], cwd=project.root, capture_output=True, text=True)
        return done.returncode

    (project.root / "tests" / "conftest.py").write_text(
        "def pytest_configure(config):\n    config.addinivalue_line('markers', 'torch_free: as in the project')\n"
    )
    kernel = project.root / "src" / "attention_companion" / "sparse_xor" / "balance.py"
    assert outcome() == 0
    kernel.write_text(kernel.read_text().replace("-x[p] * x[q]", "x[p]"))
    assert outcome() == 1


def test_the_chapter_runs_and_its_claim_is_met(project: Project) -> None:
    result = runner.run(project, "13_balance", "quick")
    ledger = collect(project, "quick", {"13_balance": result.path})
    (claim,) = ledger.claims
    assert (claim["verdict"], ledger.problems) == ("confirmed on range", [])
    assert [item["kind"] for item in ledger.drift] == ["new"]
    full = project.notebook("13_balance").overrides("full")
    assert dict(full) == {"largest": 16}


def test_the_data_set_is_read(examples: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sources.yml").write_text(examples["source"])
    source = read_catalogue(tmp_path / "sources.yml")["my_digits"]
    assert source.shape == (28, 28)
    assert source.sample is None
    assert [mirror.format for mirror in source.mirrors] == ["idx"]
    # A key that the real list has and the example lacks would be missing from what people copy.
    real = yaml.safe_load((SOURCES / "datasets" / "sources.yml").read_text())
    needed = set.intersection(*(set(known) for known in real.values()))
    assert needed <= set(yaml.safe_load(examples["source"])["my_digits"])
