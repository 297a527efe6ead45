"""Printing: tables drawn on a terminal, plain aligned columns everywhere else, so that pipes and logs stay readable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console


def on_terminal() -> bool:
    """Whether standard output is a terminal; decides between drawn and plain output."""
    return sys.stdout.isatty()


def terminal() -> Console:
    """A rich console on the standard output of this moment (tests and pipes replace it)."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> None:
    """Print ``rows`` under ``columns``. Plain output keeps every cell whole; a terminal wraps the last column."""
    if on_terminal():
        from rich.markup import escape
        from rich.table import Table

        drawn = Table(title=escape(title) if title else None, title_justify="left", header_style="bold")
        for index, column in enumerate(columns):
            drawn.add_column(column, overflow="fold", no_wrap=index == 0)
        for row in rows:
            drawn.add_row(*(escape(cell) for cell in row))
        terminal().print(drawn)
        return
    if title:
        typer.echo(indent + title)
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        typer.echo((indent + "  ".join(cells)).rstrip())


def heading(text: str) -> None:
    """A line that starts a group of output."""
    typer.secho(text, bold=True) if on_terminal() else typer.echo(text)


@contextmanager
def cells(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with (cell, number of cells) as cells run: a bar on a terminal, lines elsewhere."""
    if not on_terminal():
        yield lambda cell, total: typer.echo(f"  {what}: cell {cell} of {total}")
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what, markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=terminal(), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def show(cell: int, total: int) -> None:
            progress.update(task, completed=cell, total=total)

        yield show


def seconds(value: float | None) -> str:
    """``12.3 s``, ``4 min 05 s``; a dash for None."""
    if value is None:
        return "-"
    if value < 99.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s"


def size(value: float | None) -> str:
    """Bytes in decimal units with one digit, ``310.0 MB``; a dash for None."""
    if value is None:
        return "-"
    for unit in ("B", "kB", "MB"):
        if abs(value) < 999.95:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
