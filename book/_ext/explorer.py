"""Directive `{explorer} NOTEBOOK`: try sizes and learning rates on numbers that this build computed.

The numbers of two figures of the notebook are put into the page as data; `_static/explorer.js` lets a reader move
through them. The page needs nothing else: it works from a folder, and without the script it says where the pictures
are. A table that is missing or malformed is a Sphinx warning, which fails a strict build.

    ```{explorer} 19_try_it
    :success: success-by-rate
    :maps: maps-of-start-0
    :asked: 0.95
    ```
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from explorer_data import Malformed, embed, payload
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

#: Set on the node, so that a page's files can be chosen when it is written.
CLASS = "explorer"
FILES = ("explorer.js", "explorer.css")


def control(name: str, label: str, count: int) -> str:
    """A labelled slider over `count` places, standing in the middle; the script fills in the words."""
    ident = f"explorer-{name}"
    return (
        f'<div class="explorer-control"><label for="{ident}">{label}</label>'
        f'<span class="explorer-value" id="{ident}-value" aria-hidden="true"></span>'
        f'<input type="range" id="{ident}" min="0" max="{count - 1}" step="1" value="{(count - 1) // 2}"></div>'
    )


def markup(data: dict[str, Any], asked: float) -> str:
    """The explorer as HTML: controls (hidden until the script runs), places for the drawings, and the data."""
    options = "".join(f'<option value="{i}">start {start}</option>' for i, start in enumerate(data["starts"]))
    grids = "".join(
        f'<div class="explorer-map"><p class="explorer-label">Head {head + 1}, {when}</p>'
        f'<svg id="explorer-{when}-{head}" role="img" aria-label="not drawn yet" viewBox="-8 -8 176 176"></svg></div>'
        for when in ("before", "after")
        for head in (0, 1)
    )
    return (
        '<noscript><p class="explorer-note">The explorer needs JavaScript, which is off. The pictures below show the '
        "same numbers, and their CSV files hold all of them.</p></noscript>"
        f'<section class="explorer" id="explorer" aria-labelledby="explorer-title" data-asked="{asked:g}" hidden>'
        '<p class="explorer-title" id="explorer-title">Choose a size and a learning rate</p>'
        '<div class="explorer-controls">'
        + control("d", "Input length <i>d</i>", len(data["d"]))
        + control("m", "Embedding width <i>m</i>", len(data["m"]))
        + control("rate", "Learning rate <i>η</i>", len(data["factors"]))
        + '<div class="explorer-control"><label for="explorer-start">Example to draw</label>'
        f'<select id="explorer-start">{options}</select></div></div>'
        '<div class="explorer-words" id="explorer-words" role="status" aria-live="polite"></div>'
        '<div class="explorer-chart"><p class="explorer-label">Share of starts that specialise at this <i>d</i> and '
        "<i>m</i>, by learning rate, with 95% Wilson intervals</p>"
        '<svg id="explorer-chart" role="img" aria-label="not drawn yet" viewBox="0 0 320 222"></svg></div>'
        f'<div class="explorer-maps">{grids}</div>'
        '<p class="explorer-key">Each square is a position, read line by line like a text; darker in the light theme, '
        "brighter in the dark one, is more attention weight (by its square root, so that small weights show). "
        "Before and after are before and after the step. The hidden pair: "
        '<svg class="explorer-sign" viewBox="0 0 14 14" aria-hidden="true"><rect class="explorer-p" x="2" y="2" '
        'width="10" height="10"/></svg> is position <i>p</i>, '
        '<svg class="explorer-sign" viewBox="0 0 14 14" aria-hidden="true"><circle class="explorer-q" cx="7" cy="7" '
        'r="5.5"/></svg> is position <i>q</i>.</p>'
        f'<script type="application/json" id="explorer-data">{embed(data)}</script></section>'
    )


def _share(argument: str) -> float:
    value = float(argument)
    if not (math.isfinite(value) and 0 < value < 1):
        raise ValueError(f"asked is {argument!r}; give a share between 0 and 1")
    return value


class Explorer(SphinxDirective):
    """`{explorer} NOTEBOOK` with the options `success`, `maps` (names of figures) and `asked` (a share)."""

    required_arguments = 1
    option_spec = {  # noqa: RUF012 - docutils declares it this way
        "success": directives.unchanged_required,
        "maps": directives.unchanged_required,
        "asked": _share,
    }

    def run(self) -> list[nodes.Node]:
        try:
            html = markup(
                payload(self._table("success"), self._table("maps")), self.options.get("asked", 0.95)
            )
        except Malformed as error:
            logger.warning("explorer: %s", error, location=self.get_location())
            return []
        if self.env.temp_data.setdefault(CLASS, False):
            logger.warning(
                "explorer: a page holds at most one; remove this one", location=self.get_location()
            )
            return []
        self.env.temp_data[CLASS] = True
        return [nodes.raw("", html, format="html", classes=[CLASS])]

    def _table(self, option: str) -> str:
        """Text of the CSV behind a figure of the notebook. Raises `Malformed` when it is not there."""
        name = self.options.get(option)
        if not name:
            raise Malformed(f"give :{option}: the name of the figure whose numbers are read")
        path = Path(self.env.srcdir) / "figures" / self.arguments[0] / f"{name}.csv"
        self.env.note_dependency(str(path))
        if not path.is_file():
            raise Malformed(
                f"no table figures/{self.arguments[0]}/{name}.csv; the notebook {self.arguments[0]} must show a figure "
                f"named {name!r}"
            )
        return path.read_text("utf-8")


def keep_files_to_their_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.Node | None
) -> None:
    """Take script and style off every page without an explorer: Jupyter Book puts all of _static on all pages."""
    if doctree is not None and any(CLASS in raw["classes"] for raw in doctree.findall(nodes.raw)):
        return
    for kind in ("script_files", "css_files"):
        # In place: extensions that come later add to the same list, which Sphinx renews for every page.
        context[kind][:] = [f for f in context[kind] if Path(str(f.filename or "")).name not in FILES]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("explorer", Explorer)
    app.connect("html-page-context", keep_files_to_their_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
