"""Selectors of the RASP-style language: which keys each query attends to, as integer sequences decide it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]

#: Predicates of select(keys, queries, predicate), by the sign that stands between key and query.
PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
#: The largest number of (query, key) pairs a selector may hold: 800 MB of indices.
LARGEST_SELECTION = 50_000_000


@dataclass(frozen=True, eq=False)
class Selector:
    """Which keys each query selects.

    ``keys[starts[q]:starts[q + 1]]`` are the selected key positions of query q, in ascending order; ``starts`` has one
    entry more than the sequence is long. ``depth`` is the number of attention layers that its sequences took, ``label``
    a name for pictures, ``reads_data`` says whether token values had a say in it.
    """

    keys: Indices
    starts: Indices
    depth: int
    reads_data: bool
    label: str = field(default="", compare=False)

    @property
    def length(self) -> int:
        return len(self.starts) - 1

    @property
    def widths(self) -> Indices:
        """How many keys each query selects, shape (length,)."""
        return np.diff(self.starts)

    @property
    def matrix(self) -> npt.NDArray[np.bool_]:
        """The pattern as booleans, shape (length, length): queries down, keys across."""
        pattern = np.zeros((self.length, self.length), dtype=bool)
        pattern[np.repeat(np.arange(self.length), self.widths), self.keys] = True
        return pattern

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """The attention weights: each row the uniform distribution on the selected keys, or 0 where there are none."""
        return self.matrix / np.maximum(self.widths, 1)[:, None]

    def __and__(self, other: Selector) -> Selector:
        return self._combined(other, self.matrix & other.matrix)

    def __or__(self, other: Selector) -> Selector:
        return self._combined(other, self.matrix | other.matrix)

    def __invert__(self) -> Selector:
        return self._combined(self, ~self.matrix)

    def _combined(self, other: Selector, pattern: npt.NDArray[np.bool_]) -> Selector:
        depth = max(self.depth, other.depth)
        return from_matrix(pattern, depth, self.reads_data or other.reads_data, self.label)


def from_matrix(pattern: npt.NDArray[np.bool_], depth: int, reads_data: bool, label: str) -> Selector:
    """The selector of a boolean matrix (queries down, keys across)."""
    starts = np.concatenate([[0], np.cumsum(pattern.sum(axis=1))]).astype(np.int64)
    return Selector(np.nonzero(pattern)[1].astype(np.int64), starts, depth, reads_data, label)


def compare(
    keys: Indices, queries: Indices, predicate: str, depth: int, reads_data: bool, label: str
) -> Selector:
    """The selector of all pairs with ``key predicate query``.

    Raises ValueError for an unknown predicate or a selection above :data:`LARGEST_SELECTION`.
    """
    if predicate not in PREDICATES:
        raise ValueError(f"predicate is {predicate!r}; choose one of {', '.join(PREDICATES)}")
    length = len(keys)
    if predicate != "==":
        _check_size(length * length, length)
        return from_matrix(PREDICATES[predicate](keys[None, :], queries[:, None]), depth, reads_data, label)
    # Equality needs no length x length comparison: sort the keys once and look each query up.
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    low, high = np.searchsorted(ranked, queries, "left"), np.searchsorted(ranked, queries, "right")
    starts = np.concatenate([[0], np.cumsum(high - low)]).astype(np.int64)
    _check_size(int(starts[-1]), length)
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], high - low)
    return Selector(order[np.repeat(low, high - low) + within], starts, depth, reads_data, label)


def _check_size(pairs: int, length: int) -> None:
    if pairs > LARGEST_SELECTION:
        raise ValueError(
            f"a selector over {length} tokens would hold {pairs} pairs, more than {LARGEST_SELECTION}; "
            "use a smaller shape or the compiled encoder"
        )
