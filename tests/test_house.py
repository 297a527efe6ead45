"""The rules of the house: who may import whom, how long a file is, and what no tracked file may hold.

Each rule is a function from plain values to a list of complaints. The first test of a pair holds the project to it, the
second plants a breach and sees the complaint, so that a rule that stopped looking would be noticed.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
PACKAGE = "attention_companion"
KERNELS = ("sparse_xor", "simulator", "ntk")
KERNEL_LIBRARIES = {"numpy", "torch", "flint", "safetensors"}
MACHINERY = ("ledger", "execution", "datasets", "plots")
LONGEST_FILE = 400

pytestmark = pytest.mark.torch_free


# -- imports ----------------------------------------------------------------------------------------------------------


def modules() -> dict[str, str]:
    """Dotted module name -> source of everything under src/."""
    found = {}
    for path in sorted((SRC / PACKAGE).rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        # A package keeps its __init__ here: `from . import x` in it counts from the package itself.
        found[".".join(parts)] = path.read_text(encoding="utf-8")
    return found


def imports_of(module: str, source: str) -> Iterator[str]:
    """Dotted names that ``source`` imports anywhere, functions and TYPE_CHECKING included, relative ones resolved.

    A string constant that is a dotted name of this package counts as well: importlib takes those.
    """
    package = module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{stem}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(rf"{PACKAGE}(\.\w+)+", str(node.value)):
            yield str(node.value)


def part_of(dotted: str) -> str | None:
    """``attention_companion.ntk.gram`` -> ``ntk``; None for what is not in the package."""
    parts = dotted.split(".")
    return parts[1] if parts[0] == PACKAGE and len(parts) > 1 else None


def import_complaints(module: str, source: str) -> list[str]:
    own = part_of(module)
    complaints = []
    for target in imports_of(module, source):
        other = part_of(target)
        top = target.split(".")[0]
        if own in KERNELS:
            if other is not None and other != own:
                complaints.append(f"{module} (a kernel) imports {target}: a kernel imports no other part")
            elif top != PACKAGE and top not in KERNEL_LIBRARIES and top not in sys.stdlib_module_names:
                allowed = f"beyond Python's own only {sorted(KERNEL_LIBRARIES)}"
                complaints.append(f"{module} (a kernel) imports {top}: {allowed}")
        if own in MACHINERY and other in KERNELS:
            complaints.append(f"{module} imports {target}: {own} knows nothing of kernels")
        if other == "cli" and own != "cli":
            complaints.append(f"{module} imports {target}: nothing imports the command line")
    return complaints


def test_the_import_rules_hold() -> None:
    everything = modules()
    assert len(everything) > 5, "no sources found: the rule would hold emptily"
    assert [line for module, source in everything.items() for line in import_complaints(module, source)] == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("sparse_xor.loss", "def f():\n    from attention_companion import ledger", "imports no other part"),
        ("sparse_xor.loss", "from ..ntk import relu_ntk", "imports no other part"),
        ("ntk.gram", "from ..plots import show", "imports no other part"),
        ("ntk.gram", "import matplotlib.pyplot as plt", "only ['flint', 'numpy', 'safetensors', 'torch']"),
        ("ledger.collect", "from attention_companion.ntk.gram import cube", "knows nothing of kernels"),
        ("execution.runner", "import_module('attention_companion.sparse_xor')", "knows nothing of kernels"),
        ("execution.runner", "from ..cli import app", "nothing imports the command line"),
    ],
)
def test_a_planted_import_is_seen(module: str, source: str, complaint: str) -> None:
    (line,) = import_complaints(f"{PACKAGE}.{module}", source)
    assert complaint in line


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sparse_xor.loss", "import math\nimport numpy as np\nfrom . import weights\nfrom flint import fmpq"),
        ("ntk.__init__", "from .gram import cube"),
        ("cli.run", "from ..execution.runner import run\nfrom . import output"),
        ("execution.render", "from .. import ledger"),
    ],
)
def test_a_proper_import_is_not_complained_of(module: str, source: str) -> None:
    assert import_complaints(f"{PACKAGE}.{module}", source) == []


# -- size -------------------------------------------------------------------------------------------------------------


def size_complaints(files: dict[str, str]) -> list[str]:
    counted = {name: text.count("\n") for name, text in files.items()}
    return [f"{name}: {lines} lines, {LONGEST_FILE} at most" for name, lines in counted.items() if lines > LONGEST_FILE]


def test_no_source_file_outgrows_one_idea() -> None:
    assert size_complaints(modules()) == []


def test_a_long_file_is_seen() -> None:
    assert size_complaints({"short": "x\n" * LONGEST_FILE, "long": "x\n" * (LONGEST_FILE + 1)}) == [
        "long: 401 lines, 400 at most"
    ]


# -- what tracked files may not hold ----------------------------------------------------------------------------------

# Spelt in pieces, so that this file does not hold what it looks for.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "npmjs"),
        ("npmjs", "com"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("conda", "anaconda", "org"),
        ("download", "pytorch", "org"),
        ("proxy", "golang", "org"),
    )
)
HOME_FOLDERS = ("root", "home", "Users", "work")
MACHINE_PATH = re.compile(rf"(?<![\w.\-/:~$}}])/(?:{'|'.join(HOME_FOLDERS)})/[\w.]")


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def place_complaints(name: str, text: str) -> list[str]:
    complaints = []
    for number, line in enumerate(text.splitlines(), start=1):
        complaints += [f"{name}:{number}: names the registry host {host}" for host in REGISTRY_HOSTS if host in line]
        if found := MACHINE_PATH.search(line):
            complaints.append(f"{name}:{number}: holds a path of one machine ({found.group()}...)")
    return complaints


def test_tracked_files_name_no_registry_and_no_machine() -> None:
    complaints = []
    for path in tracked():
        content = path.read_bytes()
        # Pictures and arrays hold no text; a zero byte tells them apart.
        if b"\0" not in content:
            complaints += place_complaints(str(path.relative_to(ROOT)), content.decode("utf-8"))
    assert complaints == []


def test_a_planted_host_and_path_are_seen() -> None:
    home = HOME_FOLDERS[0]
    fine = f"ok: ~/{home}/x src/{home}/y http://h/home/z"
    text = f"see https://{REGISTRY_HOSTS[0]}/simple\ncd /{home}/companion\n{fine}\n"
    assert [line.split(":")[1] for line in place_complaints("planted", text)] == ["1", "2"]


# -- notebooks --------------------------------------------------------------------------------------------------------


def notebook_complaints(name: str, notebook: dict) -> list[str]:
    complaints = []
    for index, cell in enumerate(notebook["cells"]):
        if cell.get("outputs") or cell.get("execution_count") is not None:
            complaints.append(f"{name}: cell {index} holds outputs; commit the notebook without")
    return complaints


def test_committed_notebooks_hold_no_outputs() -> None:
    complaints = []
    for path in tracked():
        if path.suffix == ".ipynb":
            complaints += notebook_complaints(path.name, json.loads(path.read_text(encoding="utf-8")))
    assert complaints == []


def test_a_stored_output_or_count_is_seen() -> None:
    clean = {"cell_type": "code", "outputs": [], "execution_count": None}
    planted = {"cells": [clean, clean | {"outputs": [{}]}, clean | {"execution_count": 3}, {"cell_type": "markdown"}]}
    assert [line.split(" holds")[0] for line in notebook_complaints("n", planted)] == ["n: cell 1", "n: cell 2"]


def toc_files(node: object) -> Iterator[str]:
    """Every ``file:`` and ``root:`` of a table of contents, in reading order."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("file", "root"):
                yield str(value)
            else:
                yield from toc_files(value)
    elif isinstance(node, list):
        for entry in node:
            yield from toc_files(entry)


def toc_complaints(toc: object, names: list[str], files: set[str]) -> list[str]:
    """What keeps the contents, notebooks.yml and the folder from listing the same notebooks in the same order."""
    listed = [entry.removeprefix("notebooks/") for entry in toc_files(toc) if entry.startswith("notebooks/")]
    complaints = []
    if listed != names:
        complaints.append(f"_toc.yml lists {listed}, notebooks.yml lists {names}: same notebooks, same order")
    for name in names:
        complaints += [
            f"notebooks/{name}.{suffix} is missing" for suffix in ("md", "ipynb") if f"{name}.{suffix}" not in files
        ]
    for file in sorted(files):
        if file.rsplit(".", 1)[0] not in names:
            complaints.append(f"notebooks/{file} is not in notebooks.yml: nothing would ever run it")
    return complaints


def test_the_contents_are_in_step_with_the_list_of_notebooks() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    entries = yaml.safe_load((ROOT / "notebooks" / "notebooks.yml").read_text())["notebooks"]
    files = {path.name for path in (ROOT / "notebooks").iterdir() if path.suffix in (".md", ".ipynb")}
    assert toc_complaints(toc, [entry["name"] for entry in entries], files) == []


def test_a_notebook_missing_from_any_of_the_three_is_seen() -> None:
    toc = {"root": "index", "parts": [{"chapters": [{"file": "notebooks/12_a"}, {"file": "notebooks/13_b"}]}]}
    both = {"12_a.md", "12_a.ipynb", "13_b.md", "13_b.ipynb"}
    assert toc_complaints(toc, ["12_a", "13_b"], both) == []
    assert len(toc_complaints(toc, ["13_b", "12_a"], both)) == 1
    assert len(toc_complaints(toc, ["12_a", "13_b"], both - {"13_b.ipynb"})) == 1
    assert len(toc_complaints(toc, ["12_a", "13_b"], both | {"14_c.md"})) == 1
