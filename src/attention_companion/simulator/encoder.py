"""An average-hard-attention encoder given by explicit weights: what it is made of, and how its size is counted.

A token t in 0..length-1 carries a vector x_t of ``width`` numbers (channels). Channel 0 is the token's input, the next
channels are the integers of the position table, all others start at 0. A block first lets every head attend and adds
up what they bring (all heads read the same x), then applies its token-wise maps, stage by stage:

    scores      s_qk = <Q x_q, K x_k>,     M_q = the set of k that maximise s_qk,
    attention   x_q <- x_q + sum over heads of W (mean of x_k over k in M_q),
    stage       x_t[c] <- x_t[c] + op(u.x_t, w.x_t)    for every operation of the stage at once.

Operations come from the declared basis: the product of two linear forms, exp of one, the quotient of two; ``relu`` is
there for MaxMin networks only. All weights are exact rationals.

Source: the paper's encoder is reconstructed from a summary and from the released programs; this form of it is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

#: (row, column) -> weight; entries that are not named are 0.
Matrix = Mapping[tuple[int, int], Fraction]
#: channel -> weight.
Form = Mapping[int, Fraction]

BASIS = ("product", "exp", "division")
MAXMIN_BASIS = ("relu",)


@dataclass(frozen=True)
class Head:
    """One head: Q and K of shape (rows, width), and W of shape (width, width), which also moves between channels."""

    query: Matrix
    key: Matrix
    value: Matrix

    @property
    def rows(self) -> int:
        """The head's dimension: how many coordinates query and key have."""
        return 1 + max((row for row, _ in (*self.query, *self.key)), default=-1)


@dataclass(frozen=True)
class Operation:
    """x[target] += op(left, right), with linear forms of channels; ``right`` is empty for exp and relu."""

    kind: str
    target: int
    left: Form
    right: Form = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """Heads side by side, then token-wise stages one after another."""

    heads: tuple[Head, ...]
    stages: tuple[tuple[Operation, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class Machine:
    """Blocks, a position table of integers, and where inputs go in and outputs come out.

    ``positions`` has shape (length, P): channels 1..P. ``input_tokens`` lists the tokens that take the input sequence,
    in order; ``output_tokens`` and ``output_channel`` say where the result is read, row by row.
    """

    blocks: tuple[Block, ...]
    width: int
    positions: npt.NDArray[np.int64]
    input_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]
    output_channel: int

    @property
    def length(self) -> int:
        """Number of tokens, the beginning-of-sequence token and scratch tokens included."""
        return int(self.positions.shape[0])

    @property
    def position_channels(self) -> range:
        return range(1, 1 + self.positions.shape[1])

    @property
    def position_entries(self) -> int:
        """Numbers in the position table, length x P; they are not counted among the weights."""
        return int(self.positions.size)

    @property
    def layers(self) -> int:
        return len(self.blocks)

    @property
    def heads_per_layer(self) -> tuple[int, ...]:
        return tuple(len(block.heads) for block in self.blocks)

    @property
    def nonzero_weights(self) -> int:
        """Nonzero entries of Q, K, W and of the linear forms in all operations (the position table excluded)."""
        return sum(1 for _, weight in self.weights() if weight)

    @property
    def operations(self) -> int:
        """Applications of a basis map to one token, over all blocks."""
        return sum(len(stage) for block in self.blocks for stage in block.stages)

    def weights(self) -> Iterable[tuple[tuple[object, ...], Fraction]]:
        """Every stored weight with its address: (block, "head", h, "query"|"key"|"value", row, column) or
        (block, "stage", s, op, "left"|"right", channel)."""
        for b, block in enumerate(self.blocks):
            for h, head in enumerate(block.heads):
                for name in ("query", "key", "value"):
                    for (row, column), weight in getattr(head, name).items():
                        yield (b, "head", h, name, row, column), weight
            for s, stage in enumerate(block.stages):
                for o, operation in enumerate(stage):
                    for side in ("left", "right"):
                        for channel, weight in getattr(operation, side).items():
                            yield (b, "stage", s, o, side, channel), weight


def check_machine(machine: Machine) -> None:
    """Raise ValueError where a machine is not well formed: a wrong channel, operation or token."""
    if machine.positions.ndim != 2 or machine.positions.dtype != np.int64:
        raise ValueError(
            f"positions has shape {machine.positions.shape} and dtype {machine.positions.dtype}; expected integers "
            "(int64) of shape (length, P)"
        )
    width = machine.width
    if not 0 <= machine.output_channel < width or machine.positions.shape[1] + 1 > width:
        raise ValueError(
            f"width is {width}; it must hold the input, the position table and the output channel"
        )
    for name in ("input_tokens", "output_tokens"):
        tokens = getattr(machine, name)
        if tokens.size and not (tokens.min() >= 0 and tokens.max() < machine.length):
            raise ValueError(
                f"{name} reach from {tokens.min()} to {tokens.max()}; tokens are 0..{machine.length - 1}"
            )
    for address, weight in machine.weights():
        if not isinstance(weight, Fraction):
            raise TypeError(f"weight {address} is {weight!r}; weights are exact, give a Fraction")
        if address[1] == "head" and address[3] == "value":
            channels = address[4:]
        else:
            channels = address[-1:]
        for channel in channels:
            if not isinstance(channel, int) or not 0 <= channel < width:
                raise ValueError(f"weight {address} names channel {channel}; channels are 0..{width - 1}")
    for b, block in enumerate(machine.blocks):
        for stage in block.stages:
            for operation in stage:
                if operation.kind not in BASIS + MAXMIN_BASIS:
                    raise ValueError(
                        f"block {b} holds the operation {operation.kind!r}; the basis is {', '.join(BASIS)} (and relu)"
                    )
                if not 0 <= operation.target < width:
                    raise ValueError(
                        f"block {b} writes channel {operation.target}; channels are 0..{width - 1}"
                    )
                if bool(operation.right) != (operation.kind in ("product", "division")):
                    raise ValueError(
                        f"block {b}: {operation.kind} takes {1 + (not operation.right)} linear form(s)"
                    )


def data_channels(machine: Machine) -> list[frozenset[int]]:
    """For each block, the channels that may depend on data when its heads attend (transitively, from the weights).

    Position channels stay free of data as long as nothing is ever written into them.
    """
    tainted = {0, *range(1 + machine.positions.shape[1], machine.width)}
    before = []
    for block in machine.blocks:
        before.append(frozenset(tainted))
        for head in block.heads:
            tainted |= {target for (target, _), weight in head.value.items() if weight}
        tainted |= {operation.target for stage in block.stages for operation in stage}
    return before


def scores_read_positions_only(machine: Machine) -> bool:
    """Whether no score anywhere can depend on data: then the sets M_q are the same for all inputs."""
    for block, tainted in zip(machine.blocks, data_channels(machine), strict=True):
        for head in block.heads:
            for matrix in (head.query, head.key):
                if any(weight and channel in tainted for (_, channel), weight in matrix.items()):
                    return False
    return True
