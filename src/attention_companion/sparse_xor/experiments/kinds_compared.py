"""Softmax, linear and erf attention raced from the same starts: how many steps until the loss is below a threshold.

A *setting* says which embeddings, a *start* how the second query is drawn. Every kind of attention runs at every
learning rate of a grid that is the same list of factors for all kinds, times a unit of the kind's own (see
:func:`grid`); of these the one rate is kept at which the median over the starts is smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from .._validation import FloatArray
from ..batch import train
from ..linear_bound import linear_attention_lower_bound, linear_attention_pair_share
from ..starts import Starts, draw_starts

#: Settings: narrow is m << d on the sphere, square m = d on the sphere, orthonormal m = d with v_i . v_j = 0.
SETTINGS = {"narrow": "sphere", "square": "sphere", "orthonormal": "orthonormal"}
#: A head that has less than this share of its squared weights on the pair does not isolate the support.
ISOLATED_AT = 0.5
_SEGMENT = 25


@dataclass(frozen=True, eq=False)
class Race:
    """One kind of attention from B starts.

    ``steps`` (B,): the first step with a loss below the threshold at the chosen rate, cap + 1 if there was none.
    ``factor``: the chosen rate in units of the kind; ``interior`` says that it is neither end of the grid.
    ``median_by_rate`` (R,): the medians the choice was made by; infinite where the race was over before.
    ``losses`` (T, B) at the chosen rate, the value before the first step included; ``gamma``, ``gamma_tilde`` (B, d)
    the last weights there.
    """

    attention: str
    starts: Starts
    steps: npt.NDArray[np.int64]
    factor: float
    interior: bool
    median_by_rate: FloatArray
    losses: FloatArray
    gamma: FloatArray
    gamma_tilde: FloatArray


@dataclass(frozen=True, eq=False)
class Ways:
    """How each of B runs ended, boolean arrays; ``outside`` and ``same`` and ``specialised`` exclude each other.

    ``outside``: a head has less than half of its squared weights on the pair, or its largest weight (in absolute value)
    outside it: it fails to isolate the support. ``same``: both heads have their largest weight on one target.
    ``specialised``: they have it on different targets.
    """

    outside: npt.NDArray[np.bool_]
    same: npt.NDArray[np.bool_]
    specialised: npt.NDArray[np.bool_]


def grid(attention: str, d: int, m: int, factors: Sequence[float]) -> FloatArray:
    """The learning rates (R,): ``factors`` times d^2 sqrt(m) for softmax, times 1 for linear and erf.

    A softmax head moves by an entry of order 1/d^2 times the rate, and its scores spread by 1/sqrt(m): d^2 sqrt(m) is
    the rate at which one step decides. Near a solution the curvature of the loss of linear attention on orthonormal
    embeddings is 2, so the rate at which one step decides there is of order 1; erf has the slope 2/sqrt(pi) at 0.
    """
    unit = d**2 * float(np.sqrt(m)) if attention == "softmax" else 1.0
    return np.asarray(factors, dtype=np.float64) * unit


def race(
    attention: str,
    starts: Starts,
    factors: Sequence[float],
    *,
    cap: int = 2000,
    threshold: float = 1e-3,
) -> Race:
    """Run every start at every rate, until the best rate is known; then the remaining starts at that rate.

    Runs end at the cap, when they leave float64, or when they stand still bit for bit (further steps change nothing).
    A rate is best if the median number of steps (cap + 1 for runs that do not arrive) over the starts is smallest;
    among equals the one at which more starts have arrived, then the one nearest the middle of the grid. Where no rate
    brings the median below the cap, the rate with the smallest median loss at the end stands for the kind. Once the
    median of some rate is settled, none of the others can come below it and the other rates end.

    Raises ValueError for fewer than 3 or unsorted factors, and a cap below 1.
    """
    if cap < 1 or len(factors) < 3 or list(factors) != sorted(set(factors)):
        raise ValueError(
            f"cap is {cap}, factors are {list(factors)}; give a cap >= 1 and at least 3 increasing factors"
        )
    rows, pairs = starts.embeddings, starts.pairs
    count, d, m = rows.shape
    rates = grid(attention, d, m, factors)
    size = (count, rates.size)
    theta = np.broadcast_to(starts.theta[:, np.newaxis], (*size, m)).copy()
    tilde = np.broadcast_to(starts.theta_tilde[:, np.newaxis], (*size, m)).copy()
    reached = np.full(size, cap + 1)
    final = np.full(size, np.inf)
    history = np.full((cap + 1, *size), np.nan)
    weights = np.zeros((2, *size, d))
    live = np.arange(rates.size)
    done = 0
    chosen: int | None = None
    while done < cap and live.size:
        if chosen is None and (np.median(reached, axis=0) <= cap).any():
            chosen = _choose(reached, final, cap)
            live = live[live == chosen]
        if chosen is not None and (reached[:, chosen] <= cap).all():
            break
        length = min(_SEGMENT, cap - done)
        run = train(
            rows[:, np.newaxis],
            theta[:, live],
            pairs[:, np.newaxis],
            rates[live],
            length,
            theta_tilde=tilde[:, live],
            attention=attention,
            stop_below=threshold,
        )
        taken = run.losses.shape[0] - 1
        first = np.where(run.reached >= 0, done + run.reached, cap + 1)
        reached[:, live] = np.minimum(reached[:, live], first)
        history[done : done + taken + 1, :, live] = run.losses
        still = run.diverged | ((run.theta == theta[:, live]) & (run.theta_tilde == tilde[:, live])).all(
            axis=-1
        )
        theta[:, live], tilde[:, live], final[:, live] = run.theta, run.theta_tilde, run.losses[-1]
        weights[0][:, live], weights[1][:, live] = run.gamma, run.gamma_tilde
        done += taken
        live = live[~still.all(axis=0)] if taken else live[:0]
    if chosen is None:
        chosen = _choose(reached, final, cap)
    losses = history[: done + 1, :, chosen]
    return Race(
        attention,
        starts,
        reached[:, chosen],
        float(factors[chosen]),
        0 < chosen < rates.size - 1,
        np.median(np.where(reached <= cap, reached, np.inf), axis=0),
        losses,
        weights[0][:, chosen],
        weights[1][:, chosen],
    )


def _choose(reached: npt.NDArray[np.int64], final: FloatArray, cap: int) -> int:
    """The column with the smallest median; ties by arrivals, then by the middle of the grid; never: by final loss."""
    median = np.median(reached, axis=0)
    if median.min() > cap:
        # np.median would warn about infinities that meet; ordering them needs no arithmetic.
        return int(np.argmin(np.sort(final, axis=0)[final.shape[0] // 2]))
    equal = np.flatnonzero(median == median.min())
    arrived = (reached[:, equal] <= cap).sum(axis=0)
    equal = equal[arrived == arrived.max()]
    return int(equal[np.argmin(np.abs(equal - (reached.shape[1] - 1) / 2))])


def median_interval(values: npt.ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """An interval of the median from order statistics: exact whatever the distribution, one value a seed.

    It lies between the k-th smallest and the k-th largest value, with the largest k for which both are on their sides
    of the median with probability at least ``confidence``. Raises ValueError for fewer values than that needs (6 for
    0.95).
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n, k, outside = ordered.size, 0, 0.0
    while k < n // 2:
        outside += 2 * comb(n, k) / 2.0**n
        if outside > 1 - confidence:
            break
        k += 1
    if k == 0:
        raise ValueError(
            f"{n} values cannot bound their median with confidence {confidence}; give more seeds"
        )
    return float(ordered[k - 1]), float(ordered[n - k])


def ways_of_ending(gamma: FloatArray, gamma_tilde: FloatArray, pairs: npt.NDArray[np.int64]) -> Ways:
    """Classify weights (B, d) of both heads by their squares; see :class:`Ways`. Signs do not matter."""
    outside = np.zeros(len(pairs), dtype=bool)
    looks = []
    for head in (gamma, gamma_tilde):
        # Divided by the largest weight first: squares of divergent runs must not leave the dtype.
        squares = (head / np.maximum(np.abs(head).max(axis=1, keepdims=True), np.finfo(head.dtype).tiny)) ** 2
        on_pair = np.take_along_axis(squares, pairs, axis=1).sum(axis=1)
        looks.append(squares.argmax(axis=1))
        outside |= (on_pair < ISOLATED_AT * squares.sum(axis=1)) | ~(looks[-1][:, np.newaxis] == pairs).any(
            axis=1
        )
    same = ~outside & (looks[0] == looks[1])
    return Ways(outside, same, ~outside & ~same)


def proved_never(attention: str, starts: Starts, threshold: float = 1e-3) -> npt.NDArray[np.bool_]:
    """For which starts (B,) a proof excludes a loss below ``threshold``, at any rate and after any number of steps.

    Linear and erf attention from a mirrored start keep b = -a, and then the loss is at least 1/2. Linear attention is
    bounded by ``linear_attention_lower_bound`` (sharpened) where that exists. Softmax: never proved.
    """
    count = len(starts.pairs)
    proved = np.zeros(count, dtype=bool)
    if attention == "softmax":
        return proved
    proved |= (starts.theta_tilde == -starts.theta).all(axis=1) & (threshold <= 0.5)
    if attention == "linear":
        for k in np.flatnonzero(~proved):
            try:
                bound = linear_attention_lower_bound(
                    starts.embeddings[k], starts.pairs[k].tolist(), sharpened=True
                )
            except ValueError:
                continue  # No bound exists for embeddings this wide: nothing is proved.
            proved[k] = bound > threshold
    return proved


def proved_unspecialised(attention: str, starts: Starts) -> npt.NDArray[np.bool_]:
    """For which starts (B,) a proof excludes the class "specialised", at any rate and after any number of steps.

    With b = -a both heads have their largest weight on one position. Linear attention on embeddings whose largest share
    on the pair is below one half cannot isolate the support.
    """
    proved = np.zeros(len(starts.pairs), dtype=bool)
    if attention != "softmax":
        proved |= (starts.theta_tilde == -starts.theta).all(axis=1)
    if attention == "linear":
        for k in np.flatnonzero(~proved):
            share = linear_attention_pair_share(starts.embeddings[k], starts.pairs[k].tolist())
            proved[k] = share < ISOLATED_AT - 1e-9
    return proved


def starts_of(setting: str, start: str, d: int, m: int, count: int, seed: int) -> Starts:
    """Starts 0..count-1 of a setting: width ``m`` if it is narrow, width d otherwise; errors as ``draw_starts``."""
    if setting not in SETTINGS:
        raise ValueError(f"setting is {setting!r}; choose one of {', '.join(SETTINGS)}")
    width = m if setting == "narrow" else d
    return draw_starts(d, width, range(count), seed, second=start, embeddings=SETTINGS[setting])
