"""The accepted verdicts and values: book/baseline/<profile>.json, one entry a claim, each with a reason and a date.

The file is replaced whole (temporary file, fsync, rename) under a lock on its folder, so that two people accepting at
once lose nothing and a kill leaves the old file or the new one.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCHEMA = 1
_PROFILE = re.compile(r"^[a-z][a-z0-9_-]*$")


class BaselineError(ValueError):
    """The baseline cannot be read or changed as asked; the message says how to mend it."""


def root_of(project: Any) -> Path:
    """The root folder of a `Project`, or of a path to one."""
    return Path(project if isinstance(project, str | Path) else project.root)


def baseline_path(project: Any, profile: str) -> Path:
    """book/baseline/<profile>.json. Raises `BaselineError` for a profile name that is no plain word."""
    if not _PROFILE.match(profile):
        raise BaselineError(f"profile is {profile!r}; expected a word such as 'quick' or 'full'")
    return root_of(project) / "book" / "baseline" / f"{profile}.json"


def load_baseline(project: Any, profile: str) -> dict[str, dict[str, Any]]:
    """The entries by tag; empty when this profile has no baseline yet. Raises `BaselineError` for a damaged file."""
    path = baseline_path(project, profile)
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BaselineError(
            f"{path.name} is not valid JSON ({error}); restore it from version control"
        ) from error
    if (
        not isinstance(data, dict)
        or data.get("schema") != SCHEMA
        or not isinstance(data.get("entries"), dict)
    ):
        raise BaselineError(
            f"{path.name}: expected schema {SCHEMA} with 'entries'; restore it from version control"
        )
    if data.get("profile") != profile:
        raise BaselineError(
            f"{path.name} is the baseline of profile {data.get('profile')!r}, not of {profile!r}"
        )
    return dict(data["entries"])


def entry_from(claim: Mapping[str, Any], reason: str, date: str) -> dict[str, Any]:
    """The baseline's entry for one claim of a collected ledger."""
    regimes = {
        r["regime"]: {
            "outcome": r["outcome"],
            "method": r["method"],
            "measured": r["measured"],
            "measured_exact": r["measured_exact"],
            "interval": r["interval"],
            "values": r["values"],
            "spread": r["spread"],
        }
        for r in claim["regimes"]
    }
    depends = claim["depends_on"]
    return {
        "verdict": claim["verdict"],
        "expected": claim["expected"],
        "reason": reason,
        "date": date,
        "notebook": depends["notebook"],
        "data": depends["data"],
        "regimes": regimes,
    }


def accept(
    project: Any,
    profile: str,
    tag: str | Sequence[str],
    reason: str,
    ledger: Any = None,
    date: str | None = None,
) -> Path:
    """Make what the last collected ledger found for `tag` (one or several) the baseline of `profile`.

    `ledger` defaults to results/<profile>/ledger.json, collected anew from the results it names, so that the claims
    are judged as they read now. A tag that the ledger no longer checks is removed from the baseline.

    Raises `BaselineError` without a reason, for an unknown tag, for a claim with a problem that no acceptance can mend
    (a control that passes, an unmet claim of ours), and for a changed expectation that its tolerance_history does not
    explain. Nothing is written then, not even for the other tags.
    """
    from attention_companion.ledger.collect import recollect

    if not reason.strip():
        raise BaselineError("accepting needs a reason: it stands beside the claim for every reader")
    tags = [tag] if isinstance(tag, str) else list(tag)
    found = recollect(project, profile) if ledger is None else ledger
    if found.profile != profile:
        raise BaselineError(f"the ledger is of profile {found.profile!r}, not of {profile!r}")
    day = date or datetime.date.today().isoformat()
    with _locked(baseline_path(project, profile).parent):
        entries = load_baseline(project, profile)
        changed = dict(entries)
        for name in tags:
            new = _acceptable(found, entries, name, reason.strip(), day)
            if new is None:
                changed.pop(name)
            else:
                changed[name] = new
        return _replace(baseline_path(project, profile), profile, changed)


def _acceptable(
    found: Any, entries: Mapping[str, Any], tag: str, reason: str, day: str
) -> dict[str, Any] | None:
    """The new entry of `tag`, or None when the entry must go."""
    claims = {c["tag"]: c for c in found.claims}
    faults = [p["text"] for p in found.problems if p["tag"] == tag]
    if faults:
        raise BaselineError(f"{tag} cannot be accepted: " + "; ".join(faults))
    claim = claims.get(tag)
    if claim is not None and claim["missing"]:
        raise BaselineError(f"{tag} was not checked whole in this run ({claim['why']}); its baseline stays")
    if claim is None or not claim["regimes"]:
        if tag in entries:
            return None
        raise BaselineError(
            f"{tag} is neither checked in this ledger nor in the baseline; see `companion claim {tag}`"
        )
    old = entries.get(tag)
    if old is not None and not any(d["tag"] == tag for d in found.drift):
        raise BaselineError(f"{tag} agrees with the accepted baseline; there is nothing to accept")
    if old is not None and old["expected"] != claim["expected"]:
        explained = [h for h in claim["tolerance_history"] if h["after"] == claim["expected"]]
        if not explained:
            raise BaselineError(
                f"{tag}: the expectation was {old['expected']!r} and is now {claim['expected']!r}; "
                "add an entry with the reason to its tolerance_history first"
            )
    return entry_from(claim, reason, day)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on `folder` (the kernel drops it when the process ends, however it ends)."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(path: Path, profile: str, entries: Mapping[str, Any]) -> Path:
    data = {"schema": SCHEMA, "profile": profile, "entries": dict(sorted(entries.items()))}
    write_atomically(
        path, json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    )
    return path


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` with `text` so that a reader or a kill sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)  # mkstemp makes files private; these are committed or served
        os.rename(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
