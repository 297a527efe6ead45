"""A chapter's figure on another page: its own picture and words, and a warning when the chapter has no such figure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from book_stub import INDEX, NAME, make_stub, markdown_output
from figure_again import shown_figures

from attention_companion import plots
from attention_companion.execution.render import render
from attention_companion.execution.render_errors import RenderError


def page(name: str) -> str:
    """The stub's front page with the directive."""
    return f"{INDEX}\n```{{figure-again}} {NAME} {name}\nShown once more.\n```\n"


def test_figures_are_found_as_plots_writes_them() -> None:
    text = plots._directive("12_x", "a-line", "A line that rises from one to four.", "The caption of it.")
    notebook = {"cells": [{"outputs": [markdown_output(text), markdown_output("words")]}, {"source": ""}]}
    assert shown_figures(notebook) == {"a-line": ("fig-12-a-line", "A line that rises from one to four.")}


def test_picture_and_words_are_the_chapters(tmp_path: Path) -> None:
    stub = make_stub(tmp_path / "p")
    stub.page("index", page("line"))
    built = render(stub, "quick", {NAME: stub.run}, stub.ledger, stub.root / "_build" / "html", "k1")
    front, chapter = ((built / name).read_text("utf-8") for name in ("index.html", f"notebooks/{NAME}.html"))
    alt = 'alt="A straight line that rises from the left to the right."'
    assert re.search(rf"<img {alt} src=\"_images/line.svg\"", front)
    assert alt in chapter
    assert "Shown once more." in front
    assert f'href="notebooks/{NAME}.html#fig-12-line"' in front


def test_a_figure_that_is_not_there_fails_the_build(tmp_path: Path) -> None:
    stub = make_stub(tmp_path / "p")
    stub.page("index", page("circle"))
    with pytest.raises(RenderError, match="shows no figure 'circle'; it shows line"):
        render(stub, "quick", {NAME: stub.run}, stub.ledger, stub.root / "_build" / "html", "k1")
