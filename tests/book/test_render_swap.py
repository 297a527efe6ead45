"""The finished book steps in by renaming; whatever a kill leaves is put right by the next build."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from attention_companion.execution import render_swap


def book(path: Path, text: str) -> Path:
    """A folder with one page."""
    path.mkdir(parents=True)
    (path / "index.html").write_text(text, "utf-8")
    return path


def text(path: Path) -> str:
    """The page's text."""
    return (path / "index.html").read_text("utf-8")


def test_new_book_replaces_the_old_one_whole(tmp_path: Path) -> None:
    out, built = book(tmp_path / "html", "old"), book(tmp_path / "stage" / "html", "new")
    (out / "deleted-page.html").write_text("old", "utf-8")
    render_swap.swap(built, out)
    assert text(out) == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["html", "stage"]
    assert not (out / "deleted-page.html").exists()


def test_old_book_stays_when_the_rename_fails(tmp_path: Path) -> None:
    out = book(tmp_path / "html", "old")
    with pytest.raises(FileNotFoundError):
        render_swap.swap(tmp_path / "not there", out)
    assert text(out) == "old"


def test_killed_between_the_renames_the_old_book_comes_back(tmp_path: Path) -> None:
    book(tmp_path / ".html-before", "old")
    render_swap.recover(tmp_path / "html")
    assert text(tmp_path / "html") == "old"


def test_killed_after_the_renames_the_new_book_stays(tmp_path: Path) -> None:
    book(tmp_path / ".html-before", "old")
    out = book(tmp_path / "html", "new")
    render_swap.recover(out)
    assert text(out) == "new"
    assert not (tmp_path / ".html-before").exists()


def test_stage_of_a_dead_build_goes_and_of_a_living_one_stays(tmp_path: Path) -> None:
    dead = book(tmp_path / f"{render_swap.STAGE_PREFIX}999999999-abc", "half")
    alive = book(tmp_path / f"{render_swap.STAGE_PREFIX}{os.getpid()}-abc", "half")
    render_swap.recover(tmp_path / "html")
    assert not dead.exists()
    assert alive.exists()


def test_snakemake_may_have_made_the_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "html").mkdir()
    render_swap.swap(book(tmp_path / "stage" / "html", "new"), tmp_path / "html")
    assert text(tmp_path / "html") == "new"
