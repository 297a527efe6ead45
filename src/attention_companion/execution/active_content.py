"""Finding active content in rendered outputs: scripts, event handlers, script URLs, however they are spelt.

Strict on purpose: what could run in any browser under any repair of broken markup is reported. Plain text that only
looks alike ("on time=5", "javascript: a language") is not: only markup that a browser would read as an element or
as a link counts.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

_SCRIPT_SCHEMES = ("javascript:", "vbscript:", "livescript:", "data:text/html", "data:application/xhtml")
# Elements that load or run other documents, or redirect every link of the page.
_ELEMENTS = frozenset({"script", "iframe", "frame", "object", "embed", "applet", "base", "meta", "portal"})
_PROSE_ATTRIBUTES = frozenset({"alt", "title", "aria-label", "aria-description", "placeholder", "summary"})
_HANDLER = re.compile(r"on[a-z]")
_LINK_STARTS = re.compile(r"\]\s*\(|\]:|<")
_TEX_LINK = re.compile(r"\\href\s*\{", re.IGNORECASE)
_HORIZON = 400
"""Characters looked at behind the start of a link."""


def active_html(text: str) -> list[str]:
    """What in ``text`` (HTML or SVG) is active, as short descriptions; empty if nothing is.

    Unclosed tags are closed in every way, because the page that follows would close them.
    """
    found: list[str] = []
    for ending in ("", ">", '">', "'>", "-->"):
        parser = _Finder()
        parser.feed(text + ending)
        parser.close()
        found += [item for item in parser.found if item not in found]
    if re.search(r"<!\s*ENTITY", text, re.IGNORECASE):
        found.append("an <!ENTITY> declaration")
    return found


def active_markdown(text: str) -> list[str]:
    """What in ``text`` (Markdown or LaTeX as MyST renders them) is active: raw HTML, and links with script URLs."""
    found = active_html(text)
    for start in (*_LINK_STARTS.finditer(text), *_TEX_LINK.finditer(text)):
        target = text[start.end() : start.end() + _HORIZON].lstrip(" \t\r\n<'\"{")
        scheme = _script_scheme(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", target))
        if scheme:
            found.append(f"a link to {scheme}")
    return found


def _script_scheme(value: str) -> str | None:
    """The script scheme that ``value`` starts with after entities, blanks and control characters are resolved."""
    for _ in range(3):
        value = html.unescape(value)
    squeezed = "".join(char for char in value if char > " " and char not in "\x7f\u00ad\u200b\ufeff").lower()
    return next((scheme for scheme in _SCRIPT_SCHEMES if squeezed.startswith(scheme)), None)


class _Finder(HTMLParser):
    """Reads everything as elements: no element's content, comment or declaration is exempt.

    Browsers and this parser differ on where comments and <style> end; reading their insides too closes the gap.
    """

    def __init__(self, depth: int = 0) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.depth = depth

    def set_cdata_mode(self, elem: str, **_options: object) -> None:
        """Never skip an element's content (inside <svg>, browsers parse <style> as markup)."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # "svg:script" and "script\x0c" are scripts to one parser or another.
        name = re.split(r"[^a-z0-9-]", tag.rpartition(":")[2].lower())[0]
        if name in _ELEMENTS:
            self.found.append(f"a <{name}> element")
        for raw, value in attrs:
            for attribute in re.split(r"[\s/\"'<]+", raw.lower()):
                self._attribute(name, attribute, value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def _attribute(self, tag: str, attribute: str, value: str) -> None:
        if _HANDLER.match(attribute.rpartition(":")[2]):
            self.found.append(f"the event handler {attribute!r} on <{tag}>")
        if attribute == "srcdoc":
            self.found.append(f"a srcdoc document on <{tag}>")
        if attribute in _PROSE_ATTRIBUTES:
            return
        # SVG animations list values separated by semicolons, srcset lists them separated by commas.
        for part in (value, *re.split(r"[;,]", value)):
            scheme = _script_scheme(part)
            if scheme:
                self.found.append(f"a {scheme} URL in {attribute!r} of <{tag}>")
                return

    def _inside(self, data: str) -> None:
        if self.depth > 5:
            self.found.append("markup nested too deep to read")
            return
        inner = _Finder(self.depth + 1)
        inner.feed(f"{data}>")
        inner.close()
        self.found += inner.found

    def handle_comment(self, data: str) -> None:
        self._inside(data)

    def handle_decl(self, decl: str) -> None:
        self._inside(decl)

    def unknown_decl(self, data: str) -> None:
        self._inside(data)

    def handle_pi(self, data: str) -> None:
        self._inside(data)
