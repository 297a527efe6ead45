"""What the store says about a set: a state, the outcome of a verification, and the sample's banner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .catalogue import Source


@dataclass(frozen=True)
class Status:
    """``kind``: ``full``, ``sample`` or ``unavailable``; ``detail`` says why and, if needed, how to mend it.

    ``trusted``: the files still have the sizes and times they were written with (content is checked on load).
    """

    name: str
    kind: str
    path: Path | None
    detail: str
    trusted: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.kind} ({self.detail})"


@dataclass(frozen=True)
class Verification:
    """``digest`` holds the splits that match their pinned digest, ``problems`` a line for each that does not."""

    name: str
    kind: str
    digest: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.kind != "unavailable" and not self.problems

    def __str__(self) -> str:
        if self.ok:
            return f"{self.name}: {self.kind}, {' and '.join(self.digest)} match their digests"
        return f"{self.name}: " + "; ".join(self.problems)


def banner(source: Source) -> list[str]:
    """The lines that say loudly what stands in for the full set."""
    rule = "*" * 78
    if source.sample is None:
        return [
            rule,
            f"{source.licence.title} IS NOT AVAILABLE: no route worked, and no sample of it is bundled.",
            source.licence.note,
            "What needs it will say: not checked, data unavailable.",
            rule,
        ]
    return [
        rule,
        f"NOT THE FULL SET: the small bundled sample of {source.licence.title} stands in.",
        "What needs the full set will say: not checked, data unavailable.",
        str(source.licence),
        rule,
    ]
