"""The simulator U as a program: one input sequence <T, X>, one head (Theorem 6) or many (Theorem 9).

One head, with X, A and V read from the sequence where Shape says they stand:

    X --product--> XA --product--> X A X^T --softmax--> P --product--> P (XV).

Many heads: Identify keeps the numbers of X or of one head and puts 0 in place of all others; Shift moves the head's
block to where the first head's stands, so that the same program serves each head; then each result is shifted into its
columns, and the optional output matrix is one more product.

Source: the paper's programs are reconstructed from a summary and from what the released ones do; this form is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..arithmetic import Arithmetic, Ball, read_arithmetic
from ..rasp import NOWHERE, Numbers, Rasp
from ..reading import read_layer
from ..shape import Shape
from ..target import as_rows
from .matrices import ARRANGEMENTS, Matrix, product, row_and_column, transpose, where_inside
from .softmax import softmax_rows


@dataclass(frozen=True, eq=False)
class Simulation:
    """What U returned: ``result`` as :func:`.attention` gives it, and the run with its layers, heads and patterns."""

    result: Any
    run: Rasp


def length_needed(shape: Shape, arrangement: str = "paper") -> int:
    """Tokens that U needs: the input, or the largest matrix (or scratch array) on the way, whichever is more."""
    n, d, d_v, joined = shape.n, shape.d, shape.d_v, shape.joined
    sizes = [shape.inputs, n * n, n * joined, n * shape.columns]
    if arrangement == "scratch":
        sizes += [n * d * d, n * d * n, n * d * d_v, n * n * d_v]
        sizes += [] if shape.output_dim is None else [n * joined * shape.output_dim]
    return max(sizes)


def one_head(x: Matrix, a: Matrix, v: Matrix, arrangement: str = "paper") -> Matrix:
    """softmax(X A X^T) X V, at the front of the sequence, in seven layers."""
    scores = product(product(x, a, arrangement), transpose(x), arrangement)
    values = product(x, v, arrangement)
    return product(softmax_rows(scores), values, arrangement)


def identify(values: Numbers, start: int, count: int) -> Numbers:
    """The numbers at tokens start .. start + count - 1, and 0 at all others: a product with a position indicator."""
    run = values.run
    t = run.indices.values
    return values * run.positions(np.where((t >= start) & (t < start + count), 1, 0)).numbers()


def shift(values: Numbers, by: int) -> Numbers:
    """Each token receives the number that stood ``by`` tokens behind it (one layer, one head); 0 past the end."""
    run = values.run
    wanted = run.indices.values + by
    addresses = np.where((wanted >= 0) & (wanted < run.length), wanted, NOWHERE)
    return run.fetch(values, addresses, f"shift by {by}")


def single_head_program(run: Rasp, shape: Shape, arrangement: str = "paper") -> Matrix:
    """Theorem 6: U for one head, from the sequence X, A, V. Raises ValueError for a shape with more."""
    if shape.heads != 1 or shape.output_dim is not None:
        raise ValueError(f"{shape} has more than one head or an output matrix; use many_heads_program")
    n, d = shape.n, shape.d
    x = Matrix(run.tokens, n, d)
    a, v = Matrix(run.tokens, d, d, shape.a_at(0)), Matrix(run.tokens, d, shape.d_v, shape.v_at(0))
    return one_head(x, a, v, arrangement)


def many_heads_program(run: Rasp, shape: Shape, arrangement: str = "paper", shift_error: int = 0) -> Matrix:
    """Theorem 9: U for any number of heads, from X, then A and V head by head, then the output matrix if there is one.

    ``shift_error`` is a control: every head takes the block that many heads further on.
    """
    n, d, d_v = shape.n, shape.d, shape.d_v
    x = Matrix(identify(run.tokens, 0, n * d), n, d)
    block = d * d + d * d_v
    joined: Numbers | None = None
    for head in range(shape.heads):
        own = (head + shift_error) % shape.heads
        moved = shift(identify(run.tokens, shape.a_at(own), block), own * block)
        a, v = Matrix(moved, d, d, shape.a_at(0)), Matrix(moved, d, d_v, shape.v_at(0))
        placed = _into_columns(one_head(x, a, v, arrangement), head, shape)
        joined = placed if joined is None else joined + placed
    assert joined is not None
    result = Matrix(joined, n, shape.joined)
    if shape.output_dim is None:
        return result
    w = Matrix(run.tokens, shape.joined, shape.output_dim, shape.output_at)
    return product(result, w, arrangement)


def _into_columns(result: Matrix, head: int, shape: Shape) -> Numbers:
    """The n x d_v result of one head, moved into its columns of the n x h d_v matrix; 0 in all others."""
    run = result.values.run
    i, column = row_and_column(run, shape.joined)
    j = column - head * shape.d_v
    mine = (j >= 0) & (j < shape.d_v)
    addresses = np.where(mine, i * shape.d_v + j, NOWHERE)
    return run.fetch(result.values, where_inside(run, shape.n * shape.joined, addresses), f"join head {head}")


def simulate(
    X: Any,
    heads: Sequence[tuple[Any, Any]],
    output: Any = None,
    arithmetic: str = "float64",
    exp: Callable[[Fraction], Any] | None = None,
    bits: int = 200,
    arrangement: str = "paper",
    keep_steps: bool = False,
) -> Simulation:
    """U(<T, X>) by the program, on the one sequence <T, X>: arguments and errors as for :func:`.attention`.

    ``arrangement`` is that of the products: "paper" (heads grow with the shape) or "scratch" (tokens do). One head
    without an output matrix is run by the program of Theorem 6, everything else by that of Theorem 9. ``keep_steps``
    keeps what every head brought, in ``run.steps``.

    Raises OverflowError where a number leaves float64; ball arithmetic has no such limit.
    """
    if arrangement not in ARRANGEMENTS:
        raise ValueError(f"arrangement is {arrangement!r}; choose one of {', '.join(ARRANGEMENTS)}")
    kind = read_arithmetic(arithmetic, exp, bits)
    layer = read_layer(X, heads, output, kind)
    if isinstance(kind, Ball):
        with kind.precision():
            return _simulate(layer.sequence(kind), layer.shape, kind, arrangement, keep_steps)
    return _simulate(layer.sequence(kind), layer.shape, kind, arrangement, keep_steps)


def _simulate(
    sequence: Any, shape: Shape, kind: Arithmetic, arrangement: str, keep_steps: bool
) -> Simulation:
    run = Rasp(kind, sequence, length_needed(shape, arrangement), keep_steps=keep_steps)
    single = shape.heads == 1 and shape.output_dim is None
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = (single_head_program if single else many_heads_program)(run, shape, arrangement)
    flat = matrix.values.values[: shape.n * shape.columns]
    if kind.dtype is not object and not np.isfinite(flat).all():
        raise OverflowError(
            "the result or a step towards it exceeds float64; scale the layer or use ball arithmetic"
        )
    return Simulation(as_rows(flat.reshape(shape.n, shape.columns), kind), run)
