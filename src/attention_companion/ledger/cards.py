"""The small card that record() leaves under its cell: words and numbers, no script, no colour of its own."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from attention_companion.ledger.numbers import Number, decode

SYMBOLS = {
    "met": "✓",
    "unmet": "✗",
    "undecided": "?",
    "confirmed": "✓",
    "confirmed on range": "✓",
    "regime-dependent": "◐",
    "contradicted": "✗",
    "not reproduced: recipe under-specified": "○",
    "not checked": "–",
}


def slug(text: str) -> str:
    """`text` as part of an HTML id: lower-case letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def anchor(tag: str, regime: str) -> str:
    """The id of a check: check-TAG, or check-TAG--regime."""
    return f"check-{tag}--{slug(regime)}" if regime else f"check-{tag}"


def shown(stored: Any, digits: int = 4) -> str:
    """A stored number for people: exact ones as they are (shortened when long), doubles to `digits` digits."""
    if stored is None:
        return "none"
    if isinstance(stored, str) and len(stored) <= 12:
        return stored
    return _float_text(decode(stored), digits)


def _float_text(x: Number, digits: int) -> str:
    if isinstance(x, bool):
        return "true" if x else "false"
    try:
        return f"{float(x):.{digits}g}"
    except OverflowError:
        return f"about 10^{len(str(int(x))) - 1}"


def measured_text(entry: dict[str, Any]) -> str:
    """The deciding number of a record or control, exact when it was exact, with its interval."""
    exact = entry.get("measured_exact")
    text = shown(entry["measured"] if exact is None else exact)
    interval = entry.get("interval")
    return text if interval is None else f"{text} [{shown(interval[0])}, {shown(interval[1])}]"


def card_html(entry: dict[str, Any], expected: str, extra_anchor: str | None) -> str:
    """The card of one record. `extra_anchor` is a second id, for links to the claim's first regime."""
    word, warning = entry["outcome"], control_warning(entry)
    title = entry["tag"] + (f" · {entry['regime']}" if entry["regime"] else "")
    lead = f'<span id="{escape(extra_anchor)}"></span>' if extra_anchor else ""
    note = f'<p class="ledger-warning"><strong>{escape(warning)}</strong></p>' if warning else ""
    return (
        f'<div class="ledger-check ledger-outcome-{word}" id="{escape(entry["cell"])}">{lead}'
        f'<p class="ledger-check-title"><strong>{escape(title)}</strong> '
        f'<span class="ledger-badge ledger-word-{slug(word)}">'
        f'<span aria-hidden="true">{SYMBOLS.get(word, "–")}</span> {escape(word)}</span> '
        f"{escape(_sentence(entry, expected))}</p>{note}{_details(entry, title)}</div>"
    )


def _sentence(entry: dict[str, Any], expected: str) -> str:
    """What was measured against what was expected, and what the control did, in one line."""
    if entry["outcome"] == "unavailable":
        return entry["checked_range"]
    text = f"measured {measured_text(entry)}, expected {expected}"
    for case, right, words in ((entry["control"], "unmet", "fails"), (entry["planted"], "met", "holds")):
        if case is not None and case["outcome"] == right:
            name = "control" if right == "unmet" else "planted case"
            text += f"; {name} {measured_text(case)}, {words} as it must"
    return text


def _details(entry: dict[str, Any], title: str) -> str:
    """Range, method and the two cases, folded: the chapter's closing cards show them all again."""
    if entry["outcome"] == "unavailable":
        return ""
    rows = [("Checked on", entry["checked_range"]), ("Method", entry["method"])]
    if entry["control"] is not None:
        rows.append(("Control (must fail)", _case_text(entry["control"])))
    if entry["planted"] is not None:
        rows.append(("Planted case (must hold)", _case_text(entry["planted"])))
    if entry.get("tolerance_note"):
        rows.append(("Note", entry["tolerance_note"]))
    body = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in rows)
    return (
        f'<details class="ledger-check-details"><summary>How {escape(title)} was checked</summary>'
        f'<table class="ledger-check-table"><tbody>{body}</tbody></table></details>'
    )


def _case_text(case: dict[str, Any]) -> str:
    return f"{case['description']}: {measured_text(case)}, {case['outcome']}"


def card_text(entry: dict[str, Any], expected: str) -> str:
    """The same card as one plain line."""
    title = entry["tag"] + (f" ({entry['regime']})" if entry["regime"] else "")
    if entry["outcome"] == "unavailable":
        return f"{title}: not checked in this run: {entry['checked_range']}"
    line = f"{title}: {entry['outcome']}; measured {measured_text(entry)}, expected {expected}; {entry['method']}"
    warning = control_warning(entry)
    return f"{line}. {warning}" if warning else line


def control_warning(entry: dict[str, Any]) -> str | None:
    """What is wrong with the record's control or planted case, or None."""
    control, planted = entry["control"], entry["planted"]
    if control is not None and control["outcome"] != "unmet":
        return f"The control does not fail ({control['outcome']}), so this check proves nothing."
    if planted is not None and planted["outcome"] != "met":
        return (
            f"The planted true case is not confirmed ({planted['outcome']}), so this check cannot contradict."
        )
    return None
