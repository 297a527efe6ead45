"""The short jobs of the graph: `python -m attention_companion.execution.steps STEP PROFILE KEY`.

Each step computes its key again before it works and refuses another one: a source edited while the build
runs must not end up in a piece that is named after the source as it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from attention_companion.execution.atomic import write_text
from attention_companion.execution.freshness import note_ledger, note_product, read_json, write_json
from attention_companion.execution.graph import Graph, file_digest, in_ci
from attention_companion.execution.project import Project


class StepError(RuntimeError):
    """A step refused; the message says what is wrong and how to mend it."""


def collect_ledger(graph: Graph, profile: str) -> None:
    """Collect the records of all runs of a profile into its ledger, whether or not it agrees with the baseline."""
    from attention_companion.ledger.collect import collect, latest_path

    target = graph.root / graph.ledger(profile)
    results = graph.results(profile)
    text = collect(graph.project, profile, folders(graph, profile)).to_json()
    write_text(target, text)
    write_text(latest_path(graph.project, profile), text)
    note_ledger(graph.root, target, results)


def check_ledger(graph: Graph, profile: str) -> None:
    """Raise StepError when something in the ledger is wrong or has left the accepted baseline."""
    from attention_companion.ledger.collect import Ledger, faults

    path = graph.root / graph.ledger(profile)
    data = read_json(path) or {}
    ledger = Ledger(**{field.name: data[field.name] for field in dataclasses.fields(Ledger)})
    wrong = list(faults(ledger, ci=in_ci()))
    if wrong:
        listed = "\n".join(f"  - {fault}" for fault in wrong)
        count = "1 fault" if len(wrong) == 1 else f"{len(wrong)} faults"
        raise StepError(
            f"{count} in the ledger of profile {profile}:\n{listed}\n"
            f"The pages are rendered all the same, in {graph.book_folder(profile)}, and show them. `companion check "
            f"--profile {profile}` prints the differences, `companion accept TAG --profile {profile} --reason ...` "
            "accepts one."
        )
    write_json(graph.root / graph.check(profile), {"ledger": path.name, "digest": file_digest(path)})


def render_book(graph: Graph, profile: str) -> None:
    """Render the pages; the old book stays in place until the new one has passed every check."""
    from attention_companion.execution.render import render

    ledger = graph.ledger(profile)
    out = graph.root / graph.book_folder(profile)
    render(graph.project, profile, folders(graph, profile), graph.root / ledger, out)
    note_product(graph.root, graph.root / graph.book(profile), ledger)


def export_figures(graph: Graph, profile: str) -> None:
    """Lay figures, their numbers and the ledger in a folder and a zip beside it."""
    from attention_companion.execution.export import export

    ledger = graph.ledger(profile)
    export(folders(graph, profile), graph.root / ledger, graph.root / graph.figures_folder(profile))
    note_product(graph.root, graph.root / graph.figures(profile), ledger)


def folders(graph: Graph, profile: str) -> dict[str, Path]:
    """The folder of each notebook's whole run."""
    return {name: (graph.root / path).parent for name, path in graph.results(profile).items()}


Step = tuple[Callable[[Graph, str], None], Callable[[Graph, str], str]]
STEPS: dict[str, Step] = {
    "ledger": (collect_ledger, Graph.ledger_key),
    "check": (check_ledger, Graph.check_key),
    "book": (render_book, Graph.book_key),
    "figures": (export_figures, Graph.figures_key),
}


def refuse_unknown_runs(graph: Graph, profile: str) -> None:
    """Raise StepError when a run that this step needs is not there."""
    missing = [name for name, path in graph.results(profile).items() if read_json(graph.root / path) is None]
    if missing:
        raise StepError(f"no whole run of {', '.join(missing)} for profile {profile}; run the build again.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one step; print what is wrong and return 1 when it refuses."""
    parser = argparse.ArgumentParser(description="One short job of the graph.")
    parser.add_argument("step", choices=sorted(STEPS))
    parser.add_argument("profile")
    parser.add_argument("key")
    given = parser.parse_args(arguments)
    graph = Graph(Project.find(Path.cwd()))
    work, key_now = STEPS[given.step]
    try:
        if key_now(graph, given.profile) != given.key:
            raise StepError(f"{given.step} {given.profile}: the sources changed while the build ran "
                            f"(planned {given.key}, now {key_now(graph, given.profile)}); run it again.")
        refuse_unknown_runs(graph, given.profile)
        work(graph, given.profile)
    except (RuntimeError, ValueError, KeyError, OSError) as error:
        print(f"{given.step}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
