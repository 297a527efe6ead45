"""The small Sphinx extensions, without Sphinx: what they write for given facts."""

from __future__ import annotations

from typing import Any

import pytest
from access_fixes import REPAIRS, repair
from chapter_foot import chapter_rows, cost, sampled
from claims_to_come import as_list, to_come
from data_facts import describe
from page_links import header_buttons, launch_url, source_path

from attention_companion.datasets.catalogue import catalogue
from attention_companion.execution.render_stage import edition, made_from, when

RUN: dict[str, Any] = {
    "profile": "quick",
    "parameters": {"b": "<x>", "a": 2},
    "digests": {"data": {"mnist": {"kind": "sample"}, "cifar10": {"kind": "full"}}},
    "figures": ["maps"],
    "provenance": {
        "commit": "0123456789abcdef",
        "dirty": True,
        "started": "2025-01-02",
        "seconds": 3.14,
        "peak_memory_bytes": 2_000_000,
        "cpu": "a & b",
        "seeds": [1, 2],
    },
}

THEME_PAGE = (
    '<dialog id="pst-search-dialog"><form></form></dialog>'
    '<dialog id="pst-primary-sidebar-modal"></dialog>'
    '<div id="pst-primary-sidebar" class="bd-sidebar-primary">x</div>'
    '<div class="pst-scrollable-table-container"><table></table></div>'
    '<div role="list"><div class="citation" id="id1" role="doc-biblioentry">c</div></div>'
)


def test_rows_of_a_foot_are_escaped_and_complete() -> None:
    rows = dict(chapter_rows("12_x", RUN, "quick"))
    assert rows["Parameters"] == "<code>a = 2, b = &#x27;&lt;x&gt;&#x27;</code>"
    assert "a &amp; b" in rows["Cost"]
    assert rows["Seeds"] == "<code>[1, 2]</code>"
    assert "companion run 12_x --profile quick --out DIR" in rows["Reproduce"]
    assert "DIR/figures/maps.svg" in rows["Figure maps"]
    assert cost(RUN) == ("3.1\u00a0s", "2\u00a0MB")


def test_uncommitted_changes_are_said() -> None:
    assert made_from(RUN) == "0123456789ab with uncommitted changes"
    assert made_from({"provenance": {"commit": None, "dirty": False}}) == "no commit"


def test_edition_names_each_commit_once() -> None:
    runs = {"a": RUN, "b": RUN, "c": {"provenance": {"commit": "fedcba9876543210"}}}
    assert edition("full", "2025-01-02", runs) == (
        "Numbers of this book: profile full, runs up to 2025-01-02, "
        "commit 0123456789ab with uncommitted changes, fedcba987654."
    )


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("2025-01-02T03:04:05+00:00", "2025-01-02 03:04 UTC"),
        ("2025-01-02T03:04:05Z", "2025-01-02 03:04 UTC"),
        ("2025-01-02T03:04:05+02:00", "2025-01-02 01:04 UTC"),
        ("2025-01-02", "2025-01-02"),
        ("some day", "some day"),
        (None, "an unknown date"),
    ],
)
def test_times_are_written_to_the_minute(moment: str | None, words: str) -> None:
    assert when(moment) == words


def test_only_samples_raise_the_banner() -> None:
    assert sampled(RUN) == ["mnist"]
    assert sampled({"digests": {"data": {"mnist": {"kind": "full"}}}}) == []


def test_only_unchecked_claims_of_the_paper_are_to_come() -> None:
    claims = [
        {
            "tag": "SIM-A",
            "paper": "simulator",
            "not_checked": "later",
            "statement": "s\n *t* <T>",
            "place": "Lemma 3",
        },
        {"tag": "SIM-B", "paper": "simulator", "not_checked": None, "statement": "s"},
        {"tag": "XOR-A", "paper": "sparse_xor", "not_checked": "later", "statement": "s"},
    ]
    found = to_come({"claims": claims}, "simulator")
    assert [claim["tag"] for claim in found] == ["SIM-A"]
    # Plain text: what looks like markup in a statement stays as it is written.
    assert as_list(found).astext().split("\n\n") == ["SIM-A: Lemma 3", "s *t* <T>", "Not checked: later"]


def test_every_data_set_is_described_with_its_licence() -> None:
    for source in catalogue().values():
        words = describe(source)
        assert source.licence.licence in words
        assert source.licence.attribution in words


def test_every_repair_mends_and_none_is_missed() -> None:
    mended, missing = repair(THEME_PAGE, "a.html")
    assert missing == []
    for mend in REPAIRS:
        assert mend(THEME_PAGE)[1] > 0, mend.why
        assert mend(mended)[1] == 0, f"{mend.why}: still to mend"


def test_a_changed_theme_is_noticed() -> None:
    _, missing = repair(THEME_PAGE.replace('id="pst-primary-sidebar" class', 'id="sidebar" class'), "a.html")
    assert len(missing) == 1
    assert "a.html" in missing[0]


def test_buttons_of_a_chapter_and_of_a_prose_page() -> None:
    runs = {"12_x": RUN}
    chapter = header_buttons("notebooks/12_x", "../", "https://github.com/o/r", "main", runs)
    downloads = [button["url"] for button in chapter[0]["buttons"]]
    assert downloads == [f"../downloads/12_x/12_x{end}" for end in (".ipynb", ".md", "-executed.ipynb")]
    prose = header_buttons("status", "", "https://github.com/o/r", "main", runs)
    assert [button["url"] for button in prose] == ["https://github.com/o/r/blob/main/book/status.md"]
    assert not any("javascript" in button["type"] for button in chapter + prose)


def test_launch_link_opens_the_clean_notebook() -> None:
    url = launch_url("https://github.com/o/r/", "main", "12_x")
    assert url == "https://mybinder.org/v2/gh/o/r/main?urlpath=lab%2Ftree%2Fnotebooks%2F12_x.ipynb"


@pytest.mark.parametrize(
    ("page", "path"), [("index", "book/index.md"), ("notebooks/12_x", "notebooks/12_x.md")]
)
def test_source_of_a_page(page: str, path: str) -> None:
    assert source_path(page) == path
