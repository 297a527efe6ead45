"""The card that closes a chapter: one claim, its check, its control, and what would refute it."""

from __future__ import annotations

from html import escape
from typing import Any

from ledger_data import PAPERS, SOURCES, LedgerView, people
from ledger_html import Locate, badge, link, row, source_text, table

from attention_companion.ledger.cards import measured_text, shown


def claim_card(view: LedgerView, claim: dict[str, Any], locate: Locate, *, with_id: bool) -> str:
    """The card of `claim`; `with_id` when this is its first card on the page."""
    ident = f' id="card-{claim["tag"]}"' if with_id else ""
    regimes = _regimes(claim, locate) if claim["regimes"] else f"<p>{escape(claim['why'])}</p>"
    return (
        f'<div class="ledger-card"{ident} role="group" aria-label="Claim {claim["tag"]}">'
        f'<p class="ledger-card-title"><strong>{claim["tag"]}</strong> {badge(claim["verdict"])}</p>'
        f"<p>{escape(claim['statement'])}</p>{regimes}{_facts(view, claim)}</div>"
    )


def _regimes(claim: dict[str, Any], locate: Locate) -> str:
    rows = []
    for record in claim["regimes"]:
        cells = (
            link(people(measured_text(record)), locate(record)),
            badge(record["outcome"]),
            _how(record),
            _cases(record),
        )
        rows.append(row(escape(record["regime"] or "all that was run"), cells))
    head = ("Regime", "Measured", "Outcome", "How it was checked", "Control and planted case")
    return table(f"{claim['tag']}: expected {claim['expected']}", head, rows, css="ledger-regimes")


def _how(record: dict[str, Any]) -> str:
    """Method, range and cost in one cell: a column for each would not fit beside the text."""
    cost = _cost(record)
    text = f"<strong>{escape(record['method'])}</strong>: {escape(record['checked_range'])}"
    return f'{text}<br><span class="ledger-cost">{cost}</span>' if cost else text


def _cases(record: dict[str, Any]) -> str:
    parts = []
    for name, must in (("control", "must fail"), ("planted", "must hold")):
        case = record[name]
        if case is not None:
            text = f"{case['description']}: {people(measured_text(case))}, {case['outcome']} ({must})"
            parts.append(escape(text))
    if record["outcome_at_run"] != record["outcome"]:
        parts.append(
            escape(
                f"The expectation changed after this run. Its card in the notebook says {record['outcome_at_run']}; "
                f"by the expectation as it stands the outcome is {record['outcome']}."
            )
        )
    return "<br>".join(parts)


def _cost(record: dict[str, Any]) -> str:
    """Seeds and sample size; seconds since the check before it (a loop measures first), peak memory so far."""
    seeds, parts = record["seeds"], []
    if seeds is not None:
        parts.append(f"{seeds if isinstance(seeds, int) else len(seeds)} seeds")
    if record["n"] is not None:
        parts.append(f"n = {record['n']}")
    if record["seconds"] >= 0.05:
        parts.append(f"{record['seconds']:.1f} s since the check before")
    if record.get("peak_memory_bytes"):
        parts.append(f"peak memory {record['peak_memory_bytes'] / 2**20:.0f} MiB")
    return escape(", ".join(parts))


def _facts(view: LedgerView, claim: dict[str, Any]) -> str:
    """The small print as a two-column table without a header row."""
    items = [
        ("Place", f"{PAPERS[claim['paper']]}, {claim['place']}"),
        ("Source", source_text(claim)),
        ("Ranges over", claim["quantifies"]),
        *((f"Printed, {p['label']}", f"{p['text']} ({SOURCES[p['source']]})") for p in claim["printed"]),
        ("Why this tolerance", claim["expectation"]["reason"]),
        ("Control", claim["control"]),
        ("Would refute it", claim["refuted_by"]),
        ("Stops holding", claim["stops_holding"]),
        ("Why this verdict", claim["why"]),
        *(
            (f"Changed {h['date']}", f"{h['before']} to {h['after']}: {h['reason']}")
            for h in claim["tolerance_history"]
        ),
        *_run(view, claim),
    ]
    if claim["released"]:
        items.insert(3, ("As released", claim["released"]))
    body = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in items)
    return (
        '<details class="ledger-facts"><summary>'
        f'<span class="ledger-facts-title">Source, tolerance and limits of {claim["tag"]}</span></summary>'
        f'<div class="table-scroll" tabindex="0" role="region" aria-label="Details of {claim["tag"]}">'
        f'<table class="table ledger-facts-table"><tbody>{body}</tbody></table></div></details>'
    )


def _run(view: LedgerView, claim: dict[str, Any]) -> list[tuple[str, str]]:
    run = view.data["notebooks"].get(claim["checked_by"] or "")
    if run is None:
        return []
    commit = str(run["commit"] or "no commit")[:12] + (" with local changes" if run["dirty"] else "")
    seconds = "" if run["seconds"] is None else f", {shown(float(run['seconds']))} s"
    return [
        (
            "Run",
            f"notebook {claim['checked_by']}, profile {run['profile']}, {run['started']}, commit {commit}{seconds}",
        )
    ]
