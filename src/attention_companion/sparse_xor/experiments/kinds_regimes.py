"""The comparison of ``kinds_compared`` regime by regime, with proofs in place of runs where a proof exists.

A *regime* is a setting of the embeddings and a start of the second query. A start that a proof excludes from arriving
needs no run; some of those are run all the same, to see whether the proof and the program agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._validation import FloatArray
from ..kinds import ATTENTION_KINDS
from ..starts import Starts
from .kinds_compared import Race, proved_never, proved_unspecialised, race, starts_of, ways_of_ending


@dataclass(frozen=True, eq=False)
class Result:
    """One kind of attention in one regime, over B starts.

    ``steps`` (B,): steps to the threshold, cap + 1 if it is never reached. ``failed`` (B,): the heads ended on the same
    feature or did not isolate the support. ``proved``: both are known from proofs for every start; ``race`` then holds
    only the starts that were run all the same (None if there are none). ``same`` and ``outside``: how many of the
    ``run`` starts that were run ended on the same feature, or outside the support.
    """

    setting: str
    start: str
    attention: str
    d: int
    m: int
    cap: int
    steps: npt.NDArray[np.int64]
    failed: npt.NDArray[np.bool_]
    proved: bool
    same: int
    outside: int
    run: int
    race: Race | None

    @property
    def never(self) -> bool:
        """No start arrived within the cap."""
        return bool((self.steps > self.cap).all())

    @property
    def arrived(self) -> float:
        """Share of the starts that arrived within the cap."""
        return float((self.steps <= self.cap).mean())


def compare(
    setting: str,
    start: str,
    d: int,
    m: int,
    count: int,
    seed: int,
    factors: Sequence[float],
    *,
    cap: int = 2000,
    threshold: float = 1e-3,
    confirm: int = 1,
    kinds: Iterable[str] = ATTENTION_KINDS,
) -> dict[str, Result]:
    """Race the kinds of attention from the same ``count`` starts; one :class:`Result` a kind.

    ``confirm``: how many starts are run to the cap where proofs already decide all of them. Other arguments and errors
    as for ``starts_of`` and ``race``; RuntimeError if a run arrives, or specialises, where a proof excludes it.
    """
    starts = starts_of(setting, start, d, m, count, seed)
    results = {}
    for kind in kinds:
        never, unspecialised = proved_never(kind, starts, threshold), proved_unspecialised(kind, starts)
        proved = bool((never & unspecialised).all())
        entered = _first(starts, min(confirm, count)) if proved else starts
        ran = race(kind, entered, factors, cap=cap, threshold=threshold) if len(entered.pairs) else None
        steps, failed = np.full(count, cap + 1), np.ones(count, dtype=bool)
        same = outside = 0
        if ran is not None:
            size = len(entered.pairs)
            ways = ways_of_ending(ran.gamma, ran.gamma_tilde, entered.pairs)
            same, outside = int(ways.same.sum()), int(ways.outside.sum())
            against = (never[:size] & (ran.steps <= cap)) | (unspecialised[:size] & ways.specialised)
            if against.any():
                raise RuntimeError(
                    f"{kind} attention arrived or specialised from start {int(np.argmax(against))} ({setting} "
                    f"embeddings, {start} start, d = {d}), which a proof excludes: the proof or the training is wrong"
                )
            steps[:size], failed[:size] = ran.steps, ~ways.specialised
        results[kind] = Result(
            setting,
            start,
            kind,
            d,
            starts.embeddings.shape[-1],
            cap,
            steps,
            failed,
            proved,
            same,
            outside,
            len(entered.pairs),
            ran,
        )
    return results


def step_ratios(slow: Result, fast: Result) -> FloatArray:
    """Steps of ``slow`` over steps of ``fast``, start by start (B,); a lower bound where ``slow`` never arrives."""
    if len(slow.steps) != len(fast.steps):
        raise ValueError(
            f"{len(slow.steps)} and {len(fast.steps)} starts; compare results of the same starts"
        )
    return np.asarray(slow.steps / np.maximum(fast.steps, 1))


def step_values(slow: Result, softmax: Result) -> dict[str, float]:
    """The named numbers that stand behind a ratio; those of the runs only where there was a run."""
    values = {
        "steps": float(np.median(slow.steps)),
        "slowest": int(slow.steps.max()),
        "softmax steps": float(np.median(softmax.steps)),
        "softmax slowest": int(softmax.steps.max()),
        "share reached": slow.arrived,
        "cap": slow.cap,
        "run": slow.run,
    }
    if softmax.race is not None:
        values["softmax interior"] = int(softmax.race.interior)
    if slow.race is not None:
        values |= {
            "chosen rate": slow.race.factor,
            "interior": int(slow.race.interior),
            "lowest loss": float(np.nanmin(slow.race.losses)),
        }
    return values


def verdict_cell(result: Result, softmax: Result) -> str:
    """One cell of the table of regimes: the median number of steps, and how it compares with softmax."""
    median = float(np.median(result.steps))
    if result.never:
        return "never (proof)" if result.proved else f"not in {result.cap}"
    if result.attention == "softmax":
        return f"{median:g}"
    return f"{median:g} (ratio {float(np.median(step_ratios(result, softmax))):.3g})"


def regime_table(results: Iterable[dict[str, Result]]) -> str:
    """A Markdown table, one row a regime and input length: median steps to the threshold by kind of attention."""
    lines = ["| embeddings | start | d | m | softmax | linear | erf |", "|---|---|---|---|---|---|---|"]
    for row in results:
        soft = row["softmax"]
        cells = [soft.setting, soft.start, str(soft.d), str(soft.m)]
        lines.append(
            "| " + " | ".join(cells + [verdict_cell(row[kind], soft) for kind in ATTENTION_KINDS]) + " |"
        )
    return "\n".join(lines)


def _first(starts: Starts, count: int) -> Starts:
    return Starts(
        starts.embeddings[:count], starts.theta[:count], starts.theta_tilde[:count], starts.pairs[:count]
    )
