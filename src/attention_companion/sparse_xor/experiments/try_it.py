"""The numbers behind "try it": outcomes of one step over a grid of sizes and learning rates, and a few attention maps.

A cell of the grid is a length d, a width m and a *factor*: the learning rate is factor * sqrt(m) * d^2. The unit is
ours: at the start a weight is about 1/d, so the gradient of a query has size about 1/d^2, and two random unit vectors
have an inner product of about 1/sqrt(m).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..batch import step_batch
from ..starts import StepOutcomes, count_outcomes, draw_starts
from ..step import one_step

#: Attention weights of a map are rounded to integers in this unit.
MAP_UNITS = 10_000
#: The factor that stands for "before any step" in a table of maps.
BEFORE = 0.0


@dataclass(frozen=True)
class Cell:
    """One combination of the grid and what one step did there over all starts."""

    d: int
    m: int
    factor: float
    outcomes: StepOutcomes


def learning_rate(factor: float, d: int, m: int) -> float:
    """factor * sqrt(m) * d^2, for the loss without a factor 1/2."""
    return factor * math.sqrt(m) * d**2


def outcome_grid(
    dimensions: Sequence[int], widths: Sequence[int], factors: Sequence[float], starts: int, seed: int
) -> list[Cell]:
    """One cell for every d, m and factor, in that order; all factors of one (d, m) see the same ``starts`` starts.

    Raises ValueError for an empty list, and as ``count_outcomes`` does.
    """
    for name, values in (("dimensions", dimensions), ("widths", widths), ("factors", factors)):
        if not len(values):
            raise ValueError(f"{name} is empty; give at least one value")
    return [
        Cell(d, m, float(factor), outcomes)
        for d in dimensions
        for m in widths
        for factor, outcomes in zip(
            factors,
            count_outcomes(d, m, starts, [learning_rate(f, d, m) for f in factors], seed),
            strict=True,
        )
    ]


def map_table(
    dimensions: Sequence[int],
    widths: Sequence[int],
    factors: Sequence[float],
    starts: Sequence[int],
    seed: int,
) -> dict[str, list[float] | list[int] | list[str]]:
    """The attention maps of some starts in every cell, before (factor 0) and after the step, as columns.

    Columns: d, m, factor, start, p, q, and for each head its d weights in units of 1/``MAP_UNITS``, integers between
    blanks. Start k is the k-th of those that ``outcome_grid`` counts.
    """
    rows: list[tuple[int, int, float, int, int, int, str, str]] = []
    tried = [BEFORE, *map(float, factors)]
    for d in dimensions:
        for m in widths:
            drawn = draw_starts(d, m, starts, seed)
            heads = step_batch(
                drawn.embeddings[:, np.newaxis],
                drawn.theta[:, np.newaxis],
                drawn.pairs[:, np.newaxis],
                np.array([learning_rate(f, d, m) for f in tried]),
            )
            for row, (start, (p, q)) in enumerate(zip(starts, drawn.pairs.tolist(), strict=True)):
                for column, factor in enumerate(tried):
                    weights = (heads.gamma[row, column], heads.gamma_tilde[row, column])
                    first, second = (" ".join(map(str, np.rint(w * MAP_UNITS).astype(int))) for w in weights)
                    rows.append((d, m, factor, int(start), p, q, first, second))
    names = ("d", "m", "factor", "start", "p", "q", "head 1", "head 2")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def count_differences(cells: Sequence[Cell], seed: int, shift: int = 0) -> int:
    """Sum over cells and kinds of outcome of the difference between a cell's count and ``one_step``, start by start.

    ``one_step`` shares no batching, padding or chunking with the grid, and its heads are judged here by the words of
    the definitions, not by ``classify``. With a ``shift`` the heads are judged by the pair that many positions
    further on: the control, which must differ.
    """
    total = 0
    for cell in cells:
        seen = np.zeros(3, dtype=int)
        for start in range(cell.outcomes.starts):
            drawn = draw_starts(cell.d, cell.m, [start], seed)
            p, q = (int(i) for i in drawn.pairs[0])
            step = one_step(
                drawn.embeddings[0], drawn.theta[0], (p, q), learning_rate(cell.factor, cell.d, cell.m)
            )
            judged = ((p + shift) % cell.d, (q + shift) % cell.d)
            seen += _kinds(step.gamma, step.gamma_tilde, judged)
        counts = (cell.outcomes.specialised, cell.outcomes.collapsed, cell.outcomes.distracted)
        total += int(np.abs(seen - counts).sum())
    return total


def _kinds(gamma: np.ndarray, gamma_tilde: np.ndarray, pair: tuple[int, int]) -> tuple[bool, bool, bool]:
    """Specialised, collapsed, distracted."""
    p, q = pair
    own = (gamma[p] >= 0.99 and gamma_tilde[q] >= 0.99) or (gamma[q] >= 0.99 and gamma_tilde[p] >= 0.99)
    looks = (int(gamma.argmax()), int(gamma_tilde.argmax()))
    outside = any(look not in pair for look in looks)
    return bool(own), looks[0] == looks[1] and not outside, outside
