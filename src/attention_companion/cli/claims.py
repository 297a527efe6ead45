"""``companion claim``: everything that is known about one claim, and why its result was, or was not, run again."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from attention_companion.cli import console
from attention_companion.cli.errors import UsageError, describe
from attention_companion.cli.explain import differences
from attention_companion.cli.stored import Stored, pick_profile, stored_results

if TYPE_CHECKING:
    from attention_companion.execution.project import Project
    from attention_companion.ledger.models import Claim

WIDTH = 100


def show(project: Project, tag: str, profile: str) -> None:
    """Print the claim ``tag`` as its file says it, then what the last ledger of ``profile`` says."""
    from attention_companion.ledger.claims import load_claims

    pick_profile(project, profile)
    claims = load_claims(project.root)
    claim = claims.get(tag.upper())
    if claim is None:
        near = difflib.get_close_matches(tag.upper(), claims, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise UsageError(f"no claim has the tag {tag!r}: {hint}the tags are {', '.join(claims)}")
    said(claim)
    typer.echo()
    entry = measured(project, claim, profile)
    if claim.checked_by is not None:
        typer.echo()
        depends(project, claim.checked_by, profile, entry)


def line(name: str, text: object) -> None:
    """``name`` and wrapped ``text`` in two columns; nothing for an empty text."""
    if text in (None, "", ()):
        return
    whole = " ".join(str(text).split())
    indent = " " * 16
    typer.echo(textwrap.fill(f"{name + ':':<15} {whole}", WIDTH, subsequent_indent=indent, break_long_words=False))


def said(claim: Claim) -> None:
    """What the claim's file holds."""
    console.heading(claim.tag)
    line("statement", claim.statement)
    line("quantifies", claim.quantifies)
    line("paper", f"{claim.paper}, {claim.place}")
    line("kind", claim.kind)
    line("source", {"ours": "ours"}.get(claim.source, claim.source.replace("_", " ")))
    for number in claim.printed:
        line("printed", f"{number.label}: {number.text} ({number.source.replace('_', ' ')})")
    line("released code", claim.released)
    line("expectation", claim.expectation.words())
    line("because", claim.expectation.reason)
    for change in claim.tolerance_history:
        line("changed", f"{change.date}: from '{change.before}' to '{change.after}': {change.reason}")
    if claim.drift is not None:
        line("may drift by", allowed_drift(claim))
        line("because", claim.drift.reason)
    line("control", claim.control)
    line("argument", claim.argument)
    line("refuted by", claim.refuted_by)
    line("stops holding", claim.stops_holding)
    line("unsaid", claim.under_specified)


def allowed_drift(claim: Claim) -> str:
    drift = claim.drift
    if drift is None:
        return ""
    named = ((drift.abs, ""), (drift.rel, " of the value"), (drift.between_seed_sd, " between-seed deviations"))
    parts = [f"{value:g}{unit}" for value, unit in named if value]
    return " + ".join(parts) or "nothing"


def measured(project: Project, claim: Claim, profile: str) -> Mapping[str, Any] | None:
    """Print verdict and regimes from the last ledger of ``profile``; return the claim's entry there."""
    from attention_companion.ledger.collect import latest_path, recollect

    if claim.not_checked is not None:
        line("verdict", f"not checked: {claim.not_checked}")
        return None
    if not latest_path(project, profile).is_file():
        line("verdict", f"unknown: no {profile} build yet (`make {'full' if profile == 'full' else 'book'}`)")
        return None
    ledger = recollect(project, profile)
    (entry,) = [entry for entry in ledger.claims if entry["tag"] == claim.tag]
    line("verdict", f"{entry['verdict']} ({profile}): {entry['why']}")
    accepted = ledger.baseline.get(claim.tag)
    standing = "{verdict}, accepted {date}: {reason}".format(**accepted) if accepted else "none yet"
    line("baseline", standing)
    for item in (*ledger.problems, *ledger.drift):
        if item["tag"] == claim.tag:
            line(str(item.get("kind")), item["text"])
    for record in entry["regimes"]:
        line("measured", record_line(record))
        line("  range", record["checked_range"])
        line("  figure", record["figure"])
        line("  page", f"notebooks/{claim.checked_by}.html#{record['cell']}")
        for name in ("control", "planted"):
            if record[name] is not None:
                line(f"  {name}", f"{number(record[name])}, {record[name]['outcome']}: {record[name]['description']}")
    return entry


def number(record: Mapping[str, Any]) -> str:
    """The deciding number with its interval; the exact form where there is one."""
    value = record["measured"] if record["measured_exact"] is None else record["measured_exact"]
    interval = record["interval"]
    return f"{value}" if interval is None else f"{value} in [{interval[0]}, {interval[1]}]"


def record_line(record: Mapping[str, Any]) -> str:
    """``regime: number, outcome (method)``."""
    regime = f"{record['regime']}: " if record["regime"] else ""
    sample = f", n = {record['n']}" if record.get("n") else ""
    return f"{regime}{number(record)}, {record['outcome']} ({record['method']}{sample})"


def depends(project: Project, notebook: str, profile: str, entry: Mapping[str, Any] | None) -> None:
    """Print what the result depends on, and why it was, or was not, run again."""
    line("notebook", f"notebooks/{notebook}.md ({profile})")
    results = stored_results(project, profile, notebook)
    used = (entry or {}).get("depends_on", {}).get("key")
    newest = next((result for result in results if result.key == used), results[0] if results else None)
    if newest is not None:
        digests = newest.content.get("digests") or {}
        line("result", f"{newest.key}, {newest.started}, {console.seconds(newest.seconds)}")
        values = newest.content.get("parameters") or {}
        line("parameters", ", ".join(f"{name} = {value!r}" for name, value in values.items()) or "none")
        line("files", ", ".join(digests.get("source") or {}) or "none under src/")
        line("data", ", ".join(f"{k} ({v.get('kind')})" for k, v in (digests.get("data") or {}).items()) or "none")
        line("versions", "constraints.txt")
    line("was run", why_was_run(newest, results))
    again = why_run_again(project, profile, notebook)
    line("next build", f"runs it: {again}" if again else "does not run it again: nothing it depends on has changed")


def why_was_run(used: Stored | None, results: list[Stored]) -> str:
    """What set the result in use apart from the one before it, if that is still kept."""
    if used is None:
        return "never under this profile"
    older = [result for result in results if result.started < used.started]
    if not older:
        return "because there was no earlier result (or none is kept)"
    parts = (older[0].content, used.content)
    changed = differences(*(p.get("digests") or {} for p in parts), *(p.get("parameters") or {} for p in parts))
    return f"again after {older[0].key} because " + ("; ".join(changed) or "that result was not whole any more")


def why_run_again(project: Project, profile: str, notebook: str) -> str | None:
    """Why the next build would run ``notebook`` under ``profile``, or None if its stored result serves."""
    from attention_companion.execution.keys import MissingStamp, compute_key
    from attention_companion.execution.results import find_valid

    try:
        now = compute_key(project, notebook, profile)
    except MissingStamp as error:
        return describe(error)
    if find_valid(project, notebook, profile, now.key) is not None:
        return None
    results = stored_results(project, profile, notebook)
    if not results:
        return "there is no result yet"
    if any(result.key == now.key for result in results):
        return f"the result {now.key} is damaged: a file of it was changed or removed after the run"
    newest = results[0].content
    changed = differences(newest.get("digests") or {}, now.digests, newest.get("parameters") or {}, now.parameters)
    return "; ".join(changed) or "its name, profile or the form of results changed"
