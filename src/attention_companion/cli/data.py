"""``companion data``: what is here, fetch, verify."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from attention_companion.cli import console
from attention_companion.cli.errors import UsageError

if TYPE_CHECKING:
    from attention_companion.execution.project import Project


def chosen(name: str | None) -> tuple[str, ...]:
    """The sets asked for: one, or all."""
    from attention_companion import datasets

    if name is None:
        return datasets.NAMES
    if name not in datasets.NAMES:
        raise UsageError(f"there is no data set {name!r}; the names are {', '.join(datasets.NAMES)}")
    return (name,)


def status() -> None:
    """A table of the sets, and under it what their licences ask for."""
    from attention_companion import datasets

    states = [datasets.status(name) for name in datasets.NAMES]
    rows = [[state.name, state.kind, str(state.path or "-"), state.detail] for state in states]
    console.table("", ["set", "here", "where", "detail"], rows)
    typer.echo()
    for name, licence in datasets.LICENCES.items():
        typer.echo(f"{name}: {licence}")


def write_stamp(project: Project, name: str) -> None:
    """Tell the build which images are here: the results of notebooks that load them are keyed by this file."""
    from attention_companion import datasets
    from attention_companion.datasets.cache import write_atomically

    text = json.dumps(datasets.stamp(name), indent=1, sort_keys=True) + "\n"
    write_atomically(project.stamps / f"{name}.json", text)


def fetch(project: Project, name: str | None) -> bool:
    """Fetch and stamp the sets asked for; whether each is here complete afterwards."""
    from attention_companion import datasets

    whole = True
    for one in chosen(name):
        state = datasets.fetch(one, typer.echo)
        typer.echo(str(state))
        write_stamp(project, one)
        whole = whole and state.kind == "full"
    if not whole:
        typer.echo(
            "Not every set is here complete. The book still builds; claims that need the missing images say "
            "'not checked: data unavailable'.",
            err=True,
        )
    return whole


def verify(name: str | None) -> bool:
    """Decode and digest the sets asked for; whether each is here, complete, and as published."""
    from attention_companion import datasets

    well = True
    for one in chosen(name):
        found = datasets.verify(one)
        typer.echo(str(found))
        if not found.ok:
            typer.echo(f"{'':2}mend: companion data fetch {one}")
        well = well and found.ok
    return well
