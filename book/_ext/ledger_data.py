"""What the ledger's roles and directives look up: claims, records, numbers, and where each was measured."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from attention_companion.ledger.cards import shown, slug
from attention_companion.ledger.numbers import Number, decode

PAPERS = {
    "sparse_xor": "Sparse XOR",
    "simulator": "Simulators",
    "ntk": "Linearized attention",
}
SOURCES = {
    "abstract": "abstract",
    "quoted_table": "quoted table",
    "summary": "summary",
    "secondary_note": "secondary note",
    "released_code": "released code",
    "ours": "ours",
}
MARKS = {"F": "found in a source we hold", "A": "our assumption or reconstruction"}

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TARGET = re.compile(r"^(?P<tag>[A-Z0-9-]+)(?P<rest>[@.].*)?$", re.DOTALL)


class MissingValue(LookupError):
    """Something the page asks for is not in the ledger; the message says what there is instead."""


class NotMeasured(LookupError):
    """The number was left out of this run, and the run says why (a data set that is not here, say)."""


@dataclass(frozen=True)
class Found:
    """A number of the ledger and the record it stands in."""

    stored: Any
    claim: dict[str, Any]
    record: dict[str, Any]
    name: str


class LedgerView:
    """One ledger.json, indexed by tag."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.claims: dict[str, dict[str, Any]] = {c["tag"]: c for c in data["claims"]}

    def claim(self, tag: str) -> dict[str, Any]:
        """The claim `tag`. Raises `MissingValue`."""
        if tag not in self.claims:
            near = [t for t in self.claims if t.split("-")[0] == tag.split("-")[0]]
            raise MissingValue(f"the ledger has no claim {tag!r}; it has {', '.join(near or self.claims)}")
        return self.claims[tag]

    def record(self, tag: str, regime: str | None) -> dict[str, Any]:
        """The record of a regime, given by name or slug; the only record when `regime` is None."""
        records = self.claim(tag)["regimes"]
        known = {name for r in records for name in (r["regime"], slug(r["regime"]))}
        for left_out in self.claim(tag)["missing"]:
            name = left_out["regime"]
            asked = regime is not None and regime not in known and regime in (name, slug(name))
            if asked or (not name and not records):
                raise NotMeasured(left_out["reason"])
        if not records:
            raise MissingValue(f"{tag} has no measured value: {self.claim(tag)['why']}")
        if regime is None:
            if len(records) > 1:
                names = ", ".join(repr(r["regime"]) for r in records)
                raise MissingValue(f"{tag} has several regimes; name one of {names} as {tag}@regime")
            return records[0]
        for record in records:
            if regime in (record["regime"], slug(record["regime"])):
                return record
        raise MissingValue(f"{tag} has no regime {regime!r}; it has {[r['regime'] for r in records]}")

    def number(self, target: str) -> Found:
        """The number that TAG, TAG.key, TAG@regime or TAG@regime.key names. Raises `MissingValue`.

        A key is one of the record's `values`, or `n`, `low`, `high` (ends of the interval), `control`, `planted`.
        """
        match = _TARGET.match(target.strip())
        if match is None:
            raise MissingValue(f"{target!r} does not begin with a tag such as XOR-LOSS")
        tag, rest = match["tag"], match["rest"] or ""
        if not rest.startswith("@"):
            record, key = self.record(tag, None), rest.removeprefix(".")
        else:
            record, key = self._split(tag, rest[1:])
        return Found(_stored(record, key, target), self.claim(tag), record, key)

    def _split(self, tag: str, text: str) -> tuple[dict[str, Any], str]:
        """Separate 'regime.key'; a regime's own name may contain dots, so the longest known one wins."""
        claim = self.claim(tag)
        names = {n for r in (*claim["regimes"], *claim["missing"]) for n in (r["regime"], slug(r["regime"])) if n}
        for name in sorted(names, key=len, reverse=True):
            if text == name or text.startswith(name + "."):
                return self.record(tag, name), text[len(name) + 1 :]
        return self.record(tag, text.split(".")[0]), ""

    def printed(self, target: str) -> dict[str, Any]:
        """The printed number that TAG or TAG.label names. Raises `MissingValue`."""
        tag, _, label = target.strip().partition(".")
        items = self.claim(tag)["printed"]
        if not label and len(items) == 1:
            return dict(items[0])
        for item in items:
            if label == item["label"]:
                return dict(item)
        raise MissingValue(f"{tag} prints no {label!r}; it prints {[i['label'] for i in items]}")

    def checked_by(self, notebook: str) -> list[dict[str, Any]]:
        """The claims that `notebook` checks, in the ledger's order."""
        return [c for c in self.claims.values() if c["checked_by"] == notebook]


def _stored(record: dict[str, Any], key: str, target: str) -> Any:
    exact = record["measured_exact"]
    extras = {
        "n": record["n"],
        "low": record["interval"] and record["interval"][0],
        "high": record["interval"] and record["interval"][1],
        **{name: deciding(record[name]) for name in ("control", "planted") if record[name] is not None},
    }
    if not key:
        return record["measured"] if exact is None else exact
    if key in record["values"]:
        return record["values"][key]
    if extras.get(key) is not None:
        return extras[key]
    known = [*record["values"], *(k for k, v in extras.items() if v is not None)]
    raise MissingValue(f"{target} has no value {key!r}; it has {', '.join(known) or 'none'}")


def deciding(entry: dict[str, Any]) -> Any:
    """The deciding number of a record or control, exact where it was exact."""
    return entry["measured"] if entry["measured_exact"] is None else entry["measured_exact"]


def format_number(stored: Any, spec: str) -> str:
    """`stored` under a format such as .3f, .1%, d, or 'frac' (the exact fraction); without one, four digits.

    Powers of ten and infinity are set as people write them. Raises `MissingValue` for a format that does not fit.
    """
    if not spec:
        return people(shown(stored))
    number = decode(stored)
    try:
        if spec == "frac":
            if not isinstance(number, Fraction):
                raise MissingValue(f"{stored!r} is not exact, so it has no fraction")
            return people(str(number))
        return people(format(_for_format(number, spec), spec))
    except (ValueError, TypeError, OverflowError) as error:
        raise MissingValue(f"format {spec!r} does not fit {stored!r}: {error}") from error


def _for_format(number: Number, spec: str) -> int | float:
    if spec.endswith("d"):
        if int(number) != number:
            raise ValueError("not a whole number")
        return int(number)
    return float(number)


def people(text: str) -> str:
    """1.2e+03 as 1.2 × 10³, inf as ∞, a leading hyphen as a minus sign."""
    match = re.fullmatch(r"(-?[\d.]+)e([+-]?\d+)", text)
    if match:
        text = f"{match[1]} × 10{str(int(match[2])).translate(_SUPERSCRIPT)}"
    return text.replace("inf", "∞") if text in ("inf", "-inf") else re.sub(r"^-(?=[\d∞])", "−", text)


@lru_cache(maxsize=2)
def _load(path: str, stamp: int) -> LedgerView:
    return LedgerView(json.loads(Path(path).read_text(encoding="utf-8")))


def load_view(path: str) -> LedgerView:
    """The ledger at `path`. Raises `MissingValue` when it is not configured or not there."""
    if not path:
        raise MissingValue(
            "the setting ledger_path is empty; the renderer sets it to the build's ledger.json"
        )
    if not Path(path).is_file():
        raise MissingValue(f"ledger_path names {path}, which does not exist; collect the ledger first")
    return _load(path, Path(path).stat().st_mtime_ns)
