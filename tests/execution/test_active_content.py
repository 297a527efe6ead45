"""Active content in outputs: every spelling found, plain text left alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_companion.execution.active_content import active_html, active_markdown

ACTIVE_HTML = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=x></SCRIPT>",
    "<script\n>",
    "<script/x>",
    "text <script",  # unclosed: the page that follows closes it
    "<svg:script>",
    "<svg><script href='x'/></svg>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<style><script>alert(1)</script></style>",
    "<!-- --!><script>alert(1)</script> -->",
    "<!--><script>alert(1)</script>-->",
    "<!-- <script> -->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<!DOCTYPE svg [<!ENTITY x '<script>alert(1)</script>'>]><svg>&x;</svg>",
    "<?xml <script>?>",
    "<textarea><script>alert(1)</script></textarea>",
    "<img src=x onerror=alert(1)>",
    "<img src=x OnError = 'alert(1)'>",
    "<img src=x onerror\n=\nalert(1)>",
    "<img/src='x'/onerror=alert(1)>",
    "<img src='x'onerror=alert(1)>",
    "<img src=x onerror=alert(1)",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)>",
    "<details ontoggle=alert(1) open>",
    "<div\tonclick=x>",
    "<x onanything>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href=JaVaScRiPt:alert(1)>x</a>",
    "<a href=' \t javascript:alert(1)'>x</a>",
    "<a href='java\tscript:alert(1)'>x</a>",
    "<a href='java\nscript\n:alert(1)'>x</a>",
    "<a href='\x01javascript:alert(1)'>x</a>",
    "<a href='&#106;avascript:alert(1)'>x</a>",
    "<a href='&#x6A;avascript&colon;alert(1)'>x</a>",
    "<a href='java&Tab;script:alert(1)'>x</a>",
    "<a href='java&NewLine;script:alert(1)'>x</a>",
    "<a xlink:href='javascript:alert(1)'>x</a>",
    "<form action=javascript:alert(1)>",
    "<button formaction=javascript:alert(1)>",
    "<a href='vbscript:x'>x</a>",
    "<a href='data:text/html,<script>1</script>'>x</a>",
    "<svg><animate attributeName=href values='#;javascript:alert(1)'/></svg>",
    "<svg><set attributeName=href to=javascript:alert(1) /></svg>",
    "<iframe srcdoc='<b>'></iframe>",
    "<iframe src=x></iframe>",
    "<object data=x>",
    "<embed src=x>",
    "<base href=x>",
    "<meta http-equiv=refresh content='0;url=x'>",
    "<div srcdoc=x>",
]
INERT_HTML = [
    "",
    "on time=5 and onload = 3",
    "a < b, on = c, script, javascript: is a language",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<pre>x onerror=1</pre>",
    "<p>javascript:alert(1) is only text here</p>",
    '<p class="on" data-on="1" id="onset">x</p>',
    '<table border="1" class="dataframe"><thead><tr style="text-align: right;"><th></th></tr></thead></table>',
    '<style scoped>.dataframe tbody tr th:only-of-type { vertical-align: middle; } a > b { on: 1 }</style>',
    '<img src="data:image/png;base64,AAAA" alt="javascript: the good parts; on time=3">',
    '<a href="https://example.org/javascript:x?onload=1">x</a>',
    '<a href="#javascript">x</a>',
    "<img src=x/onerror=1>",  # an unquoted value runs to the next blank
    '<!-- produced by a drawing library: on the 3rd -->',
    '<?xml version="1.0" encoding="utf-8" standalone="no"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x.dtd">'
    '<svg xmlns:xlink="x"><defs><style type="text/css">*{stroke-linejoin: round}</style></defs>'
    '<g id="patch_1"><path d="M 0 0" clip-path="url(#p1)" style="fill: #ffffff"/></g>'
    '<use xlink:href="#m1" x="1"/></svg>',
]
ACTIVE_MARKDOWN = [
    "[x](javascript:alert(1))",
    "[x]( javascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](JAVASCRIPT:alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](javascript&#58;alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](javascript\\:alert(1))",
    "[x]\n\n[x]: javascript:alert(1)",
    "[x]: <javascript:alert(1)>",
    "<javascript:alert(1)>",
    "![x](javascript:alert(1))",
    "a <script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "```{raw} html\n<script>alert(1)</script>\n```",
    "$\\href{javascript:alert(1)}{x}$",
    "$\\href { javascript:alert(1)}{x}$",
]
INERT_MARKDOWN = [
    "# Title\n\non time=5, $a<b$, a<b, javascript: a language, `x`",
    "[x](https://example.org/on=1)",
    "```{figure} /figures/a/b.svg\n:name: b\n:alt: on time=5\n\nA caption {download}`data </figures/a/b.csv>`\n```",
    "| a | b |\n|---|---|\n| 1 | on=2 |",
    "$\\href{https://example.org}{x}$",
]


@pytest.mark.parametrize("text", ACTIVE_HTML)
def test_active_html_is_found(text):
    assert active_html(text)
    assert active_html(f"<div><p>{text}")
    assert active_markdown(f"before\n\n{text}\n")


@pytest.mark.parametrize("text", INERT_HTML)
def test_inert_html_is_left_alone(text):
    assert active_html(text) == []


@pytest.mark.parametrize("text", ACTIVE_MARKDOWN)
def test_active_markdown_is_found(text):
    assert active_markdown(text)


@pytest.mark.parametrize("text", INERT_MARKDOWN)
def test_inert_markdown_is_left_alone(text):
    assert active_markdown(text) == []


@given(st.text(alphabet=st.characters(exclude_characters="<>&[]\\")))
def test_text_without_markup_is_never_flagged(text):
    assert active_html(text) == []
    assert active_markdown(text) == []


def scrambled(word: str, seed: int) -> str:
    """``word`` in a spelling that a browser reads as the same scheme."""
    rng = random.Random(seed)
    out = rng.choice(["", " ", "\t", "\n", "\x01"])
    for char in word:
        char = rng.choice([char, char.upper(), f"&#{ord(char)};", f"&#x{ord(char):X};", f"&#{ord(char):07d};"])
        out += char + rng.choice(["", "", "\t", "\n", "\r", "&Tab;", "&#9;"])
    return out


@given(st.integers(0, 10**9), st.sampled_from(["javascript:", "vbscript:"]), st.sampled_from("'\""))
def test_any_spelling_of_a_scheme_in_a_link_is_found(seed, scheme, quote):
    assert active_html(f"<a href={quote}{scrambled(scheme, seed)}x{quote}>y</a>")


@given(
    st.integers(0, 10**9),
    st.sampled_from([" ", "\t", "\n", "/", "\f", "  \n"]),
    st.sampled_from(["click", "error", "load", "pointerrawupdate", "x"]),
    st.sampled_from(["", " ", "\n"]),
)
def test_any_spacing_and_case_of_a_handler_is_found(seed, gap, event, space):
    rng = random.Random(seed)
    name = "".join(rng.choice([c, c.upper()]) for c in f"on{event}")
    assert active_html(f"<img src='x'{gap}{name}{space}={space}y>")
