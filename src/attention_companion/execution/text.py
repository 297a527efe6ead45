"""Reading a notebook's text: one parse, deterministic cell ids, code without IPython's shorthand.

jupytext draws a random id for every cell on every conversion, so two readings of one file differ. Here an id is
derived from the cell's kind and content (and from how many equal cells stand before it), so that it survives
insertions elsewhere and two readings are equal.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

FORMAT = "md:myst"


class NotebookError(ValueError):
    """A notebook's source text cannot be used; the message says how to mend it."""


def read_notebook(path: Path) -> Any:
    """The MyST text at ``path`` as an nbformat NotebookNode (v4) with deterministic ids; a fresh object each call.

    Raises
    ------
    NotebookError
        If the file is missing or jupytext cannot read it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotebookError(f"{path} does not exist: a notebook of the list needs its MyST text") from error
    return parse_notebook(text, str(path))


def parse_notebook(text: str, name: str = "notebook") -> Any:
    """``text`` (MyST) as a NotebookNode with deterministic ids; ``name`` is for messages."""
    import nbformat

    return nbformat.from_dict(json.loads(_parsed(text, name)))


@lru_cache(maxsize=64)
def _parsed(text: str, name: str) -> str:
    import jupytext

    try:
        notebook = jupytext.reads(text, fmt=FORMAT)
    except Exception as error:  # jupytext raises many kinds; each means the same to the reader
        raise NotebookError(f"{name} is not MyST notebook text that jupytext can read: {error}") from error
    assign_ids(notebook)
    return json.dumps(notebook)


def assign_ids(notebook: Any) -> None:
    """Give every cell of ``notebook`` (changed in place) the id derived from its kind and source."""
    notebook.nbformat, notebook.nbformat_minor = 4, max(5, notebook.get("nbformat_minor", 0))
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        stem = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        cell["id"] = stem if seen[stem] == 0 else f"{stem}-{seen[stem]}"
        seen[stem] += 1


def code_of(notebook: Any) -> list[tuple[int, str]]:
    """(index, Python source) of every code cell; lines of IPython shorthand (%, !) become blank lines.

    Raises
    ------
    NotebookError
        For a cell magic (``%%...``), behind which imports could hide from the key.
    """
    cells = []
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        if cell.source.lstrip().startswith("%%"):
            first = cell.source.lstrip().splitlines()[0]
            raise NotebookError(
                f"cell {index} starts with the cell magic {first!r}: its imports cannot be read, so its result "
                "could not be keyed. Write plain Python, or move the work to src/."
            )
        lines = ["" if line.startswith(("%", "!")) else line for line in cell.source.split("\n")]
        cells.append((index, "\n".join(lines)))
    return cells
