"""The one error of the rendering step."""

from __future__ import annotations

from collections.abc import Sequence


class RenderError(RuntimeError):
    """The book was not rendered; the message says what is wrong and how to mend it."""


def refuse(heading: str, problems: Sequence[str]) -> None:
    """Raise `RenderError` listing `problems` under `heading`; do nothing when there are none."""
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise RenderError(f"{heading} ({len(problems)}):\n{listed}")
