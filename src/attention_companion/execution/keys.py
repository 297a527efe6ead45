"""The key of a result: one digest of everything the result depends on.

A key covers the notebook's cells, the source files its imports reach, the harness, the parameters, constraints.txt
and the data. No time and no path outside the project enters it, so that clones, restored
caches and touched files keep their results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from attention_companion.execution.closure import digest_bytes, source_closure
from attention_companion.execution.environment import harness_digest
from attention_companion.execution.parameters import read_parameters, resolve, validate_source
from attention_companion.execution.project import Project
from attention_companion.execution.text import read_notebook

SCHEMA = 1
KEY_LENGTH = 20
CUSTOM = "custom"


class MissingStamp(FileNotFoundError):
    """A data set that the notebook loads has no readable stamp yet."""


@dataclass(frozen=True)
class ResultKey:
    """``key``: 20 hexadecimal digits. ``digests``: what it was computed from, as result.json stores it."""

    key: str
    digests: dict[str, Any]
    parameters: dict[str, Any]


def compute_key(
    project: Project,
    notebook: str,
    profile: str,
    parameters: Mapping[str, Any] | None = None,
    data: Mapping[str, Mapping[str, Any]] | None = None,
) -> ResultKey:
    """The key of ``notebook`` under ``profile``, as of now.

    ``parameters`` override the profile's (the profile ``custom`` overrides nothing itself); ``data`` replaces the
    stamps under results/data (name -> {"digest", "kind"}).

    Raises
    ------
    UnknownNotebook, UnknownProfile, ParameterError, ClosureError, NotebookError
        As the parts do.
    MissingStamp
        If a data set of the notebook has no stamp.
    """
    spec = project.notebook(notebook)
    validate_source(spec.source)
    of_profile = {} if profile == CUSTOM else spec.overrides(profile)
    values = resolve(read_parameters(spec.source), of_profile, parameters or {})
    stamps = data if data is not None else {name: read_stamp(project, name) for name in spec.data}
    absent = sorted(set(spec.data) - set(stamps))
    if absent:
        raise MissingStamp(f"no digest given for data set {', '.join(absent)} of notebook {notebook!r}")
    digests: dict[str, Any] = {
        "notebook": notebook_digest(spec.source),
        "source": {
            path.relative_to(project.root).as_posix(): digest_bytes(path.read_bytes())
            for path in source_closure(project, spec.source)
        },
        "harness": harness_digest(),
        "parameters": digest_bytes(canonical(values)),
        "constraints": constraints_digest(project),
        "data": {
            name: {"digest": stamps[name]["digest"], "kind": stamps[name]["kind"]} for name in sorted(spec.data)
        },
    }
    if spec.packages:
        digests["packages"] = {name: installed_version(name) for name in sorted(spec.packages)}
    whole = {"schema": SCHEMA, "name": notebook, "profile": profile, **digests}
    return ResultKey(hashlib.sha256(canonical(whole)).hexdigest()[:KEY_LENGTH], digests, values)


def installed_version(package: str) -> str | None:
    """The version of an installed package, None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces; floats by their shortest exact repr; NaN and infinity are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def notebook_digest(source: Path) -> str:
    """SHA-256 over the cells (kind, source, metadata) and the kernel's name."""
    notebook = read_notebook(source)
    cells = [
        [cell.cell_type, cell.source, json.loads(json.dumps(cell.metadata))]
        for cell in notebook.cells
    ]
    return digest_bytes(canonical([notebook.metadata.get("kernelspec", {}).get("name", ""), cells]))


def constraints_digest(project: Project) -> str:
    """SHA-256 of constraints.txt; raises FileNotFoundError where there is none."""
    path = project.root / "constraints.txt"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: results are keyed by the exact versions it lists")
    return digest_bytes(path.read_bytes())


def read_stamp(project: Project, name: str) -> dict[str, Any]:
    """The stamp of data set ``name``: {"name", "kind", "digest"}.

    Raises
    ------
    MissingStamp
        If there is none, or it is not of that form.
    """
    path = project.stamps / f"{name}.json"
    mend = "run `companion data fetch` (or `make book`, which does) to write it"
    try:
        stamp = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise MissingStamp(f"data set {name!r} has no stamp {path}: {mend}") from error
    except ValueError as error:
        raise MissingStamp(f"the stamp {path} is not JSON ({error}): delete it and {mend}") from error
    if not isinstance(stamp, dict) or not isinstance(stamp.get("kind"), str) or "digest" not in stamp:
        raise MissingStamp(f"the stamp {path} lacks 'kind' or 'digest': delete it and {mend}")
    return stamp
