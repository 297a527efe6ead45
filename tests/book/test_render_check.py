"""Every hole that the look at the finished pages must find, and that a whole page has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_companion.execution.render_check import check_pages, problems
from attention_companion.execution.render_errors import RenderError

WHOLE = (
    '<html><head><link rel="stylesheet" href="_static/a.css?digest=1"></head><body><h1 id="top">T</h1>'
    '<img src="a.png" alt="A line that rises."><a href="#top">up</a><a href="other.html#there">other</a>'
    '<a href="https://example.org/x">out</a><img src="data:image/png;base64,AA" alt="A dot."></body></html>'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one whole page and what it needs."""
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "a.css").write_text("", "utf-8")
    (tmp_path / "a.png").write_bytes(b"png")
    (tmp_path / "other.html").write_text('<p id="there">x</p>', "utf-8")
    (tmp_path / "page.html").write_text(WHOLE, "utf-8")
    return tmp_path


def test_whole_page_has_no_holes(folder: Path) -> None:
    assert list(problems(folder)) == []
    check_pages(folder)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ('<img src="gone.png" alt="A line.">', "missing asset: gone.png"),
        ('<img srcset="a.png 1x, gone.png 2x" alt="A line.">', "missing asset: gone.png"),
        ('<script src="_static/gone.js"></script>', "missing asset"),
        ('<img src="/a.png" alt="A line.">', "loads from elsewhere"),
        ('<img src="../../etc/passwd" alt="A line.">', "missing asset"),
        ('<script src="https://cdn.example.org/x.js"></script>', "loads from elsewhere: https://cdn"),
        ('<link rel="stylesheet" href="//cdn.example.org/x.css">', "loads from elsewhere"),
        ('<iframe src="http://example.org"></iframe>', "loads from elsewhere"),
        ('<img src="a.png">', "image without a text"),
        ('<img src="a.png" alt="3f8a9c0d1e2b3c4d5e6f7a8b9c0d1e2f.png">', "image without a text"),
        ('<img src="a.png" alt="../_images/a.png">', "image without a text"),
        ('<a href="gone.html">x</a>', "dead link: gone.html"),
        ('<a href="other.html#gone">x</a>', "anchor that is not there"),
        ('<a href="#gone">x</a>', "anchor that is not there"),
        ('<meta http-equiv="Refresh" content="0; url=other.html">', "sends its reader elsewhere"),
        ("<pre>&lt;Figure size 640x480 with 1 Axes&gt;</pre>", "<Figure size"),
    ],
)
def test_hole_is_found(folder: Path, planted: str, said: str) -> None:
    (folder / "page.html").write_text(WHOLE.replace("</body>", planted + "</body>"), "utf-8")
    with pytest.raises(RenderError, match="holes") as caught:
        check_pages(folder)
    assert said in str(caught.value)
    assert "page.html" in str(caught.value)
