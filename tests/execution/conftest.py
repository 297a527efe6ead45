"""A tiny project that runs in a second or two, with notebooks, a package and data stamps of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from attention_companion.execution.project import Project

FRONT_MATTER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
"""


def cell(code: str, *tags: str) -> str:
    """One MyST code cell."""
    lines = [":tags: [" + ", ".join(tags) + "]", ""] if tags else []
    return "\n".join(["```{code-cell} ipython3", *lines, dedent(code).strip(), "```", ""])


def notebook_text(*cells: str, parameters: str = "n: int = 3  # how many") -> str:
    """A whole MyST notebook: title, parameters cell, then ``cells`` (code)."""
    return "\n".join([FRONT_MATTER, "# A question\n", cell(parameters, "parameters"), *(cell(code) for code in cells)])


@dataclass
class MiniProject:
    """The folder, and a few verbs to change it."""

    root: Path
    cell = staticmethod(cell)
    text = staticmethod(notebook_text)

    @property
    def project(self) -> Project:
        """Read anew each time, as every command does."""
        return Project.at(self.root)

    def write(self, relative: str, text: str) -> Path:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def notebook(
        self,
        name: str,
        *cells: str,
        parameters: str = "n: int = 3  # how many",
        profiles: dict[str, Any] | None = None,
        data: tuple[str, ...] = (),
        part: int = 1,
    ) -> Path:
        """Write a notebook and enter it in the list."""
        listing = self.root / "notebooks" / "notebooks.yml"
        listed = yaml.safe_load(listing.read_text(encoding="utf-8"))["notebooks"] if listing.exists() else []
        listed = [entry for entry in listed if entry["name"] != name]
        listed.append({"name": name, "part": part, "data": list(data), "profiles": profiles or {"quick": {}}})
        self.write("notebooks/notebooks.yml", yaml.safe_dump({"notebooks": listed}, sort_keys=False))
        return self.write(f"notebooks/{name}.md", notebook_text(*cells, parameters=parameters))

    def stamp(self, name: str, digest: str = "d1", kind: str = "full") -> Path:
        stamp = {"name": name, "kind": kind, "digest": {"train": digest, "test": digest}}
        return self.write(f"results/data/{name}.json", json.dumps(stamp))


def build_mini_project(root: Path) -> MiniProject:
    """Two notebooks: 11_sum reaches one kernel file (at the top), 12_product another (inside a function)."""
    mini = MiniProject(root)
    mini.write("constraints.txt", "numpy==1\n")
    mini.write("src/attention_companion/__init__.py", '"""Mini."""\n')
    mini.write(
        "src/attention_companion/sums/__init__.py",
        "from attention_companion.sums.core import total\n\n__all__ = ['total']\n",
    )
    mini.write("src/attention_companion/sums/core.py", "def total(n):\n    return sum(range(n + 1))\n")
    mini.write(
        "src/attention_companion/products.py",
        "def product(n):\n    from attention_companion import steps\n\n    return steps.product(n)\n",
    )
    mini.write("src/attention_companion/steps.py", "import math\n\n\ndef product(n):\n    return math.factorial(n)\n")
    mini.write("src/attention_companion/unused.py", "raise RuntimeError('nothing imports this')\n")
    mini.notebook(
        "11_sum",
        "from attention_companion.sums import total\ntotal(n)",
        """
        import json, os
        from pathlib import Path
        run_dir = os.environ.get("ATTENTION_COMPANION_RUN_DIR")
        if run_dir:
            with open(Path(run_dir) / "records.jsonl", "a") as file:
                file.write(json.dumps({"tag": "MINI-SUM", "measured": total(n)}) + "\\n")
            (Path(run_dir) / "figures").mkdir(exist_ok=True)
            (Path(run_dir) / "figures" / "sum.csv").write_text(f"n,total\\n{n},{total(n)}\\n")
        """,
        profiles={"quick": {}, "full": {"n": 10}},
    )
    mini.notebook("12_product", "from attention_companion.products import product\nprint(product(n))")
    return mini


@pytest.fixture
def mini_project(tmp_path: Path) -> MiniProject:
    """A fresh mini project in a folder whose name has a space."""
    return build_mini_project(tmp_path / "a project")


@pytest.fixture(scope="session")
def make_mini_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], MiniProject]:
    """For session-wide fixtures that share one run among many tests."""
    return lambda: build_mini_project(tmp_path_factory.mktemp("mini") / "a project")
