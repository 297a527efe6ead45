"""record(): what a notebook calls to put a measured number before a claim.

Inside the runner the record is appended to ``$ATTENTION_COMPANION_RUN_DIR/records.jsonl``; elsewhere (JupyterLab, a
custom run by hand) the card is returned and nothing is written. The claim's expectation is read here for the card, and
read again when the ledger is collected: the verdict always follows from the claim file as it stands then, so that
editing a claim's text or tolerance re-executes nothing.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attention_companion.ledger.cards import anchor, card_html, card_text
from attention_companion.ledger.claims import find_root, load_claims
from attention_companion.ledger.models import Claim
from attention_companion.ledger.numbers import Number, NumberError, as_float, encode, is_exact, normalise
from attention_companion.ledger.verdicts import METHODS, ExpectationError, Interval, Method, outcome


class RecordError(ValueError):
    """A call of record() that cannot stand; the message says what was expected."""


@dataclass(frozen=True)
class Control:
    """The same check on a deliberately broken (control) or deliberately true (planted) case.

    `measured` and `interval` are judged by the claim's own expectation: a control must fail it, a planted case meet it.
    """

    description: str
    measured: Any
    interval: Sequence[Any] | None = None


@dataclass(frozen=True)
class Recorded:
    """What record() returns: the entry as stored, and its card for notebooks."""

    entry: dict[str, Any]
    expected: str
    extra_anchor: str | None = field(default=None)

    @property
    def outcome(self) -> str:
        """'met', 'unmet' or 'undecided', under the claim as it read when record() was called."""
        return str(self.entry["outcome"])

    def __repr__(self) -> str:
        return card_text(self.entry, self.expected)

    def _repr_html_(self) -> str:
        return card_html(self.entry, self.expected, self.extra_anchor)

    def _ipython_display_(self) -> None:
        """Nothing more: IPython has shown the card when it was recorded (see `_shown`)."""


def _shown(recorded: Recorded) -> Recorded:
    """Show the card at once where IPython runs: of a loop over regimes the last expression shows none of the cards."""
    if "IPython" in sys.modules:
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        if get_ipython() is not None:
            display({"text/html": recorded._repr_html_(), "text/plain": repr(recorded)}, raw=True)
    return recorded


# Per kernel: the time of the last record (for `seconds`), each claim's first regime (it carries the plain anchor), and
# what was already written to which run.
_clock = {"last": time.perf_counter()}
_first_regime: dict[str, str] = {}
_written: dict[tuple[str, str], str] = {}


def record(
    tag: str,
    measured: Any,
    *,
    method: Method,
    checked_range: str,
    control: Control | None,
    regime: str = "",
    planted: Control | None = None,
    interval: Sequence[Any] | None = None,
    seeds: Sequence[int] | int | None = None,
    n: int | None = None,
    values: Mapping[str, Any] | None = None,
    spread: Mapping[str, float] | None = None,
    figure: str | None = None,
    tolerance_note: str | None = None,
) -> Recorded:
    """Put `measured` before the claim `tag`, once per regime.

    measured: the number that decides (int and Fraction are kept exactly), or True/False for a yes-or-no claim.
    method: 'proof', 'exact', 'enclosure', 'float' or 'statistical' (which needs `interval` and `seeds`).
    checked_range: in words, what was tried. regime: names this case where a claim has several.
    control: the check under a broken hypothesis; None only beside a `planted` case.
    planted: for a contradicted claim, a case where it is true and the same check says so.
    interval: (low, high) around `measured`; it decides in its place. seeds: the seeds used, or their number.
    n: sample size. values: named numbers that prose and tables may cite and the baseline compares.
    spread: between-seed standard deviations, keyed as `values`, or 'measured' for the deciding number.
    figure: name of the figure that shows it. tolerance_note: a remark kept with the record.

    Raises `RecordError` naming the tag and the fault.
    """
    try:
        claim = _claim(tag)
        entry = _entry(
            claim,
            measured,
            method=method,
            checked_range=checked_range,
            control=control,
            regime=regime,
            planted=planted,
            interval=interval,
            seeds=seeds,
            n=n,
            values=values,
            spread=spread,
            figure=figure,
            note=tolerance_note,
        )
    except (NumberError, ExpectationError) as error:
        raise RecordError(f"record({tag!r}): {error}") from error
    first = _first_regime.setdefault(tag, regime)
    extra = anchor(tag, "") if regime and first == regime else None
    _write(entry)
    return _shown(Recorded(entry, claim.expectation.words(), extra))


def unavailable(tag: str, reason: str, regime: str = "") -> Recorded:
    """Say that `tag`, or one regime of it, could not be checked in this run, e.g. because a data set is not here.

    The claim then reads "not checked" with `reason`, and is listed as not compared: an error when CI=true.
    """
    claim = _claim(tag)
    if not reason.strip():
        raise RecordError(f"unavailable({tag!r}): give the reason")
    blank: dict[str, Any] = dict.fromkeys(
        (
            "measured",
            "measured_exact",
            "interval",
            "seeds",
            "n",
            "control",
            "planted",
            "figure",
            "tolerance_note",
        )
    )
    entry = {
        **blank,
        "tag": tag,
        "regime": regime,
        "method": "float",
        "checked_range": reason.strip(),
        "values": {},
        "spread": {},
        "seconds": 0.0,
        "peak_memory_bytes": 0,
        "notebook": os.environ.get("ATTENTION_COMPANION_NOTEBOOK"),
        "cell": anchor(tag, regime),
        "outcome": "unavailable",
    }
    _write(entry)
    return _shown(Recorded(entry, claim.expectation.words()))


def _claim(tag: str) -> Claim:
    claims = load_claims(find_root())
    if tag not in claims:
        near = [t for t in claims if t.split("-")[0] == str(tag).split("-")[0]] or list(claims)
        raise RecordError(f"record({tag!r}): no such claim in book/claims; there are {', '.join(near)}")
    return claims[tag]


def _entry(
    claim: Claim,
    measured: Any,
    *,
    method: Method,
    checked_range: str,
    control: Control | None,
    regime: str,
    planted: Control | None,
    interval: Sequence[Any] | None,
    seeds: Sequence[int] | int | None,
    n: int | None,
    values: Mapping[str, Any] | None,
    spread: Mapping[str, float] | None,
    figure: str | None,
    note: str | None,
) -> dict[str, Any]:
    tag = claim.tag
    if method not in METHODS:
        raise RecordError(f"record({tag!r}): method is {method!r}; expected one of {', '.join(METHODS)}")
    if not isinstance(checked_range, str) or not checked_range.strip():
        raise RecordError(f"record({tag!r}): checked_range is {checked_range!r}; say in words what was tried")
    if control is None and planted is None:
        raise RecordError(
            f"record({tag!r}): a control is obligatory (or a planted true case, where the claim fails)"
        )
    for name, value in (("control", control), ("planted", planted)):
        if value is not None and not isinstance(value, Control):
            raise RecordError(f"record({tag!r}): {name} is a {type(value).__name__}; pass a ledger.Control")
    if method == "statistical" and (interval is None or seeds is None):
        raise RecordError(f"record({tag!r}): method 'statistical' needs both interval and seeds")
    if isinstance(seeds, int):
        seed_list: list[int] | int | None = int(seeds)
    else:
        seed_list = None if seeds is None else [int(s) for s in seeds]
    named = {str(k): encode(normalise(v, f"value {k!r}")) for k, v in (values or {}).items()}
    sds = {
        str(k): as_float(normalise(v, f"spread {k!r}"), f"spread {k!r}") for k, v in (spread or {}).items()
    }
    unknown = sorted(set(sds) - set(named) - {"measured"})
    if unknown:
        raise RecordError(
            f"record({tag!r}): spread names {unknown}, not among values {sorted(named)} or 'measured'"
        )
    now = time.perf_counter()
    seconds, _clock["last"] = now - _clock["last"], now
    judged = _judge(claim, "measured", measured, interval)
    return {
        "tag": tag,
        "regime": regime,
        "method": method,
        "checked_range": checked_range.strip(),
        **judged,
        "seeds": seed_list,
        "n": None if n is None else int(n),
        "values": named,
        "spread": sds,
        "control": _control(claim, "control", control),
        "planted": _control(claim, "planted", planted),
        "figure": figure,
        "tolerance_note": note,
        "seconds": round(seconds, 3),
        "peak_memory_bytes": _peak_memory(),
        "notebook": os.environ.get("ATTENTION_COMPANION_NOTEBOOK"),
        "cell": anchor(tag, regime),
    }


def _judge(claim: Claim, what: str, measured: Any, interval: Sequence[Any] | None) -> dict[str, Any]:
    """The stored form of a number and its interval, with the outcome under the claim's expectation."""
    number = normalise(measured, what)
    ends: Interval | None = None
    if interval is not None:
        if len(interval) != 2:
            raise NumberError(f"the interval of {what} has {len(interval)} entries; expected (low, high)")
        low, high = (
            normalise(interval[0], f"lower end of {what}"),
            normalise(interval[1], f"upper end of {what}"),
        )
        if not low <= number <= high:
            raise NumberError(f"{what} = {number} lies outside its interval [{low}, {high}]")
        ends = (low, high)
    result = outcome(claim.expectation, number, ends)
    approximate: Number = number if isinstance(number, bool) else as_float(number, what)
    return {
        "measured": encode(approximate),
        "measured_exact": encode(number) if is_exact(number) else None,
        "interval": None if ends is None else [encode(e) for e in ends],
        "outcome": result,
    }


def _control(claim: Claim, what: str, control: Control | None) -> dict[str, Any] | None:
    if control is None:
        return None
    if not isinstance(control.description, str) or not control.description.strip():
        raise NumberError(f"the {what} has no description; say which hypothesis it breaks")
    judged = _judge(claim, f"{what} ({control.description})", control.measured, control.interval)
    return {"description": control.description.strip(), **judged}


def _peak_memory() -> int:
    """Peak resident memory of this process in bytes.

    From the kernel's high-water mark on Linux, where ``ru_maxrss`` also remembers the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _write(entry: dict[str, Any]) -> None:
    """Append the entry to the run's records.jsonl; outside a run do nothing."""
    run_dir = os.environ.get("ATTENTION_COMPANION_RUN_DIR")
    if not run_dir:
        return
    if not Path(run_dir).is_dir():
        raise RecordError(
            f"ATTENTION_COMPANION_RUN_DIR is {run_dir!r}, which is no folder; unset it outside a run"
        )
    key = (run_dir, entry["cell"])
    if key in _written:
        raise RecordError(
            f"record({entry['tag']!r}): regime {entry['regime']!r} was already recorded in this run"
            f" (as {_written[key]!r}); give each regime its own name"
        )
    line = json.dumps(entry, ensure_ascii=False, allow_nan=False, sort_keys=True) + "\n"
    with (Path(run_dir) / "records.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(line)
    _written[key] = entry["regime"]
