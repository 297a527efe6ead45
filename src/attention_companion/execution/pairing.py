"""The paired .ipynb of each notebook: made from the MyST text, compared with it, never the other way.

The text is the source. ``jupytext --sync`` lets the file touched last win, so a stale .ipynb checked out a second
later overwrites newer text; nothing here ever writes a text. ``python -m attention_companion.execution.pairing``
compares and exits with 1 on a difference; with ``--write`` it makes the .ipynb files anew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from attention_companion.execution.project import NotebookSpec, Project
from attention_companion.execution.text import NotebookError, read_notebook

_MEND = "The text is the source: put what you mean to keep into it, then run `make pair`"
_LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python", "pygments_lexer": "ipython3"}


def paired_notebook(source: Path) -> Any:
    """The notebook that belongs beside the text ``source``: its cells without outputs, deterministic ids.

    The metadata holds the kernel, the language and which formats are paired (so that JupyterLab's jupytext saves the
    text too); neither a jupytext version nor a person's kernel name makes files differ.
    """
    import nbformat

    notebook = read_notebook(source)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell["outputs"], cell["execution_count"] = [], None
        if not cell.metadata.get("tags", True):
            del cell.metadata["tags"]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    formats = notebook.metadata.get("jupytext", {}).get("formats")
    metadata: dict[str, Any] = {"kernelspec": kernel, "language_info": _LANGUAGE}
    if formats:
        metadata["jupytext"] = {"formats": formats}
    notebook["metadata"] = nbformat.from_dict(metadata)
    return notebook


def paired_text(source: Path) -> str:
    """The exact text of the .ipynb that belongs beside ``source``."""
    import nbformat

    return str(nbformat.writes(paired_notebook(source), version=4)) + "\n"


def check_pairs(project: Project) -> list[str]:
    """One line for each notebook whose .ipynb is missing or differs from its text; empty if all agree.

    Compared are the cells (kind, source, metadata) and that there are no outputs; ids and the notebook's own
    metadata are not. .ipynb files under notebooks/ that belong to no notebook of the list are reported too.
    """
    problems = [problem for spec in project.notebooks if (problem := _check(spec)) is not None]
    listed = {spec.paired for spec in project.notebooks} | {spec.source for spec in project.notebooks}
    for pattern in ("*.ipynb", "*.md"):
        for path in sorted((project.root / "notebooks").glob(pattern)):
            if path not in listed:
                problems.append(f"{path.name} belongs to no notebook of notebooks/notebooks.yml: list or remove it")
    return problems


def write_pairs(project: Project) -> list[Path]:
    """Make each .ipynb from its text, atomically; files that are right already are left alone. Returns those written.

    Raises
    ------
    NotebookError
        If a text is missing or unreadable.
    """
    written = []
    for spec in project.notebooks:
        text = paired_text(spec.source)
        if spec.paired.exists() and spec.paired.read_text(encoding="utf-8") == text:
            continue
        fresh = spec.paired.with_name(f".{spec.paired.name}.{os.getpid()}.new")
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, spec.paired)
        written.append(spec.paired)
    return written


def _check(spec: NotebookSpec) -> str | None:
    name = spec.paired.name
    try:
        wanted = paired_notebook(spec.source)
    except NotebookError as error:
        return str(error)
    if not spec.paired.exists():
        return f"{name} is missing: run `make pair`"
    try:
        found = json.loads(spec.paired.read_text(encoding="utf-8"))
        have = [_plain(cell) for cell in found["cells"]]
        outputs = [index for index, cell in enumerate(found["cells"]) if _was_run(cell)]
    except (ValueError, KeyError, TypeError) as error:
        return f"{name} is not a notebook ({error}): run `make pair`"
    want = [_plain(cell) for cell in wanted.cells]
    for index, (left, right) in enumerate(zip(want, have, strict=False)):
        if left != right:
            return f"{name}: cell {index} differs from {spec.source.name}{_difference(left, right)}. {_MEND}."
    if len(want) != len(have):
        return f"{name} has {len(have)} cells, {spec.source.name} has {len(want)}. {_MEND}."
    if outputs:
        return f"{name}: cell {outputs[0]} holds outputs or an execution count; paired notebooks hold none. {_MEND}."
    return None


def _plain(cell: Any) -> tuple[str, str, str]:
    source = cell["source"]
    metadata = {key: value for key, value in cell["metadata"].items() if value not in ([], {})}
    return (
        cell["cell_type"],
        "".join(source) if isinstance(source, list) else source,
        json.dumps(metadata, sort_keys=True),
    )


def _was_run(cell: Any) -> bool:
    return cell["cell_type"] == "code" and bool(cell.get("outputs") or cell.get("execution_count"))


def _difference(left: tuple[str, str, str], right: tuple[str, str, str]) -> str:
    for what, a, b in zip(("kind", "source", "metadata"), left, right, strict=True):
        if a == b:
            continue
        if what == "source":
            lines = zip([*a.splitlines(), ""], [*b.splitlines(), ""], strict=False)
            a, b = next(((x, y) for x, y in lines if x != y), (a, b))
        return f" in its {what}: {a[:80]!r} in the text, {b[:80]!r} in the .ipynb"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """The module's command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m attention_companion.execution.pairing", description=__doc__)
    parser.add_argument("--write", action="store_true", help="make the .ipynb files from the texts")
    parser.add_argument("--root", help="the project's folder (default: found from the working directory)")
    asked = parser.parse_args(arguments)
    project = Project.find(asked.root)
    if asked.write:
        for path in write_pairs(project):
            print(f"wrote {path.relative_to(project.root)}")
    problems = check_pairs(project)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
