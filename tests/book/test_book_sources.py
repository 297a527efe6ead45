"""The book's own files: the order of chapters, the one placeholder, and links onto files that git tracks."""

from __future__ import annotations

import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml
from page_links import header_buttons

from attention_companion.cli import app
from attention_companion.execution.parameters import parse_assignment, read_parameters
from attention_companion.execution.project import Project
from attention_companion.execution.render_check import html_pages, read_page

ROOT = Path(__file__).resolve().parents[2]
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
PLACEHOLDER = CONFIG["repository"]["url"]
PROSE = sorted((ROOT / "book").glob("*.md"))


def toc_files() -> list[str]:
    """Every page named in _toc.yml."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    return [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]


def tracked() -> set[str]:
    """Every file git tracks, by its path from the root."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split("\0"))


def repository_path(url: str) -> str | None:
    """The file of the repository that a link names; None for a link elsewhere."""
    parts = urlsplit(url)
    if url.startswith(PLACEHOLDER + "/blob/"):
        return unquote(url.removeprefix(PLACEHOLDER + "/blob/").split("/", 1)[1].split("?")[0])
    if parts.netloc == "mybinder.org":
        return parse_qs(parts.query)["urlpath"][0].removeprefix("lab/tree/")
    return None


def test_order_names_every_notebook_and_every_page_once() -> None:
    notebooks = [f"notebooks/{spec.name}" for spec in Project.find(ROOT).notebooks]
    pages = [page.stem for page in PROSE]
    assert sorted(toc_files()) == sorted([*notebooks, *pages])
    assert [f for f in toc_files() if f.startswith("notebooks/")] == notebooks


def test_links_of_every_page_name_tracked_files() -> None:
    files, runs = tracked(), {spec.name: {} for spec in Project.find(ROOT).notebooks}
    found = 0
    for page in toc_files():
        for button in header_buttons(page, "", PLACEHOLDER, "main", runs):
            path = repository_path(button.get("url", ""))
            if path is not None:
                found += 1
                assert path in files, f"{page}: {button['label']} leads to {path}, which git does not track"
    assert found == len(toc_files()) + len(runs)


def test_placeholder_stands_in_one_form_only() -> None:
    for page in [*PROSE, *sorted((ROOT / "notebooks").glob("*.md"))]:
        text = page.read_text("utf-8")
        assert "OWNER" not in text.replace(PLACEHOLDER, ""), f"{page.name}: another form of the address"
        # A repository of ours that is not the placeholder would not follow the environment variable.
        assert not re.search(r"github\.com/(?!OWNER/)[\w-]+/attention-companion", text), page.name


@pytest.mark.browser
def test_links_of_the_built_book_name_tracked_files(book: Path) -> None:
    files, found = tracked(), 0
    for path in html_pages(book):
        for url in read_page(path).links:
            target = repository_path(url)
            if target is not None:
                found += 1
                assert target in files, f"{path.name}: {url}"
    assert found >= len(toc_files())


def test_prose_has_no_picture_without_words() -> None:
    for page in PROSE:
        text = page.read_text("utf-8")
        for block in re.findall(r"```\{(?:figure|image)\}.*?```", text, flags=re.DOTALL):
            assert re.search(r":alt: \S.{19,}", block), f"{page.name}: {block.splitlines()[0]} needs :alt:"
        assert not re.search(r"!\[\s*\]\(", text), f"{page.name}: a picture with empty words"


def commands(text: str) -> list[list[str]]:
    """Every `companion ...` line of a page's code blocks, split as a shell would."""
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [
        shlex.split(line.partition("companion ")[2])
        for line in lines
        if re.match(r"(\.venv/bin/)?companion ", line)
    ]


def test_commands_in_the_prose_exist_and_their_parameters_too() -> None:
    from typer.main import get_command

    known = get_command(app).commands
    project, seen = Project.find(ROOT), 0
    for page in PROSE:
        for name, *rest in commands(page.read_text("utf-8")):
            seen += 1
            assert name in known, f"{page.name}: companion {name}"
            if name == "run":
                parameters = read_parameters(project.notebook(rest[0]).source)
                for flag, value in pairwise(rest):
                    if flag == "-p":
                        parse_assignment(value, parameters)
    assert seen >= 5
