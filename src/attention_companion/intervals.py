"""Intervals for statistics whose unit is the seed: shares, paired differences, fitted slopes.

Wilson's interval is used where trials are independent and each is one seed. Where seeds are shared between
quantities (nested widths, prefixes of one sample, several rates from one start) the seeds are resampled whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest, norm

Interval = tuple[float, float]


def wilson(hits: int, total: int, confidence: float = 0.95) -> Interval:
    """Wilson's interval of a share of independent trials; ``total`` trials, of which ``hits`` count.

    Raises ValueError when total < 1 or hits lies outside 0..total.
    """
    if total < 1 or not 0 <= hits <= total:
        raise ValueError(f"{hits} hits of {total} trials; give 0 <= hits <= trials and at least one trial")
    low, high = binomtest(int(hits), int(total)).proportion_ci(confidence, method="wilson")
    return float(low), float(high)


def paired_difference(first: Any, second: Any, confidence: float = 0.95) -> tuple[float, Interval]:
    """Mean of first - second over seeds and its interval, for two outcomes (0/1 or numbers) of the same seeds.

    The interval is Wald's for the mean of the differences with two seeds added, one for each side (Bonett and Price's
    adjustment for paired shares), which keeps it from having width zero when no pair differs.

    Raises ValueError for unequal or empty arrays.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or a.size < 1:
        raise ValueError(
            f"outcomes of shapes {a.shape} and {b.shape}; give two equally long lists, one value a seed"
        )
    difference = a - b
    padded = np.concatenate([difference, [1.0, -1.0]])
    half = float(norm.ppf(0.5 + confidence / 2)) * float(padded.std(ddof=0)) / np.sqrt(padded.size)
    centre = float(padded.mean())
    return float(difference.mean()), (centre - half, centre + half)


def line_fit(x: Any, y: Any) -> tuple[float, float]:
    """Slope and intercept of the least-squares line through the points (x, y), at least two different x."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or np.unique(a).size < 2:
        raise ValueError(
            f"x = {a.tolist()} and y of shape {b.shape}; a line needs two different x, one y each"
        )
    centred = a - a.mean()
    slope = float(centred @ (b - b.mean()) / (centred @ centred))
    return slope, float(b.mean() - slope * a.mean())


def percentile_interval(draws: Any, confidence: float = 0.95) -> Interval:
    """The central ``confidence`` share of ``draws`` (bootstrap replicates), which must be finite."""
    values = np.asarray(draws, dtype=np.float64)
    if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():
        raise ValueError("draws must be a list of at least two finite numbers")
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def bootstrap(
    rng: np.random.Generator,
    per_seed: npt.NDArray[Any],
    statistic: Callable[[npt.NDArray[Any]], float],
    draws: int = 1000,
) -> npt.NDArray[np.float64]:
    """Replicates of ``statistic`` with whole seeds drawn again, with replacement; ``per_seed`` has seeds on axis 0."""
    values = np.asarray(per_seed)
    if values.ndim < 1 or values.shape[0] < 2:
        raise ValueError(f"per_seed has shape {values.shape}; give at least two seeds on the first axis")
    if draws < 2:
        raise ValueError(f"draws is {draws}; give at least 2")
    chosen = rng.integers(0, values.shape[0], size=(draws, values.shape[0]))
    return np.array([statistic(values[rows]) for rows in chosen], dtype=np.float64)
