"""The front page's picture: one bar of verdicts a paper, drawn from the ledger when the book is made.

Plain SVG written by hand: the same ledger gives the same bytes, and no plotting library is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

PAPERS = {"sparse_xor": "Sparse XOR", "simulator": "Simulators", "ntk": "Linearized attention"}

# Fill and text colour of each verdict, in the order of the bar. Told apart by common forms of colour
# blindness; each text stands at 4.5:1 or more on its fill, and every segment prints its count.
VERDICTS = {
    "confirmed": ("#005a8c", "#ffffff"),
    "confirmed on range": ("#56b4e9", "#000000"),
    "regime-dependent": ("#f0c05a", "#000000"),
    "contradicted": ("#b04a00", "#ffffff"),
    "not reproduced: recipe under-specified": ("#cc79a7", "#000000"),
    "undecided": ("#ffffff", "#000000"),
    "not checked": ("#e4e4e4", "#000000"),
}
OTHER = ("#666666", "#ffffff")

WIDTH, LEFT, BAR, ROW, TOP = 480, 10, 30, 62, 8
LEGEND_ROW = 22


def verdict_counts(ledger: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Verdicts counted per paper, papers in the book's order; a paper without claims counts nothing."""
    counts: dict[str, Counter[str]] = {paper: Counter() for paper in PAPERS}
    for claim in ledger["claims"]:
        counts.setdefault(claim["paper"], Counter())[claim["verdict"]] += 1
    return counts


def verdict_alt(counts: Mapping[str, Mapping[str, int]]) -> str:
    """The picture in words, e.g. 'Verdicts by paper. Sparse XOR, 14 claims: 3 confirmed, 11 not checked.'"""
    sentences = []
    for paper, found in counts.items():
        listed = ", ".join(f"{found[verdict]} {verdict}" for verdict in _order(found))
        total = sum(found.values())
        sentences.append(f"{PAPERS.get(paper, paper)}, {total} claims: {listed or 'none'}.")
    return "Verdicts by paper. " + " ".join(sentences)


def verdict_svg(counts: Mapping[str, Mapping[str, int]]) -> str:
    """The bars as an SVG document of 480 user units' width; text is 14 units high."""
    largest = max((sum(found.values()) for found in counts.values()), default=0) or 1
    used = _order({v: 1 for found in counts.values() for v in found})
    height = TOP + ROW * len(counts) + LEGEND_ROW * len(used) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="14">',
        f"<title>{escape(verdict_alt(counts))}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for row, (paper, found) in enumerate(counts.items()):
        y = TOP + row * ROW
        label = f"{PAPERS.get(paper, paper)} ({sum(found.values())} claims)"
        parts.append(f'<text x="{LEFT}" y="{y + 14}">{escape(label)}</text>')
        parts += _bar(found, y + 20, (WIDTH - 2 * LEFT) / largest)
    for row, verdict in enumerate(used):
        y = TOP + ROW * len(counts) + row * LEGEND_ROW
        fill, _ = VERDICTS.get(verdict, OTHER)
        parts.append(f'<rect x="{LEFT}" y="{y}" width="16" height="16" fill="{fill}" stroke="#000000"/>')
        parts.append(f'<text x="{LEFT + 24}" y="{y + 13}">{escape(verdict)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def write_verdict_figure(ledger: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Write `verdicts.svg` into `folder` (made if needed); return {"alt": its text for the page}."""
    counts = verdict_counts(ledger)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "verdicts.svg").write_text(verdict_svg(counts), "utf-8")
    return {"alt": verdict_alt(counts)}


def _bar(found: Mapping[str, int], y: int, unit: float) -> list[str]:
    parts, x = [], float(LEFT)
    for verdict in _order(found):
        fill, ink = VERDICTS.get(verdict, OTHER)
        width = found[verdict] * unit
        parts.append(
            f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{BAR}" fill="{fill}" stroke="#000000"/>'
        )
        parts.append(
            f'<text x="{x + width / 2:.2f}" y="{y + 20}" fill="{ink}" '
            f'text-anchor="middle">{found[verdict]}</text>'
        )
        x += width
    return parts


def _order(found: Mapping[str, int]) -> list[str]:
    known = [verdict for verdict in VERDICTS if found.get(verdict)]
    return known + sorted(v for v in found if v not in VERDICTS and found[v])
