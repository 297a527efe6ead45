"""The buttons at the head of a page: download, launch, source.

The theme derives its links from a page's place in the build; here the notebooks and the prose come from
different folders of the repository, so the links are made from what the repository holds. No button needs
an inline handler.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from build_facts import facts, notebook_of, register
from docutils import nodes
from sphinx.application import Sphinx

BINDER = "https://mybinder.org/v2/gh"


def source_path(pagename: str) -> str:
    """The file of the repository that a page is made from."""
    notebook = notebook_of(pagename)
    return f"notebooks/{notebook}.md" if notebook else f"book/{pagename}.md"


def launch_url(repository: str, branch: str, notebook: str) -> str:
    """A link that opens the clean notebook in a hosted JupyterLab."""
    owner_and_name = "/".join(repository.rstrip("/").split("/")[-2:])
    target = quote(f"lab/tree/notebooks/{notebook}.ipynb", safe="")
    return f"{BINDER}/{owner_and_name}/{quote(branch)}?urlpath={target}"


def source_url(repository: str, branch: str, pagename: str) -> str:
    """A link to the page's source in the repository."""
    return f"{repository}/blob/{quote(branch)}/{quote(source_path(pagename))}"


def _link(url: str, text: str, tooltip: str, icon: str, label: str) -> dict[str, str]:
    return {"type": "link", "url": url, "text": text, "tooltip": tooltip, "icon": icon, "label": label}


def header_buttons(
    pagename: str, root: str, repository: str, branch: str, runs: dict[str, Any]
) -> list[dict[str, Any]]:
    """The buttons of one page; `root` leads from the page to the top of the book ('../')."""
    buttons: list[dict[str, Any]] = []
    notebook = notebook_of(pagename)
    if notebook in runs:
        folder = f"{root}downloads/{notebook}/{notebook}"
        buttons.append(
            {
                "type": "group",
                "tooltip": "Download this page",
                "icon": "fas fa-download",
                "label": "download-buttons",
                "buttons": [
                    _link(
                        f"{folder}.ipynb",
                        "Notebook (.ipynb)",
                        "The notebook without outputs",
                        "fas fa-code",
                        "download-clean",
                    ),
                    _link(
                        f"{folder}.md",
                        "Text (.md)",
                        "The notebook as MyST text",
                        "fas fa-file",
                        "download-text",
                    ),
                    _link(
                        f"{folder}-executed.ipynb",
                        "Executed (.ipynb)",
                        "The notebook with the outputs of this page",
                        "fas fa-check",
                        "download-executed",
                    ),
                ],
            }
        )
        buttons.append(
            _link(
                launch_url(repository, branch, notebook),
                "",
                "Launch on Binder",
                "fas fa-rocket",
                "launch-binder",
            )
        )
    buttons.append(
        _link(
            source_url(repository, branch, pagename),
            "",
            "Source of this page",
            "fab fa-github",
            "source-page",
        )
    )
    return buttons


def set_buttons(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.Node | None
) -> None:
    """Replace the theme's header buttons; runs after the theme has made its own."""
    if doctree is None:
        context["header_buttons"] = []
        return
    known = facts(app)
    context["header_buttons"] = header_buttons(
        pagename, context["content_root"], known["repository"], known["branch"], known["runs"]
    )


def setup(app: Sphinx) -> dict[str, Any]:
    register(app)
    app.connect("html-page-context", set_buttons, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
