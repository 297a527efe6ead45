"""Run one notebook under guard and keep its result: the command that the build calls for every notebook.

``python -m attention_companion.execution.runner NOTEBOOK --profile quick [--key KEY]`` exits with 0 when the result
exists (made now or valid already), 1 when the run broke (the message shows where), 2 when it was asked wrongly, and
3 when its inputs changed under it.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attention_companion.execution.closure import ClosureError
from attention_companion.execution.environment import kernel_environment
from attention_companion.execution.failures import SCRATCH, describe_cell_error, describe_death, keep_failed
from attention_companion.execution.finish import ChangedInputs, finish
from attention_companion.execution.guards import BrokenRun
from attention_companion.execution.kernel import KernelRun, execute
from attention_companion.execution.keys import CUSTOM, MissingStamp, compute_key
from attention_companion.execution.order import Order, Progress
from attention_companion.execution.parameters import ParameterError, inject, read_parameters
from attention_companion.execution.processes import recorded
from attention_companion.execution.project import Project, ProjectError, UnknownNotebook, UnknownProfile
from attention_companion.execution.results import (
    EXECUTED,
    PARTIAL_PREFIX,
    Result,
    find_valid,
    load,
    publish,
    result_dir,
)
from attention_companion.execution.text import NotebookError, read_notebook


class OutputRefused(ValueError):
    """The output folder asked for holds something else."""


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
    order = Order(
        project, notebook, label, profile, overrides, key, threads, extra, target, progress or (lambda _i, _n: None)
    )
    return _run(order)


def _run(order: Order) -> Result:
    final = order.out or result_dir(order.project, order.notebook, order.profile, order.key.key)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.parent / f"{PARTIAL_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    with recorded(order.project, partial, order.notebook, order.profile, order.out is None) as job:
        partial.mkdir()
        try:
            _execute_into(partial, order, job.add_kernel)
        except BrokenRun as error:
            kept = keep_failed(order, partial)
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


def _execute_into(partial: Path, order: Order, on_kernel: Callable[[int], None]) -> None:
    """Execute, check and describe the run in ``partial``; everything but the rename."""
    spec = order.project.notebook(order.notebook)
    scratch = partial / SCRATCH
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
            raise type(error)(describe_death(order, partial, str(error), kernel_run)) from error
        except Exception as error:
            described = describe_cell_error(order, error)
            if described is None:
                raise
            raise BrokenRun(described) from error
        break
    seconds = time.monotonic() - begin
    finish(partial, order, started, seconds)


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
