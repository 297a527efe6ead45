"""Photograph every page of the built book, for people to look at.

    python tools/screenshots.py FOLDER [--book _build/html] [--page index.html ...]

Each page is taken whole at 1280 and 390 pixels, light and dark, with its folded parts open, into
FOLDER/<size>-<theme>/<page>.png. Needs the `test` extra (playwright) and Chromium.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "book"))

from book_browser import SIZES, STILL, THEMES, launch, open_folds, serve, set_theme, settle, watched  # noqa: E402 - found through the path above


def main() -> int:
    """Take the pictures; returns 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--book", type=Path, default=ROOT / "_build" / "html")
    parser.add_argument("--page", action="append", help="only this page (may be repeated)")
    given = parser.parse_args()
    if not (given.book / "index.html").is_file():
        parser.error(f"no book at {given.book}: run make book")
    names = given.page or sorted(
        p.relative_to(given.book).as_posix() for p in given.book.rglob("*.html") if "_static" not in p.parts
    )
    with sync_playwright() as playwright, serve(given.book) as top:
        browser = launch(playwright)
        for size, (width, height) in SIZES.items():
            for theme in THEMES:
                context = browser.new_context(viewport={"width": width, "height": height})
                set_theme(context, theme)
                for name in names:
                    target = given.folder / f"{size}-{theme}" / f"{name.replace('/', '-')}.png"
                    with watched(context) as (page, _):
                        page.goto(top + name)
                        settle(page)
                        open_folds(page)
                        page.add_style_tag(content=STILL)
                        page.screenshot(path=str(target), full_page=True)
                context.close()
        browser.close()
    print(f"{4 * len(names)} pictures in {given.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
