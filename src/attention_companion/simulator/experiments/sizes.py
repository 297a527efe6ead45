"""How large the encoders are: counted from the weights, predicted by formulas, and fitted as powers of the shape.

Everything here looks at built machines; nothing is run on data. A position column is a channel whose content the
position table gives, so ``data_channels`` is the width without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from ..build import Encoder, build_encoder
from ..encoder import Machine
from ..prove import prove
from ..shape import Shape

#: The layouts in the order in which the chapter shows them.
ORDER = ("positional", "paper", "constant", "universal")


@dataclass(frozen=True)
class Sizes:
    """The sizes of one encoder. ``length`` counts tokens, BOS included; ``columns`` those of the position table."""

    heads_per_layer: tuple[int, ...]
    data_channels: int
    nonzero_weights: int
    length: int
    columns: int

    @property
    def layers(self) -> int:
        return len(self.heads_per_layer)

    @property
    def heads(self) -> int:
        """Heads of all layers together."""
        return sum(self.heads_per_layer)

    @property
    def width(self) -> int:
        """Channels of a token: the input, the position columns and the rest."""
        return self.data_channels + self.columns

    @property
    def position_entries(self) -> int:
        return self.length * self.columns


def shapes_up_to(n: int, d: int, d_v: int, heads: int, output: Sequence[int | None] = (None,)) -> list[Shape]:
    """All shapes with sizes from 1 to these, each with every output size (None for no output matrix)."""
    ranges = (range(1, bound + 1) for bound in (n, d, d_v, heads))
    return [Shape(i, j, v, a, out) for i, j, v, a in product(*ranges) for out in output]


def sizes(shape: Shape, layout: str, guarded: bool = False) -> Sizes:
    """Counted from the built encoder. Raises as :func:`.build` does."""
    encoder = build_encoder(shape, layout, guarded)
    columns = encoder.machine.positions.shape[1]
    return Sizes(
        tuple(encoder.heads_per_layer),
        encoder.width - columns,
        encoder.nonzero_weights,
        encoder.length,
        columns,
    )


def predicted(shape: Shape, layout: str) -> Sizes:
    """The same for the plain encoder from closed formulas. ``columns`` is exact in `constant` and `universal`; in the
    others it is the number before equal columns are merged, hence an upper bound.

    Derivation: a head that fetches has 2 + 1 weights in Q, 2 in K (and 1 that says which channel holds the constant 1)
    and 1 in W, six in all, less one where its offset is 0; a head for one token has 7; a product has 2, exp 1.
    """
    n, d, d_v, h, out = shape.n, shape.d, shape.d_v, shape.heads, shape.output_dim
    joined, results = shape.joined, n * shape.columns
    inputs = n * d + h * d * (d + d_v) + (0 if out is None else joined * out)
    if layout == "positional":
        heads = (4 * d, 2 * d, 2 * n) + (() if out is None else (2 * joined,))
        channels, weights, columns = 6 * d + 2 * n + 7, 42 * d + 15 * n - 6, 11
        if out is not None:
            channels, weights, columns = channels + 2 * joined + 1, weights + 14 * joined - 2, 13
        length = 1 + max(inputs, h * n * max(d, d_v, n), results)
        return Sizes(heads, channels, weights, length, columns)
    if layout == "paper":
        # Heads that align a row or a column, and heads that sum for one entry of a product.
        align = [n + h * (d + d_v), h * n + n, h * (n + d_v)] + ([] if out is None else [n + out])
        entries = [h * n * (d + d_v), h * n * n, n * joined] + ([] if out is None else [n * out])
        heads = (align[0], entries[0], align[1], entries[1], 1, align[2], entries[2])
        heads += () if out is None else (align[3], entries[3])
        a, e = sum(align), sum(entries)
        length = 1 + max(inputs, h * n * max(d, d_v, n), results, d, joined)
        # The position table: 1, t and t^2; an address for each aligning head; three for the row sums; and, for each
        # of the sums' inner sizes, the members and all others but BOS.
        columns = 3 + a + 3 + 2 * len(entries)
        return Sizes(heads, 8 + a + e + (0 if out is None else 1), 5 * a + 9 * e + 8, length, columns)
    if layout not in ("constant", "universal"):
        raise ValueError(f"layout is {layout!r}; formulas are known for {', '.join(ORDER)}")
    length = 1 + max(inputs, h * n * max(d * d, d_v * d, n * d, n, d_v * n), n * joined, results)
    heads = (4, 2, 2, 1, 2) + (() if out is None else (2, 1))
    if out is not None:
        length = max(length, 1 + results * joined)
    channels, weights, columns = (18, 66, 24) if out is None else (22, 83, 29)
    if layout == "universal":
        # A mean of its own for each of five (six) sums, and each size is a column instead of a weight.
        sums, sized = (5, 2) if out is None else (6, 3)
        channels, weights, columns = channels + sums, weights + 2 * sums, columns + sized
    return Sizes(heads, channels, weights, length, columns)


def formula_misses(shapes: Iterable[Shape], layout: str, exchanged: bool = False) -> int:
    """Shapes at which any formula of :func:`predicted` differs from what is counted (for the columns of `positional`
    and `paper`: exceeds the bound). ``exchanged`` is a control: n and d change places in the formulas."""
    misses = 0
    for shape in shapes:
        counted = sizes(shape, layout)
        wanted = predicted(replace(shape, n=shape.d, d=shape.n) if exchanged else shape, layout)
        if layout in ("positional", "paper") and counted.columns <= wanted.columns:
            wanted = replace(wanted, columns=counted.columns)
        misses += counted != wanted
    return misses


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least-squares slope of ln y against ln x: the exponent of a power law. ValueError for fewer than two points."""
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"a slope needs at least two points with one y each; got {len(x)} and {len(y)}")
    if len(set(y)) == 1:
        return 0.0  # exactly, and not up to rounding
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def different_sizes(layout: str, shapes: Iterable[Shape]) -> int:
    """Different quadruples (heads of each layer, channels, nonzero weights, position columns) over the shapes."""
    found = [sizes(shape, layout) for shape in shapes]
    return len({(s.heads_per_layer, s.data_channels, s.nonzero_weights, s.columns) for s in found})


# -- depth ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Depths:
    """The different numbers of layers, over how many shapes, and at how many of those U = T was proved."""

    layers: tuple[int, ...]
    shapes: int
    proved: int


def depths(layout: str, proved: Sequence[Shape], counted: Sequence[Shape] = ()) -> Depths:
    """Of encoders that are proved to be simulators, and of larger ones whose layers are only counted.

    Raises ArithmeticError where an encoder is not proved: its depth would say nothing about simulators.
    """
    encoders = [build_encoder(shape, layout, False) for shape in (*proved, *counted)]
    for encoder in encoders[: len(proved)]:
        if prove(encoder).holds is not True:
            raise ArithmeticError(f"{encoder!r} is not proved equal to T")
    return Depths(tuple(sorted({e.layers for e in encoders})), len(encoders), len(proved))


def applied_once(encoder: Encoder) -> bool:
    """Whether the planned run goes through the encoder's list of layers from first to last, each once."""
    blocks = encoder.plan.blocks
    stages = [len(stages) for _, stages in blocks]
    return stages == [len(block.stages) for block in encoder.machine.blocks]


# -- one weight set ---------------------------------------------------------------------------------------------------


def weight_set(machine: Machine) -> tuple[Any, ...]:
    """All that is fixed when only positions and length may change: weights with their addresses, operations, channels.

    Two machines with equal weight sets differ in the position table and in which tokens are read and written alone.
    """
    operations = tuple(
        (b, s, o.kind, o.target)
        for b, block in enumerate(machine.blocks)
        for s, stage in enumerate(block.stages)
        for o in stage
    )
    weights = frozenset((address, weight) for address, weight in machine.weights() if weight)
    return weights, operations, machine.width, machine.positions.shape[1], machine.output_channel


def different_weight_sets(layout: str, shapes: Iterable[Shape], guarded: bool = False) -> int:
    """How many different weight sets the layout has over the shapes."""
    return len({weight_set(build_encoder(shape, layout, guarded).machine) for shape in shapes})


def with_weights_of(encoder: Encoder, donor: Encoder) -> Encoder:
    """The donor's weights with this encoder's position table and tokens. ValueError when the channels do not fit."""
    own, other = encoder.machine, donor.machine
    if own.positions.shape[1] != other.positions.shape[1]:
        raise ValueError(
            f"the position tables have {own.positions.shape[1]} and {other.positions.shape[1]} columns, so the weights "
            "cannot be carried over"
        )
    machine = replace(
        other, positions=own.positions, input_tokens=own.input_tokens, output_tokens=own.output_tokens
    )
    return Encoder(machine, encoder.shape, "changed")


def carried_over_misses(layout: str, donor: Shape, shapes: Iterable[Shape]) -> int:
    """Shapes at which the donor shape's weights, given only the shape's position table, are not proved equal to T."""
    given = build_encoder(donor, layout, False)
    return sum(
        prove(with_weights_of(build_encoder(shape, layout, False), given)).holds is not True
        for shape in shapes
    )


# -- pictures ---------------------------------------------------------------------------------------------------------


def pattern(machine: Machine, block: int, head: int) -> npt.NDArray[np.float64]:
    """Whom each token attends to, (length, length): row q holds 1/|M_q| on the members of M_q and 0 elsewhere.

    From the head's own Q and K and the position table, in integers (a halved weight doubles the scores first).
    """
    chosen = machine.blocks[block].heads[head]
    rows = max(chosen.rows, 1)
    projected = []
    for matrix in (chosen.query, chosen.key):
        values = np.zeros((machine.length, rows), dtype=np.int64)
        for (row, channel), weight in matrix.items():
            if (2 * weight).denominator != 1:
                raise ValueError(f"the weight {weight} is no multiple of 1/2; scores would not be integers")
            values[:, row] += int(2 * weight) * machine.positions[:, channel - 1]
        projected.append(values)
    scores = projected[0] @ projected[1].T
    best = scores == scores.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))
