"""``companion list``: notebooks, their parameters, what each profile changes, and what the last run cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from attention_companion.cli import console
from attention_companion.cli.stored import pick_notebook, stored_results

if TYPE_CHECKING:
    from attention_companion.execution.parameters import Parameter
    from attention_companion.execution.project import NotebookSpec, Project


def show(project: Project, only: str | None = None) -> None:
    """Print every notebook of ``project``, or the one that ``only`` names or begins."""
    from attention_companion.execution.parameters import read_parameters

    specs = project.notebooks if only is None else (pick_notebook(project, only),)
    for index, spec in enumerate(specs):
        if index:
            typer.echo()
        console.heading(spec.name)
        typer.echo(f"  part {spec.part}; data: {', '.join(spec.data) or 'none'}")
        for line in costs(project, spec):
            typer.echo(f"  {line}")
        parameters = read_parameters(spec.source)
        columns, rows = parameter_table(parameters, spec.profiles)
        if rows:
            console.table("", columns, rows, indent="  ")
        else:
            typer.echo("  no parameters")


def parameter_table(
    parameters: Sequence[Parameter], profiles: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: name, type, default, one column for each profile that changes anything, help."""
    changing = [name for name, overrides in profiles.items() if overrides]
    columns = ["parameter", "type", "default", *changing, "meaning"]
    rows = []
    for parameter in parameters:
        changed = [written(profiles[name].get(parameter.name)) for name in changing]
        rows.append([parameter.name, parameter.type, written(parameter.default), *changed, parameter.help])
    return columns, rows


def written(value: Any) -> str:
    """A value as `-p name=value` takes it; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(written(item) for item in value) + "]"
    return str(value)


def costs(project: Project, spec: NotebookSpec) -> list[str]:
    """One line a profile: what its newest stored run cost, or that there is none."""
    lines = []
    for profile in spec.profiles:
        results = stored_results(project, profile, spec.name)
        if not results:
            lines.append(f"profile {profile}: not run yet")
            continue
        newest = results[0]
        cost = f"{console.seconds(newest.seconds)}, peak memory {console.size(newest.peak_memory)}"
        lines.append(f"profile {profile}: last run took {cost} ({newest.started or 'date unknown'})")
    return lines
