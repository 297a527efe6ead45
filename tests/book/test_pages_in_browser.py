"""Every page of the built book in Chromium: what it asks for, what it says, whether everybody can read it.

Each page is loaded once over http and once from its file. The http copy is then looked at in four states
(1280 and 390 pixels, light and dark, folded parts open); the tests below read what that survey noted.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from book_browser import (
    SIZES,
    STILL,
    THEMES,
    axe_source,
    open_folds,
    serve,
    settle,
    start_axe,
    violations,
    watched,
)
from playwright.sync_api import Browser, Page

from attention_companion.execution.render_check import html_pages, problems

# The survey visits every page of the book in four states, over http and from its file: minutes on two cores.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]

# Left over in the text of an article when mathematics was not set: a dollar pair or MathJax's delimiters.
RAW_MATH = r"""() => {
  const article = document.querySelector('article').cloneNode(true);
  article.querySelectorAll('pre, code, mjx-container, script, style').forEach(e => e.remove());
  return article.textContent.match(/\\\(|\\\)|\\\[|\$[^$\s][^$]*\$/g) || [];
}"""
# Things wider than their box that the reader cannot reach by scrolling. A formula is as wide as what is drawn of
# it: MathJax's copy for screen readers is wider and never seen.
CUT_OFF = """() => Array.from(document.querySelectorAll('article *')).filter(e => {
  if (e.closest('mjx-assistive-mml') || !['hidden', 'clip'].includes(getComputedStyle(e).overflowX)) return false;
  const drawn = e.querySelector('mjx-math');
  if (drawn) return drawn.getBoundingClientRect().right > e.getBoundingClientRect().right + 1;
  return e.clientWidth > 20 && e.scrollWidth > e.clientWidth + 1;
}).map(e => e.tagName + '.' + e.className + ': ' + e.textContent.trim().slice(0, 60))"""
WITHOUT_ALT = """() => Array.from(document.querySelectorAll('img')).filter(
  e => !(e.getAttribute('alt') || '').trim() || !e.complete || e.naturalWidth === 0).map(e => e.src)"""
WIDTH = "() => [document.documentElement.scrollWidth, window.innerWidth]"
MATH = "() => [document.querySelectorAll('.math').length, document.querySelectorAll('mjx-container').length]"


@dataclass
class Survey:
    """What was noted of all pages: lines that name the page, by subject."""

    pages: int = 0
    outside: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    axe: list[str] = field(default_factory=list)
    overflow: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    math: list[str] = field(default_factory=list)
    math_seen: int = 0


def note_math(survey: Survey, page: Page, where: str) -> None:
    """Every formula is set and none stands raw in the text."""
    marked, typeset = page.evaluate(MATH)
    survey.math_seen += typeset
    if typeset < marked:
        survey.math.append(f"{where}: {marked} formulas, {typeset} set")
    if page.query_selector("article") is not None:
        survey.math += [f"{where}: raw {raw!r}" for raw in page.evaluate(RAW_MATH)]


def note_states(survey: Survey, pages: dict[str, Page], axe: str) -> None:
    """The four states of some loaded pages; axe works on all of them at once, each in a process of its own."""
    for page in pages.values():
        page.add_style_tag(content=STILL)
        page.evaluate(axe)
        open_folds(page)
    for size, (width, height) in SIZES.items():
        for page in pages.values():
            page.set_viewport_size({"width": width, "height": height})
        # The theme makes what scrolls reachable by Tab a moment after the window has changed its size.
        next(iter(pages.values())).wait_for_timeout(400)
        for name, page in pages.items():
            wide, window = page.evaluate(WIDTH)
            if wide > window:
                survey.overflow.append(f"{name} {size}: {wide} pixels wide")
            survey.overflow += [f"{name} {size}: cut off: {what}" for what in page.evaluate(CUT_OFF)]
        for theme in THEMES:
            for page in pages.values():
                page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
                start_axe(page)
            for name, page in pages.items():
                survey.axe += [f"{name} {size} {theme}: {line}" for line in violations(page)]


@pytest.fixture(scope="module")
def survey(book: Path, chromium: Browser) -> Survey:
    """Visit every page of the book once over http and once from its file."""
    found, axe = Survey(), axe_source()
    width, height = SIZES["wide"]
    names = [path.relative_to(book).as_posix() for path in html_pages(book)]
    with serve(book) as http:
        for top in (http, book.as_uri() + "/"):
            context = chromium.new_context(viewport={"width": width, "height": height})
            for pair in (names[i : i + 2] for i in range(0, len(names), 2)):
                with ExitStack() as stack:
                    pages = {}
                    for name in pair:
                        page, record = stack.enter_context(watched(context))
                        page.goto(top + name)
                        settle(page)
                        note_math(found, page, f"{top[:4]} {name}")
                        found.pages += 1
                        found.outside += [f"{name}: {url}" for url in record.outside(top)]
                        found.console += [f"{top[:4]} {name}: {m}" for m in [*record.console, *record.errors]]
                        found.pictures += [f"{name}: {source}" for source in page.evaluate(WITHOUT_ALT)]
                        pages[name] = page
                    if top == http:
                        note_states(found, pages, axe)
            context.close()
    return found


def test_survey_saw_every_page_twice(survey: Survey, book: Path) -> None:
    assert survey.pages == 2 * len(html_pages(book)) >= 24


def test_no_request_leaves_the_book(survey: Survey) -> None:
    assert survey.outside == []


def test_console_is_silent(survey: Survey) -> None:
    assert survey.console == []


def test_axe_has_nothing_to_say(survey: Survey) -> None:
    assert survey.axe == []


def test_no_page_scrolls_sideways_and_nothing_is_cut_off(survey: Survey) -> None:
    assert survey.overflow == []


def test_every_picture_is_there_and_has_words(survey: Survey) -> None:
    assert survey.pictures == []


def test_mathematics_is_set(survey: Survey) -> None:
    assert survey.math == []
    assert survey.math_seen > 50


def test_links_anchors_and_assets(book: Path) -> None:
    assert list(problems(book)) == []
