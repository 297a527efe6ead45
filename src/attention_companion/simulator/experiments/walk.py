"""A walk of one input through an encoder: after each block, who attended where and what stands in the channels.

Everything is read off the encoder's own weights: the links from its planned execution, the numbers from dense runs of
the machine cut off after each block. Only cells that the result depends on are shown; all tokens compute something in
every channel, mostly things that nobody reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arithmetic import Arithmetic
from ..build import Encoder
from ..dense import final_state
from ..reading import read_layer

#: What the channels that a block's token-wise maps write are called, by layout; in the order of the weights.
NAMES: dict[str, list[list[str]]] = {
    "positional": [["XA", "XV"], ["score", "exp"], ["sum of e XV", "result"]],
}


@dataclass(frozen=True)
class Link:
    """In this block token ``query`` reads the channel ``source`` of token ``key``, for the channel ``target``."""

    block: int
    query: int
    key: int
    source: int
    target: int


@dataclass(frozen=True)
class Cell:
    """The number that stands in a channel of a token after a block, and that channel's name."""

    block: int
    token: int
    name: str
    value: Any


def links(encoder: Encoder) -> list[Link]:
    """Every reading that the result depends on, block by block.

    A token that averages over a group has one link to each member.
    """
    plan = encoder.plan
    found = []
    for block, (brought, _) in enumerate(plan.blocks):
        for item in brought:
            queries = plan.homes[item.target][item.target_at]
            keys = plan.homes[item.source][item.source_at]
            if item.starts is None or item.sizes is None or item.set_of is None:
                pairs = list(zip(queries.tolist(), keys.tolist(), strict=True))
            else:
                pairs = [
                    (int(query), int(key))
                    for query, s in zip(queries, item.set_of, strict=True)
                    for key in keys[item.starts[s] : item.starts[s] + item.sizes[s]]
                ]
            found += [Link(block, q, k, item.source, item.target) for q, k in pairs]
    return found


def cells(encoder: Encoder, layer: tuple[Any, Any, Any], kind: Arithmetic) -> list[Cell]:
    """The numbers that each block's token-wise maps leave behind, at the tokens where they are read later.

    Raises ValueError for a layout without names in ``NAMES``.
    """
    if encoder.layout not in NAMES:
        raise ValueError(f"layout is {encoder.layout!r}; the walk knows {', '.join(NAMES)}")
    machine, homes = encoder.machine, encoder.plan.homes
    sequence = read_layer(*layer, kind).sequence(kind)
    found = []
    for block, names in enumerate(NAMES[encoder.layout]):
        state = final_state(replace(machine, blocks=machine.blocks[: block + 1]), sequence, kind)
        written = dict.fromkeys(o.target for stage in machine.blocks[block].stages for o in stage)
        for channel, name in zip(written, names, strict=True):
            found += [Cell(block, int(t), name, state[channel][t]) for t in homes.get(channel, np.arange(0))]
    return found


def what_is_read(encoder: Encoder, link: Link) -> str:
    """The name of what a link brings: "X", "A", "V" (and "W") of the sequence, or a channel of an earlier block."""
    if link.source == 0:
        return input_labels(encoder)[link.key].split(" ")[0] or "nothing"
    for block, names in zip(encoder.machine.blocks, NAMES[encoder.layout], strict=False):
        written = dict.fromkeys(o.target for stage in block.stages for o in stage)
        for channel, name in zip(written, names, strict=True):
            if channel == link.source:
                return name
    raise ValueError(f"channel {link.source} is none that an earlier block writes")


def table(encoder: Encoder, found: list[Cell], show: Any) -> list[list[str]]:
    """Rows of the walk, one a token: token, what it carries, and each named channel's number as ``show`` writes it."""
    names = list(dict.fromkeys(cell.name for cell in found))
    values = {(cell.token, cell.name): show(cell.value) for cell in found}
    return [
        [str(token), label, *(values.get((token, name), "") for name in names)]
        for token, label in enumerate(input_labels(encoder))
    ]


def input_labels(encoder: Encoder) -> list[str]:
    """What each token of the sequence carries: "BOS", "X 0,1", "A 1,0", "V 0,0" (0-based), or "" behind the input."""
    shape = encoder.shape
    labels = [""] * encoder.length
    labels[0] = "BOS"
    for t, (name, i, j) in enumerate(_entries(shape)):
        labels[int(encoder.machine.input_tokens[t])] = f"{name} {i},{j}"
    return labels


def _entries(shape: Any) -> list[tuple[str, int, int]]:
    blocks: list[tuple[str, int, int]] = [("X", shape.n, shape.d)]
    for head in range(shape.heads):
        suffix = str(head + 1) if shape.heads > 1 else ""
        blocks += [(f"A{suffix}", shape.d, shape.d), (f"V{suffix}", shape.d, shape.d_v)]
    if shape.output_dim is not None:
        blocks.append(("W", shape.joined, shape.output_dim))
    return [(name, i, j) for name, rows, columns in blocks for i in range(rows) for j in range(columns)]
