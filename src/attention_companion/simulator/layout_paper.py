"""Layout `paper`: our reconstruction of the paper's own arrangement (its Lemmas 3, 4 and 5), seven layers.

A product of an r x c and a c x s matrix takes two layers (Lemma 5). In the first, r + s heads align rows and columns:
token t (1..c) receives the t-th entry of every row of the first matrix and of every column of the second, each in its
own channel; r s products follow. In the second, one head for each entry of the result averages its products over the
tokens 1..c, for the one token where the entry belongs; every other token must receive nothing, which is what BOS is
for: without it this layout breaks.

    layers 1-2   X A and X V      3-4   (X A) X^T, exp      5   division by row sums      6-7   weights times X V

The heads h are simulated side by side. An output matrix adds two layers. The number of heads and channels grows with
h n (n + d + d_v).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .encoder import Machine
from .shape import Shape
from .wiring import INPUT, Name, Wiring

#: The names of two aligned channels, the channel their product's sum goes to, and the token where it belongs.
_Entry = tuple[tuple[object, ...], tuple[object, ...], str, int]


def build_paper(shape: Shape, guarded: bool = False) -> Machine:
    """The machine for one shape; ``guarded`` replaces the row sum's one head by n heads and n^2 exponentials a row."""
    n, d, d_v, h = shape.n, shape.d, shape.d_v, shape.heads
    results = n * shape.columns
    tokens = [shape.inputs, h * n * d, h * n * d_v, h * n * n, n * shape.joined, results, d, n, shape.joined]
    w = Wiring(1 + max(tokens))

    # Where the entries of each matrix stand: its token, for head a, row r, column c.
    def x(i: int, c: int) -> int:
        return 1 + i * d + c

    def xa(a: int, i: int, c: int) -> int:
        return 1 + (a * n + i) * d + c

    def xv(a: int, j: int, v: int) -> int:
        return 1 + (a * n + j) * d_v + v

    def s(a: int, i: int, j: int) -> int:
        return 1 + (a * n + i) * n + j

    def t(i: int, c: int) -> int:
        return 1 + i * shape.joined + c

    heads, rows, keys, values = range(h), range(n), range(d), range(d_v)
    w.block()
    for i in rows:
        _align(w, ("X", i), INPUT, d, x(i, 0))
    for a in heads:
        for k in keys:
            _align(w, ("A", a, k), INPUT, d, 1 + shape.a_at(a) + k, d)
        for v in values:
            _align(w, ("V", a, v), INPUT, d, 1 + shape.v_at(a) + v, d_v)
    first: list[_Entry] = [
        (("X", i), ("A", a, k), "XA", xa(a, i, k)) for a in heads for i in rows for k in keys
    ]
    second: list[_Entry] = [
        (("X", j), ("V", a, v), "XV", xv(a, j, v)) for a in heads for j in rows for v in values
    ]
    _multiply(w, first + second, d)

    w.block()
    for a in heads:
        for i in rows:
            _align(w, ("XA", a, i), w.data("XA"), d, xa(a, i, 0))
    for j in rows:
        _align(w, ("X again", j), INPUT, d, x(j, 0))
    _multiply(
        w, [(("XA", a, i), ("X again", j), "score", s(a, i, j)) for a in heads for i in rows for j in rows], d
    )
    if not guarded:
        w.stage([("exp", w.data("exp"), {w.data("score"): 1}, {})])
    _softmax(w, shape, guarded)

    w.block()
    for a in heads:
        for i in rows:
            _align(w, ("weight", a, i), w.data("weight"), n, s(a, i, 0))
        for v in values:
            _align(w, ("XV", a, v), w.data("XV"), n, xv(a, 0, v), d_v)
    _multiply(
        w,
        [
            (("weight", a, i), ("XV", a, v), "result", t(i, a * d_v + v))
            for a in heads
            for i in rows
            for v in values
        ],
        n,
    )
    output = "result"
    if shape.output_dim is not None:
        output, out = "output", shape.output_dim
        w.block()
        for i in rows:
            _align(w, ("T", i), w.data("result"), shape.joined, t(i, 0))
        for o in range(out):
            _align(w, ("W_O", o), INPUT, shape.joined, 1 + shape.output_at + o, out)
        _multiply(
            w,
            [(("T", i), ("W_O", o), "output", 1 + i * out + o) for i in rows for o in range(out)],
            shape.joined,
        )
    return w.machine(shape.inputs, results, w.data(output))


def _align(
    w: Wiring, target: tuple[object, ...], source: Name, inner: int, first: int, stride: int = 1
) -> None:
    """One head: token 1 + c receives the source at token first + c stride, for c < inner."""
    w.fetch(w.data("aligned", *target), source, w.addresses(inner, first + stride * np.arange(inner)))


def _multiply(w: Wiring, entries: Sequence[_Entry], inner: int) -> None:
    """Products of aligned channels, then a block with a head for each entry, which sums over tokens 1..inner."""
    w.stage(
        [
            (
                "product",
                w.data("product", target, token),
                {w.data("aligned", *left): 1},
                {w.data("aligned", *right): 1},
            )
            for left, right, target, token in entries
        ]
    )
    members = (w.token >= 1) & (w.token <= inner)
    w.block()
    for _, _, target, token in entries:
        w.mean_for(w.data(target), w.data("product", target, token), token, members, inner)


def _softmax(w: Wiring, shape: Shape, guarded: bool) -> None:
    """One block: each exponential over its row's sum, or 1 over the sum of exp(s_u - s_j)."""
    n, count = shape.n, shape.heads * shape.n * shape.n
    index = np.arange(count)
    weight, below = w.data("weight"), w.data("row sum")
    w.block()
    if guarded:
        row = w.addresses(count, 1 + index // n * n)
        for u in range(n):
            w.fetch(w.data("row", u), w.data("score"), row, u)
        w.stage([("exp", below, {w.data("row", u): 1, w.data("score"): -1}, {}) for u in range(n)])
        w.stage([("division", weight, {w.one: 1}, {below: 1})])
        return
    groups = np.full(w.length, 3 * w.length, dtype=np.int64)
    groups[0], groups[1 : count + 1] = 0, 1 + index // n
    w.mean(below, w.data("exp"), w.addresses(count, 1 + index // n), groups, n)
    w.stage([("division", weight, {w.data("exp"): 1}, {below: 1})])
