"""From a notebook that ran to its end to a folder that may be renamed to its key.

Everything that makes a run untrustworthy is found here, before the rename: guards that did not load, another
environment's kernel, code that the key does not cover, inputs edited meanwhile, a notebook that is not whole.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from attention_companion.execution import provenance
from attention_companion.execution.closure import computed_imports
from attention_companion.execution.failures import SCRATCH
from attention_companion.execution.guards import BrokenRun, check_executed
from attention_companion.execution.keys import CUSTOM, SCHEMA, compute_key
from attention_companion.execution.order import Order
from attention_companion.execution.results import (
    EXECUTED,
    RECORDS,
    RESULT,
    file_digests,
    load,
    read_executed,
    verify,
)
from attention_companion.execution.text import assign_ids


class ChangedInputs(BrokenRun):
    """The sources, data or parameters changed between the key's computation and the end of the run."""


def finish(partial: Path, order: Order, started: str, seconds: float) -> None:
    """From a notebook that ran to its end to a folder ready to be renamed."""
    where = order.where
    kernel = _kernel_report(partial, where)
    _check_kernel(kernel, order, where)
    executed = _scrub(partial / EXECUTED, order.key.parameters)
    try:
        check_executed(executed)
    except BrokenRun as error:
        raise BrokenRun(f"{where}: {error}") from error
    records = _records(partial, where)
    _check_left_out(records, order, where)
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
    shutil.rmtree(partial / SCRATCH)
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


def _check_kernel(kernel: dict[str, Any], order: Order, where: str) -> None:
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


def _check_left_out(records: list[dict[str, Any]], order: Order, where: str) -> None:
    """Nothing is "not checked: data unavailable" under a key that says that all its data and packages are here.

    Such a result would stay for good: the data a run could not read are no part of what its key can see.
    """
    left_out = [record for record in records if record.get("outcome") == "unavailable"]
    kinds = {name: data["kind"] for name, data in order.key.digests["data"].items()}
    packages = order.key.digests.get("packages", {})
    if left_out and all(kind == "full" for kind in kinds.values()) and None not in packages.values():
        listed = ", ".join(sorted({str(record.get("tag")) for record in left_out}))
        raise BrokenRun(
            f"{where}: {listed} could not be checked ({left_out[0].get('checked_range')}) although "
            f"{', '.join([*kinds, *packages]) or 'every data set'} is here in full. `companion data fetch` reads the "
            "cache through and mends it; then run again."
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
            record = json.loads(line)
        except ValueError as error:
            raise BrokenRun(f"{where}: line {number} of its records is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise BrokenRun(f"{where}: line {number} of its records is no record but {line[:60]!r}")
        records.append(record)
    return records
