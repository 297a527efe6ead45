"""Run one notebook under guard and keep its result: the command that the build calls for every notebook.

``python -m attention_companion.execution.runner NOTEBOOK --profile quick [--key KEY]`` exits with 0 when the result
exists (made now or valid already), 1 when the run broke (the message shows where), 2 when it was asked wrongly, and
3 when its inputs changed under it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attention_companion.execution import provenance
from attention_companion.execution.closure import ClosureError, computed_imports
from attention_companion.execution.environment import kernel_environment
from attention_companion.execution.guards import BrokenRun, check_executed
from attention_companion.execution.kernel import KernelRun, Progress, execute
from attention_companion.execution.keys import CUSTOM, SCHEMA, MissingStamp, ResultKey, compute_key
from attention_companion.execution.parameters import ParameterError, inject, read_parameters
from attention_companion.execution.processes import recorded
from attention_companion.execution.project import Project, ProjectError, UnknownNotebook, UnknownProfile
from attention_companion.execution.results import (
    EXECUTED,
    PARTIAL_PREFIX,
    RECORDS,
    RESULT,
    Result,
    file_digests,
    find_valid,
    load,
    publish,
    read_executed,
    result_dir,
    verify,
)
from attention_companion.execution.text import NotebookError, assign_ids, read_notebook

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_TRACEBACK_LINES = 20
_FAILED_KEPT = 10
_SCRATCH = ".scratch"


class ChangedInputs(BrokenRun):
    """The sources, data or parameters changed between the key's computation and the end of the run."""


class OutputRefused(ValueError):
    """The output folder asked for holds something else."""


@dataclass(frozen=True)
class _Order:
    """One run as asked for, all names resolved."""

    project: Project
    notebook: str
    profile: str
    """The label in the result: the profile run, or ``custom`` where parameters differ from it."""
    base_profile: str
    overrides: Mapping[str, Any]
    key: ResultKey
    threads: int
    extra_env: Mapping[str, str]
    out: Path | None
    progress: Progress


def run(
    project: Project,
    notebook: str,
    profile: str,
    parameters: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    *,
    threads: int = 1,
    extra_env: Mapping[str, str] | None = None,
    expected_key: str | None = None,
    progress: Progress | None = None,
) -> Result:
    """The result of ``notebook`` under ``profile``; executes unless a valid one exists.

    Without ``out`` the result enters ``results/<profile>/<notebook>/<key>``. With ``out`` the notebook is always
    executed and the result written to that folder; only then may ``parameters`` differ from the profile's (the result
    is labelled ``custom``) or ``threads`` and ``extra_env`` differ from the guarded defaults (recorded in the
    provenance, not in the key). ``profile`` may be ``custom``: the notebook's defaults, then ``parameters``.

    Raises
    ------
    BrokenRun
        If a cell raises, the kernel dies, or the run fails a guard; what there is of it is kept in results/failed.
    ChangedInputs
        If the key is not ``expected_key``, or inputs changed during the run.
    ParameterError, UnknownNotebook, UnknownProfile, ClosureError, NotebookError, MissingStamp
        If the inputs do not give a key.
    OutputRefused
        If ``out`` is a folder that holds anything but an earlier run.
    ValueError
        If parameters, threads, extra_env or the profile ``custom`` are given without ``out``.
    """
    overrides = dict(parameters or {})
    extra = dict(extra_env or {})
    if out is None and (overrides or extra or threads != 1 or profile == CUSTOM):
        raise ValueError(
            "a run with its own parameters, threads or environment never enters results/: give it an output folder"
        )
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    spec = project.notebook(notebook)
    of_profile = {} if profile == CUSTOM else dict(spec.overrides(profile))
    label = CUSTOM if overrides else profile
    key = compute_key(project, notebook, label, {**of_profile, **overrides} if label == CUSTOM else None)
    if expected_key is not None and key.key != expected_key:
        raise ChangedInputs(
            f"{notebook} ({profile}): the key is now {key.key}, asked for was {expected_key}: a source, data set or "
            "parameter changed while the build ran. Build again."
        )
    target = None if out is None else Path(out).resolve()
    if target is not None:
        _check_out(target)
    else:
        ready = find_valid(project, notebook, profile, key.key)
        if ready is not None:
            return ready
    order = _Order(
        project, notebook, label, profile, overrides, key, threads, extra, target, progress or (lambda _i, _n: None)
    )
    return _run(order)


def _run(order: _Order) -> Result:
    final = order.out or result_dir(order.project, order.notebook, order.profile, order.key.key)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.parent / f"{PARTIAL_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    with recorded(order.project, partial, order.notebook, order.profile, order.out is None) as job:
        partial.mkdir()
        try:
            _execute_into(partial, order, job.add_kernel)
        except BrokenRun as error:
            kept = _keep_failed(order, partial)
            raise type(error)(f"{error}\nThe partial run is kept in {kept}") from error
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        if order.out is None:
            # Another runner may have finished the same key meanwhile; the first valid one stays.
            ready = find_valid(order.project, order.notebook, order.profile, order.key.key)
            if ready is not None:
                shutil.rmtree(partial)
                return ready
        else:
            _check_out(final)
        publish(partial, final)
    return load(final)


def _execute_into(partial: Path, order: _Order, on_kernel: Any) -> None:
    """Execute, check and describe the run in ``partial``; everything but the rename."""
    spec = order.project.notebook(order.notebook)
    scratch = partial / _SCRATCH
    started = datetime.now(UTC).isoformat(timespec="seconds")
    begin = time.monotonic()
    for attempt in (1, 2):
        (scratch / "jupyter").mkdir(parents=True)
        (scratch / "ipython").mkdir()
        env = kernel_environment(
            os.environ,
            root=order.project.root,
            run_dir=partial.resolve(),
            scratch=scratch,
            notebook=order.notebook,
            profile=order.profile,
            threads=order.threads,
            extra=order.extra_env,
        )
        kernel_run = KernelRun(env, scratch, partial / "kernel.log", on_kernel)
        notebook = read_notebook(spec.source)
        inject(notebook, read_parameters(spec.source), order.key.parameters)
        try:
            execute(notebook, partial / EXECUTED, kernel_run, spec.source.parent, order.progress)
        except BrokenRun as error:
            if attempt == 1 and kernel_run.port_was_taken():
                shutil.rmtree(scratch)
                kernel_run.log.unlink()
                continue
            raise type(error)(_describe(order, partial, str(error), kernel_run)) from error
        except Exception as error:
            described = _describe_cell_error(order, error)
            if described is None:
                raise
            raise BrokenRun(described) from error
        break
    seconds = time.monotonic() - begin
    _finish(partial, order, started, seconds)


def _finish(partial: Path, order: _Order, started: str, seconds: float) -> None:
    """From a notebook that ran to its end to a folder ready to be renamed."""
    where = f"notebook {order.notebook} ({order.profile})"
    kernel = _kernel_report(partial, where)
    _check_kernel(kernel, order, where)
    executed = _scrub(partial / EXECUTED, order.key.parameters)
    try:
        check_executed(executed)
    except BrokenRun as error:
        raise BrokenRun(f"{where}: {error}") from error
    records = _records(partial, where)
    again = compute_key(
        order.project,
        order.notebook,
        order.profile,
        order.key.parameters if order.profile == CUSTOM else None,
    )
    if again.key != order.key.key:
        changed = [name for name, digest in again.digests.items() if digest != order.key.digests[name]]
        raise ChangedInputs(f"{where}: {', '.join(changed)} changed during the run. Run it again.")
    (partial / RECORDS).write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for leftover in ("kernel.json", "kernel.log", "records.jsonl"):
        (partial / leftover).unlink(missing_ok=True)
    shutil.rmtree(partial / _SCRATCH)
    about = provenance.collect(
        order.project.root, kernel, started=started, seconds=seconds, threads=order.threads
    )
    if order.extra_env:
        about["extra_env"] = dict(order.extra_env)
    if order.profile != order.base_profile:
        about["base_profile"] = order.base_profile
        about["changed_parameters"] = sorted(order.overrides)
    info = {
        "schema": SCHEMA,
        "key": order.key.key,
        "notebook": order.notebook,
        "profile": order.profile,
        "parameters": order.key.parameters,
        "digests": order.key.digests,
        "provenance": about,
        "files": file_digests(partial),
    }
    (partial / RESULT).write_text(json.dumps(info, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    verify(load(partial))


def _kernel_report(partial: Path, where: str) -> dict[str, Any]:
    path = partial / "kernel.json"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        log = partial / "kernel.log"
        tail = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.exists() else ""
        raise BrokenRun(f"{where}: the kernel wrote no report, so its guards did not load.\n{tail}") from error


def _check_kernel(kernel: dict[str, Any], order: _Order, where: str) -> None:
    """The kernel was this environment's, ran the code that was hashed, and kept to its threads."""
    if kernel["executable"] != sys.executable:
        raise BrokenRun(
            f"{where} ran in {kernel['executable']}, not in this environment's {sys.executable}: "
            "unset the settings that redirect Python and run again"
        )
    torch_threads = kernel["threads"]["torch"]
    if torch_threads > order.threads:
        raise BrokenRun(f"{where}: torch used {torch_threads} threads, allowed are {order.threads}: set none in cells")
    hashed = {str((order.project.root / name).resolve()) for name in order.key.digests["source"]}
    strays = {name: file for name, file in kernel["modules"].items() if file not in hashed}
    if strays:
        listed = "\n".join(f"  {name} ({file or 'no file'})" for name, file in sorted(strays.items()))
        dynamic = computed_imports(order.project, order.project.notebook(order.notebook).source)
        hint = "".join(f"\n  import with a computed name: {call}" for call in dynamic)
        raise BrokenRun(
            f"{where}: the kernel loaded modules that its key does not cover:\n{listed}{hint}\n"
            "An edit of these files would not re-run the notebook. Import them by an import statement that names them "
            "(in the notebook or in a file it imports), at the top or inside the function that needs them."
        )


def _scrub(path: Path, parameters: dict[str, Any]) -> Any:
    """Rewrite the executed notebook without machine paths, times and random ids; returns it."""
    import nbformat

    notebook = read_executed(path)
    notebook.metadata["papermill"] = {"parameters": parameters}
    notebook.metadata.pop("jupytext", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
    assign_ids(notebook)
    path.write_text(nbformat.writes(notebook, version=4) + "\n", encoding="utf-8")
    return notebook


def _records(partial: Path, where: str) -> list[Any]:
    path = partial / "records.jsonl"
    if not path.exists():
        return []
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise BrokenRun(f"{where}: line {number} of its records is not JSON: {error}") from error
    return records


def _describe(order: _Order, partial: Path, message: str, kernel_run: KernelRun) -> str:
    """A dead kernel: which cell was running and what the process printed last."""
    text = f"notebook {order.notebook} ({order.profile}): {message}"
    if kernel_run.cells_started and (partial / EXECUTED).exists():
        source = _nth_code_cell(read_executed(partial / EXECUTED), kernel_run.cells_started)
        text += f"\nwhile running code cell {kernel_run.cells_started}:\n{_indent(source)}"
    tail = kernel_run.log_tail()
    return text + (f"\nThe kernel printed last:\n{_indent(_ANSI.sub('', tail))}" if tail else "")


def _describe_cell_error(order: _Order, error: Exception) -> str | None:
    """A cell that raised, in papermill's exception; None for any other exception."""
    from papermill.exceptions import PapermillExecutionError

    if not isinstance(error, PapermillExecutionError):
        return None
    lines = _ANSI.sub("", "\n".join(error.traceback)).splitlines()[-_TRACEBACK_LINES:]
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


def _keep_failed(order: _Order, partial: Path) -> Path:
    """Move the partial run to results/failed for debugging; the newest ten stay."""
    folder = order.project.results_root / "failed"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(partial / _SCRATCH, ignore_errors=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    kept = folder / f"{order.notebook}-{stamp}-{secrets.token_hex(2)}"
    shutil.move(partial, kept)
    entries = sorted((entry for entry in folder.iterdir() if entry.is_dir()), key=lambda e: e.name[-20:])
    for old in entries[:-_FAILED_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return kept


def _check_out(out: Path) -> None:
    """An output folder may be new, empty, or an earlier run of ours (which is then replaced)."""
    if not out.exists():
        return
    if not out.is_dir():
        raise OutputRefused(f"{out} is a file: name a folder for the run's result")
    if not any(out.iterdir()):
        out.rmdir()
        return
    try:
        load(out)
    except BrokenRun as error:
        raise OutputRefused(f"{out} is not empty and no earlier run: name another folder ({error})") from error


def main(arguments: list[str] | None = None) -> int:
    """The module's command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m attention_companion.execution.runner", description=__doc__)
    parser.add_argument("notebook", help="a name from notebooks/notebooks.yml")
    parser.add_argument("--profile", required=True)
    parser.add_argument("--key", help="the key the build expects; another one means the inputs changed")
    parser.add_argument("--root", help="the project's folder (default: found from the working directory)")
    asked = parser.parse_args(arguments)
    # A polite kill cleans up like an exception does: the kernel is shut down, the partial folder removed.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))

    def progress(cell: int, total: int) -> None:
        print(f"{asked.notebook} ({asked.profile}) cell {cell}/{total}", flush=True)

    try:
        project = Project.find(asked.root)
        result = run(project, asked.notebook, asked.profile, expected_key=asked.key, progress=progress)
    except ChangedInputs as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except BrokenRun as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (
        ClosureError, MissingStamp, NotebookError, ParameterError, ProjectError, UnknownNotebook, UnknownProfile,
    ) as error:  # fmt: skip
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{asked.notebook} ({asked.profile}) done in {result.provenance['seconds']:.1f} s: {result.path}", flush=True)
    return 0


__all__ = ["ChangedInputs", "OutputRefused", "main", "run"]

if __name__ == "__main__":
    sys.exit(main())
