"""What is wrong with a record or a claim, whatever the baseline says. Each fault is one line that names its claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attention_companion.ledger.cards import slug
from attention_companion.ledger.models import Claim
from attention_companion.ledger.numbers import NumberError, decode
from attention_companion.ledger.verdicts import (
    CONTRADICTED,
    METHODS,
    NOT_REPRODUCED,
    ExpectationError,
    outcome,
)

FIELDS = (
    "tag",
    "regime",
    "method",
    "checked_range",
    "measured",
    "measured_exact",
    "interval",
    "seeds",
    "n",
    "values",
    "spread",
    "control",
    "planted",
    "figure",
    "seconds",
    "notebook",
    "cell",
    "outcome",
)


def problem(kind: str, tag: str, text: str) -> dict[str, str]:
    """One fault as it stands in ledger.json."""
    return {"kind": kind, "tag": tag, "text": text}


def record_problems(
    record: Mapping[str, Any], claims: Mapping[str, Claim], folder: Path
) -> Iterator[dict[str, str]]:
    """Faults of one record: malformed, without a claim, or pointing at nothing."""
    tag, notebook = str(record.get("tag")), record.get("notebook")
    missing = [name for name in FIELDS if name not in record]
    if missing:
        text = f"{tag}: a record of {notebook} lacks {', '.join(missing)}; run it again"
        yield problem("malformed record", tag, text)
        return
    claim = claims.get(tag)
    if claim is None:
        yield problem(
            "check without a claim", tag, f"{tag}: checked by {notebook}, but book/claims has no such claim"
        )
        return
    if claim.checked_by != notebook:
        said = (
            f"checked_by {claim.checked_by!r}" if claim.checked_by else f"not_checked ({claim.not_checked})"
        )
        yield problem(
            "check by another notebook", tag, f"{tag}: checked by {notebook}, but the claim says {said}"
        )
    if record["outcome"] == "unavailable":
        return
    fault = _unreadable(claim, record)
    if fault:
        yield problem("malformed record", tag, f"{tag}: {fault}")
    figure = record["figure"]
    if figure is not None and not list((folder / "figures").glob(f"{figure}.*")):
        yield problem("missing figure", tag, f"{tag}: names figure {figure!r}, which {notebook} did not make")


def _unreadable(claim: Claim, record: Mapping[str, Any]) -> str | None:
    """Why a record's numbers cannot be judged by the claim, or None."""
    if record["method"] not in METHODS:
        return f"method {record['method']!r} is none of {', '.join(METHODS)}"
    try:
        for part in (record, record["control"], record["planted"]):
            if part is None:
                continue
            exact = part["measured_exact"]
            low, high = (None, None) if part["interval"] is None else part["interval"]
            ends = None if low is None else (decode(low), decode(high))
            outcome(claim.expectation, decode(part["measured"] if exact is None else exact), ends)
        for value in record["values"].values():
            decode(value)
    except (NumberError, ExpectationError, KeyError, ValueError, TypeError) as error:
        return f"the record does not fit the claim: {error}"
    return None


def claim_problems(claim: Claim, entry: Mapping[str, Any], root: Path) -> Iterator[dict[str, str]]:
    """Faults of one claim of the ledger, given its judged regimes."""
    tag, regimes = claim.tag, entry["regimes"]
    if claim.checked_by and not regimes and not entry["unavailable"]:
        yield problem(
            "claim without a check", tag, f"{tag}: {claim.checked_by} should check it, but recorded nothing"
        )
    for name, count in Counter(slug(r["regime"]) for r in regimes).items():
        if count > 1:
            yield problem(
                "regime twice", tag, f"{tag}: regime {name or '(nameless)'!r} is recorded {count} times"
            )
    for record in regimes:
        yield from _control_problems(tag, record)
    if claim.source == "ours":
        for record in regimes:
            if record["outcome"] == "unmet":
                text = f"measured {record['measured']}, expected {entry['expected']}; this is a bug of ours"
                yield problem("a claim of ours does not hold", tag, f"{tag}{_of(record)}: {text}")
    if entry["verdict"] in (CONTRADICTED, NOT_REPRODUCED) and not any(
        r["planted"] is not None and r["planted"]["outcome"] == "met" for r in regimes
    ):
        yield problem(
            "contradicted without a planted case",
            tag,
            f"{tag}: {entry['verdict']}, but no planted true case shows that the check could have confirmed it",
        )
    if claim.argument and not argument_exists(root, claim.argument):
        text = f"{tag}: its argument {claim.argument!r} names no page, or no (label)= on it"
        yield problem("argument missing", tag, text)


def argument_exists(root: Path, argument: str) -> bool:
    """Whether `page#label` names a page of the book (or `notebooks/name#label` a notebook) holding ``(label)=``."""
    page, _, label = argument.partition("#")
    path = (root if page.startswith("notebooks/") else root / "book") / f"{page}.md"
    return path.is_file() and (not label or f"({label})=" in path.read_text(encoding="utf-8"))


def _control_problems(tag: str, record: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """A control that does not fail, or a planted case that does not hold, takes the meaning from the check."""
    control, planted = record["control"], record["planted"]
    name = f"{tag}{_of(record)}"
    if control is None and planted is None:
        yield problem("no control", tag, f"{name}: recorded without a control")
    elif control is None and record["outcome"] == "met":
        yield problem("no control", tag, f"{name}: met, but recorded without a control that fails")
    if control is not None and control["outcome"] == "met":
        yield problem("control passes", tag, f"{name}: the control passes ({control['description']})")
    if control is not None and control["outcome"] == "undecided":
        yield problem(
            "control undecided", tag, f"{name}: the control is undecided ({control['description']})"
        )
    if planted is not None and planted["outcome"] != "met":
        text = f"{name}: the planted true case is {planted['outcome']} ({planted['description']})"
        yield problem("planted case fails", tag, text)


def _of(record: Mapping[str, Any]) -> str:
    return f" ({record['regime']})" if record["regime"] else ""
