"""From outcomes at many sample sizes to the size that suffices, and how it grows with d.

The size that suffices is the smallest n at which as many starts succeed as ``share`` of those that succeed with the
population step. The unit of every interval is the start, with all its sizes and its population step: starts are drawn
again whole, at each d by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .samples import SampleOutcomes

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Growth:
    """Sizes that suffice at each d, with intervals, and the slope of ln n against ln d with its interval."""

    dimensions: list[int]
    sizes: list[float]
    intervals: list[tuple[float, float]]
    slope: float
    interval: tuple[float, float]


def size_that_suffices(
    sizes: npt.ArrayLike, shares: npt.ArrayLike, whole: npt.ArrayLike, share: float
) -> Floats:
    """The smallest n at which ``shares`` reaches ``share`` of ``whole``, interpolated linearly in 1/n.

    ``sizes`` has shape (G,), ``shares`` (..., G), ``whole`` (...): the share of the population step, which stands at
    1/n = 0, so that there always is a crossing (beyond the largest size it is extrapolated on this line). Where the
    smallest size already suffices, it is returned.

    Raises ValueError when the population step never succeeds: then there is nothing to reach.
    """
    inverse = np.append(1 / np.asarray(sizes, dtype=np.float64), 0.0)
    top = np.asarray(whole, dtype=np.float64)[..., np.newaxis]
    if (top <= 0).any():
        raise ValueError(
            "the population step never succeeds here, so no sample size can come near it; widen m"
        )
    heights = np.concatenate([np.asarray(shares, dtype=np.float64), top], axis=-1)
    goal = share * top
    reached = heights >= goal
    right = reached.argmax(axis=-1)[..., np.newaxis]
    left = np.maximum(right - 1, 0)
    below, above = np.take_along_axis(heights, left, -1), np.take_along_axis(heights, right, -1)
    part = np.where(right > 0, (goal - below) / np.where(above > below, above - below, 1), 0)
    return np.asarray(1 / (inverse[left] + part * (inverse[right] - inverse[left])))[..., 0]


def growth_of(
    outcomes: dict[int, SampleOutcomes],
    criterion: str,
    seed: int,
    *,
    share: float = 0.95,
    draws: int = 2000,
    confidence: float = 0.95,
) -> Growth:
    """The sizes that suffice at each d in ``outcomes`` and the slope of their logarithm, with bootstrap intervals.

    ``criterion`` is "learned" or "landed". Raises ValueError for another one, or fewer than two values of d.
    """
    if criterion not in ("learned", "landed"):
        raise ValueError(f"criterion is {criterion!r}; choose 'learned' or 'landed'")
    if len(outcomes) < 2:
        raise ValueError(f"outcomes at d = {list(outcomes)}; a slope needs two values of d")
    rng = np.random.default_rng([seed, 0, 0, 0, 18])
    found, replicates = [], []
    for seen in outcomes.values():
        hits, whole = getattr(seen, criterion), getattr(seen, f"{criterion}_population")
        starts = len(hits)
        counts = rng.multinomial(starts, np.full(starts, 1 / starts), size=draws) / starts
        found.append(float(size_that_suffices(seen.sizes, hits.mean(axis=0), whole.mean(), share)))
        replicates.append(size_that_suffices(seen.sizes, counts @ hits, counts @ whole, share))
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    logs = np.log(np.array(list(outcomes), dtype=np.float64))
    slopes = slope_of(logs, np.log(np.stack(replicates, axis=-1)))
    low, high = np.quantile(slopes, tails)
    ends = [tuple(float(end) for end in np.quantile(values, tails)) for values in replicates]
    return Growth(
        list(outcomes),
        found,
        [(end[0], end[1]) for end in ends],
        float(slope_of(logs, np.log(found))),
        (float(low), float(high)),
    )


def slope_of(x: npt.ArrayLike, y: npt.ArrayLike) -> Floats:
    """Slope of the least-squares line through (x, y), for x (D,) and y (..., D)."""
    across = np.asarray(x, dtype=np.float64)
    centred = across - across.mean()
    return np.asarray(np.asarray(y, dtype=np.float64) @ centred / (centred @ centred))


def planted_outcomes(
    exponent: float, dimensions: Sequence[int], starts: int, seed: int, *, spread: float = 0.25
) -> dict[int, SampleOutcomes]:
    """Made-up outcomes whose sizes grow like d**exponent: what the fit must say of a law that is known.

    Each start has a size of its own above which it succeeds, d**exponent times a log-normal factor of the given
    ``spread``; one start in ten fails even with the population step. All criteria are the same.
    """
    planted = {}
    for d in dimensions:
        rng = np.random.default_rng([seed, d, 0, 0, 20])
        whole = rng.random(starts) < 0.9
        needed = d**exponent * np.exp(spread * rng.normal(size=starts))
        grid = np.unique(np.round(d**exponent * 2 ** np.arange(-2, 4.5, 0.5)).astype(np.int64))
        sizes = grid[grid > 0]
        hits = whole[:, np.newaxis] & (sizes >= needed[:, np.newaxis])
        planted[d] = SampleOutcomes(sizes, hits, hits, whole, whole)
    return planted
