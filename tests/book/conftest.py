"""What the tests of the book share: one stub book, one browser, and the real book as `make book` left it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# The helpers beside this file, and the book's own Sphinx extensions, are plain modules of a folder.
sys.path[:0] = [str(HERE), str(ROOT / "book" / "_ext")]

from book_stub import NAME, StubProject, make_stub  # noqa: E402 - found through the path above

from attention_companion.execution.render import render  # noqa: E402


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> StubProject:
    """The stub project, its path with a space."""
    return make_stub(tmp_path_factory.mktemp("stub") / "a project")


@pytest.fixture(scope="session")
def stub_book(stub: StubProject) -> Path:
    """The stub project's book, rendered once a session. Read only."""
    return render(stub, "quick", {NAME: stub.run}, stub.ledger, stub.root / "_build" / "html", "k1")


@pytest.fixture(scope="session")
def book() -> Path:
    """The real book (or the folder that BOOK_UNDER_TEST names). Its absence is a failure, never a skip."""
    built = Path(os.environ.get("BOOK_UNDER_TEST", ROOT / "_build" / "html"))
    if not (built / "index.html").is_file():
        pytest.fail(f"no book at {built}: run `make book` (or `make test`, which builds it first)")
    return built


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    """One browser a session."""
    from book_browser import launch
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()
