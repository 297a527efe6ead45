"""Layout `positional`: three layers, with a head for every position of the inner dimensions.

Roles of the tokens (every token may play one of each kind; token 1 + index):

    (a, i, k)  holds (X A_a)_ik      = sum over k' of X_ik' A_k'k
    (a, j, v)  holds (X V_a)_jv      = sum over k of X_jk V_kv
    (a, i, j)  holds e_ij            = exp(sum over k of (XA)_ik X_jk)
    (i, a, v)  holds the result      = (sum over j of e_ij (XV)_jv) / (sum over j of e_ij)

Block 1 has 4d heads, block 2 has 2d, block 3 has 2n, whatever the number h of simulated heads: those are told apart by
tokens. An output matrix adds one block of 2 h d_v heads. Length is 1 + max(inputs, h n d, h n d_v, h n^2, results).
"""

from __future__ import annotations

import numpy as np

from .encoder import Machine
from .shape import Shape
from .wiring import INPUT, Wiring


def build_positional(shape: Shape, guarded: bool = False) -> Machine:
    """The machine for one shape. ``guarded`` avoids overflow: weight_j = 1 / sum over u of exp(s_u - s_j)."""
    n, d, d_v, h = shape.n, shape.d, shape.d_v, shape.heads
    results = n * shape.columns
    w = Wiring(1 + max(shape.inputs, h * n * d, h * n * d_v, h * n * n, n * shape.joined, results))
    a, i, k = (x.ravel() for x in np.meshgrid(np.arange(h), np.arange(n), np.arange(d), indexing="ij"))
    a2, j2, v2 = (x.ravel() for x in np.meshgrid(np.arange(h), np.arange(n), np.arange(d_v), indexing="ij"))
    a3, i3, j3 = (x.ravel() for x in np.meshgrid(np.arange(h), np.arange(n), np.arange(n), indexing="ij"))
    i4, a4, v4 = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(h), np.arange(d_v), indexing="ij"))
    head_size = d * d + d * d_v

    w.block()
    x_row = w.addresses(h * n * d, 1 + i * d)
    a_column = w.addresses(h * n * d, 1 + n * d + a * head_size + k)
    x_row_again = w.addresses(h * n * d_v, 1 + j2 * d)
    v_column = w.addresses(h * n * d_v, 1 + n * d + a2 * head_size + d * d + v2)
    xa, xv = w.data("XA"), w.data("XV")
    for c in range(d):
        w.fetch(w.data("X for A", c), INPUT, x_row, c)
        w.fetch(w.data("A", c), INPUT, a_column, c * d)
        w.fetch(w.data("X for V", c), INPUT, x_row_again, c)
        w.fetch(w.data("V", c), INPUT, v_column, c * d_v)
    w.stage(
        [("product", xa, {w.data("X for A", c): 1}, {w.data("A", c): 1}) for c in range(d)]
        + [("product", xv, {w.data("X for V", c): 1}, {w.data("V", c): 1}) for c in range(d)]
    )

    w.block()
    xa_row = w.addresses(h * n * n, 1 + (a3 * n + i3) * d)
    x_other = w.addresses(h * n * n, 1 + j3 * d)
    score, power = w.data("score"), w.data("exp")
    for c in range(d):
        w.fetch(w.data("XA", c), xa, xa_row, c)
        w.fetch(w.data("X", c), INPUT, x_other, c)
    w.stage([("product", score, {w.data("XA", c): 1}, {w.data("X", c): 1}) for c in range(d)])
    if not guarded:
        w.stage([("exp", power, {score: 1}, {})])

    w.block()
    score_row = w.addresses(n * h * d_v, 1 + (a4 * n + i4) * n)
    xv_column = w.addresses(n * h * d_v, 1 + a4 * n * d_v + v4)
    result, above = w.data("result"), w.data("above")
    for j in range(n):
        w.fetch(w.data("row", j), score if guarded else power, score_row, j)
        w.fetch(w.data("value", j), xv, xv_column, j * d_v)
    if guarded:
        w.stage(
            [
                ("exp", w.data("sum", j), {w.data("row", u): 1, w.data("row", j): -1} if u != j else {}, {})
                for j in range(n)
                for u in range(n)
            ]
        )
        w.stage([("division", result, {w.data("value", j): 1}, {w.data("sum", j): 1}) for j in range(n)])
    else:
        w.stage([("product", above, {w.data("row", j): 1}, {w.data("value", j): 1}) for j in range(n)])
        w.stage([("division", result, {above: 1}, {w.data("row", j): 1 for j in range(n)})])
    if shape.output_dim is not None:
        result = _output(w, shape, result)
    return w.machine(shape.inputs, results, result)


def _output(w: Wiring, shape: Shape, result: object) -> object:
    """One more block: the joined heads times the output matrix."""
    out = shape.columns
    i, o = (x.ravel() for x in np.meshgrid(np.arange(shape.n), np.arange(out), indexing="ij"))
    w.block()
    row = w.addresses(shape.n * out, 1 + i * shape.joined)
    column = w.addresses(shape.n * out, 1 + shape.output_at + o)
    for c in range(shape.joined):
        w.fetch(w.data("joined", c), result, row, c)
        w.fetch(w.data("W_O", c), INPUT, column, c * out)
    product = w.data("output")
    w.stage(
        [("product", product, {w.data("joined", c): 1}, {w.data("W_O", c): 1}) for c in range(shape.joined)]
    )
    return product
