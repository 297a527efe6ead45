"""Many heads: Identify and Shift seen at work, and h heads beside h single heads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Float
from ..programs.simulate import identify, shift
from ..prove import random_layer
from ..rasp import Rasp
from ..shape import Shape
from .universal import build_for, run_exactly


def apart_mismatches(
    layouts: Sequence[str],
    shapes: Sequence[tuple[int, int, int, int]],
    inputs: int,
    seed: int,
    *,
    reverse: bool = False,
) -> int:
    """How many pairs of layout and shape have a layer at which h heads are not the h single heads side by side.

    Both sides are encoders of the layout ("program": runs of the program), on random rational layers, exactly.
    ``reverse`` joins the single heads the other way round: the control.
    """
    return sum(not _apart(layout, shape, inputs, seed, reverse) for layout in layouts for shape in shapes)


def _apart(layout: str, sizes: tuple[int, int, int, int], inputs: int, seed: int, reverse: bool) -> bool:
    shape = Shape.read(*sizes)
    program = layout == "program"
    together = None if program else build_for(shape, layout)
    alone = None if program else build_for(Shape.read(*sizes[:3]), layout)
    rng = np.random.default_rng([seed, *sizes])
    for _ in range(inputs):
        x, heads, _ = random_layer(shape, rng)
        parts = [run_exactly(alone, (x, [head], None)) for head in (heads[::-1] if reverse else heads)]
        joined = [list(itertools.chain(*rows)) for rows in zip(*parts, strict=True)]
        if run_exactly(together, (x, heads, None)) != joined:
            return False
    return True


@dataclass(frozen=True)
class Stages:
    """What stands at each token for one head: shape (length,) each, and the links (query, key) of Shift's head."""

    sequence: npt.NDArray[np.float64]
    identified: npt.NDArray[np.float64]
    shifted: npt.NDArray[np.float64]
    links: list[tuple[int, int]]


def identify_and_shift(shape: Shape, head: int, shift_error: int = 0) -> Stages:
    """The tokens 1, 2, 3, ... of <T, X>, what Identify keeps of them for a head (0-based), and where Shift puts it.

    ``shift_error`` takes the block that many heads further on.
    """
    if not 0 <= head < shape.heads:
        raise ValueError(f"head is {head}; the heads of {shape} are 0..{shape.heads - 1}")
    kind = Float()
    run = Rasp(kind, kind.array(range(1, shape.inputs + 1)))
    block = shape.d * (shape.d + shape.d_v)
    own = (head + shift_error) % shape.heads
    kept = identify(run.tokens, shape.a_at(own), block)
    moved = shift(kept, own * block)
    pattern: Any = run.heads[0][0].matrix
    first = shape.a_at(0)
    links = [(q, int(np.flatnonzero(pattern[q])[0])) for q in range(first, first + block) if pattern[q].any()]
    return Stages(run.tokens.values, kept.values, moved.values, links)
