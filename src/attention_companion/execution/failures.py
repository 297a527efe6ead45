"""What a person is told about a run that broke, and where its remains are kept.

The message names the notebook, shows the cell and the last lines of the traceback; the partial run is moved to
results/failed/, never left where a result could be looked for.
"""

from __future__ import annotations

import re
import secrets
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attention_companion.execution.kernel import KernelRun
from attention_companion.execution.order import Order
from attention_companion.execution.results import EXECUTED, read_executed

SCRATCH = ".scratch"
TRACEBACK_LINES = 20
FAILED_KEPT = 10
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def describe_death(order: Order, partial: Path, message: str, kernel_run: KernelRun) -> str:
    """A dead kernel: which cell was running and what the process printed last."""
    text = f"notebook {order.notebook} ({order.profile}): {message}"
    if kernel_run.cells_started and (partial / EXECUTED).exists():
        source = _nth_code_cell(read_executed(partial / EXECUTED), kernel_run.cells_started)
        text += f"\nwhile running code cell {kernel_run.cells_started}:\n{_indent(source)}"
    tail = kernel_run.log_tail()
    return text + (f"\nThe kernel printed last:\n{_indent(_ANSI.sub('', tail))}" if tail else "")


def describe_cell_error(order: Order, error: Exception) -> str | None:
    """A cell that raised, in papermill's exception; None for any other exception."""
    from papermill.exceptions import PapermillExecutionError

    if not isinstance(error, PapermillExecutionError):
        return None
    lines = _ANSI.sub("", "\n".join(error.traceback)).splitlines()[-TRACEBACK_LINES:]
    return (
        f"notebook {order.notebook} ({order.profile}): cell [{error.exec_count}] raised {error.ename}: "
        f"{_ANSI.sub('', str(error.evalue))}\nThe cell:\n{_indent(error.source)}\n"
        f"The last lines of the traceback:\n{_indent(chr(10).join(lines))}"
    )


def _nth_code_cell(notebook: Any, number: int) -> str:
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    return str(sources[number - 1]) if number <= len(sources) else ""


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def keep_failed(order: Order, partial: Path) -> Path:
    """Move the partial run to results/failed for debugging; the newest ten stay."""
    folder = order.project.results_root / "failed"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(partial / SCRATCH, ignore_errors=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    kept = folder / f"{order.notebook}-{stamp}-{secrets.token_hex(2)}"
    shutil.move(partial, kept)
    entries = sorted((entry for entry in folder.iterdir() if entry.is_dir()), key=lambda e: e.name[-20:])
    for old in entries[:-FAILED_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return kept
