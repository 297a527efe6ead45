"""The explorer as a reader uses it: by keyboard, over http and from a folder, in both themes, and without scripts.

What the page says is compared with the CSV files behind its figures, not with the data that it carries.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from book_browser import (
    SIZES,
    STILL,
    THEMES,
    axe_source,
    serve,
    set_theme,
    settle,
    start_axe,
    violations,
    watched,
)
from book_stub import NAME
from explorer_stub import LEFT_OUT, make_explorer_stub
from playwright.sync_api import Browser, Page, expect

from attention_companion.execution.render import render

pytestmark = pytest.mark.browser
REAL = "notebooks/19_try_it.html"
Table = list[dict[str, str]]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub book with an explorer on its front page, under a path with a space."""
    stub = make_explorer_stub(tmp_path_factory.mktemp("explorer") / "a project")
    return render(stub, "quick", {NAME: stub.run}, stub.ledger, stub.root / "_build" / "html", "k1")


@contextmanager
def top_of(book: Path, scheme: str) -> Iterator[str]:
    """The address of the book's top."""
    with serve(book) as http:
        yield http if scheme == "http" else book.as_uri() + "/"


def tables(stub_or_book: Path, page: str) -> tuple[Table, Table]:
    """The successes and the maps, from the CSV files that the page offers for download or that the stub staged."""
    found: dict[str, Table] = {}
    candidates = [
        *(stub_or_book / "_downloads").rglob("*.csv"),
        *(stub_or_book.parents[1] / "results" / "quick" / NAME / "abc" / "figures").glob("*.csv"),
    ]
    for path in candidates:
        rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8"))))
        if "specialised" in rows[0] and "factor" in rows[0] and "distracted" in rows[0] and "low" in rows[0]:
            found.setdefault("success", rows)
        if "head 1" in rows[0] and "factor" in rows[0]:
            found.setdefault("maps", rows)
    assert set(found) == {"success", "maps"}, f"{page}: tables {sorted(found)}"
    return found["success"], found["maps"]


def choose(page: Page, slider: str, index: int) -> None:
    """Move a slider to a place with the keys that every slider has."""
    control = page.locator(f"#explorer-{slider}")
    control.focus()
    page.keyboard.press("Home")
    for _ in range(index):
        page.keyboard.press("ArrowRight")
    assert control.input_value() == str(index)


def axis(rows: Table, name: str, kind: Callable[[str], float] = float) -> list[float]:
    """The values of a column, each once, in order."""
    return sorted({kind(row[name]) for row in rows})


def words_of(row: dict[str, str]) -> list[str]:
    """What the live text must say of a row of the table, formatted here anew."""
    starts, specialised = int(row["starts"]), int(row["specialised"])
    left = starts - specialised - int(row["collapsed"]) - int(row["distracted"])
    return [
        f"d = {row['d']}, m = {row['m']}",
        f"in {specialised} of {starts} starts",
        f"one target in {row['collapsed']},",
        f"outside the pair in {row['distracted']},",
        f"below 0.99 in {left}.",
    ]


def near(text: str, row: dict[str, str]) -> None:
    """Share and interval, as printed, lie within half a unit of the last digit."""
    printed = re.search(r"starts: ([\d.]+)% \(95% interval ([\d.]+)% to ([\d.]+)%\)", text)
    assert printed is not None, text
    wanted = (int(row["specialised"]) / int(row["starts"]), float(row["low"]), float(row["high"]))
    for shown, value in zip(printed.groups(), wanted, strict=True):
        assert abs(float(shown) - 100 * value) <= 0.0501


def looks_of(row: dict[str, str]) -> list[str]:
    """Where the heads of a map look, in words."""
    said = [f"p = {row['p']}, q = {row['q']}"]
    for head in ("head 1", "head 2"):
        weights = [int(part) for part in row[head].split()]
        best = weights.index(max(weights))
        role = {int(row["p"]): "p", int(row["q"]): "q"}.get(best, "outside the pair")
        said.append(f"position {best} ({role}), weight {max(weights) / 10_000:.3f}")
    return said


def visit_cells(page: Page, success: Table, maps: Table, every: int) -> int:
    """Go to every `every`-th cell by keyboard and compare text and drawing with the tables; number of cells."""
    d_axis, m_axis, factors = (axis(success, name) for name in ("d", "m", "factor"))
    by_map = {tuple(float(r[n]) for n in ("d", "m", "factor", "start")): r for r in maps}
    first = axis(maps, "start")[0]
    seen = set()
    for row in success[::every]:
        d, m, factor = (float(row[n]) for n in ("d", "m", "factor"))
        for slider, index in (
            ("d", d_axis.index(d)),
            ("m", m_axis.index(m)),
            ("rate", factors.index(factor)),
        ):
            choose(page, slider, index)
        text = page.locator("#explorer-words").inner_text()
        drawn = by_map[d, m, factor, first]
        for said in [*words_of(row), *looks_of(drawn)]:
            assert said in text
        near(text, row)
        for head in ("1", "2"):
            cells = page.locator(f"#explorer-after-{int(head) - 1} .explorer-cell")
            shown = cells.evaluate_all("all => all.map(c => Number(c.getAttribute('fill-opacity')) ** 2)")
            weights = [int(part) / 10_000 for part in drawn[f"head {head}"].split()]
            assert max(abs(a - b) for a, b in zip(shown, weights, strict=True)) < 0.002
        assert page.locator("#explorer-rate").get_attribute("aria-valuetext") in text
        seen.add(text)
    return len(seen)


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_sliders_show_the_tables_by_keyboard(small: Path, chromium: Browser, scheme: str) -> None:
    success, maps = tables(small, "index.html")
    with top_of(small, scheme) as top, watched(chromium.new_context()) as (page, record):
        page.goto(top + "index.html")
        settle(page)
        assert visit_cells(page, success, maps, 1) == len(success)
        assert record.console + record.errors + record.outside(top) == []


def test_another_start_is_drawn_by_keyboard(small: Path, chromium: Browser) -> None:
    _, maps = tables(small, "index.html")
    with watched(chromium.new_context()) as (page, record):
        page.goto((small / "index.html").as_uri())
        settle(page)
        before = page.locator("#explorer-words").inner_text()
        page.locator("#explorer-start").focus()
        page.keyboard.press("ArrowDown")
        text = page.locator("#explorer-words").inner_text()
        row = next(r for r in maps if r["start"] == "7")
        assert text != before
        assert f"Start 7 hides the pair p = {row['p']}, q = {row['q']}." in text
        assert record.console + record.errors == []


def test_a_combination_that_was_not_computed_is_said(small: Path, chromium: Browser) -> None:
    with watched(chromium.new_context()) as (page, record):
        page.goto((small / "index.html").as_uri())
        settle(page)
        for slider, index in zip(("d", "m", "rate"), (1, 1, 2), strict=True):
            choose(page, slider, index)
        words = page.locator("#explorer-words")
        assert f"d = {LEFT_OUT[0]}, m = {LEFT_OUT[1]}" in words.inner_text()
        expect(words).to_contain_text("did not compute this combination")
        expect(words).to_contain_text("No attention map")
        assert page.locator("#explorer-after-0 .explorer-cell").count() == 0
        choose(page, "rate", 1)
        expect(words).not_to_contain_text("did not compute")
        assert record.console + record.errors == []


def test_without_scripts_a_note_and_the_picture_stand_there(small: Path, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((small / "index.html").as_uri())
    expect(page.locator(".explorer-note")).to_be_visible()
    expect(page.locator("#explorer")).to_be_hidden()
    expect(page.get_by_alt_text("The shares that the explorer shows, as a picture.")).to_be_visible()
    context.close()


def test_on_paper_only_the_pictures_stand(small: Path, chromium: Browser) -> None:
    with watched(chromium.new_context()) as (page, _):
        page.goto((small / "index.html").as_uri())
        settle(page)
        expect(page.locator("#explorer")).to_be_visible()
        page.emulate_media(media="print")
        expect(page.locator("#explorer")).to_be_hidden()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", list(SIZES))
def test_axe_has_nothing_to_say_of_the_explorer_and_it_fits(
    small: Path, chromium: Browser, size: str, theme: str
) -> None:
    width, height = SIZES[size]
    context = chromium.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    set_theme(context, theme)
    with watched(context) as (page, record):
        page.goto((small / "index.html").as_uri())
        settle(page)
        page.add_style_tag(content=STILL)
        choose(page, "d", 1)
        assert record.console + record.errors == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        page.evaluate(axe_source())
        start_axe(page)
        assert violations(page) == []
        # A control without its label is what axe must see here.
        page.evaluate("document.querySelector('label[for=explorer-d]').remove()")
        start_axe(page)
        assert any(line.startswith("label:") for line in violations(page))
    context.close()


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_the_books_own_explorer_shows_its_tables(book: Path, chromium: Browser, scheme: str) -> None:
    success, maps = tables(book, REAL)
    with top_of(book, scheme) as top, watched(chromium.new_context()) as (page, record):
        page.goto(top + REAL)
        settle(page)
        assert visit_cells(page, success, maps, 13) > 10
        assert record.console + record.errors + record.outside(top) == []


def test_the_books_own_pictures_stand_without_scripts(book: Path, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((book / REAL).as_uri())
    expect(page.locator(".explorer-note")).to_be_visible()
    for figure in ("#fig-19-success-by-rate img", "#fig-19-maps-of-start-0 img"):
        expect(page.locator(figure)).to_be_visible()
    context.close()
