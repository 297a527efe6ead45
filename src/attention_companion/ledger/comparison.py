"""Comparing a collected ledger with the accepted baseline: what drifted, by how much, and how much was allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from attention_companion.ledger.numbers import decode


@dataclass(frozen=True)
class Drift:
    """One difference. `kind`: new, verdict, outcome, value, regime, expectation, orphan or not-compared."""

    kind: str
    tag: str
    regime: str
    what: str
    before: str
    after: str
    allowed: str
    text: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Allowance:
    """How far one value may stray, and the arithmetic behind it."""

    size: float
    words: str


def compare(ledger: Any, baseline: Mapping[str, Mapping[str, Any]]) -> list[Drift]:
    """Every difference between `ledger` and the baseline entries, claim by claim.

    A claim computed from other data, or under another profile, than the baseline's is reported as 'not-compared'.
    """
    claims = {c["tag"]: c for c in ledger.claims}
    drift: list[Drift] = []
    for claim in ledger.claims:
        entry = baseline.get(claim["tag"])
        if claim["missing"]:
            parts = [f"{m['regime']}: {m['reason']}" if m["regime"] else m["reason"] for m in claim["missing"]]
            reasons = "; ".join(parts)
            drift.append(_not_compared(claim["tag"], f"not checked in this run: {reasons}"))
        elif claim["regimes"]:
            reason = claim["depends_on"].get("foreign_profile")
            if reason:
                drift.append(_not_compared(claim["tag"], reason))
            elif entry is None:
                drift.append(_new(claim))
            else:
                drift.extend(_claim_drift(claim, entry))
    for tag, entry in baseline.items():
        claim = claims.get(tag)
        if claim is None or not (claim["regimes"] or claim["unavailable"]):
            drift.append(
                Drift(
                    "orphan",
                    tag,
                    "",
                    "entry",
                    entry["verdict"],
                    "no check",
                    "",
                    f"{tag}: the baseline has an entry ({entry['verdict']}) but no notebook checks it any more",
                )
            )
    return drift


def _not_compared(tag: str, reason: str) -> Drift:
    return Drift("not-compared", tag, "", "claim", "", "", "", f"{tag}: not compared: {reason}")


def _new(claim: Mapping[str, Any]) -> Drift:
    tag, word = claim["tag"], claim["verdict"]
    return Drift(
        "new", tag, "", "entry", "none", word, "", f"{tag}: new: not in the baseline (verdict now: {word})"
    )


def _claim_drift(claim: Mapping[str, Any], entry: Mapping[str, Any]) -> Iterator[Drift]:
    tag = claim["tag"]
    reason = _other_data(claim["depends_on"]["data"], entry["data"])
    if reason:
        yield _not_compared(tag, reason)
        return
    if claim["expected"] != entry["expected"]:
        known = any(h["after"] == claim["expected"] for h in claim["tolerance_history"])
        hint = "" if known else "; tolerance_history does not give the reason"
        yield Drift(
            "expectation",
            tag,
            "",
            "expectation",
            entry["expected"],
            claim["expected"],
            "",
            f"{tag}: the expectation was {entry['expected']!r} and is now {claim['expected']!r}{hint}",
        )
    if claim["verdict"] != entry["verdict"]:
        yield Drift(
            "verdict",
            tag,
            "",
            "verdict",
            entry["verdict"],
            claim["verdict"],
            "",
            f"{tag}: the verdict was '{entry['verdict']}' and is now '{claim['verdict']}' ({claim['why']})",
        )
    now = {r["regime"]: r for r in claim["regimes"]}
    for regime in sorted(set(now) | set(entry["regimes"])):
        if regime not in now or regime not in entry["regimes"]:
            before, after = ("checked", "missing") if regime not in now else ("missing", "checked")
            yield Drift(
                "regime",
                tag,
                regime,
                "regime",
                before,
                after,
                "",
                f"{_where(tag, regime)}: {before} in the baseline, {after} now",
            )
            continue
        yield from _regime_drift(tag, regime, now[regime], entry["regimes"][regime], claim["drift"])


def _regime_drift(
    tag: str, regime: str, now: Mapping[str, Any], old: Mapping[str, Any], tolerance: Mapping[str, Any]
) -> Iterator[Drift]:
    where = _where(tag, regime)
    if now["outcome"] != old["outcome"]:
        yield Drift(
            "outcome",
            tag,
            regime,
            "outcome",
            old["outcome"],
            now["outcome"],
            "",
            f"{where}: the outcome was {old['outcome']} and is now {now['outcome']}",
        )
    if now["method"] != old["method"]:
        yield Drift(
            "outcome",
            tag,
            regime,
            "method",
            old["method"],
            now["method"],
            "",
            f"{where}: the method was {old['method']} and is now {now['method']}",
        )
    skip = {f"values.{name}" for name in tolerance["shown_only"]}
    before, after = _values(old), _values(now)
    for name in sorted((set(before) | set(after)) - skip):
        if name not in before or name not in after:
            gone = ("present", "missing") if name not in after else ("missing", "present")
            text = f"{where}: {name} is {gone[0]} in the baseline, {gone[1]} now"
            yield Drift("value", tag, regime, name, *gone, "", text)
            continue
        allowed = allowance(name, old, tolerance, strict=now["method"] in ("proof", "exact"))
        if not _close(before[name], after[name], allowed.size):
            yield Drift(
                "value",
                tag,
                regime,
                name,
                str(before[name]),
                str(after[name]),
                allowed.words,
                f"{where}: {name} was {before[name]} and is now {after[name]} (allowed: {allowed.words})",
            )


def _where(tag: str, regime: str) -> str:
    return f"{tag} ({regime})" if regime else tag


def _values(record: Mapping[str, Any]) -> dict[str, Any]:
    deciding = record["measured"] if record["measured_exact"] is None else record["measured_exact"]
    return {"measured": deciding, **{f"values.{k}": v for k, v in record["values"].items()}}


def allowance(name: str, old: Mapping[str, Any], tolerance: Mapping[str, Any], *, strict: bool) -> Allowance:
    """The tolerance of one value: abs + rel |baseline| + k sd, with the baseline's own value and spread.

    With `strict` (records by proof or exact arithmetic) exact numbers must agree exactly.
    """
    stored = _values(old)[name]
    if isinstance(stored, bool) or (strict and isinstance(stored, str)):
        return Allowance(0.0, "exactly equal")
    size = abs(float(decode(stored)))
    if size == float("inf"):
        return Allowance(0.0, "exactly equal")
    sd = float(old["spread"].get(name.removeprefix("values."), 0.0))
    total = tolerance["abs"] + tolerance["rel"] * size + tolerance["between_seed_sd"] * sd
    parts = []
    if tolerance["abs"]:
        parts.append(f"{tolerance['abs']:g}")
    if tolerance["rel"]:
        parts.append(f"{tolerance['rel']:g} of the value")
    if tolerance["between_seed_sd"] and sd:
        parts.append(f"{tolerance['between_seed_sd']:g} between-seed sd of {sd:.3g}")
    return Allowance(total, f"±{total:.3g} ({' + '.join(parts)})" if parts else "exactly equal")


def _close(before: Any, after: Any, allowed: float) -> bool:
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    x, y = decode(before), decode(after)
    if x == y:
        return True
    if float("inf") in (abs(x), abs(y)):
        return False
    # Fractions: the difference of two doubles is then exact, and a value exactly at its tolerance passes.
    return abs(Fraction(x) - Fraction(y)) <= Fraction(allowed)


def failing(drift: Sequence[Drift], *, ci: bool) -> list[Drift]:
    """Those that fail the build: all but 'not-compared', and these too when CI is set."""
    return [d for d in drift if ci or d.kind != "not-compared"]


def drift_text(drift: Sequence[Drift]) -> str:
    """One line a difference."""
    return "\n".join(d.text for d in drift)


def drift_markdown(drift: Sequence[Drift], profile: str) -> str:
    """The differences as a table for a job summary."""
    if not drift:
        return f"### Ledger ({profile}): agrees with the baseline\n"
    lines = [
        f"### Ledger ({profile}): {len(drift)} difference{'s' if len(drift) != 1 else ''} from the baseline",
        "",
        "| Claim | Regime | What | Baseline | Now | Allowed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for d in drift:
        if d.kind == "not-compared":
            cells = [f"`{d.tag}`", "", "not compared", "", d.text.split("not compared: ", 1)[-1], ""]
        else:
            cells = [f"`{d.tag}`", d.regime, d.what, d.before, d.after, d.allowed]
        lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
    tags = sorted({d.tag for d in drift if d.kind != "not-compared"})
    if tags:
        lines += [
            "",
            "Reproduce with `companion check`; if the change is meant, accept it claim by claim:",
            "",
            "```",
        ]
        lines += [f'companion accept {tag} --reason "..."' for tag in tags]
        lines += ["```"]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _other_data(now: Mapping[str, Any], old: Mapping[str, Any]) -> str | None:
    """Why two results rest on different data, or None."""
    for name in sorted(set(now) | set(old)):
        if name not in now or name not in old:
            who = "only by the baseline" if name not in now else "now but not by the baseline"
            return f"data set {name} is used {who}"
        kinds = now[name].get("kind"), old[name].get("kind")
        if kinds[0] != kinds[1]:
            return f"data set {name} is of kind {kinds[0]!r} here and {kinds[1]!r} in the baseline"
        if now[name].get("digest") != old[name].get("digest"):
            return f"data set {name} has another digest than in the baseline"
    return None
