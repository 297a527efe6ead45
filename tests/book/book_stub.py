"""A small project with the real settings, extensions and styles, and one executed notebook written by hand.

The tests of the renderer use it, so that they need no kernel and no data and can plant whatever they like
in an output.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
NAME = "12_stub"

INDEX = """# Stub book

Front page with {cite:p}`vaswani2017`, a formula $a^2$ and {numref}`fig-12-line`.

{prf:ref}`thm-stub` and {eq}`eq-long`.

```{verdict-picture}
One bar a paper.
```

```{run-table}
```
"""

TO_COME = """# To come

```{claims-to-come} simulator
```
"""

REFERENCES = """# References

```{bibliography}
```
"""

BIB = """@misc{vaswani2017, author = {A. Vaswani}, title = {Attention}, year = {2017}, note = {stub}}
"""

CHAPTER = r"""# A stub chapter

The word quintessence stands here only.

```{prf:theorem} A long one
:label: thm-stub

For all weights,

$$
\mathbb{E}(f-y)^2 = 1 + |a|^2|b|^2 + 2(a\cdot b)^2 - 2\sum_i a_i^2 b_i^2 - 2(a_p b_q + a_q b_p)
 + \frac{aaaaaaaaaaaaaa}{bbbbbbbbbbbbbbbbbb} + \frac{cccccccccccccccccccc}{ddddddddddddddddddd}
$$ (eq-long)
```

An inline formula $\gamma_p \ge 1/2$.
"""

FIGURE = f"""```{{figure}} /figures/{NAME}/line.svg
:name: fig-12-line
:alt: A straight line that rises from the left to the right.
:width: 100%

A line. {{download}}`Numbers behind the figure (CSV) </figures/{NAME}/line.csv>`
```
"""

TABLE = "\n".join(
    [
        "| " + " | ".join(f"column number {i}" for i in range(8)) + " |",
        "|" + "---|" * 8,
        "| " + " | ".join(f"$x_{i}$ = 0.123456789" for i in range(8)) + " |",
    ]
)

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><path d="M0 10L10 0" stroke="#000"/></svg>\n'
)


def markdown_output(text: str) -> dict[str, Any]:
    """A cell output as `plots.show` makes it."""
    return {
        "output_type": "display_data",
        "data": {"text/markdown": text, "text/plain": "<Markdown>"},
        "metadata": {},
    }


def html_output(text: str) -> dict[str, Any]:
    """A cell output of raw HTML."""
    return {
        "output_type": "display_data",
        "data": {"text/html": text, "text/plain": "<HTML>"},
        "metadata": {},
    }


def code(
    source: str, count: int, outputs: list[dict[str, Any]], tags: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A code cell that ran as number `count`."""
    return {
        "cell_type": "code",
        "id": f"cell-{count}",
        "source": source,
        "execution_count": count,
        "outputs": outputs,
        "metadata": {"tags": list(tags)} if tags else {},
    }


@dataclass
class StubProject:
    """What `render` needs to know of a project."""

    root: Path
    outputs: list[dict[str, Any]] = field(default_factory=list)
    kind: str = "full"

    @property
    def notebooks(self) -> tuple[SimpleNamespace, ...]:
        return (SimpleNamespace(name=NAME, part=1, data=(), profiles={"quick": {}}),)

    @property
    def run(self) -> Path:
        return self.root / "results" / "quick" / NAME / "abc"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.json"

    def page(self, name: str, text: str) -> None:
        """Write a prose page of the stub book."""
        (self.root / "book" / f"{name}.md").write_text(text, "utf-8")

    def write_run(self, extra: list[dict[str, Any]] | None = None) -> None:
        """Write the executed notebook; `extra` outputs are planted in a last cell."""
        cells = [
            {"cell_type": "markdown", "id": "text", "metadata": {}, "source": CHAPTER},
            code("n: int = 3  # how many", 1, [], ("parameters",)),
            code(
                "very_long_name = " + " + ".join(f"a_rather_long_name_{i}" for i in range(12)),
                2,
                [html_output("<table><tr><th>a</th></tr><tr><td>1</td></tr></table>")],
                ("hide-input",),
            ),
            code("show(figure)", 3, [markdown_output(FIGURE), markdown_output(TABLE)]),
            code(
                "print('x' * 200)",
                4,
                [{"output_type": "stream", "name": "stdout", "text": "x" * 200 + "\n"}],
                ("hide-output",),
            ),
        ]
        if extra:
            cells.append(code("planted", 5, extra))
        notebook = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "cells": cells,
            "metadata": {
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                "language_info": {"name": "python"},
                "papermill": {"input_path": "/somewhere/in.ipynb", "start_time": "2020-01-01"},
            },
        }
        figures = self.run / "figures"
        figures.mkdir(parents=True, exist_ok=True)
        (figures / "line.svg").write_text(SVG, "utf-8")
        (figures / "line.csv").write_text("x,y\n0,0\n1,1\n", "utf-8")
        (self.run / "executed.ipynb").write_text(json.dumps(notebook), "utf-8")
        (self.run / "result.json").write_text(json.dumps(self._result()), "utf-8")

    def _result(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "key": "abc",
            "notebook": NAME,
            "profile": "quick",
            "parameters": {"n": 3},
            "digests": {"data": {"mnist": {"kind": self.kind, "digest": {"train": "0"}}}},
            "provenance": {
                "commit": "0123456789abcdef",
                "dirty": False,
                "started": "2025-01-02T03:04:05Z",
                "seconds": 1.25,
                "peak_memory_bytes": 123_000_000,
                "cpu": "a CPU",
                "threads": 1,
            },
        }


def claim(tag: str, paper: str, verdict: str) -> dict[str, Any]:
    """A ledger entry with the keys the book part reads."""
    reason = "chapter to come" if verdict == "not checked" else None
    return {
        "tag": tag,
        "paper": paper,
        "verdict": verdict,
        "place": "Theorem 1",
        "statement": "It holds that $a=b$.",
        "not_checked": reason,
        "regimes": [],
    }


def make_stub(root: Path, kind: str = "full") -> StubProject:
    """Make the stub project under `root`."""
    book = root / "book"
    book.mkdir(parents=True)
    for folder in ("_ext", "_static"):
        shutil.copytree(
            ROOT / "book" / folder, book / folder, ignore=shutil.ignore_patterns("__pycache__", "ledger_*")
        )
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    config["sphinx"]["local_extensions"].pop("ledger_directives")
    config["sphinx"]["config"]["extensions"].remove("ledger_directives")
    (root / "_config.yml").write_text(yaml.safe_dump(config), "utf-8")
    toc = {
        "format": "jb-book",
        "root": "index",
        "parts": [
            {"caption": "Part 1", "numbered": True, "chapters": [{"file": f"notebooks/{NAME}"}]},
            {"caption": "Others", "chapters": [{"file": "to-come"}, {"file": "references"}]},
        ],
    }
    (root / "_toc.yml").write_text(yaml.safe_dump(toc), "utf-8")
    stub = StubProject(root, kind=kind)
    for name, text in (("index", INDEX), ("to-come", TO_COME), ("references", REFERENCES)):
        stub.page(name, text)
    (book / "references.bib").write_text(BIB, "utf-8")
    (root / "notebooks").mkdir()
    (root / "notebooks" / f"{NAME}.md").write_text("# A stub chapter\n", "utf-8")
    (root / "notebooks" / f"{NAME}.ipynb").write_text(
        json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": [], "metadata": {}}), "utf-8"
    )
    stub.ledger.write_text(
        json.dumps(
            {
                "schema": 1,
                "profile": "quick",
                "generated": "2025-01-02",
                "counts": {},
                "problems": [],
                "claims": [
                    claim("A", "sparse_xor", "confirmed"),
                    claim("B", "sparse_xor", "contradicted"),
                    claim("C", "simulator", "not checked"),
                    claim("D", "ntk", "regime-dependent"),
                ],
            }
        ),
        "utf-8",
    )
    stub.write_run()
    return stub
