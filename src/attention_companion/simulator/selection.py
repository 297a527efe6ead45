"""Which keys a hard-attention head selects: the exact set of maximisers of <q, k> for integer vectors.

The scores of the encoders here read positions only, which are integers, so the sets can be found once and exactly.
Key columns that are constant shift all scores of a query alike and are dropped. In every layout the rest has rank at
most 2, where the maximisers of a linear function over points of the plane are found on their upper hull; any other
case (a changed weight may make one) is solved by comparing all different queries with all different keys, as it is
where there are few different keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
#: Scores of this size are still exact in int64, with room for one addition.
LARGEST_SCORE = 2**62
#: Differences of two key entries of this size are exact as well.
LARGEST_KEY = 2**61
#: Scores compared at once, and the number of different keys up to which comparing is the quickest way.
BLOCK = 4_000_000
FEW = 8


@dataclass(frozen=True, eq=False)
class Selection:
    """For each query the number of its set; set s has the members ``members[offsets[s]:offsets[s + 1]]``, ascending."""

    set_of: Integers
    offsets: Integers
    members: Integers

    def members_of(self, query: int) -> Integers:
        """The tokens that query number ``query`` selects, ascending."""
        s = self.set_of[query]
        return self.members[self.offsets[s] : self.offsets[s + 1]]

    @property
    def singletons(self) -> bool:
        """Whether every set has exactly one member."""
        return bool(len(self.members) == len(self.offsets) - 1)

    def part(self, first: int, last: int) -> Selection:
        """The same for queries first..last - 1 only, with no set that none of them selects (one may come twice)."""
        if self.singletons:
            each = np.arange(last - first + 1)
            return Selection(each[:-1], each, self.members[self.set_of[first:last]])
        used, set_of = np.unique(self.set_of[first:last], return_inverse=True)
        offsets = _offsets(np.diff(self.offsets)[used])
        return Selection(set_of.reshape(-1), offsets, self.members[_ranges(self.offsets[used], offsets)])


class Keys:
    """The keys of a head, prepared once for many queries: int64 array (L, r) with L >= 1."""

    def __init__(self, keys: Integers):
        if len(keys) == 0:
            raise ValueError("there are no keys to attend to; give at least one token")
        self.largest = _largest(keys)
        if max(self.largest, default=0) > LARGEST_KEY:
            raise OverflowError(
                f"a key entry reaches {max(self.largest)}, more than 2^61; use a shorter sequence"
            )
        self.columns = [c for c in range(keys.shape[1]) if (keys[:, c] != keys[0, c]).any()]
        moving = keys[:, self.columns]
        # By the first column, then the second; equal rows keep their order, so that sets come out ascending.
        self.order = np.lexsort(moving.T[::-1]) if self.columns else np.arange(len(keys))
        ranked = moving[self.order]
        new = np.append(True, (ranked[1:] != ranked[:-1]).any(axis=1))
        self.points = ranked[new]
        self.starts = np.append(np.nonzero(new)[0], len(keys))

    @cached_property
    def hull(self) -> Integers:
        """Rows of ``points`` (of the plane) on their upper hull, by ascending x."""
        return _upper_hull(self.points)

    @cached_property
    def edges(self) -> tuple[Integers, Integers, npt.NDArray[np.float64]]:
        """Along the hull: dx and dy from each of its points to the next (exact, see ``LARGEST_KEY``), and -dy / dx."""
        x, y = self.points[self.hull, 0], self.points[self.hull, 1]
        dx, dy = np.diff(x), np.diff(y)
        return dx, dy, -(dy.astype(np.float64) / dx.astype(np.float64))


def select(queries: Integers, keys: Keys) -> Selection:
    """The maximisers of <queries[i], k> over the keys, for every row of ``queries``, int64 of shape (N, r).

    Raises OverflowError when a score could leave int64.
    """
    size = sum(a * b for a, b in zip(_largest(queries), keys.largest, strict=True))
    if size > LARGEST_SCORE:
        raise OverflowError(f"scores may reach {size}, more than int64 holds exactly; use a shorter sequence")
    moving = queries[:, keys.columns]
    if len(keys.points) <= FEW:
        set_of, offsets, chosen = _by_comparison_with_few(moving, keys.points)
    elif len(keys.columns) == 2 and (moving[:, 1] > 0).all() and len(queries):
        set_of, offsets, chosen = _on_upper_hull(moving, keys)
    else:
        different, set_of = np.unique(moving, axis=0, return_inverse=True)
        offsets, chosen = _by_comparison(different, keys.points)
    counts = np.diff(keys.starts)[chosen]
    at = _offsets(counts)
    tokens = keys.order[_ranges(keys.starts[chosen], at)]
    offsets = at[offsets]
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return Selection(set_of.reshape(-1), offsets, tokens[np.lexsort((tokens, owner))])


def _largest(values: Integers) -> list[int]:
    """The largest absolute value of each column, as Python integers; -2^63 has no absolute value in int64."""
    high, low = values.max(axis=0, initial=0), values.min(axis=0, initial=0)
    return [max(int(a), -int(b)) for a, b in zip(high, low, strict=True)]


def _by_comparison_with_few(queries: Integers, points: Integers) -> tuple[Integers, Integers, Integers]:
    """Maximisers among at most ``FEW`` points: set of each query, offsets and points of the sets."""
    scores = queries @ points.T
    bits = np.arange(len(points))
    codes = (scores == scores.max(axis=1, keepdims=True)) @ (1 << bits)
    different, set_of = np.unique(codes, return_inverse=True)
    best = (different[:, np.newaxis] >> bits) & 1
    return set_of.reshape(-1), _offsets(best.sum(axis=1)), np.nonzero(best)[1]


def _by_comparison(queries: Integers, points: Integers) -> tuple[Integers, Integers]:
    """All maximisers among ``points`` for each query, by comparing all with all, in blocks: offsets and members."""
    sizes, members = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    rows = max(1, BLOCK // max(1, len(points)))
    for first in range(0, len(queries), rows):
        scores = queries[first : first + rows] @ points.T
        best = scores == scores.max(axis=1, keepdims=True)
        sizes.append(best.sum(axis=1))
        members.append(np.nonzero(best)[1])
    return _offsets(np.concatenate(sizes)), np.concatenate(members)


def _on_upper_hull(queries: Integers, keys: Keys) -> tuple[Integers, Integers, Integers]:
    """Maximisers of a x + b y with b > 0 over the points (x, y): set of each query, offsets and points of the sets."""
    hull = keys.hull
    if len(hull) == 1:
        return np.zeros(len(queries), dtype=np.int64), np.array([0, 1]), hull
    dx, dy, falls = keys.edges
    a, b = queries[:, 0], queries[:, 1]
    (largest_a, largest_b), (largest_dx, largest_dy) = _largest(queries), _largest(np.stack([dx, dy], axis=1))
    if largest_a * largest_dx + largest_b * largest_dy > LARGEST_SCORE:
        dx, dy, a, b = (numbers.astype(object) for numbers in (dx, dy, a, b))
    # Along the hull the score rises while a dx + b dy > 0. Floats guess the place, integers decide it.
    at = np.searchsorted(falls, queries[:, 0] / queries[:, 1], side="left").astype(np.int64)
    last = len(dx)

    def rise(edge: Integers) -> npt.NDArray[np.int64]:
        inside = np.clip(edge, 0, last - 1)
        value = a * dx[inside] + b * dy[inside]
        return (value > 0).astype(np.int64) - (value < 0).astype(np.int64)

    while True:
        ahead = (at < last) & (rise(at) > 0)
        behind = ~ahead & (at > 0) & (rise(at - 1) < 0)
        if not (ahead.any() or behind.any()):
            break
        at = at + ahead.astype(np.int64) - behind.astype(np.int64)
    low, high = at, at
    while True:  # an edge on which the score is level ties its two ends
        left, right = (low > 0) & (rise(low - 1) == 0), (high < last) & (rise(high) == 0)
        if not (left.any() or right.any()):
            break
        low, high = low - left.astype(np.int64), high + right.astype(np.int64)
    spans, set_of = np.unique(low * (last + 1) + high, return_inverse=True)
    low, high = spans // (last + 1), spans % (last + 1)
    offsets = _offsets(high - low + 1)
    return set_of.reshape(-1), offsets, hull[_ranges(low, offsets)]


def _upper_hull(points: Integers) -> Integers:
    """Rows of ``points`` on the upper hull, collinear ones included, by ascending x; points are sorted by (x, y)."""
    # Of points with one x only the highest can be a maximiser when b > 0.
    top = np.nonzero(np.append(points[1:, 0] != points[:-1, 0], True))[0]
    x, y = points[top, 0], points[top, 1]
    if len(top) <= 2:
        return top
    dx, dy = np.diff(x), np.diff(y)
    if (
        int(np.abs(dx).max()) * int(np.abs(dy).max()) <= LARGEST_SCORE
        and (dy[1:] * dx[:-1] <= dy[:-1] * dx[1:]).all()
    ):
        return top  # already concave, as a parabola of addresses is
    stack: list[int] = []
    for i in range(len(top)):
        while len(stack) > 1:
            o, p = stack[-2], stack[-1]
            turn = (int(x[p]) - int(x[o])) * (int(y[i]) - int(y[o])) - (int(y[p]) - int(y[o])) * (
                int(x[i]) - int(x[o])
            )
            if turn <= 0:
                break
            stack.pop()
        stack.append(i)
    return top[np.array(stack)]


def _offsets(sizes: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _ranges(firsts: Integers, offsets: Integers) -> Integers:
    """first, first + 1, ... for each range, one after another; range i has offsets[i + 1] - offsets[i] numbers."""
    return np.arange(offsets[-1]) + np.repeat(firsts - offsets[:-1], np.diff(offsets))
