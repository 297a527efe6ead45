"""The gate on drift: on every notebook rounding passes; on one a part a changed kernel fails and its claim is named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from attention_companion.execution.project import Project
from attention_companion.execution.runner import run
from attention_companion.ledger.collect import collect

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = [spec.name for spec in Project.find(ROOT).notebooks]


def tags_of(claims: list[dict], notebook: str) -> set[str]:
    return {claim["tag"] for claim in claims if claim["checked_by"] == notebook}


def drift_of(project: Project, notebook: str, folder: Path) -> list[str]:
    """What the gate says of one notebook's result. Claims of other notebooks have no check here and are left out."""
    ledger = collect(project, "quick", {notebook: folder})
    own = tags_of(ledger.claims, notebook)
    assert own, f"no claim is checked by {notebook}"
    faults = [p for p in ledger.problems if p["tag"] in own]
    return [item["text"] for item in [*ledger.drift, *faults] if item["tag"] in own]


@pytest.fixture
def copy(tmp_path):
    """The tracked files of this project in another folder, with the data stamps of the last build."""
    target = tmp_path / "a copy"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    shutil.copytree(ROOT / "results" / "data", target / "results" / "data")
    return target


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_other_threads_and_instructions_agree_with_the_baseline(notebook, tmp_path):
    result = run(
        Project.find(ROOT),
        notebook,
        "quick",
        out=tmp_path / "out",
        threads=2,
        extra_env={"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Haswell"},
    )
    assert result.provenance["threads"] == 2
    assert drift_of(Project.find(ROOT), notebook, tmp_path / "out") == []


@pytest.mark.parametrize(
    ("notebook", "source", "constant", "changed", "claim"),
    [
        (
            "12_one_population_step",
            "sparse_xor/gradient.py",
            "+ 4 * (a @ b) * b",
            "+ 4.04 * (a @ b) * b",
            "XOR-GRAD",
        ),
        ("32_gram_cube", "ntk/relu_kernel.py", "/ (2 * np.pi)", "/ (2.02 * np.pi)", "NTK-GOLDEN-KERNEL"),
    ],
)
def test_a_kernel_constant_one_percent_off_fails_and_names_the_claim(
    copy, notebook, source, constant, changed, claim
):
    path = copy / "src" / "attention_companion" / source
    text = path.read_text(encoding="utf-8")
    assert constant in text, (
        f"{source} no longer holds {constant!r}: name another constant of the kernel here"
    )
    path.write_text(text.replace(constant, changed), encoding="utf-8")
    run(Project.find(copy), notebook, "quick", out=copy / "out")
    said = drift_of(Project.find(copy), notebook, copy / "out")
    assert any(line.startswith(claim) for line in said), said
