"""A project of two notebooks with the real ledger in its src/, built once a session and copied for each test.

Results are known by their content, so that a copied project is as good as the first: its results stay valid.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import CliRunner

from attention_companion.cli import app
from attention_companion.execution import runner
from attention_companion.execution.project import Project
from attention_companion.ledger.collect import main as collect

SOURCES = Path(__file__).resolve().parents[2] / "src" / "attention_companion"

LISTING = """\
notebooks:
  - name: 11_sum
    part: 1
    data: []
    profiles:
      quick: {}
      full: {n: 10}
  - name: 12_images
    part: 3
    data: [mnist]
    profiles:
      quick: {}
"""

HEAD = """\
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

# A question
"""

SUM = f"""{HEAD}
```{{code-cell}} ipython3
:tags: [parameters]

n: int = 3  # how many are added
names: list[str] = ["a", "b"]  # written under the figure
loud: bool = False  # whether to fail
```

```{{code-cell}} ipython3
from attention_companion import ledger
from attention_companion.sums import total

if loud:
    raise ValueError("it was asked to fail")
ledger.record(
    "XOR-SUM",
    total(n) - n * (n + 1) // 2,
    method="exact",
    checked_range=f"n = {{n}}",
    control=ledger.Control("one too many", total(n + 1) - n * (n + 1) // 2),
    values={{"total": total(n)}},
)
```
"""

IMAGES = f"""{HEAD}
```{{code-cell}} ipython3
:tags: [parameters]

n: int = 2  # images
```

```{{code-cell}} ipython3
print(n)
```
"""

CLAIMS = """\
claims:
- tag: XOR-SUM
  paper: sparse_xor
  place: Lemma 1
  source: summary
  mark: F
  kind: identity
  statement: The first n numbers add up to n (n + 1) / 2.
  quantifies: all natural n
  printed:
  - {label: exponent, value: 2, text: "n squared", source: summary}
  expectation: {operator: eq, value: 0, reason: an identity allows no difference}
  drift: {reason: exact arithmetic}
  control: one number too many
  refuted_by: an n whose sum differs
  stops_holding: outside the natural numbers
  checked_by: 11_sum
- tag: XOR-LATER
  paper: sparse_xor
  place: not known to us
  source: summary
  mark: A
  kind: observation
  statement: Something that nobody looked at.
  quantifies: everything
  expectation: {operator: "true", reason: it says so}
  control: the opposite
  refuted_by: one look
  stops_holding: unknown
  not_checked: "chapter to come: the second part"
"""


@dataclass
class Mini:
    """The folder of a project, and the command called in it."""

    root: Path
    invoke: Callable[..., Any]

    @property
    def project(self) -> Project:
        return Project.at(self.root)

    def edit(self, relative: str, before: str, after: str) -> None:
        """Replace one piece of text in a file; it must be there."""
        path = self.root / relative
        text = path.read_text(encoding="utf-8")
        assert before in text, f"{before!r} is not in {relative}"
        path.write_text(text.replace(before, after), encoding="utf-8")

    def build(self) -> None:
        """Run 11_sum with the quick profile and collect the ledger, as a build does."""
        result = runner.run(self.project, "11_sum", "quick")
        folder = self.root / "results" / "quick"
        collect([
            "--project", str(self.root), "--profile", "quick", "--results", f"11_sum={result.path}",
            "--out", str(folder / "ledger-of-the-build.json"),
        ])  # fmt: skip

    def files(self, *folders: str) -> dict[str, bytes]:
        """Content of every file below the folders, by path."""
        found = {}
        for folder in folders:
            for path in sorted((self.root / folder).rglob("*")):
                if path.is_file():
                    found[path.relative_to(self.root).as_posix()] = path.read_bytes()
        return found


def write_project(root: Path) -> None:
    """The sources of the project, nothing run yet."""
    package = root / "src" / "attention_companion"
    package.mkdir(parents=True)
    shutil.copy(SOURCES / "__init__.py", package)
    shutil.copytree(SOURCES / "ledger", package / "ledger", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "sums.py").write_text("def total(n):\n    return sum(range(n + 1))\n")
    (root / "constraints.txt").write_text("numpy==1\n")
    for folder in ("notebooks", "book/claims"):
        (root / folder).mkdir(parents=True)
    (root / "notebooks" / "notebooks.yml").write_text(LISTING)
    (root / "notebooks" / "11_sum.md").write_text(dedent(SUM))
    (root / "notebooks" / "12_images.md").write_text(dedent(IMAGES))
    (root / "book" / "claims" / "mini.yml").write_text(CLAIMS)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A laptop, not a build service; image sets only as the bundled sample, in a cache of this test's own."""
    for name in ("CI", "GITHUB_STEP_SUMMARY", "ATTENTION_COMPANION_TRACEBACK", "ATTENTION_COMPANION_RUN_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ATTENTION_COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTENTION_COMPANION_ROUTES", "sample")
    return monkeypatch


def mini_at(root: Path, environment: pytest.MonkeyPatch) -> Mini:
    environment.setenv("ATTENTION_COMPANION_ROOT", str(root))
    runner_of_commands = CliRunner()
    return Mini(root, lambda *arguments: runner_of_commands.invoke(app, [str(a) for a in arguments]))


@pytest.fixture
def mini(tmp_path: Path, environment: pytest.MonkeyPatch) -> Mini:
    """The project with nothing run, in a folder with a space."""
    root = tmp_path / "a project"
    write_project(root)
    return mini_at(root, environment)


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project after one quick build of 11_sum, accepted; never changed, only copied."""
    root = tmp_path_factory.mktemp("built") / "a project"
    write_project(root)
    with pytest.MonkeyPatch.context() as environment:
        for name in ("CI", "GITHUB_STEP_SUMMARY"):
            environment.delenv(name, raising=False)
        project = mini_at(root, environment)
        project.build()
        accepted = project.invoke("accept", "XOR-SUM", "--reason", "first run")
        assert accepted.exit_code == 0, accepted.output
    return root


@pytest.fixture
def built(built_once: Path, tmp_path: Path, environment: pytest.MonkeyPatch) -> Mini:
    """A copy of the built and accepted project, for one test to change."""
    root = tmp_path / "a built project"
    shutil.copytree(built_once, root)
    return mini_at(root, environment)
