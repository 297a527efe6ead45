"""What a reader does with the pages: search, filter, change the colours, take things away. By keyboard."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from book_browser import serve, settle, watched
from playwright.sync_api import Browser, Page, expect

from attention_companion.execution.render_check import html_pages, read_page

pytestmark = pytest.mark.browser

FOCUSED = """() => { const e = document.activeElement;
  return e.id || e.getAttribute('aria-label') || e.textContent.trim().slice(0, 40); }"""


def tab_to(page: Page, wanted: str, most: int = 80) -> None:
    """Press Tab until the element called `wanted` has the focus."""
    seen = []
    for _ in range(most):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
        if seen[-1] == wanted:
            return
    pytest.fail(f"{wanted!r} is not reached by Tab; passed {seen}")


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_search_finds_a_word_of_a_chapter(book: Path, chromium: Browser, scheme: str) -> None:
    with serve(book) as http, watched(chromium.new_context()) as (page, record):
        top = http if scheme == "http" else book.as_uri() + "/"
        page.goto(top + "search.html?q=zonotope")
        expect(page.locator("#search-results ul.search li").first).to_be_visible(timeout=15_000)
        hrefs = page.locator("#search-results ul.search li a").evaluate_all(
            "all => all.map(a => a.getAttribute('href'))"
        )
        assert any("12_one_population_step.html" in href for href in hrefs)
        assert record.console + record.errors + record.outside(top) == []


def test_search_opens_by_keyboard_from_any_page(book: Path, chromium: Browser) -> None:
    with watched(chromium.new_context()) as (page, record):
        page.goto((book / "notation.html").as_uri())
        page.keyboard.press("Control+k")
        page.keyboard.type("attention")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search.html?q=attention**")
        expect(page.locator("#search-results ul.search li").first).to_be_visible(timeout=15_000)
        assert record.console + record.errors == []


def test_filter_of_the_ledger_works_by_keyboard(book: Path, chromium: Browser) -> None:
    with watched(chromium.new_context()) as (page, record):
        page.goto((book / "ledger.html").as_uri())
        rows = page.locator("table.ledger-claims tbody tr")
        every = rows.count()
        tab_to(page, "ledger-claims-paper")
        page.keyboard.type("Sparse")
        expect(page.locator(".ledger-count")).not_to_have_text(f"{every} of {every} claims shown")
        shown = page.locator("table.ledger-claims tbody tr:visible")
        assert 0 < shown.count() < every
        assert set(shown.evaluate_all("all => all.map(r => r.dataset.paper)")) == {"sparse_xor"}
        tab_to(page, "Show all")
        page.keyboard.press("Enter")
        expect(shown).to_have_count(every)
        assert record.console + record.errors == []


def test_row_of_the_ledger_leads_to_the_cell(book: Path, chromium: Browser) -> None:
    with watched(chromium.new_context()) as (page, _):
        page.goto((book / "ledger.html").as_uri())
        page.locator("#ledger-XOR-LOSS a").first.click()
        page.wait_for_url("**/12_one_population_step.html#check-XOR-LOSS")
        expect(page.locator("#check-XOR-LOSS")).to_be_in_viewport()


def test_colours_change_by_keyboard_and_stay(book: Path, chromium: Browser) -> None:
    with serve(book) as http:
        context = chromium.new_context(color_scheme="light")
        with watched(context) as (page, record):
            page.goto(http + "status.html")
            page.locator(".theme-switch-button").first.focus()
            for _ in range(3):
                page.keyboard.press("Enter")
                if page.evaluate("document.documentElement.dataset.theme") == "dark":
                    break
            page.goto(http + "data.html")
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"
            assert record.console + record.errors == []
        context.close()


def test_folded_code_opens_by_keyboard(book: Path, chromium: Browser) -> None:
    with watched(chromium.new_context()) as (page, _):
        page.goto((book / "notebooks" / "12_one_population_step.html").as_uri())
        fold = page.locator("details").first
        assert fold.get_attribute("open") is None
        fold.locator("summary").focus()
        page.keyboard.press("Enter")
        assert fold.get_attribute("open") is not None


def test_downloads_of_every_chapter_open(book: Path, chromium: Browser) -> None:
    """Notebook, text and executed notebook of each chapter, and the numbers of each figure, through the server."""
    notebooks = figures = 0
    with serve(book) as http:
        context = chromium.new_context()
        for path in sorted((book / "notebooks").glob("*.html")):
            for href in read_page(path).links:
                if "downloads/" not in href:
                    continue
                reply = context.request.get(http + "notebooks/" + href)
                assert reply.ok, href
                text = reply.text()
                if href.endswith(".ipynb"):
                    cells = json.loads(text)["cells"]
                    ran = [cell for cell in cells if cell.get("execution_count")]
                    assert bool(ran) == href.endswith("-executed.ipynb"), href
                    notebooks += 1
                elif href.endswith(".csv"):
                    rows = list(csv.reader(io.StringIO(text)))
                    assert len(rows) > 1
                    assert {len(row) for row in rows} == {len(rows[0])}
                    figures += 1
                elif href.endswith(".json"):
                    assert json.loads(text)
                elif href.endswith(".py"):
                    compile(text, href, "exec")
                else:
                    assert text.startswith("---\njupytext:"), href
        context.close()
    chapters = len(list((book / "notebooks").glob("*.html")))
    assert notebooks == 2 * chapters
    assert figures >= chapters


def test_download_menu_opens_by_keyboard(book: Path, chromium: Browser) -> None:
    with watched(chromium.new_context()) as (page, _):
        page.goto((book / "notebooks" / "12_one_population_step.html").as_uri())
        settle(page)
        page.locator("button[aria-label='Download this page']").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="Executed (.ipynb)")).to_be_visible()


def test_every_page_states_profile_date_and_commit(book: Path) -> None:
    for path in html_pages(book):
        assert re.search(
            r"profile quick, runs up to 2\d\d\d-.*, commit [0-9a-f]{12}", path.read_text("utf-8")
        ), path.name
