"""Active content planted in a notebook's output: the renderer refuses it, and the policy blocks it all the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from book_browser import axe_source, serve, settle, start_axe, violations, watched
from book_stub import NAME, html_output, make_stub
from playwright.sync_api import Browser, Route

from attention_companion.execution.csp import write_policies
from attention_companion.execution.render import build
from attention_companion.execution.render_check import html_pages
from attention_companion.execution.render_stage import stage_book

pytestmark = pytest.mark.browser

PLANTED = [
    html_output("<script>window.ranScript = true;</script>"),
    html_output('<img src="data:image/png;base64,AA" alt="nothing" onerror="window.ranHandler = true">'),
    html_output('<a id="trap" href="javascript:void(window.ranAddress = true)">press</a>'),
    # Breaks out of the article and stands where the theme's own scripts stand.
    html_output("</div></article></main></div><script>window.ranOutside = true;</script>"),
    html_output('<script src="https://scripts.example.org/x.js"></script>'),
]
RAN = "() => ['ranScript', 'ranHandler', 'ranAddress', 'ranOutside'].filter(name => window[name])"


@pytest.fixture(scope="module")
def planted_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub book with planted outputs, built without the renderer's refusal but with its policy."""
    project = make_stub(tmp_path_factory.mktemp("planted") / "p")
    project.write_run(PLANTED)
    stage = tmp_path_factory.mktemp("stage")
    staged = stage_book(project.root, "quick", {NAME: project.run}, project.ledger, stage)
    built = build(staged, stage, stage / "log.txt")
    assert len(write_policies(built, html_pages(built))) >= 4
    return built


def ran(chromium: Browser, address: str) -> tuple[list[str], list[str]]:
    """What ran on the page, and which requests left it (a blocked one never gets as far as the route)."""
    left: list[str] = []

    def stop(route: Route) -> None:
        left.append(route.request.url)
        route.abort()

    with watched(chromium.new_context()) as (page, _):
        page.route(re.compile("^https:"), stop)
        page.goto(address)
        settle(page)
        page.locator("#trap").click()
        page.wait_for_timeout(300)
        return page.evaluate(RAN), left


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_policy_blocks_what_was_planted(planted_book: Path, chromium: Browser, scheme: str) -> None:
    with serve(planted_book) as http:
        top = http if scheme == "http" else planted_book.as_uri() + "/"
        assert ran(chromium, f"{top}notebooks/{NAME}.html") == ([], [])


def test_without_the_policy_all_of_it_runs(planted_book: Path, chromium: Browser) -> None:
    chapter = planted_book / "notebooks" / f"{NAME}.html"
    bare = chapter.with_name("bare.html")
    html = chapter.read_text("utf-8")
    bare.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html), "utf-8")
    found, left = ran(chromium, bare.as_uri())
    assert found == ["ranScript", "ranHandler", "ranAddress", "ranOutside"]
    assert left == ["https://scripts.example.org/x.js"]


def test_theme_still_works_under_the_policy(stub_book: Path, chromium: Browser) -> None:
    """The policy is not so tight that the page's own scripts fail: mathematics, search, colours, folds."""
    for address in (f"notebooks/{NAME}.html", "search.html?q=quintessence"):
        with watched(chromium.new_context()) as (page, record):
            page.goto(f"{stub_book.as_uri()}/{address}")
            settle(page)
            if address.startswith("search"):
                page.wait_for_selector("#search-results ul.search li")
            else:
                assert page.locator("mjx-container").count() >= 3
            assert page.evaluate("document.documentElement.dataset.theme") in ("light", "dark")
            assert record.console + record.errors == []


def test_without_the_repairs_axe_complains(stub_book: Path, chromium: Browser) -> None:
    """Each repair of the theme is needed: undone in the browser, axe-core finds what it mended."""
    undone = {
        "region": "document.getElementById('pst-primary-sidebar').removeAttribute('role')",
        "aria-required-children": "document.querySelector('.citation').setAttribute('role', 'doc-biblioentry')",
    }
    for rule, undo in undone.items():
        with watched(chromium.new_context(viewport={"width": 1280, "height": 900})) as (page, _):
            page.goto((stub_book / "references.html").as_uri())
            settle(page)
            page.evaluate(axe_source())
            start_axe(page)
            assert violations(page) == []
            page.evaluate(undo)
            start_axe(page)
            assert rule in {line.split(":")[0] for line in violations(page)}


def test_one_search_field_and_no_second_bar(stub_book: Path, chromium: Browser) -> None:
    with watched(chromium.new_context(viewport={"width": 1280, "height": 900})) as (page, _):
        page.goto((stub_book / "index.html").as_uri())
        assert page.locator(".search-button-field:visible").count() == 1
        assert page.locator("#pst-header:visible").count() == 0


def test_screenshots_are_taken_for_people(stub_book: Path, tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "tools" / "screenshots.py"
    call = [sys.executable, str(script), str(tmp_path), "--book", str(stub_book), "--page", "index.html"]
    subprocess.run(call, check=True, capture_output=True)
    found = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.png"))
    assert found == [f"{s}-{t}/index.html.png" for s in ("narrow", "wide") for t in ("dark", "light")]
