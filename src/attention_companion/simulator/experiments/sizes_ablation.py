"""What depends on the first token (BOS), on a stride and on a group size: exact dense runs of changed machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arithmetic import Rational
from ..build import build_encoder
from ..dense import final_state
from ..encoder import Machine
from ..execute import plan
from ..mutation import surrogate, without_bos
from ..prove import random_layer
from ..reading import read_layer
from ..shape import Shape
from .sizes_machines import with_swapped_stride, with_wrong_factor, with_wrong_size


@dataclass(frozen=True)
class Ablation:
    """How many cells differ: among all, among those the outputs depend on, among the outputs (``length`` tokens)."""

    anywhere: int
    read: int
    outputs: int


def changed_cells(machine: Machine, changed: Machine, inputs: Any, kind: Any) -> Ablation:
    """What differs at the end of a dense run when ``changed`` takes the place of ``machine``, token by token.

    ``changed`` may lack the first token (BOS); then token t of the one is token t - 1 of the other. ``inputs`` are the
    input numbers in the arithmetic ``kind``. A changed machine that divides by 0 differs in every cell.
    """
    missing = machine.length - changed.length
    if missing not in (0, 1):
        raise ValueError(
            f"the machines have {machine.length} and {changed.length} tokens; one may be missing"
        )
    before = final_state(machine, inputs, kind)
    read = {c: t[t >= missing] for c, t in plan(machine).homes.items()}
    total = sum(len(t) for t in read.values())
    try:
        after = final_state(changed, inputs, kind)
    except ZeroDivisionError:
        return Ablation(machine.width * changed.length, total, len(machine.output_tokens))
    differs = [b[missing:] != a for b, a in zip(before, after, strict=True)]
    return Ablation(
        int(sum(d.sum() for d in differs)),
        int(sum(differs[c][t - missing].sum() for c, t in read.items())),
        int(differs[machine.output_channel][machine.output_tokens - missing].sum()),
    )


#: How each layout is broken for a control, from its machine and d.
BREAKS: dict[str, Callable[[Machine, int], Machine]] = {
    "positional": with_swapped_stride,
    "paper": with_wrong_factor,
    "constant": with_wrong_factor,
    "universal": with_wrong_size,
}


def ablations(layout: str, shapes: Iterable[Shape], seed: int, broken: bool = False) -> list[Ablation]:
    """For each shape, what changes without BOS in an exact run on a random rational layer; with ``broken``, what
    changes when BOS stays and a stride, a factor or a size is wrong (the shapes need d >= 2 for that).

    exp is replaced by 1 + x + x^2, positive and rational, on both sides.
    """
    kind, found = Rational(surrogate), []
    for index, shape in enumerate(shapes):
        machine = build_encoder(shape, layout, False).machine
        changed = BREAKS[layout](machine, shape.d) if broken else without_bos(machine)
        layer = read_layer(*random_layer(shape, np.random.default_rng([seed, index])), kind)
        found.append(changed_cells(machine, changed, layer.sequence(kind), kind))
    return found
