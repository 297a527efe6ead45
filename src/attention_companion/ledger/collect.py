"""Collecting the ledger: the claims, the records of whole results, the verdicts that follow, and what is wrong.

`python -m attention_companion.ledger.collect --profile quick --results NAME=DIR ... --out PATH` writes the ledger and
exits 1 when anything is wrong or drifted. Outcomes are computed here from the measured numbers and the claim files as
they read now; the outcome that a notebook printed is kept beside only to say when the two differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attention_companion.ledger.baseline import BaselineError, load_baseline, root_of, write_atomically
from attention_companion.ledger.checks import claim_problems, record_problems
from attention_companion.ledger.claims import ClaimError, load_claims
from attention_companion.ledger.comparison import Drift, compare, drift_markdown, failing
from attention_companion.ledger.models import Claim
from attention_companion.ledger.numbers import decode
from attention_companion.ledger.verdicts import (
    NOT_CHECKED,
    VERDICTS,
    RegimeOutcome,
    Verdict,
    outcome,
    verdict,
)

SCHEMA = 1


class CollectError(ValueError):
    """The ledger cannot be collected: a result folder is missing or malformed."""


@dataclass(frozen=True)
class Ledger:
    """Everything the book's ledger pages show. `claims` are plain dictionaries, as in ledger.json."""

    profile: str
    generated: str
    claims: list[dict[str, Any]]
    notebooks: dict[str, dict[str, Any]]
    counts: dict[str, dict[str, int]]
    problems: list[dict[str, str]]
    drift: list[dict[str, str]] = field(default_factory=list)
    baseline: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text of ledger.json; the same inputs give the same text."""
        data = {
            "schema": SCHEMA,
            "profile": self.profile,
            "generated": self.generated,
            "counts": self.counts,
            "problems": self.problems,
            "drift": self.drift,
            "notebooks": self.notebooks,
            "claims": self.claims,
            "baseline": {
                t: {k: e[k] for k in ("verdict", "reason", "date")} for t, e in self.baseline.items()
            },
        }
        return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def collect(project: Any, profile: str, results: Mapping[str, Path]) -> Ledger:
    """The ledger of `profile` from one result folder per notebook, compared with the profile's baseline.

    `project` is a `Project` or the path of the root. Raises `ClaimError`, `BaselineError` or `CollectError` when an
    input cannot be read; everything else that is wrong is listed in `.problems` and `.drift`.
    """
    root = root_of(project)
    claims = load_claims(root)
    loaded = {name: _read_result(name, Path(folder), profile) for name, folder in sorted(results.items())}
    problems: list[dict[str, str]] = []
    by_tag: dict[str, list[dict[str, Any]]] = {tag: [] for tag in claims}
    for name, result in loaded.items():
        for record in result["records"]:
            record = {**record, "notebook": name}
            found = list(record_problems(record, claims, result["folder"]))
            problems.extend(found)
            if not any(f["kind"] in ("check without a claim", "malformed record") for f in found):
                by_tag[record["tag"]].append(record)
    entries = []
    for tag, claim in claims.items():
        entry = _entry(claim, by_tag[tag], loaded)
        problems.extend(claim_problems(claim, entry, root))
        entries.append(entry)
    notebooks = {name: _provenance(root, result) for name, result in loaded.items()}
    baseline = load_baseline(root, profile) if profile != "custom" else {}
    ledger = Ledger(
        profile=profile,
        generated=max((n["started"] or "" for n in notebooks.values()), default=""),
        claims=entries,
        notebooks=notebooks,
        counts=_counts(entries),
        problems=problems,
        baseline=baseline,
    )
    ledger.drift.extend(d.to_json() for d in compare(ledger, baseline))
    return ledger


def _read_result(name: str, folder: Path, profile: str) -> dict[str, Any]:
    """The records and the provenance of one result folder."""
    try:
        records = json.loads((folder / "records.json").read_text(encoding="utf-8"))
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CollectError(f"notebook {name}: {error.filename} is missing; run the notebook again") from error
    except json.JSONDecodeError as error:
        raise CollectError(
            f"notebook {name}: a file in {folder} is not valid JSON ({error}); run it again"
        ) from error
    if not isinstance(records, list) or not isinstance(result, dict):
        raise CollectError(
            f"notebook {name}: records.json must hold a list and result.json a mapping; run it again"
        )
    if result.get("notebook") != name:
        raise CollectError(
            f"{folder} holds the result of notebook {result.get('notebook')!r}, not of {name!r}"
        )
    ran = result.get("profile")
    same = ran == profile and profile != "custom"
    foreign = None if same else f"the result is of profile {ran!r}, which has no baseline here"
    return {"name": name, "folder": folder, "records": records, "result": result, "foreign": foreign}


def _entry(
    claim: Claim, records: Sequence[dict[str, Any]], loaded: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """One claim of the ledger: its fields, its regimes judged anew, its verdict."""
    missing = [r for r in records if r["outcome"] == "unavailable"]
    regimes = [_judged(claim, r) for r in records if r["outcome"] != "unavailable"]
    found = verdict(claim, [RegimeOutcome(r["regime"], r["outcome"], r["method"]) for r in regimes])
    if not regimes and missing:
        found = Verdict(NOT_CHECKED, missing[0]["checked_range"])
    elif missing:
        left_out = ", ".join(f"{r['regime'] or 'the rest'} ({r['checked_range']})" for r in missing)
        found = Verdict(found.word, f"{found.why}; not checked in this run: {left_out}")
    source = loaded.get(claim.checked_by) if claim.checked_by else None
    depends: dict[str, Any] = {"notebook": claim.checked_by, "data": {}}
    if source is not None:
        result = source["result"]
        digests = result.get("digests", {})
        depends = {
            "notebook": claim.checked_by,
            "key": result.get("key"),
            "parameters": result.get("parameters", {}),
            "source": digests.get("source", {}),
            "data": digests.get("data", {}),
            "foreign_profile": source["foreign"],
        }
    fields = claim.model_dump(mode="json")
    return {
        **fields,
        "expected": claim.expectation.words(),
        "verdict": found.word,
        "why": found.why,
        "regimes": regimes,
        "unavailable": bool(missing) and not regimes,
        "missing": [{"regime": r["regime"], "reason": r["checked_range"]} for r in missing],
        "depends_on": depends,
    }


def _judged(claim: Claim, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with outcomes under the claim as it stands; `outcome_at_run` keeps what the notebook printed."""
    cases = {name: record[name] for name in ("control", "planted")}
    parts = {name: None if case is None else _with_outcome(claim, case) for name, case in cases.items()}
    return {**_with_outcome(claim, record), **parts, "outcome_at_run": record["outcome"]}


def _with_outcome(claim: Claim, stored: Mapping[str, Any]) -> dict[str, Any]:
    exact = stored["measured_exact"]
    number = decode(stored["measured"] if exact is None else exact)
    interval = stored["interval"]
    ends = None if interval is None else (decode(interval[0]), decode(interval[1]))
    return {**stored, "outcome": outcome(claim.expectation, number, ends)}


def _provenance(root: Path, loaded: Mapping[str, Any]) -> dict[str, Any]:
    result, folder = loaded["result"], Path(loaded["folder"]).resolve()
    provenance = result.get("provenance", {})
    inside = folder.is_relative_to(root.resolve())
    keep = ("commit", "dirty", "started", "seconds", "peak_memory_bytes", "cpu", "blas", "threads", "python")
    return {
        "key": result.get("key"),
        "profile": result.get("profile"),
        "parameters": result.get("parameters", {}),
        "data": result.get("digests", {}).get("data", {}),
        "folder": str(folder.relative_to(root.resolve())) if inside else str(folder),
        **{name: provenance.get(name) for name in keep},
    }


def _counts(entries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Verdict counts per paper and in all; every verdict is a key."""
    counts: dict[str, dict[str, int]] = {}
    for paper in ("sparse_xor", "simulator", "ntk", "all"):
        tally = Counter(e["verdict"] for e in entries if paper in ("all", e["paper"]))
        counts[paper] = {word: tally.get(word, 0) for word in VERDICTS}
    return counts


def recollect(project: Any, profile: str) -> Ledger:
    """Collect again from the result folders named by the last ledger, judging the claims as they read now."""
    path = latest_path(project, profile)
    if not path.exists():
        raise BaselineError(
            f"no ledger of profile {profile!r} yet ({path.name} is missing); build the book first"
        )
    notebooks = json.loads(path.read_text(encoding="utf-8"))["notebooks"]
    return collect(project, profile, {name: root_of(project) / n["folder"] for name, n in notebooks.items()})


def latest_path(project: Any, profile: str) -> Path:
    """Where the last collected ledger lies, drifted or not: results/<profile>/ledger.json."""
    return root_of(project) / "results" / profile / "ledger.json"


def faults(ledger: Ledger, *, ci: bool) -> Iterator[str]:
    """One line for everything that fails the build."""
    for problem in ledger.problems:
        yield f"{problem['kind']}: {problem['text']}"
    for item in failing([Drift(**d) for d in ledger.drift], ci=ci):
        yield f"drift: {item.text}"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m attention_companion.ledger.collect", description=collect.__doc__
    )
    parser.add_argument("--project", type=Path, default=Path.cwd(), help="project root (default: here)")
    parser.add_argument("--profile", required=True)
    parser.add_argument(
        "--results", nargs="*", default=[], metavar="NAME=DIR", help="one result folder per notebook"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="where ledger.json is written, also when it fails"
    )
    parser.add_argument(
        "--summary", type=Path, help="append the differences here as Markdown ($GITHUB_STEP_SUMMARY)"
    )
    arguments = parser.parse_args(argv)
    for item in arguments.results:
        if "=" not in item:
            parser.error(f"--results takes NAME=DIR, got {item!r}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """The command-line entry: 0 when all agrees, 1 with one line a fault otherwise."""
    arguments = _arguments(argv)
    results = dict(item.split("=", 1) for item in arguments.results)
    ci = os.environ.get("CI", "").lower() == "true"
    try:
        ledger = collect(arguments.project, arguments.profile, {k: Path(v) for k, v in results.items()})
    except (ClaimError, BaselineError, CollectError) as error:
        print(f"ledger: {error}", file=sys.stderr)
        return 1
    for path in {arguments.out, latest_path(arguments.project, arguments.profile)}:
        write_atomically(path, ledger.to_json())
    wrong = list(faults(ledger, ci=ci))
    drift = [Drift(**d) for d in ledger.drift]
    summary = arguments.summary or os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as stream:
            stream.write(drift_markdown(drift, ledger.profile))
            if ledger.problems:
                stream.write("\n" + "".join(f"- {p['kind']}: {p['text']}\n" for p in ledger.problems))
    for item in drift:
        if item.kind == "not-compared":
            print(f"ledger: {item.text}")
    for line in wrong:
        print(f"ledger: {line}", file=sys.stderr)
    if wrong:
        print(f"ledger: {len(wrong)} faults ({arguments.profile})", file=sys.stderr)
        return 1
    total = ledger.counts["all"]
    checked = sum(total.values()) - total[NOT_CHECKED]
    print(
        f"ledger: {len(ledger.claims)} claims, {checked} checked, agrees with the {arguments.profile} baseline"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
