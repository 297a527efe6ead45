"""What a notebook reaches when it imports the ledger: its result's key covers these files and no others."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from attention_companion import ledger

pytestmark = pytest.mark.torch_free

FOLDER = Path(ledger.__file__).parent
REACHED = {"__init__", "cards", "claims", "models", "numbers", "recording", "verdicts"}
KEPT_APART = {"baseline", "checks", "collect", "comparison", "schema"}


def imported(path: Path) -> set[str]:
    """The modules of this package that a file imports, wherever the statement stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            pytest.fail(f"{path.name} uses a relative import; this test does not follow those")
        found |= {n.split(".")[2] for n in names if n.startswith("attention_companion.ledger.")}
    return {n for n in found if (FOLDER / f"{n}.py").exists()}


def test_the_notebook_reaches_a_small_fixed_set_of_files() -> None:
    seen, todo = set(), ["__init__"]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += imported(FOLDER / f"{name}.py")
    assert seen == REACHED
    assert {p.stem for p in FOLDER.glob("*.py")} == REACHED | KEPT_APART


def test_importing_the_ledger_loads_no_torch_no_sphinx_and_no_other_part() -> None:
    code = "import json, sys; from attention_companion import ledger; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    ours = {m for m in loaded if m.startswith("attention_companion.")}
    expected = {f"attention_companion.ledger.{m}" for m in REACHED - {"__init__"}} | {
        "attention_companion.ledger"
    }
    assert ours == expected
    assert not loaded & {"torch", "numpy", "sphinx", "papermill", "matplotlib"}
