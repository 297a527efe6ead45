"""Follow a build by what appears on disk, and say it in lines a person can follow.

Nothing is read from Snakemake's output: a run in progress shows as its temporary folder, a finished one as
its renamed result, and both look the same whether the job runs here or on a cluster's node.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from attention_companion.execution.freshness import read_json
from attention_companion.execution.graph import Graph

if TYPE_CHECKING:
    from rich.status import Status

PARTIAL = ".partial-*"


class Screen:
    """Plain lines; on a terminal also one living line at the bottom."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._status: Status | None = None

    def say(self, line: str) -> None:
        """Print one or more lines of text as they are."""
        if self._status is None:
            print(line, file=self._stream, flush=True)
        else:
            self._status.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def living(self, line: str) -> None:
        """Show `line` as the present state, where there is a terminal to show it on."""
        if not self._stream.isatty():
            return
        if self._status is None:
            from rich.console import Console
            from rich.status import Status

            self._status = Status("", console=Console(file=self._stream))
            self._status.start()
        self._status.update(line.replace("[", r"\["))

    def close(self) -> None:
        """Take the living line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None


class Follower:
    """Compares the disk with the graph's names, each time `look` is called, and tells what has changed."""

    def __init__(self, graph: Graph, profile: str, target: str, screen: Screen) -> None:
        self.graph, self.profile, self.target, self.screen = graph, profile, target, screen
        self.started = time.monotonic()
        self.fetching = {name for name in graph.data() if not self._exists(graph.stamp(name))}
        self.waiting = dict.fromkeys(graph.notebooks())
        self.running: dict[str, float] = {}
        self.current: list[str] = []
        self.done: list[str] = []
        self.failed: list[str] = []
        self.phases: set[str] = set()
        # Names unknown at the start, for want of a stamp: such a run may turn out to lie here already.
        self._late = {name for name in self.waiting if self._path(name) is None}
        self._settle(first=True)
        if self.waiting:
            fetch = f", data to fetch: {', '.join(sorted(self.fetching))}" if self.fetching else ""
            screen.say(f"{self.target} ({profile}): {len(self.graph.notebooks())} notebooks, "
                       f"{len(self.current)} current, {len(self.waiting)} to run{fetch}")

    def look(self) -> None:
        """Tell what has changed since the last look."""
        for name in sorted(self.fetching):
            if self._exists(self.graph.stamp(name)):
                self.fetching.remove(name)
                stamp = read_json(self.graph.root / self.graph.stamp(name)) or {}
                self.screen.say(f"  data {name}: {stamp.get('kind', '?')}")
        for name in list(self.waiting):
            self._look_at(name)
        self._settle(first=False)
        if not self.waiting and not self.failed:
            self._look_at_products()
        self.screen.living(self._state())

    def finish(self) -> None:
        """The last look, after Snakemake has ended."""
        self.look()
        self.screen.close()

    def summary(self) -> str:
        """One line: how many notebooks ran and how many were current."""
        if not self.done and not self.phases:
            return f"{self.target} ({self.profile}): nothing to do, all {len(self.current)} notebooks are current"
        return f"{self.target} ({self.profile}): {len(self.done)} notebooks run, {len(self.current)} current"

    # -- inside ----------------------------------------------------------------------------------------

    def _look_at(self, name: str) -> None:
        # The temporary folder first, the result second: the rename between them then never looks like a failure.
        partial = any((self.graph.root / "results" / self.profile / name).glob(PARTIAL))
        whole = self._whole(name)
        now = time.monotonic()
        if partial and not whole and name not in self.running:
            self.running[name] = now
            self.failed = [other for other in self.failed if other != name]
            self.screen.say(f"  run {name}")
        elif not partial and not whole and name in self.running:
            del self.running[name]
            self.failed.append(name)
            self.screen.say(f"  FAILED {name}; its message follows when the other notebooks have ended")

    def _settle(self, first: bool) -> None:
        for name in list(self.waiting):
            if not self._whole(name):
                continue
            del self.waiting[name]
            since = self.running.pop(name, None)
            self.failed = [other for other in self.failed if other != name]
            if first or (since is None and name in self._late):
                self.current.append(name)
                continue
            self.done.append(name)
            total = len(self.graph.notebooks()) - len(self.current)
            took = self._seconds(name)
            self.screen.say(f"  [{len(self.done)}/{total}] {name}{took}, {self._elapsed()} elapsed")

    def _look_at_products(self) -> None:
        steps = [("ledger", "collecting the ledger", self.graph.ledger)]
        if self.target == "book":
            steps.append(("book", "rendering the pages", self.graph.book))
        elif self.target == "figures":
            steps.append(("figures", "exporting the figures", self.graph.figures))
        else:
            steps = []
        for phase, words, path in steps:
            if not self._exists(path(self.profile)):
                if phase not in self.phases and not self.fetching:
                    self.phases.add(phase)
                    self.screen.say(f"  {words}, {self._elapsed()} elapsed")
                return

    def _path(self, name: str) -> Path | None:
        """The result's path, or None while a stamp that names it is missing."""
        if any(not self._exists(self.graph.stamp(data)) for data in self.graph.data(name)):
            return None
        return self.graph.result(self.profile, name)

    def _whole(self, name: str) -> bool:
        path = self._path(name)
        return path is not None and self._exists(path)

    def _seconds(self, name: str) -> str:
        path = self._path(name)
        result: dict[str, Any] = (read_json(self.graph.root / path) if path else None) or {}
        seconds = result.get("provenance", {}).get("seconds")
        return f" {duration(seconds)}" if isinstance(seconds, int | float) else ""

    def _exists(self, path: Path) -> bool:
        return (self.graph.root / path).exists()

    def _elapsed(self) -> str:
        return duration(time.monotonic() - self.started)

    def _state(self) -> str:
        now = time.monotonic()
        running = ", ".join(f"{name} {duration(now - since)}" for name, since in self.running.items())
        total = len(self.graph.notebooks()) - len(self.current)
        return f"{len(self.done)}/{total} notebooks, {self._elapsed()} elapsed{': ' if running else ''}{running}"


def duration(seconds: float) -> str:
    """Seconds as people say them: 0.4 s, 12 s, 3 min 05 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s"
