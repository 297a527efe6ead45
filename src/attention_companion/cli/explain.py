"""Why a result was, or was not, computed again: the parts of two keys laid side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What each part of a key stands for, in the order in which a person would look.
PARTS = {
    "notebook": "the notebook's cells",
    "parameters": "the parameters",
    "source": "source file",
    "data": "data set",
    "packages": "package",
    "constraints": "the pinned versions (constraints.txt)",
    "harness": "the code that runs notebooks",
}


def differences(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    values_before: Mapping[str, Any] | None = None,
    values_after: Mapping[str, Any] | None = None,
) -> list[str]:
    """One phrase for each component of the digests that differs between ``before`` and ``after``.

    Digests are those of a result (see `execution.keys`). ``values_*``, the parameters' values, turn "the parameters
    changed" into which ones, from what, to what. Equal digests give an empty list.
    """
    phrases: list[str] = []
    for part in [*PARTS, *sorted((set(before) | set(after)) - set(PARTS))]:
        old, new = before.get(part), after.get(part)
        if old == new:
            continue
        if part == "parameters" and values_before is not None and values_after is not None:
            phrases += _values(values_before, values_after) or [f"{PARTS[part]} changed"]
        elif isinstance(old, Mapping) or isinstance(new, Mapping):
            phrases += _mapping(PARTS.get(part, part), old or {}, new or {})
        else:
            phrases.append(f"{PARTS.get(part, part)} changed")
    return phrases


def _mapping(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    phrases = []
    for name in sorted(set(old) | set(new)):
        if name not in old:
            phrases.append(f"{what} {name} is now among what it depends on")
        elif name not in new:
            phrases.append(f"{what} {name} is no longer among what it depends on")
        elif old[name] != new[name]:
            phrases.append(f"{what} {name} changed{_kinds(old[name], new[name])}")
    return phrases


def _kinds(old: Any, new: Any) -> str:
    """For data: from the bundled sample to the full set, say."""
    kinds = [entry.get("kind") if isinstance(entry, Mapping) else None for entry in (old, new)]
    return f" ({kinds[0]} -> {kinds[1]})" if kinds[0] != kinds[1] else ""


def _values(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    phrases = []
    for name in sorted(set(old) | set(new)):
        if name not in old:
            phrases.append(f"parameter {name} is new ({new[name]!r})")
        elif name not in new:
            phrases.append(f"parameter {name} is gone (it was {old[name]!r})")
        elif old[name] != new[name]:
            phrases.append(f"parameter {name} changed from {old[name]!r} to {new[name]!r}")
    return phrases
