"""Render the book: stage, build, protect, check, swap.

Jupyter Book is always run on a clean folder (an incremental build shows stale values across pages and
keeps deleted pages) with every warning an error. The old book stays in place until the new one has
passed every check.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attention_companion.execution.csp import protect
from attention_companion.execution.render_check import check_pages, html_pages
from attention_companion.execution.render_errors import RenderError
from attention_companion.execution.render_stage import stage_book
from attention_companion.execution.render_swap import new_stage, recover, swap

if TYPE_CHECKING:
    from attention_companion.execution.project import Project

KEY_PREFIX = ".key-"
LOG_LINES = 40
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Left by Sphinx: a digest of its settings, of use to incremental builds only.
LEFTOVERS = (".buildinfo", "objects.inv")
# The offline MathJax ships every input, output and speech format; a page loads tex-chtml and what it names.
MATHJAX_UNUSED = (
    "latest.js",
    "mml-chtml.js",
    "mml-svg.js",
    "node-main.js",
    "tex-chtml-full.js",
    "tex-chtml-full-speech.js",
    "tex-mml-chtml.js",
    "tex-mml-svg.js",
    "tex-svg.js",
    "tex-svg-full.js",
    "adaptors",
    "output/svg",
    "output/svg.js",
    "input/mml",
    "input/mml.js",
    "input/asciimath.js",
)


def render(
    project: Project,
    profile: str,
    results: Mapping[str, Path],
    ledger_path: Path,
    out: Path,
    key: str | None = None,
) -> Path:
    """Render the book of `profile` into the folder `out` and return it.

    `results` maps each notebook's name to the folder of its whole run; a notebook of the project without
    one is an error. `key` is noted as the file `.key-<key>` in the book, for whoever decides whether to
    render again. Raises `RenderError`; the folder `out` is then as it was.
    """
    out = Path(os.path.abspath(out))
    _refuse_missing_runs(project, results)
    recover(out)
    stage = new_stage(out)
    try:
        book = stage_book(project.root, profile, results, Path(ledger_path), stage)
        built = build(book, stage, out.parent / "render.log")
        prune(built)
        pages = html_pages(built)
        protect(built, pages)
        check_pages(built)
        if key is not None:
            (built / f"{KEY_PREFIX}{key}").touch()
        swap(built, out)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return out


def build(book: Path, stage: Path, log: Path) -> Path:
    """Run Jupyter Book on the staged folder `book`; return the folder of pages.

    Everything it prints goes to `log`. Raises `RenderError` with the warnings when it fails.
    """
    command = [
        sys.executable,
        "-P",
        "-c",
        "from jupyter_book.cli.main import main; main()",
        "build",
        str(book),
        "--config",
        str(stage / "_config.yml"),
        # Absolute: Jupyter Book resolves a relative one against the book's folder.
        "--toc",
        str(stage / "_toc.yml"),
        "--path-output",
        str(stage),
        "-W",
        "-n",
        "--keep-going",
        "--all",
    ]
    environment = {k: v for k, v in os.environ.items() if k not in ("JUPYTER_PATH", "PYTHONWARNINGS")}
    environment["PYTHONHASHSEED"] = "0"
    done = subprocess.run(
        command,
        cwd=stage,
        env=environment,
        text=True,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = COLOUR.sub("", done.stdout)
    log.write_text(output, "utf-8")
    built = stage / "_build" / "html"
    if done.returncode != 0 or not (built / "index.html").is_file():
        raise RenderError(_why(output, log))
    return built


def prune(built: Path) -> None:
    """Remove what no page loads: Sphinx's build notes and MathJax's other formats."""
    for name in LEFTOVERS:
        (built / name).unlink(missing_ok=True)
    for name in MATHJAX_UNUSED:
        target = built / "_static" / "mathjax" / name
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)


def _why(output: str, log: Path) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    telling = [
        line for line in lines if any(word in line for word in ("WARNING", "ERROR", "rror:", "Exception"))
    ]
    shown = "\n".join((telling or lines)[-LOG_LINES:])
    return f"Jupyter Book refused the book (whole log: {log}):\n{shown}"


def _refuse_missing_runs(project: Project, results: Mapping[str, Path]) -> None:
    missing = [spec.name for spec in project.notebooks if spec.name not in results]
    if missing:
        raise RenderError(f"no whole run of {', '.join(missing)}; `make book` runs what is missing.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of `python -m attention_companion.execution.render`."""
    from attention_companion.execution.project import Project

    parser = argparse.ArgumentParser(description="Render the book from whole runs.")
    parser.add_argument("--profile", required=True)
    parser.add_argument("--ledger", required=True, type=Path)
    parser.add_argument("--result", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--key")
    parser.add_argument("--root", type=Path, help="the project's root (found when not given)")
    given = parser.parse_args(arguments)
    results = {}
    for item in given.result:
        name, separator, folder = item.partition("=")
        if not (name and separator and folder):
            parser.error(f"--result {item!r}: expected NAME=DIR")
        results[name] = Path(folder)
    try:
        out = render(Project.find(given.root), given.profile, results, given.ledger, given.out, given.key)
    except RenderError as error:
        print(f"render: {error}", file=sys.stderr)
        return 1
    print(f"The book lies at {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
