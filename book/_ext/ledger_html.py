"""The ledger's HTML: tables with captions and scoped headers, cards, the filter form. Every text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from ledger_data import MARKS, PAPERS, SOURCES, LedgerView, people

from attention_companion.ledger.cards import SYMBOLS, measured_text, shown, slug
from attention_companion.ledger.verdicts import METHODS, VERDICTS

# From a record to the address of the cell that made it, seen from the page being written; None without a page.
Locate = Callable[[dict[str, Any]], str | None]


def badge(word: str) -> str:
    """A verdict or outcome as symbol and word; colour may be added by style, never needed."""
    return (
        f'<span class="ledger-badge ledger-word-{slug(word)}">'
        f'<span aria-hidden="true">{SYMBOLS.get(word, "–")}</span> {escape(word)}</span>'
    )


def table(
    caption: str, head: Sequence[str], rows: Iterable[str], *, ident: str = "", css: str = "", label: str = ""
) -> str:
    """A table in a container that scrolls sideways and can be reached with the keyboard."""
    name = f' id="{escape(ident)}"' if ident else ""
    columns = "".join(f'<th scope="col">{escape(h)}</th>' for h in head)
    labelled = "".join(_label_cells(r, head[1:]) for r in rows)
    return (
        f'<div class="table-scroll" tabindex="0" role="region" aria-label="{escape(label or caption)}">'
        f'<table class="table ledger-table ledger-stack {escape(css)}"{name}><caption>{escape(caption)}</caption>'
        f"<thead><tr>{columns}</tr></thead><tbody>{labelled}</tbody></table></div>"
    )


def _label_cells(html: str, names: Sequence[str]) -> str:
    """Each cell with its column's name, which a narrow screen shows in place of the header row."""
    parts = html.split("<td>")
    return parts[0] + "".join(
        f'<td data-label="{escape(name)}">{part}' for name, part in zip(names, parts[1:], strict=True)
    )


def row(first: str, cells: Sequence[str], attributes: str = "") -> str:
    """A row whose first cell is its header; cells are HTML already."""
    body = "".join(f"<td>{c}</td>" for c in cells)
    return f'<tr{attributes}><th scope="row">{first}</th>{body}</tr>'


def link(text: str, uri: str | None) -> str:
    """A link, or the plain text when there is nowhere to go."""
    return f'<a href="{escape(uri)}">{escape(text)}</a>' if uri else escape(text)


def source_text(claim: dict[str, Any]) -> str:
    """Where a claim comes from, in words."""
    return f"{SOURCES[claim['source']]} ({claim['mark']}: {MARKS[claim['mark']]})"


def measured_links(claim: dict[str, Any], locate: Locate) -> str:
    """Each regime's measured number, linked to the cell that measured it."""
    parts = []
    for record in claim["regimes"]:
        regime = f"{record['regime']}: " if record["regime"] else ""
        parts.append(f"{escape(regime)}{link(people(measured_text(record)), locate(record))}")
    return "<br>".join(parts)


def methods_of(claim: dict[str, Any]) -> list[str]:
    """The methods of a claim's records, each once, strongest first."""
    used = {r["method"] for r in claim["regimes"]}
    return [m for m in METHODS if m in used]


def filter_form(view: LedgerView, table_id: str) -> str:
    """Three labelled selects; hidden until the script that serves them runs."""
    present = {c["verdict"] for c in view.claims.values()}
    methods = {m for c in view.claims.values() for m in methods_of(c)}
    choices = (
        ("paper", "Paper", [(k, v) for k, v in PAPERS.items()]),
        ("verdict", "Verdict", [(slug(v), v) for v in VERDICTS if v in present]),
        ("method", "Method", [(m, m) for m in METHODS if m in methods]),
    )
    fields = []
    for name, title, options in choices:
        ident = f"{table_id}-{name}"
        inner = "".join(f'<option value="{escape(k)}">{escape(v)}</option>' for k, v in options)
        fields.append(
            f'<span class="ledger-filter-field"><label for="{ident}">{title}</label> '
            f'<select id="{ident}" data-filter="{name}"><option value="">all</option>{inner}</select></span>'
        )
    return (
        f'<form class="ledger-filter" data-table="{table_id}" aria-label="Filter the claims" hidden>'
        f'{"".join(fields)}<button type="reset">Show all</button>'
        '<p class="ledger-count" role="status" aria-live="polite"></p></form>'
    )


def ledger_table(view: LedgerView, locate: Locate) -> str:
    """The filter and one row a claim."""
    rows = []
    for claim in view.claims.values():
        methods = methods_of(claim)
        attributes = (
            f' id="ledger-{claim["tag"]}" data-paper="{claim["paper"]}" data-verdict="{slug(claim["verdict"])}"'
            f' data-method="{" ".join(methods)}"'
        )
        first = claim["regimes"][0] if claim["regimes"] else None
        place = f"{PAPERS[claim['paper']]}, {claim['place']}; source: {source_text(claim)}"
        measured = measured_links(claim, locate) or escape(claim["why"])
        cells = (
            f'{escape(claim["statement"])}<br><span class="ledger-cost">{escape(place)}</span>',
            f"{badge(claim['verdict'])}<br>{escape(', '.join(methods))}",
            f'{measured}<br><span class="ledger-cost">expected {escape(claim["expected"])}</span>',
        )
        rows.append(row(link(claim["tag"], locate(first) if first else None), cells, attributes))
    head = ("Claim", "Statement, in our words; where from", "Verdict and method", "Measured and expected")
    caption = f"{len(rows)} claims; profile {view.data['profile']}"
    return filter_form(view, "ledger-claims") + table(
        caption, head, rows, ident="ledger-claims", css="ledger-claims"
    )


def history_table(view: LedgerView) -> str:
    """Every expectation that changed after the first run, with its reason; empty when none did."""
    rows = [
        row(escape(c["tag"]), [escape(h[k]) for k in ("date", "before", "after", "reason")])
        for c in view.claims.values()
        for h in c["tolerance_history"]
    ]
    if not rows:
        return "<p>No expectation or tolerance was changed after its first run.</p>"
    return table(
        "Expectations changed after the first run", ("Claim", "Date", "Before", "After", "Reason"), rows
    )


def as_printed_table(view: LedgerView, paper: str, locate: Locate) -> str:
    """Each printed number and each released program's fact, beside what this build measured."""
    claims = [c for c in view.claims.values() if c["paper"] == paper and (c["printed"] or c["released"])]
    any_released = any(c["released"] for c in claims)
    rows = []
    for claim in claims:
        for item in claim["printed"] or [None]:
            printed = "nothing printed that we know of"
            if item is not None:
                printed = f"{item['label']}: {item['text']} ({SOURCES[item['source']]})"
            cells = [escape(printed), _as_run(claim, item, locate)]
            if any_released:
                cells.insert(1, escape(claim["released"] or "nothing known"))
            rows.append(row(f"{escape(claim['tag'])}<br>{badge(claim['verdict'])}", cells))
    head = ["Claim and verdict", "As printed (source)", "As run here"]
    if any_released:
        head.insert(2, "As released")
    caption = f"{PAPERS[paper]}: as printed, as released, as run"
    if not any_released:
        caption += " (no released program known to us)"
    return table(caption, head, rows, css="ledger-as-printed")


def _as_run(claim: dict[str, Any], item: dict[str, Any] | None, locate: Locate) -> str:
    """Our numbers for one printed number: the value named like it where there is one, else the deciding ones."""
    if not claim["regimes"]:
        return escape(f"not measured: {claim['why']}")
    wanted = {item["label"], slug(item["label"]), slug(item["label"]).replace("-", "_")} if item else set()
    parts = []
    for record in claim["regimes"]:
        named = [v for k, v in record["values"].items() if k in wanted]
        text = shown(named[0]) if named else measured_text(record)
        regime = f"{record['regime']}: " if record["regime"] else ""
        parts.append(f"{escape(regime)}{link(people(text), locate(record))}")
    return "<br>".join(parts)


def counts_table(view: LedgerView) -> str:
    """Verdicts down, papers across."""
    counts = view.data["counts"]
    rows = [
        row(badge(word), [str(counts[paper][word]) for paper in (*PAPERS, "all")])
        for word in VERDICTS
        if counts["all"][word]
    ]
    total = [str(sum(counts[paper].values())) for paper in (*PAPERS, "all")]
    rows.append(row("all claims", total))
    return table(
        "Claims by verdict and paper", ("Verdict", *PAPERS.values(), "all"), rows, css="ledger-counts"
    )


def drift_tables(view: LedgerView) -> str:
    """What differs from the baseline, what was accepted and why, and which expectations changed."""
    drift = [
        row(
            escape(d["tag"]),
            [escape(d[k]) or "–" for k in ("regime", "what", "before", "after", "allowed")]
            + [escape(d["text"])],
        )
        for d in view.data["drift"]
    ]
    text = f"<p>Every checked claim agrees with the accepted baseline of profile {escape(view.data['profile'])}.</p>"
    if drift:
        head = ("Claim", "Regime", "What", "Baseline", "Now", "Allowed", "In words")
        text = table("Differences from the accepted baseline", head, drift)
    accepted = [
        row(escape(tag), [escape(e["verdict"]), escape(e["date"]), escape(e["reason"])])
        for tag, e in sorted(view.data["baseline"].items())
    ]
    if accepted:
        text += table("Accepted, and why", ("Claim", "Verdict accepted", "Date", "Reason"), accepted)
    return text + history_table(view)
