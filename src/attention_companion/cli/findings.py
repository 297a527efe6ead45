"""What an examination by ``companion doctor`` finds: a state, what was seen, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``note`` is worth knowing; ``broken`` keeps the book from being built rightly."""

    what: str
    state: State
    seen: str
    mend: str = ""


def ok(what: str, seen: str) -> Finding:
    return Finding(what, "ok", seen)


def note(what: str, seen: str, mend: str = "") -> Finding:
    return Finding(what, "note", seen, mend)


def broken(what: str, seen: str, mend: str) -> Finding:
    return Finding(what, "broken", seen, mend)
