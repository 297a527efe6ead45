"""Repairs of the theme's pages for readers who use a keyboard or a screen reader.

Each repair is a plain replacement in the pages as written. A repair that no longer finds what it mends means
that the theme has changed: the build then warns, which fails it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Repair:
    """Replace the pattern `find` by `put`; on `every` page, or only where it occurs."""

    why: str
    find: re.Pattern[str]
    put: str
    every: bool = False

    def __call__(self, html: str) -> tuple[str, int]:
        """The repaired page and the number of places."""
        return self.find.subn(self.put, html)


REPAIRS = (
    Repair(
        "the book's title and search stand outside of every landmark",
        re.compile(r'<div id="pst-primary-sidebar" class='),
        '<div id="pst-primary-sidebar" role="complementary" aria-label="Book" class=',
        every=True,
    ),
    Repair(
        "a list of references needs items; the role that docutils gives them is deprecated",
        re.compile(r'(<div class="citation"[^>]*) role="doc-biblioentry"'),
        r'\1 role="listitem"',
    ),
    Repair(
        "an empty dialog without a name is announced as a dialog",
        re.compile(r'<dialog id="pst-(primary|secondary)-sidebar-modal">'),
        r'<dialog id="pst-\1-sidebar-modal" aria-label="Contents">',
    ),
    Repair(
        "the search dialog has no name",
        re.compile(r'<dialog id="pst-search-dialog">'),
        '<dialog id="pst-search-dialog" aria-label="Search">',
        every=True,
    ),
    Repair(
        "a wide table scrolls in its own box, which a keyboard must reach",
        re.compile(r'<div class="(pst-scrollable-table-container|scroll-x)">'),
        r'<div class="\1" tabindex="0" role="group" aria-label="Table">',
    ),
)


def repair(html: str, name: str) -> tuple[str, list[str]]:
    """A page after all repairs, and what was expected but not found on the page called `name`."""
    missing = []
    for mend in REPAIRS:
        html, places = mend(html)
        if mend.every and not places:
            missing.append(
                f"{name}: nothing to mend where {mend.why}; look at the theme's page and at access_fixes.py"
            )
    return html, missing


def repair_pages(app: Sphinx, exception: Exception | None) -> None:
    """Mend every page of a finished build."""
    if exception is not None or app.builder.format != "html":
        return
    top = Path(app.outdir)
    for page in sorted(top.rglob("*.html")):
        name = page.relative_to(top)
        if name.parts[0] in ("_static", "downloads"):
            continue
        html, missing = repair(page.read_text("utf-8"), name.as_posix())
        for line in missing:
            logger.warning(line)
        page.write_text(html, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    # Jupyter Book always sets it; the extension that declares it (sphinx_comments) is not loaded.
    app.add_config_value("comments_config", {}, "")
    app.connect("build-finished", repair_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
