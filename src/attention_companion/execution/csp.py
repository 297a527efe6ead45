"""The content security policy of every page, and the hashes it needs.

A notebook's output can carry any HTML. The policy lets a page run scripts from its own folder and the
theme's own inline scripts, known by their sha256, and nothing else. The hashes are taken from pages that
hold no document text (search, index) and from two constants of Sphinx: whatever an output pretends to be,
and wherever it breaks out of its container, its script cannot be among them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from pathlib import Path

from attention_companion.execution.render_errors import RenderError, refuse

# Made by the theme from templates alone.
TEMPLATE_PAGES = ("search.html", "genindex.html")
# Sphinx writes this one into the indices of a domain (the list of theorems).
INDEX_SCRIPT = "DOCUMENTATION_OPTIONS.COLLAPSE_INDEX = true;"
# Script elements of these types are data; a browser never runs them.
DATA_TYPES = ("application/json", "application/ld+json")
HEAD = "<head>"


class _InlineScripts(HTMLParser):
    """Collects the exact text of inline scripts and the inline event handlers of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.scripts: list[str] = []
        self.handlers: list[str] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.handlers += [f"<{tag} {name}={value!r}>" for name, value in attrs if name.startswith("on")]
        for name in ("href", "src", "action", "formaction", "xlink:href"):
            address = "".join((named.get(name) or "").split()).lower()
            if address.startswith(("javascript:", "vbscript:")):
                self.handlers.append(f"<{tag} {name}={named[name]!r}>")
        if tag == "script" and "src" not in named and (named.get("type") or "").lower() not in DATA_TYPES:
            self._open = True
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.scripts[-1] += data


def script_hash(text: str) -> str:
    """The CSP source expression of an inline script: 'sha256-<base64>' over its UTF-8 text."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def inline_scripts(html: str) -> list[str]:
    """Text of every inline script a browser would run, in the page's order."""
    return _read(html).scripts


def inline_handlers(html: str) -> list[str]:
    """Every on-handler and javascript: address of a page, as short descriptions."""
    return _read(html).handlers


def policy(hashes: Iterable[str]) -> str:
    """The policy, for pages served over http and opened from a folder alike.

    Styles may be inline: the theme, MathJax and Sphinx write style attributes.
    """
    scripts = " ".join(["'self'", *sorted(set(hashes))])
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "object-src 'none'",
        ]
    )


def theme_hashes(html_folder: Path) -> list[str]:
    """Hashes of the theme's inline scripts, read from the pages that hold no document text.

    Raises `RenderError` when such a page is missing.
    """
    hashes: set[str] = set()
    for name in TEMPLATE_PAGES:
        page = html_folder / name
        if not page.is_file():
            raise RenderError(f"{page} is missing: the policy's hashes are read from the theme's own pages.")
        own = page_script(page.stem)
        hashes.update(script_hash(s) for s in inline_scripts(page.read_text("utf-8")) if s.strip() != own)
    return sorted(hashes)


def page_script(pagename: str) -> str:
    """The one inline script that differs from page to page: Sphinx tells the page its own name."""
    return f"DOCUMENTATION_OPTIONS.pagename = {pagename!r};"


def add_policy(html: str, policy_text: str) -> str:
    """`html` with the policy as the first element of its head, before anything can load.

    Raises `RenderError` when the page has no plain <head>.
    """
    if html.count(HEAD) < 1:
        raise RenderError("a page has no <head>; the policy has nowhere to stand.")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy_text}">'
    return html.replace(HEAD, f"{HEAD}\n    {meta}", 1)


def allowed_hashes(html: str, pagename: str, theme: Iterable[str]) -> set[str]:
    """Hashes that the page called `pagename` may run: the theme's, and Sphinx's constants if it has them."""
    known = (INDEX_SCRIPT, page_script(pagename))
    return set(theme) | {script_hash(script) for script in inline_scripts(html) if script.strip() in known}


def write_policies(html_folder: Path, pages: Sequence[Path]) -> list[str]:
    """Write its policy into every page; return one line for each script or handler that it will block."""
    theme = theme_hashes(html_folder)
    blocked = []
    for page in pages:
        html = page.read_text("utf-8")
        name = page.relative_to(html_folder).as_posix()
        hashes = allowed_hashes(html, name.removesuffix(".html"), theme)
        blocked += [
            f"{name}: script {script.strip()[:60]!r}"
            for script in inline_scripts(html)
            if script_hash(script) not in hashes
        ]
        blocked += [f"{name}: {handler[:100]}" for handler in inline_handlers(html)]
        page.write_text(add_policy(html, policy(hashes)), "utf-8")
    return blocked


def protect(html_folder: Path, pages: Sequence[Path]) -> None:
    """Write the policy into every page and refuse what it would block.

    The browser would stay safe without the refusal; it tells the author instead of showing a page with a hole.
    Raises `RenderError` listing page and script.
    """
    blocked = write_policies(html_folder, pages)
    refuse("pages carry scripts that are not the theme's; an output or a page may hold none", blocked)


def _read(html: str) -> _InlineScripts:
    parser = _InlineScripts()
    parser.feed(html)
    parser.close()
    return parser
