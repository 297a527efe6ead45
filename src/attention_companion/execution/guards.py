"""What an executed notebook must be before a page may be made of it.

papermill, nbclient and jupyter-book all accept half-executed notebooks in silence: a killed kernel leaves its cells
marked "completed", a failed run stays at the output path, and a book with stored errors builds with exit status 0.
So only what can be seen in the notebook itself counts here.
"""

from __future__ import annotations

import re
from typing import Any

from attention_companion.execution.active_content import active_html, active_markdown

INERT_TYPES = frozenset({"text/plain", "image/png", "image/jpeg", "application/json"})
MARKUP_TYPES = frozenset({"text/html", "image/svg+xml"})
MARKDOWN_TYPES = frozenset({"text/markdown", "text/latex"})
OUTPUT_KINDS = frozenset({"stream", "display_data", "execute_result"})
_FIGURE_REPR = re.compile(r"<Figure size [^>]*>")


class BrokenRun(RuntimeError):
    """A run is not whole or not clean; no page is made of it."""


def check_executed(nb: Any) -> None:
    """Refuse an executed notebook (NotebookNode, v4) that is not whole or carries active content.

    Raises
    ------
    BrokenRun
        If the code cells (but the empty ones) do not carry the execution counts 1..n, an output is an error or is
        missing, a figure left only its name, or an output holds a script, an event handler, a javascript: URL, widget
        state or a type that pages do not show.
    """
    if nb.metadata.get("widgets"):
        raise BrokenRun("the notebook holds widget state, which needs scripts on the page: show a static figure")
    expected = 0
    for index, cell in enumerate(nb.cells):
        if cell.cell_type != "code":
            continue
        outputs = cell.get("outputs")
        if not isinstance(outputs, list):
            raise BrokenRun(f"{_place(index, cell)} has no list of outputs: the run is not whole")
        if not cell.source.strip():
            if outputs:
                raise BrokenRun(f"{_place(index, cell)} is empty but has outputs")
            continue
        for output in outputs:
            if output.get("output_type") == "error":
                name, value = output.get("ename", "error"), output.get("evalue", "")
                raise BrokenRun(f"{_place(index, cell)} ended in {name}: {value}")
        expected += 1
        count = cell.get("execution_count")
        if count != expected or isinstance(count, bool):
            raise BrokenRun(
                f"{_place(index, cell)} has execution count {count!r}, expected {expected}: "
                "the run stopped early or cells were run out of order"
            )
        for output in outputs:
            _check_output(output, _place(index, cell))
    if expected == 0:
        raise BrokenRun("no code cell was executed")


def _check_output(output: Any, place: str) -> None:
    kind = output.get("output_type")
    if kind not in OUTPUT_KINDS:
        raise BrokenRun(f"{place} has an output of the unknown kind {kind!r}")
    if kind == "stream":
        return  # shown as escaped text
    data = output.get("data", {})
    if not data:
        raise BrokenRun(f"{place} has an output without content")
    for mime, content in data.items():
        text = "".join(content) if isinstance(content, list) else content
        if mime in INERT_TYPES:
            continue
        if mime in MARKUP_TYPES:
            found = active_html(str(text))
        elif mime in MARKDOWN_TYPES:
            found = active_markdown(str(text))
        else:
            raise BrokenRun(f"{place} has an output of type {mime!r}, which pages do not show (it may run code)")
        if found:
            raise BrokenRun(f"{place} has active content in its {mime} output: {'; '.join(found)}")
    plain = str("".join(data.get("text/plain", "")))
    if set(data) == {"text/plain"} and _FIGURE_REPR.fullmatch(plain.strip()):
        raise BrokenRun(f"{place} shows {plain.strip()} instead of a picture: show it with plots.show")


def _place(index: int, cell: Any) -> str:
    lines = cell.source.strip().splitlines()
    return f"cell {index} ({lines[0][:60]!r})" if lines else f"cell {index}"
