"""``companion check`` and ``companion accept``: the last build's ledger against the accepted baseline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from attention_companion.cli.stored import pick_profile

if TYPE_CHECKING:
    from attention_companion.execution.project import Project
    from attention_companion.ledger.collect import Ledger


def in_ci() -> bool:
    """With CI=true a claim that could not be compared counts as drift."""
    return os.environ.get("CI", "").lower() in ("true", "1")


def check(project: Project, profile: str, markdown: bool) -> bool:
    """Print what differs between the last ledger of ``profile`` and its baseline; return whether all is well."""
    from attention_companion.ledger.collect import recollect
    from attention_companion.ledger.comparison import Drift, drift_markdown, failing

    ledger = recollect(project, pick_profile(project, profile))
    drift = [Drift(**item) for item in ledger.drift]
    fails = failing(drift, ci=in_ci())
    if markdown:
        typer.echo(drift_markdown(drift, profile))
        for problem in ledger.problems:
            typer.echo(f"- **{problem['kind']}**: {problem['text']}")
    else:
        for problem in ledger.problems:
            typer.echo(f"{problem['kind']}: {problem['text']}")
        for item in drift:
            typer.echo(f"{'drift' if item in fails else 'note'}: {item.text}")
        typer.echo(summary(ledger, profile, len(fails)))
    # In a job summary as well: after a build that broke off, the ledger may be an older one from the cache.
    for note in outdated(project, ledger, profile):
        typer.echo(f"- {note}" if markdown else note)
    return not fails and not ledger.problems


def summary(ledger: Ledger, profile: str, fails: int) -> str:
    """The closing line: how many claims are checked, and what is to be done."""
    checked = sum(1 for claim in ledger.claims if claim["regimes"])
    stand = f"{profile}: {len(ledger.claims)} claims, {checked} checked"
    if not fails and not ledger.problems:
        return f"{stand}; all agree with the accepted baseline"
    wrong = f"{fails} differ from the accepted baseline, {len(ledger.problems)} problems"
    return f"{stand}; {wrong}. README.md, 'When CI says drift', says what to do."


def outdated(project: Project, ledger: Ledger, profile: str) -> list[str]:
    """One line for each notebook whose result in the ledger is not the one that a build would use now."""
    from attention_companion.cli.claims import why_run_again

    lines = []
    for name in ledger.notebooks:
        if any(spec.name == name for spec in project.notebooks):
            reason = why_run_again(project, profile, name)
            if reason:
                lines.append(f"note: {name} has changed since ({reason}); build again to compare what it says now")
    return lines


def accept(project: Project, profile: str, tags: Sequence[str], reason: str) -> None:
    """Write the entries of ``tags`` to the baseline of ``profile``; all of them or none."""
    from attention_companion.ledger.baseline import accept as accept_claims

    path = accept_claims(project, pick_profile(project, profile), tags, reason)
    typer.echo(f"accepted {', '.join(tags)} in {path.relative_to(project.root)}: commit that file")
