"""The front page's picture: right counts, words for those who do not see it, legible colours, the same bytes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from attention_companion.execution.render_figures import (
    OTHER,
    VERDICTS,
    verdict_alt,
    verdict_counts,
    verdict_svg,
)
from attention_companion.ledger import verdicts

LEDGER: dict[str, Any] = {
    "claims": [
        {"paper": "sparse_xor", "verdict": "confirmed"},
        {"paper": "sparse_xor", "verdict": "not checked"},
        {"paper": "sparse_xor", "verdict": "not checked"},
        {"paper": "ntk", "verdict": "contradicted"},
    ]
}


def test_counts_and_words() -> None:
    counts = verdict_counts(LEDGER)
    assert counts["sparse_xor"] == {"confirmed": 1, "not checked": 2}
    assert verdict_alt(counts) == (
        "Verdicts by paper. Sparse XOR, 3 claims: 1 confirmed, 2 not checked. Simulators, 0 claims: none. "
        "Linearized attention, 1 claims: 1 contradicted."
    )


def test_every_verdict_of_the_ledger_has_its_colour() -> None:
    assert set(VERDICTS) == set(verdicts.VERDICTS)


def test_picture_is_well_formed_and_the_same_each_time() -> None:
    counts = verdict_counts(LEDGER)
    drawn = verdict_svg(counts)
    assert drawn == verdict_svg(verdict_counts({"claims": list(reversed(LEDGER["claims"]))}))
    root = ET.fromstring(drawn)
    widths = [
        float(r.attrib["width"])
        for r in root.iter("{http://www.w3.org/2000/svg}rect")
        if r.get("height") == "30"
    ]
    assert len(widths) == 3
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.02)


def test_a_word_unknown_to_the_picture_is_still_drawn() -> None:
    ledger = {"claims": [{"paper": "ntk", "verdict": "a <new> word"}]}
    drawn = verdict_svg(verdict_counts(ledger))
    assert "a &lt;new&gt; word" in drawn
    ET.fromstring(drawn)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("pair", [*VERDICTS.values(), OTHER])
def test_counts_stand_out_from_their_bar(pair: tuple[str, str]) -> None:
    low, high = sorted(map(luminance, pair))
    assert (high + 0.05) / (low + 0.05) >= 4.5
