"""Machines that the chapter on sizes sets beside the layouts: a loop, a maximum, and layouts broken on purpose."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from ..encoder import BASIS, Machine, scores_read_positions_only
from ..mutation import with_weight
from ..wiring import INPUT, Wiring


def looped_product(rows: int, inner: int, columns: int) -> Machine:
    """The product of a rows x inner and an inner x columns matrix by a loop: one layer for each inner index.

    Each turn fetches one factor from either matrix with two heads and adds their product to the token of the entry, so
    depth is ``inner``: the loop that a construction of constant depth has to avoid. Inputs: both matrices, row by row.
    """
    first, results = rows * inner, rows * columns
    w = Wiring(1 + max(first + inner * columns, results))
    i, j = (x.ravel() for x in np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"))
    left, right = w.addresses(results, 1 + i * inner), w.addresses(results, 1 + first + j)
    for c in range(inner):
        w.block()
        w.fetch(w.data("left", c), INPUT, left, c)
        w.fetch(w.data("right", c), INPUT, right, c * columns)
        w.stage([("product", w.data("sum"), {w.data("left", c): 1}, {w.data("right", c): 1})])
    return w.machine(first + inner * columns, results, w.data("sum"))


def larger_of_pairs(pairs: int) -> Machine:
    """Each of ``pairs`` consecutive pairs becomes its maximum and its minimum: one layer, one head, with relu.

    With the partner p and s = 1 at the first, -1 at the second place: p + s relu(s (x - p)).
    """
    count = 2 * pairs
    w = Wiring(1 + count)
    t = np.arange(count)
    partner, side = w.data("partner"), np.zeros(w.length, dtype=np.int64)
    side[1:] = 1 - 2 * (t % 2)
    sign = w.column(side)
    w.block()
    w.fetch(partner, INPUT, w.addresses(count, 1 + (t ^ 1)))
    lead, excess, result = w.data("lead"), w.data("excess"), w.data("result")
    w.stage([("product", lead, {sign: 1}, {INPUT: 1, partner: -1})])
    w.stage([("relu", excess, {lead: 1}, {})])
    w.stage([("product", result, {sign: 1}, {excess: 1}), ("product", result, {w.one: 1}, {partner: 1})])
    return w.machine(count, count, result)


def in_declared_form(machine: Machine) -> bool:
    """Whether every token-wise map is a product, an exponential or a division, and every score reads positions only."""
    kinds = {o.kind for block in machine.blocks for stage in block.stages for o in stage}
    return kinds <= set(BASIS) and scores_read_positions_only(machine)


def with_swapped_stride(machine: Machine, d: int) -> Machine:
    """`positional` with A read along its rows (offset c) where it must be read down its columns (offset c d).

    The same machine when d is 1: then there is nothing to swap.
    """
    changed = machine
    for c in range(1, d):
        head = 4 * c + 1
        ((row, channel),) = (at for at, w in machine.blocks[0].heads[head].query.items() if w == c * d)
        changed = with_weight(changed, (0, "head", head, "query", row, channel), Fraction(c))
    return changed


def with_wrong_factor(machine: Machine, size: int) -> Machine:
    """`constant` or `paper` with the first sum of ``size`` terms taken as ``size`` - 1 times their mean.

    ValueError when no head has that factor.
    """
    for address, weight in machine.weights():
        if address[1] == "head" and address[3] == "value" and weight == size:
            return with_weight(machine, address, Fraction(size - 1))
    raise ValueError(f"no head of this machine multiplies a mean by {size}")


def with_wrong_size(machine: Machine, size: int) -> Machine:
    """`universal` with every position column that says ``size`` at all tokens saying ``size`` - 1.

    ValueError when there is no such column, or when it is the column of ones.
    """
    columns = [c for c in range(1, machine.positions.shape[1]) if (machine.positions[:, c] == size).all()]
    if not columns:
        raise ValueError(f"no position column holds the size {size}")
    positions = machine.positions.copy()
    positions[:, columns] -= 1
    return replace(machine, positions=positions)
