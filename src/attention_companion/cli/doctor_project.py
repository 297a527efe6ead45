"""What ``companion doctor`` looks at in the project: git, notebooks, data, results."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attention_companion.cli.findings import Finding, broken, note, ok

if TYPE_CHECKING:
    from attention_companion.execution.project import Project


def git(project: Project) -> Sequence[Finding]:
    """Which commit results will name, and whether the tree is as committed."""

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=project.root, capture_output=True, text=True, timeout=60)

    try:
        head = ask("rev-parse", "--short", "HEAD")
    except FileNotFoundError:
        return [note("git", "not installed: results cannot name the commit they come from", "install git")]
    if head.returncode != 0:
        return [note("git", "not a git clone: results cannot name the commit they come from", "work in a clone")]
    changed = [line for line in ask("status", "--porcelain").stdout.splitlines() if line]
    if changed:
        return [note("git", f"at {head.stdout.strip()} with {len(changed)} uncommitted changes; results will say so")]
    return [ok("git", f"at {head.stdout.strip()}, nothing uncommitted")]


def notebooks(project: Project) -> Sequence[Finding]:
    """Whether every notebook of the list is there and its parameters can be read."""
    from attention_companion.execution.parameters import NotebookError, ParameterError, validate_source

    findings = []
    for spec in project.notebooks:
        try:
            validate_source(spec.source)
        except (NotebookError, ParameterError) as error:
            findings.append(broken("notebooks", str(error), "mend the notebook's text; CONTRIBUTING.md shows the form"))
    return findings or [ok("notebooks", f"{len(project.notebooks)} listed, all readable")]


def pairs(project: Project) -> Sequence[Finding]:
    """Whether the committed .ipynb files hold the same cells as the texts."""
    from attention_companion.execution.pairing import check_pairs

    complaints = check_pairs(project)
    mend = "python -m attention_companion.execution.pairing --write"
    findings = [note("pairs", complaint, mend) for complaint in complaints]
    return findings or [ok("pairs", "every .ipynb matches its text")]


def data(project: Project) -> Sequence[Finding]:
    """Whether the image sets are here, complete, or only as the bundled sample."""
    from attention_companion import datasets

    wanted = list(dict.fromkeys(name for spec in project.notebooks for name in spec.data))
    findings = []
    for name in wanted:
        kind = datasets.status(name).kind
        if kind == "full":
            findings.append(ok("data", f"{name}: here, complete"))
            continue
        users = [spec.name for spec in project.notebooks if name in spec.data]
        seen = f"{name}: {'only the bundled sample' if kind == 'sample' else 'not here'}, needed by {', '.join(users)}"
        findings.append(note("data", seen, f"companion data fetch {name}"))
    return findings or [ok("data", "no notebook needs any")]


def results(project: Project) -> Sequence[Finding]:
    """Which notebooks the next quick build would run again, and why a result kept from before does not serve."""
    from attention_companion.cli.claims import why_run_again

    findings = []
    for spec in project.notebooks:
        if "quick" in spec.profiles:
            reason = why_run_again(project, "quick", spec.name)
            if reason:
                findings.append(note("results", f"the next quick build runs {spec.name}: {reason}", "make book"))
    return findings or [ok("results", "the quick results of every notebook are current")]
