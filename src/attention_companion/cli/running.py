"""``companion run``: one notebook with a person's own parameters, into a folder of its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from attention_companion.cli import console
from attention_companion.cli.errors import UsageError
from attention_companion.cli.stored import pick_notebook

if TYPE_CHECKING:
    from attention_companion.execution.project import NotebookSpec, Project
    from attention_companion.execution.results import Result


def run(project: Project, asked: str, assignments: Sequence[str], profile: str, out: Path | None) -> None:
    """Run the notebook that ``asked`` names or begins and say where the run lies and what it says of its claims.

    Raises
    ------
    UsageError, ParameterError, UnknownProfile
        If the notebook, a parameter, the profile or the folder will not do; nothing was run then.
    BrokenRun
        If the run broke.
    """
    from attention_companion.execution import runner
    from attention_companion.execution.parameters import parse_assignment, read_parameters

    spec = pick_notebook(project, asked)
    known = read_parameters(spec.source)
    changed = dict(parse_assignment(text, known) for text in assignments)
    target = output_folder(project, spec, out)
    stamp_data(project, spec)
    values = ", ".join(f"{name} = {value!r}" for name, value in changed.items()) or "no parameter changed"
    typer.echo(f"{spec.name}, profile {profile}, {values}")
    with console.cells(spec.name) as progress:
        result = runner.run(project, spec.name, profile, changed, target, progress=progress)
    report(result, target)
    for line in verdict_lines(project, result):
        typer.echo(line)


def output_folder(project: Project, spec: NotebookSpec, out: Path | None) -> Path:
    """Where the run goes. The folders that hold the book's own results are refused: a run here is not one of them."""
    own = project.results_root / "custom"
    if out is None:
        # Two runs may start within one second.
        return own / f"{spec.name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    target = out.resolve()
    kept = (project.results_root, project.root / "book", project.root / "notebooks", project.root / "src")
    if any(target.is_relative_to(folder) for folder in kept) and not target.is_relative_to(own):
        raise UsageError(f"--out {out} lies among the project's own files: name another folder, or none")
    return target


def stamp_data(project: Project, spec: NotebookSpec) -> None:
    """Write the stamps of complete image sets that no build has stamped yet; refuse what is not here."""
    from attention_companion import datasets
    from attention_companion.cli.data import write_stamp

    for name in spec.data:
        if not (project.stamps / f"{name}.json").is_file():
            if datasets.status(name).kind != "full":
                raise UsageError(f"{spec.name} needs the data set {name}: `companion data fetch {name}` first")
            write_stamp(project, name)


def report(result: Result, target: Path) -> None:
    """Where everything lies, and what it cost."""
    cost = result.provenance
    seconds, memory = console.seconds(cost.get("seconds")), console.size(cost.get("peak_memory_bytes"))
    typer.echo(f"done in {seconds}, peak memory {memory}")
    typer.echo(f"output:   {target}")
    typer.echo(f"notebook: {result.executed}")
    for picture in result.figures:
        if picture.suffix == ".svg":
            typer.echo(f"figure:   {picture}")


def verdict_lines(project: Project, result: Result) -> Iterator[str]:
    """For each claim that the run recorded: what it measured, and the verdict these records alone would give."""
    from attention_companion.cli.claims import record_line
    from attention_companion.ledger.claims import load_claims
    from attention_companion.ledger.verdicts import CONTRADICTED, NOT_REPRODUCED, RegimeOutcome, verdict

    claims = load_claims(project.root) if result.records else {}
    for tag in dict.fromkeys(record["tag"] for record in result.records):
        records = [record for record in result.records if record["tag"] == tag]
        here = [record for record in records if record["outcome"] != "unavailable"]
        if not here:
            yield f"{tag}: not checked: {records[0]['checked_range']}"
            continue
        claim = claims[tag]
        found = verdict(claim, [RegimeOutcome(r["regime"], r["outcome"], r["method"]) for r in here])
        yield f"{tag}: {found.word} (in this run only): {found.why}"
        planted = any(r["planted"] is not None and r["planted"]["outcome"] == "met" for r in here)
        if found.word in (CONTRADICTED, NOT_REPRODUCED) and not planted:
            yield "  BUT no planted true case shows that this check could have confirmed it: no verdict of a build"
        for record in here:
            yield f"  {record_line(record)}; expected: {claim.expectation.words()}"
            control = record["control"]
            if control is not None and control["outcome"] == "met":
                yield f"  BUT the control passes, so this says nothing: {control['description']}"
    if not result.records:
        yield "this notebook checks no claim"
