"""``companion doctor``: run every examination, print what was found, and say how to mend what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from attention_companion.cli.errors import describe
from attention_companion.cli.findings import Finding, broken

if TYPE_CHECKING:
    from attention_companion.execution.project import Project

MARKS = {"ok": "ok", "note": "note", "broken": "BROKEN"}
Examination = Callable[["Project"], Sequence[Finding]]


def examinations() -> dict[str, Examination]:
    """Every examination by name, cheap ones first."""
    from attention_companion.cli import doctor_machine, doctor_project

    return {
        "python": doctor_machine.python,
        "versions": doctor_machine.versions,
        "threads": doctor_machine.threads,
        "disk": doctor_machine.disk,
        "browser": doctor_machine.browser,
        "kernel": doctor_machine.kernel,
        "git": doctor_project.git,
        "notebooks": doctor_project.notebooks,
        "pairs": doctor_project.pairs,
        "data": doctor_project.data,
        "results": doctor_project.results,
    }


def examine(project: Project) -> bool:
    """Print one line for each finding; return whether nothing essential is broken."""
    findings: list[Finding] = []
    for name, look in examinations().items():
        for finding in carefully(name, look, project):
            findings.append(finding)
            typer.echo(f"{MARKS[finding.state]:<7} {finding.what}: {finding.seen}")
            if finding.mend:
                typer.echo(f"{'':<7}   mend: {finding.mend}")
    count = sum(finding.state == "broken" for finding in findings)
    notes = sum(finding.state == "note" for finding in findings)
    typer.echo()
    typer.echo(f"{count} broken, {notes} worth knowing, {len(findings) - count - notes} well")
    return count == 0


def carefully(name: str, look: Examination, project: Project) -> Sequence[Finding]:
    """The findings of one examination. An examination that fails is itself a finding: the others still run."""
    try:
        return look(project)
    except Exception as error:
        return [broken(name, f"could not be looked at: {describe(error)}", "mend what it names, then ask again")]
