"""The policy of the pages: whose scripts it knows, and that nothing of an output is among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_companion.execution import csp
from attention_companion.execution.render_errors import RenderError

THEME = "document.documentElement.dataset.mode = 1;"
HEAD = "<html><head><title>t</title><script>{}</script></head>"


def page(body: str, name: str = "page") -> str:
    """A page as the theme writes it."""
    own = f"<script>{csp.page_script(name)}</script>"
    return HEAD.format(THEME) + f"<body>{own}<main><article>{body}</article></main></body></html>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the theme's own pages."""
    for name in ("search", "genindex"):
        (tmp_path / f"{name}.html").write_text(page("", name), "utf-8")
    return tmp_path


def test_hash_is_the_one_browsers_compute() -> None:
    # echo -n "alert(1)" | openssl dgst -sha256 -binary | base64
    assert csp.script_hash("alert(1)") == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"


def test_inline_scripts_are_found_as_a_browser_reads_them() -> None:
    html = '<script src="a.js"></script><SCRIPT>a<b && "&amp;"</SCRIPT><script type="application/json">{}</script>'
    assert csp.inline_scripts(html) == ['a<b && "&amp;"']


@pytest.mark.parametrize(
    "html",
    [
        "<img src=x onerror=alert(1)>",
        '<a href="javascript:alert(1)">x</a>',
        '<a href=" java\nscript:alert(1)">x</a>',
        '<svg><a xlink:href="JavaScript:alert(1)"></a></svg>',
        '<form action="javascript:alert(1)"></form>',
        "<body onload=alert(1)>",
    ],
)
def test_handlers_are_found(html: str) -> None:
    assert csp.inline_handlers(html)


def test_plain_links_are_not_handlers() -> None:
    assert csp.inline_handlers('<a href="https://example.org/javascript:">one</a>') == []


def test_policy_stands_first_in_the_head_and_names_only_the_theme(folder: Path) -> None:
    chapter = folder / "page.html"
    chapter.write_text(page("text"), "utf-8")
    csp.protect(folder, [chapter])
    html = chapter.read_text("utf-8")
    assert html.index("Content-Security-Policy") < html.index("<title>")
    assert csp.script_hash(THEME) in html
    assert csp.script_hash(csp.page_script("page")) in html
    assert html.split("script-src ")[1].split(";")[0].count("sha256-") == 2


@pytest.mark.parametrize(
    "planted",
    [
        "<script>planted()</script>",
        # Breaks out of its container and stands where the theme's scripts stand.
        "</article></main></body></html><html><head><script>planted()</script></head>",
        # Another page's constant is not this page's.
        f"<script>{csp.page_script('other')}</script>",
        "<img src=x onerror=planted()>",
    ],
)
def test_planted_script_is_refused_and_not_hashed(folder: Path, planted: str) -> None:
    chapter = folder / "page.html"
    chapter.write_text(page(planted), "utf-8")
    with pytest.raises(RenderError, match=r"page\.html"):
        csp.protect(folder, [chapter])
    html = chapter.read_text("utf-8")
    for script in ("planted()", csp.page_script("other")):
        assert csp.script_hash(script) not in html


def test_missing_theme_page_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match=r"search\.html"):
        csp.theme_hashes(tmp_path)


def test_page_without_head_is_an_error() -> None:
    with pytest.raises(RenderError, match="no <head>"):
        csp.add_policy("<html></html>", "p")
