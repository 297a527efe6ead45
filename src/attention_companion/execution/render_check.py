"""Look over the built pages before they replace the old ones.

Sphinx lets pass what a reader would meet as a hole: a missing picture inside a notebook's output, a page
that loads from somewhere else, an image without words, a link to an anchor that is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from attention_companion.execution.render_errors import refuse

# (tag, attribute) pairs that a browser loads without being asked.
LOADED = {
    ("img", "src"),
    ("img", "srcset"),
    ("script", "src"),
    ("iframe", "src"),
    ("embed", "src"),
    ("object", "data"),
    ("source", "src"),
    ("source", "srcset"),
    ("video", "src"),
    ("video", "poster"),
    ("audio", "src"),
    ("track", "src"),
    ("input", "src"),
    ("use", "href"),
    ("use", "xlink:href"),
    ("image", "href"),
    ("image", "xlink:href"),
}
LOADED_LINKS = ("stylesheet", "icon", "preload", "modulepreload", "shortcut", "manifest", "prefetch")
# What Matplotlib's inline pictures get when nobody wrote a text: a file name or a digest.
EMPTY_ALT = re.compile(r"^\s*$|^[0-9a-f]{16,}|\.(png|svg|jpe?g|gif)$")
# The text a figure object leaves when its picture did not make it to the page.
LOST_FIGURE = re.compile(r"<Figure size [0-9.]+x[0-9.]+")


@dataclass
class Page:
    """What one page loads, links to, names and shows."""

    path: Path
    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    wordless: list[str] = field(default_factory=list)
    refresh: bool = False


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__(convert_charrefs=True)
        self.page = page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        page = self.page
        page.ids.update(named[name] for name in ("id", "name") if named.get(name))
        for name, value in named.items():
            if (tag, name) in LOADED:
                candidates = value.split(",") if name == "srcset" else [value]
                page.loads += [part.split()[0] for part in candidates if part.strip()]
        if tag == "link" and set(named.get("rel", "").split()) & set(LOADED_LINKS):
            page.loads.append(named.get("href", ""))
        if tag == "a" and "href" in named:
            page.links.append(named["href"])
        if tag == "img" and EMPTY_ALT.search(named.get("alt", "")):
            page.wordless.append(named.get("src", "?"))
        if tag == "meta" and named.get("http-equiv", "").lower() == "refresh":
            page.refresh = True

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)


def read_page(path: Path) -> Page:
    """Parse one built page."""
    page = Page(path)
    reader = _Reader(page)
    reader.feed(path.read_text("utf-8"))
    reader.close()
    return page


def html_pages(folder: Path) -> list[Path]:
    """Every page of the book; what lies under _static belongs to the theme."""
    return sorted(p for p in folder.rglob("*.html") if "_static" not in p.relative_to(folder).parts)


def check_pages(folder: Path) -> None:
    """Raise `RenderError` listing every hole of the pages under `folder`; see `problems`."""
    refuse("the built pages have holes", list(problems(folder)))


def problems(folder: Path) -> Iterator[str]:
    """Missing files, requests to elsewhere, images without text, dead links, redirects, lost figures."""
    pages = {path: read_page(path) for path in html_pages(folder)}
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        if page.refresh:
            yield f"{name}: sends its reader elsewhere (http-equiv=refresh)"
        if LOST_FIGURE.search(path.read_text("utf-8").replace("&lt;", "<")):
            yield f"{name}: shows '<Figure size ...>' where a picture should be"
        for source in page.wordless:
            yield f"{name}: image without a text: {source[:80]}"
        for address in page.loads:
            yield from _load_problem(folder, path, name, address)
        for address in page.links:
            yield from _link_problem(folder, pages, path, name, address)


def _load_problem(folder: Path, path: Path, name: str, address: str) -> Iterator[str]:
    parts = urlsplit(address)
    if parts.scheme == "data":
        return
    if parts.scheme or parts.netloc or address.startswith("/"):
        yield f"{name}: loads from elsewhere: {address[:100]}"
    elif not _inside(folder, path, parts.path).is_file():
        yield f"{name}: missing asset: {address}"


def _link_problem(
    folder: Path, pages: dict[Path, Page], path: Path, name: str, address: str
) -> Iterator[str]:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return
    target = _inside(folder, path, parts.path) if parts.path else path
    if not target.is_file():
        yield f"{name}: dead link: {address}"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        yield f"{name}: link to an anchor that is not there: {address}"


def _inside(folder: Path, page: Path, relative: str) -> Path:
    """The file a relative address names; outside of `folder` counts as missing."""
    target = (page.parent / unquote(relative)).resolve()
    return target if target.is_relative_to(folder.resolve()) else folder / "\0outside"
