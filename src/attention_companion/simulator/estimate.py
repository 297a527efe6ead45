"""What an encoder of a shape will need, before it is built: to refuse in time what does not fit in memory.

The run stores the cells it reads and the plan whom each query selects; both grow with the number of (head, query)
pairs that count. Bytes a pair and a token were measured at shapes up to 75 million pairs and are rounded up; they are
an estimate, not a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from .shape import Shape

BYTES_A_PAIR = 45
#: Numbers of the position table, which the columns under construction double.
BYTES_A_POSITION = 16
BYTES_A_TOKEN = {"positional": 10, "paper": 10, "constant": 300, "universal": 500}
#: Balls and rationals are objects; so much larger is a cell with its share of the rest.
OBJECTS = 8


@dataclass(frozen=True)
class Estimate:
    """Tokens of the sequence, (head, query) pairs and bytes; the first is exact."""

    length: int
    pairs: int
    bytes: int


def estimate(shape: Shape, layout: str, objects: bool = False) -> Estimate:
    """The size of the encoder of a layout, unguarded. ``objects``: for balls or rationals.

    Raises ValueError for an unknown layout.
    """
    if layout not in BYTES_A_TOKEN:
        raise ValueError(f"layout is {layout!r}; choose one of {', '.join(BYTES_A_TOKEN)}")
    n, d, d_v, h = shape.n, shape.d, shape.d_v, shape.heads
    joined, results = n * shape.joined, n * shape.columns
    with_output = shape.output_dim is not None
    tokens = [shape.inputs, joined, results]
    if layout == "positional":
        tokens += [h * n * d, h * n * d_v, h * n * n]
        pairs = 2 * d * (h * n * d + h * n * d_v + h * n * n) + 2 * n * joined
        pairs += 2 * shape.joined * results if with_output else 0
        columns = 12
    elif layout == "paper":
        tokens += [h * n * d, h * n * d_v, h * n * n, d, n, shape.joined]
        # One head for each entry of a product, asked by every token that holds one.
        pairs = sum((h * size) ** 2 for size in (n * d, n * d_v, n * n, n * d_v)) + h * n * d * (d + d_v + n)
        pairs += results**2 if with_output else 0
        columns = n + h * (d + d_v + 2 * n)
    else:
        tokens += [h * n * d * d, h * n * d_v * d, h * n * n * d, h * n * n, n * joined]
        tokens += [results * shape.joined] if with_output else []
        pairs, columns = 0, 24
    length = 1 + max(tokens)
    size = BYTES_A_PAIR * pairs + (BYTES_A_TOKEN[layout] + BYTES_A_POSITION * columns) * length
    return Estimate(length, pairs, size * (OBJECTS if objects else 1))
