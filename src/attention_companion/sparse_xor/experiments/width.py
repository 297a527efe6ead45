"""How wide the embedding must be: shares of starts against the width m in the limit of large learning rates.

One population step from (theta, -theta) moves head 1 along w and head 2 along w~ (see ``gradient``). With the scores
s_i = v_i . theta and E_i = e^(s_i), the weights a_i = E_i / Z and b_i = 1 / (E_i Z~) satisfy a_i b_i = 1 / (Z Z~) =: c
at every position, so that, with t = E_p / E_q,

    w / (2c) = t v_p + v_q / t - (t + 1/t) Va + eta Va - Vh,
    h_i = (|b|^2 / c) a_i^2 + 2 (d - 1) c,     eta = sum_i h_i,     Vx = sum_i x_i v_i,

and w~ is the same with E_i replaced by 1 / E_i (hence t by 1 / t). Only the sums of E_i^k v_i and E_i^k, k = -2..2, run
over all positions: one pass finds them, a second finds the position whose score grows most. As the rate grows, that
position takes all the weight of its head.

Nested widths: the embeddings of width m are the first m coordinates of one Gaussian draw, scaled to unit length (which
is uniform on the sphere). A start's outcomes at neighbouring widths then differ in one coordinate only, and the share
is a smooth function of m. Rows are drawn in blocks and drawn again in the second pass: memory does not grow with d.
Several pairs are tried at each start. They share embeddings and query, so every interval resamples starts, not pairs.

Source: our derivation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Positions drawn at a time, and coordinates drawn from one generator. Both are part of what a seed means.
BLOCK, COLUMNS = 4096, 16


@dataclass(frozen=True, eq=False)
class WidthOutcomes:
    """Shares of the pairs of each start, by width: float arrays of shape (starts, widths).

    ``on_pair``: both heads end in the pair, on one target or on two. ``success``: on the two different targets.
    """

    d: int
    widths: tuple[int, ...]
    pairs: int
    on_pair: Array
    success: Array


@dataclass(frozen=True, eq=False)
class SmallestWidth:
    """m* at one d: ``width`` is the smallest width tried whose share reaches the one asked for.

    ``crossing`` interpolates the share linearly between ``width - 1`` and ``width``, and is what fits use.
    ``interval`` (95%, bootstrap over starts) belongs to ``crossing``; ``draws`` are the bootstrap's crossings.
    ``widths`` and ``shares`` are the curve that was crossed.
    """

    d: int
    width: int
    crossing: float
    interval: tuple[float, float]
    draws: Array
    starts: int
    pairs: int
    widths: tuple[int, ...]
    shares: Array


def outcomes_by_width(
    d: int, widths: Sequence[int], starts: int, seed: int, *, pairs: int = 8, unit: bool = True
) -> WidthOutcomes:
    """Outcomes of one step with an infinitely large rate for ``starts`` starts, ``pairs`` random pairs in each.

    Start k is drawn from ``[seed, d, k]`` whatever ``widths``, ``starts`` and ``pairs`` are, so more extend fewer.
    ``unit=False`` divides by sqrt(m) in place of each embedding's length: the control whose lengths vary.
    O(starts * d * sum(widths) * pairs) time, O(BLOCK * max(widths)) memory, float64.

    Raises ValueError for d < 3, a width below 1, or fewer than one start or pair.
    """
    widths = tuple(int(m) for m in widths)
    if d < 3 or not widths or min(widths) < 1 or starts < 1 or pairs < 1:
        raise ValueError(
            f"d = {d}, widths = {widths}, starts = {starts}, pairs = {pairs}; "
            "give d >= 3, widths >= 1 and at least one start and pair"
        )
    kept = [_outcomes_of_start(d, widths, seed, k, pairs, unit) for k in range(starts)]
    return WidthOutcomes(
        d, widths, pairs, np.stack([on_pair for on_pair, _ in kept]), np.stack([both for _, both in kept])
    )


def smallest_width(
    d: int,
    starts: int,
    seed: int,
    share: float = 0.95,
    *,
    pairs: int = 8,
    draws: int = 1000,
    unit: bool = True,
) -> SmallestWidth:
    """m*(d): the smallest width at which both heads land in the pair in ``share`` of starts as the rate grows.

    A few starts find the neighbourhood by doubling and halving; all starts then decide between neighbouring widths.
    The window grows until it holds the whole interval. ``draws`` resamplings of starts give the interval.

    Raises ValueError for d < 3, a share outside 0..1, or fewer than 2 starts.
    """
    if not 0 < share < 1 or starts < 2:
        raise ValueError(f"share = {share}, starts = {starts}; give 0 < share < 1 and at least 2 starts")
    middle = _rough_width(d, max(2, min(starts, 10)), seed, share, pairs, unit)
    low, high = max(1, middle - 3), middle + 3
    curves = outcomes_by_width(d, range(low, high + 1), starts, seed, pairs=pairs, unit=unit).on_pair
    while True:
        widths = tuple(range(low, high + 1))
        resampled = _resampled_means(curves, draws, seed)
        mean = curves.mean(axis=0)
        late = [float(np.quantile(resampled[:, -1], 0.02)), float(mean[-1])]
        early = [float(np.quantile(resampled[:, 0], 0.98)), float(mean[0])]
        if min(late) < share:
            more = range(high + 1, high + 4)
            curves = np.hstack(
                [curves, outcomes_by_width(d, more, starts, seed, pairs=pairs, unit=unit).on_pair]
            )
            high += 3
        elif max(early) >= share and low > 1:
            fewer = range(max(1, low - 3), low)
            curves = np.hstack(
                [outcomes_by_width(d, fewer, starts, seed, pairs=pairs, unit=unit).on_pair, curves]
            )
            low = max(1, low - 3)
        else:
            break
    crossings = np.array([crossing(widths, line, share) for line in resampled])
    at = crossing(widths, mean, share)
    ends = np.quantile(crossings, [0.025, 0.975])
    return SmallestWidth(
        d, math.ceil(at), at, (float(ends[0]), float(ends[1])), crossings, starts, pairs, widths, mean
    )


def crossing(widths: Sequence[int], shares: Array, share: float) -> float:
    """Where the line through (widths, shares) first reaches ``share``; the last width if it never does."""
    reached = np.flatnonzero(shares >= share)
    if len(reached) == 0:
        return float(widths[-1])
    k = int(reached[0])
    if k == 0:
        return float(widths[0])
    part = (share - shares[k - 1]) / (shares[k] - shares[k - 1])
    return float(widths[k - 1] + part * (widths[k] - widths[k - 1]))


def _resampled_means(curves: Array, draws: int, seed: int) -> Array:
    """Mean curves of ``draws`` resamplings of the rows, shape (draws, widths)."""
    n = len(curves)
    counts = np.random.default_rng([seed, n]).multinomial(n, np.full(n, 1 / n), size=draws)
    return np.asarray(counts @ curves / n)


def _rough_width(d: int, starts: int, seed: int, share: float, pairs: int, unit: bool) -> int:
    low, high = 1, 16
    while _share(d, high, starts, seed, pairs, unit) < share:
        low, high = high, high + max(2, high // 2)
    while high - low > 1:
        m = (low + high) // 2
        low, high = (low, m) if _share(d, m, starts, seed, pairs, unit) >= share else (m, high)
    return high


def _share(d: int, m: int, starts: int, seed: int, pairs: int, unit: bool) -> float:
    return float(outcomes_by_width(d, [m], starts, seed, pairs=pairs, unit=unit).on_pair.mean())


def _outcomes_of_start(
    d: int, widths: Sequence[int], seed: int, k: int, pairs: int, unit: bool
) -> tuple[Array, Array]:
    rng = np.random.default_rng([seed, d, k, 0])
    chosen = np.array([rng.choice(d, 2, replace=False) for _ in range(pairs)])
    widest = max(widths)
    query = np.concatenate(
        [np.random.default_rng([seed, d, k, 1, c]).normal(size=COLUMNS) for c in range(-(-widest // COLUMNS))]
    )
    # A single block is kept for the second pass; more of them are drawn again.
    blocks = list(_blocks(d, widest, seed, k)) if d <= BLOCK else []
    targets = np.empty((widest, 2, pairs))
    sums = [np.zeros((m, 5)) for m in widths]
    totals = np.zeros((len(widths), 5))
    for first, block in blocks or _blocks(d, widest, seed, k):
        inside = (chosen >= first) & (chosen < first + block.shape[1])
        for at, which in np.argwhere(inside):
            targets[:, which, at] = block[:, chosen[at, which] - first]
        for w, (m, length) in enumerate(_lengths(block, widths, unit)):
            powers = _powers(query[:m] @ block[:m] / (length * np.linalg.norm(query[:m])))
            sums[w] += block[:m] @ (powers / length).T
            totals[w] += powers.sum(axis=1)
    directions, own = [], np.empty((len(widths), 2, 2, pairs))
    for w, (m, length) in enumerate(_lengths(targets.reshape(widest, -1), widths, unit)):
        rows = targets[:m] / length.reshape(2, pairs)
        moved = _directions(rows, query[:m] / np.linalg.norm(query[:m]), sums[w], totals[w], d)
        own[w] = np.einsum("mtn,hmn->htn", rows, moved)
        directions.append(moved.transpose(1, 0, 2).reshape(m, -1))
    others = np.full((len(widths), 2 * pairs), -np.inf)
    for first, block in blocks or _blocks(d, widest, seed, k):
        inside = (chosen >= first) & (chosen < first + block.shape[1])
        for w, (m, length) in enumerate(_lengths(block, widths, unit)):
            growth = block[:m].T @ directions[w]
            growth /= length[:, None]
            for at, which in np.argwhere(inside):
                growth[chosen[at, which] - first, [at, pairs + at]] = -np.inf
            np.maximum(others[w], growth.max(axis=0), out=others[w])
    on_pair = (own.max(axis=2) > others.reshape(len(widths), 2, pairs)).all(axis=1)
    first_wins = own[:, :, 0] > own[:, :, 1]
    return on_pair.mean(axis=1), (on_pair & (first_wins[:, 0] != first_wins[:, 1])).mean(axis=1)


def _blocks(d: int, widest: int, seed: int, k: int) -> Iterator[tuple[int, Array]]:
    """(first position, Gaussian coordinates of shape (widest, positions)), block by block."""
    for number, first in enumerate(range(0, d, BLOCK)):
        size = min(BLOCK, d - first)
        parts = [
            np.random.default_rng([seed, d, k, 2, number, c]).standard_normal((COLUMNS, size))
            for c in range(-(-widest // COLUMNS))
        ]
        yield first, np.concatenate(parts)[:widest]


def _lengths(block: Array, widths: Sequence[int], unit: bool) -> Iterator[tuple[int, Array]]:
    squares = np.cumsum(block**2, axis=0) if unit else None
    for m in widths:
        yield m, (np.full(block.shape[1], math.sqrt(m)) if squares is None else np.sqrt(squares[m - 1]))


def _powers(scores: Array) -> Array:
    """E^k for k = -2..2, shape (5, positions). Scores lie near -1..1 (a unit query), so nothing can overflow."""
    e = np.exp(scores)
    return np.stack([1 / (e * e), 1 / e, np.ones_like(e), e, e * e])


def _directions(rows: Array, query: Array, sums: Array, totals: Array, d: int) -> Array:
    """w and w~ of the module's head, up to a positive factor: shape (2, m, pairs) from rows (m, 2, pairs)."""
    moved = []
    for sign in (1, -1):
        s = sign * np.einsum("m,mtn->tn", query, rows)
        t = np.exp(s[0] - s[1])
        # Columns of ``sums`` are the powers -2..2 of E; for the second head E becomes 1 / E.
        z, other = totals[2 + sign], totals[2 - sign]
        ends = totals[2 - 2 * sign]  # sum of E^-2
        mean = sums[:, 2 + sign] / z
        pushed = (ends * sums[:, 2 + 2 * sign] + 2 * (d - 1) * sums[:, 2]) / (z * other)
        eta = (ends * totals[2 + 2 * sign] + 2 * (d - 1) * d) / (z * other)
        moved.append(
            t * rows[:, 0] + rows[:, 1] / t - (t + 1 / t) * mean[:, None] + (eta * mean - pushed)[:, None]
        )
    return np.stack(moved)


@dataclass(frozen=True)
class Fit:
    """A least-squares line and the 95% interval of its slope, bootstrap over starts at every point."""

    slope: float
    intercept: float
    interval: tuple[float, float]


def fit_widths(found: Sequence[SmallestWidth], kind: str = "log") -> Fit:
    """The line through m* at several d; replicate b of the bootstrap joins draw b of every d.

    ``kind``: "log" fits m* against ln d, "polylog" ln m* against ln ln d, "power" ln m* against ln d.
    Raises ValueError for another kind or fewer than two d.
    """
    lines = {"log": (False, False), "polylog": (True, True), "power": (True, False)}
    if kind not in lines or len({at.d for at in found}) < 2:
        raise ValueError(
            f"kind is {kind!r} at {len(found)} lengths; give one of {', '.join(lines)} and at least two lengths d"
        )
    log_y, log_x = lines[kind]
    x = np.log([at.d for at in found])
    x = np.log(x) if log_x else x
    y = np.array([at.crossing for at in found])
    draws = np.stack([at.draws for at in found])
    if log_y:
        y, draws = np.log(y), np.log(draws)
    centred = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    slope = float(centred @ y)
    low, high = np.quantile(centred @ draws, [0.025, 0.975])
    return Fit(slope, float(y.mean() - slope * x.mean()), (float(low), float(high)))
