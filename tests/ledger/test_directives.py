"""The Sphinx extension in real strict builds of a small book."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from attention_companion import ledger
from attention_companion.ledger.baseline import accept
from attention_companion.ledger.collect import collect

pytestmark = pytest.mark.torch_free

EXTENSIONS = Path(__file__).resolve().parents[2] / "book" / "_ext"
NOTEBOOK = "10_toy"
CONF = """
import sys
sys.path.insert(0, {ext!r})
project = "toy"
extensions = ["myst_parser", "ledger_directives"]
ledger_path = {ledger!r}
html_theme = "basic"
"""


def cells() -> None:
    ledger.record(
        "XOR-TOY",
        Fraction(2, 3),
        method="exact",
        checked_range="d <= 3",
        regime="d = 3.5",
        control=ledger.Control("a <broken> toy", Fraction(1, 7)),
        values={"big": 1.25e9, "share": 0.98765, "count": 7},
    )
    ledger.record(
        "XOR-TOY",
        0.25,
        method="statistical",
        checked_range="d = 9",
        regime="d = 9",
        interval=(0.2, 0.3),
        seeds=range(5),
        control=ledger.Control("a broken toy", 0.1),
        values={"share": -0.5, "m_16": 44.5},
    )
    ledger.record(
        "XOR-ONE", 0.75, method="float", checked_range="once", control=ledger.Control("a broken toy", 0.1)
    )


@pytest.fixture
def book(
    root: Path,
    run: Callable[..., Path],
    fields: Callable[..., dict[str, Any]],
    put_claims: Callable[..., None],
    tmp_path: Path,
) -> Callable[..., tuple[int, str, Path]]:
    """Build a book whose notebook page holds the given Markdown; returns exit status, messages, output folder."""
    printed = [{"label": "m = 16", "value": 45.1, "text": "45.1 & more", "source": "quoted_table"}]
    put_claims(
        fields(printed=printed, statement="At least <half> of it."),
        fields(tag="XOR-ONE"),
        fields(tag="XOR-LATER", checked_by=None, drift=None, not_checked="chapter to come"),
    )
    found = collect(root, "quick", {NOTEBOOK: run(cells)})
    accept(root, "quick", ["XOR-TOY", "XOR-ONE"], "first run", ledger=found, date="2025-01-02")
    found = collect(root, "quick", {NOTEBOOK: root / found.notebooks[NOTEBOOK]["folder"]})
    path = tmp_path / "ledger.json"
    path.write_text(found.to_json(), encoding="utf-8")

    def build(
        markdown: str, *, ledger_path: str = str(path), notebook: str = NOTEBOOK
    ) -> tuple[int, str, Path]:
        source, out = tmp_path / "src", tmp_path / "html"
        (source / "notebooks").mkdir(parents=True)
        (source / "conf.py").write_text(CONF.format(ext=str(EXTENSIONS), ledger=ledger_path))
        toc = f"# Toy\n\n```{{toctree}}\nnotebooks/{notebook}\nledger\n```\n"
        (source / "index.md").write_text(toc)
        (source / "notebooks" / f"{notebook}.md").write_text(f"# Page\n\n{markdown}\n")
        (source / "ledger.md").write_text("# Ledger\n\n```{ledger-table}\n```\n\n{num}`XOR-ONE|.2f`\n")
        command = [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-n",
            "-b",
            "html",
            str(source),
            str(out),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "CI": ""}
        )
        return done.returncode, done.stderr, out

    return build


class Tables(HTMLParser):
    """Collects what the accessibility of a table hangs on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables = self.captions = 0
        self.headers: list[dict[str, str | None]] = []
        self.regions: list[dict[str, str | None]] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [i for i in [found.get("id")] if i]
        self.handlers += [name for name in found if name.startswith("on")]
        self.tables += tag == "table"
        self.captions += tag == "caption"
        if tag == "th":
            self.headers.append(found)
        if "table-scroll" in (found.get("class") or ""):
            self.regions.append(found)


def test_numbers_in_prose_are_measured_formatted_and_linked(
    book: Callable[..., tuple[int, str, Path]],
) -> None:
    text = (
        "A {num}`XOR-TOY@d = 3.5.share|.1%` B {num}`XOR-TOY@d-3-5|frac` C {num}`XOR-TOY@d = 3.5.big|.2e` "
        "D {num}`XOR-TOY@d = 9.share|.2f` E {num}`XOR-ONE|.3f` F {num}`XOR-TOY@d = 9.high|.1f` "
        "G {num}`XOR-TOY@d = 3.5.count|d` H {printed}`XOR-TOY.m = 16` I {verdict}`XOR-TOY` J {claim}`XOR-ONE`"
    )
    status, messages, out = book(text)
    assert status == 0, messages
    page = (out / "notebooks" / "10_toy.html").read_text()
    for shown in (
        "98.8%",
        "2/3",
        "1.25 × 10⁹",
        "−0.50",
        "0.750",
        "0.3",
        ">7<",
        "45.1 &amp; more",
        "regime-dependent",
    ):
        assert shown in page, shown
    assert 'href="#check-XOR-TOY--d-3-5"' in page
    assert 'href="../ledger.html#ledger-XOR-ONE"' in page
    assert 'href="notebooks/10_toy.html#check-XOR-ONE"' in (out / "ledger.html").read_text()


# One build reports them all: --keep-going lists every warning, and each alone is enough to fail under -W.
MISSING = [
    ("{num}`XOR-NONE|.3f`", "no claim 'XOR-NONE'"),
    ("{num}`XOR-ONE.share|.3f`", "no value 'share'"),
    ("{num}`XOR-TOY|.3f`", "several regimes"),
    ("{num}`XOR-TOY@d = 4|.3f`", "no regime 'd = 4'"),
    ("{num}`XOR-LATER|.3f`", "no measured value"),
    ("{num}`XOR-ONE|.q3`", "format '.q3' does not fit"),
    ("{num}`XOR-ONE|d`", "not a whole number"),
    ("{num}`XOR-ONE|frac`", "not exact"),
    ("{num}`nonsense`", "does not begin with a tag"),
    ("{printed}`XOR-TOY.m = 17`", "prints no 'm = 17'"),
    ("{claim}`XOR-NONE`", "no claim 'XOR-NONE'"),
    ("{verdict}`XOR-NONE`", "no claim 'XOR-NONE'"),
    ("```{claim-card} XOR-NONE\n```", "no claim 'XOR-NONE'"),
    ("```{claim-cards} 11_other\n```", "no claim is checked by '11_other'"),
    ("```{as-printed-table} other\n```", "no paper 'other'"),
]


def test_a_missing_value_fails_a_strict_build(book: Callable[..., tuple[int, str, Path]]) -> None:
    status, messages, _ = book("\n\n".join(text for text, _ in MISSING))
    assert status != 0
    lines = [line for line in messages.splitlines() if "ledger:" in line]
    assert len(lines) == len(MISSING), messages
    for line, (_, message) in zip(lines, MISSING, strict=True):
        assert message in line
        assert "10_toy.md" in line, "the message names the page"


def test_one_missing_value_is_enough(book: Callable[..., tuple[int, str, Path]]) -> None:
    status, _, _ = book("{num}`XOR-ONE.share|.3f`")
    assert status != 0


@pytest.mark.parametrize(
    ("path", "message"), [("", "ledger_path is empty"), ("/nowhere/ledger.json", "does not exist")]
)
def test_a_missing_ledger_fails_a_strict_build(
    book: Callable[..., tuple[int, str, Path]], path: str, message: str
) -> None:
    status, messages, _ = book("text", ledger_path=path)
    assert status != 0
    assert message in messages


def test_a_record_of_a_notebook_without_a_page_fails_a_strict_build(
    book: Callable[..., tuple[int, str, Path]],
) -> None:
    status, messages, _ = book("text", notebook="11_other")
    assert status != 0
    assert "10_toy, which is no page of this book" in messages


def test_cards_tables_and_filter_are_accessible_and_escaped(
    book: Callable[..., tuple[int, str, Path]],
) -> None:
    status, messages, out = book(
        "```{claim-card} XOR-TOY\n```\n\n```{claim-cards}\n```\n\n```{as-printed-table} sparse_xor\n```\n\n"
        "```{verdict-counts}\n```\n\n```{drift-table}\n```\n"
    )
    assert status == 0, messages
    for page in (out / "notebooks" / "10_toy.html", out / "ledger.html"):
        text = page.read_text()
        found = Tables(text)
        assert found.tables >= 1
        assert all(h.get("scope") in ("col", "row") for h in found.headers)
        assert found.regions
        assert all(
            r.get("tabindex") == "0" and r.get("role") == "region" and r.get("aria-label")
            for r in found.regions
        )
        assert len(found.ids) == len(set(found.ids)), "ids are unique on a page"
        assert not found.handlers
        assert "<broken>" not in text
        assert "<half>" not in text
    cards = (out / "notebooks" / "10_toy.html").read_text()
    for words in (
        "regime-dependent",
        "confirmed on range",
        "45.1 &amp; more",
        "a &lt;broken&gt; toy",
        "44.5",
        "first run",
        "quoted table",
        "half, decided before any run",
        "Would refute it",
        "agrees with the accepted baseline",
        "profile quick",
        "c0ffee",
        "5 seeds",
    ):
        assert words in cards, words
    table = (out / "ledger.html").read_text()
    assert 'data-paper="sparse_xor" data-verdict="regime-dependent" data-method="exact statistical"' in table
    assert (
        '<form class="ledger-filter" data-table="ledger-claims" aria-label="Filter the claims" hidden>'
        in table
    )
    assert 'aria-live="polite"' in table
    assert "chapter to come" in table
    for name in ("paper", "verdict", "method"):
        assert f'<label for="ledger-claims-{name}">' in table
        assert f'id="ledger-claims-{name}" data-filter="{name}"' in table


@pytest.mark.parametrize(("regime", "left_out"), [("large", True), ("larger", False)])
def test_a_number_left_out_of_this_run_says_so_and_another_missing_one_fails(
    book: Any, tmp_path: Path, regime: str, left_out: bool
) -> None:
    stored = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))
    (claim,) = [c for c in stored["claims"] if c["tag"] == "XOR-ONE"]
    claim["missing"] = [{"regime": "large", "reason": "no large toys here"}]
    (tmp_path / "ledger.json").write_text(json.dumps(stored), encoding="utf-8")
    status, said, folder = book(f"Here: {{num}}`XOR-ONE@{regime}.n`.")
    if left_out:
        assert status == 0, said
        page = (folder / "notebooks" / f"{NOTEBOOK}.html").read_text(encoding="utf-8")
        assert "not measured (no large toys here)" in page
    else:
        assert status != 0
        assert "no regime 'larger'" in said
