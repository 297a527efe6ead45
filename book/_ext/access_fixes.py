"""Small repairs of the theme's pages for readers who use a keyboard or a screen reader, and for the console."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    # Jupyter Book always sets it; the extension that declares it (sphinx_comments) is not loaded.
    app.add_config_value("comments_config", {}, "")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
