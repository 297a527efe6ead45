"""What one build knows about its runs: the file `build.json` that the renderer writes beside the book.

Other extensions of this folder read it here. Without the file (somebody runs Sphinx by hand) the facts
are empty and pages say so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def register(app: Sphinx) -> None:
    """Declare the setting that names build.json; harmless when several extensions call it."""
    if "companion_build" not in app.config:
        app.add_config_value("companion_build", "", "env", types=[str])


def facts(app: Sphinx) -> dict[str, Any]:
    """Contents of build.json: profile, generated, repository, branch, runs {notebook: result}."""
    path = app.config.companion_build
    if not path:
        return {"profile": "unknown", "generated": None, "repository": "", "branch": "main", "runs": {}}
    return json.loads(Path(path).read_text("utf-8"))


def notebook_of(pagename: str) -> str | None:
    """The notebook behind a page, by its place in the book: notebooks/<name>."""
    folder, _, name = pagename.rpartition("/")
    return name if folder == "notebooks" else None
