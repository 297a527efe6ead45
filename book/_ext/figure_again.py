"""Directive `{figure-again} NOTEBOOK NAME`: a chapter's figure shown once more on another page.

Picture and alternative text are those of the chapter's run, so that the words on the second page follow the numbers
too; the caption is written where the figure is shown. A figure that the run does not have is a Sphinx warning.

    ```{figure-again} 12_one_population_step success
    Success of one step.
    ```
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

#: What plots.show() displays under the runner.
FIGURE = re.compile(
    r"```\{figure\} (?P<path>/figures/[^\s]+)\.svg\n:name: (?P<label>\S+)\n:alt: (?P<alt>.+)\n"
)


def shown_figures(notebook: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Name -> (label, alternative text) of every figure in the outputs of an executed notebook."""
    texts = (
        "".join(output.get("data", {}).get("text/markdown", ()))
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
    )
    found = (match for text in texts for match in FIGURE.finditer(text))
    return {match["path"].rpartition("/")[2]: (match["label"], match["alt"]) for match in found}


class FigureAgain(SphinxDirective):
    """Arguments: the notebook and the figure's name. Content: the caption."""

    required_arguments = 2
    has_content = True

    def run(self) -> list[nodes.Node]:
        notebook, name = self.arguments
        path = Path(self.env.srcdir) / "notebooks" / f"{notebook}.ipynb"
        self.env.note_dependency(str(path))
        figures = shown_figures(json.loads(path.read_text("utf-8"))) if path.is_file() else {}
        if name not in figures:
            logger.warning(
                "figure-again: %s shows no figure %r; it shows %s",
                notebook,
                name,
                ", ".join(figures) or "none",
                location=self.get_location(),
            )
            return []
        label, alt = figures[name]
        here = self.env.docname.replace("/", "-")
        lines = [
            f"```{{figure}} /figures/{notebook}/{name}.svg",
            f":name: {label}-on-{here}",
            f":alt: {alt}",
            ":width: 100%",
            "",
            *self.content,
            f"Made in {{doc}}`/notebooks/{notebook}` ({{numref}}`{label}`).",
            "```",
        ]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("figure-again", FigureAgain)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
