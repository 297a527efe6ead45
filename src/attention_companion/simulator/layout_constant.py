"""Layout `constant`: the number of layers, heads, channels and weights does not depend on the shape at all.

Every single product of the computation has a token of its own, so that each head is the same for all of them; sums are
group means times the group's size. Roles of the tokens (token 1 + index, every token may play one of each kind):

    (a, i, k, c)  X_ic A_ck                 block 1, two heads fetch
    (a, j, v, c)  X_jc V_cv                 block 1, two heads fetch
    (a, i, j, k)  (XA)_ik X_jk              block 2, one mean and one fetch
    (a, i, j)     e_ij = exp(sum over k)    block 3, one mean
    (i, a, v, j)  e_ij (XV)_jv              block 3 brings (XV)_jv by a mean, block 4 fetches e_ij
    (i, a, v)     result                    block 5, two means and the quotient

The sizes d and n are weights in `constant`. In `universal` they stand in the position table, and then not one weight
depends on the shape: a single weight set serves all shapes, and the position table does the address arithmetic. An
output matrix adds two blocks. Length is 1 + the largest number of tokens a role needs, of order h n^2 max(d, d_v).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .encoder import Machine
from .shape import Shape
from .wiring import INPUT, Name, Wiring


class _Roles(Wiring):
    """Wiring with roles: index grids of tokens, groups of tokens, and sums by means."""

    def __init__(self, length: int, universal: bool, sizes: dict[str, int]):
        super().__init__(length, merge_equal=False)
        self.universal = universal
        self.sizes = sizes
        self._size_columns = {
            name: np.full(length, size, dtype=np.int64) for name, size in sizes.items() if universal
        }

    def groups(self, count: int, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Group numbers 1.. for tokens 1..count; BOS is group 0; tokens without the role are out of reach."""
        column = np.full(self.length, 3 * self.length, dtype=np.int64)
        column[1 : count + 1] = 1 + values
        column[0] = 0
        return column

    def total(
        self, target: Name, source: Name, query: Name, groups: npt.NDArray[np.int64], size: str
    ) -> None:
        """target += sum of the source over the query's group, of as many tokens as the size of that name says."""
        if not self.universal:
            self.mean(target, source, query, groups, self.sizes[size])
            return
        part = self.data("mean of", target)
        self.mean(part, source, query, groups)

    def totals(self, sums: dict[Name, str]) -> None:
        """In `universal` the means still have to be multiplied by the group size, which is a position: one stage."""
        if self.universal:
            self.stage(
                [
                    ("product", t, {self.data("mean of", t): 1}, {self.column(self._size_columns[size]): 1})
                    for t, size in sums.items()
                ]
            )


def _grid(*sizes: int) -> list[npt.NDArray[np.int64]]:
    return [x.ravel() for x in np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij")]


def build_constant(shape: Shape, guarded: bool = False, universal: bool = False) -> Machine:
    """The machine for one shape; ``guarded`` spends n^3 exponentials and two more blocks to avoid overflow."""
    n, d, d_v, h = shape.n, shape.d, shape.d_v, shape.heads
    results = n * shape.columns
    roles = [h * n * d * d, h * n * d_v * d, h * n * n * d, h * n * n, n * h * d_v * n, n * shape.joined]
    roles += [h * n**3] if guarded else []
    roles += [results * shape.joined, results] if shape.output_dim is not None else []
    w = _Roles(1 + max(shape.inputs, *roles), universal, {"d": d, "n": n, "joined": shape.joined})
    head_size = d * d + d * d_v

    w.block()
    a, i, k, c = _grid(h, n, d, d)
    xa_part, xv_part = w.data("X A"), w.data("X V")
    w.fetch(w.data("X for A"), INPUT, w.addresses(len(a), 1 + i * d + c))
    w.fetch(w.data("A"), INPUT, w.addresses(len(a), 1 + n * d + a * head_size + c * d + k))
    xa_groups = w.groups(len(a), (a * n + i) * d + k)
    a, j, v, c = _grid(h, n, d_v, d)
    w.fetch(w.data("X for V"), INPUT, w.addresses(len(a), 1 + j * d + c))
    w.fetch(w.data("V"), INPUT, w.addresses(len(a), 1 + n * d + a * head_size + d * d + c * d_v + v))
    xv_groups = w.groups(len(a), (a * n + j) * d_v + v)
    w.stage(
        [
            ("product", xa_part, {w.data("X for A"): 1}, {w.data("A"): 1}),
            ("product", xv_part, {w.data("X for V"): 1}, {w.data("V"): 1}),
        ]
    )

    w.block()
    a, i, j, k = _grid(h, n, n, d)
    xa, score_part = w.data("XA"), w.data("score part")
    w.total(xa, xa_part, w.addresses(len(a), 1 + (a * n + i) * d + k), xa_groups, "d")
    w.fetch(w.data("X"), INPUT, w.addresses(len(a), 1 + j * d + k))
    w.totals({xa: "d"})
    w.stage([("product", score_part, {xa: 1}, {w.data("X"): 1})])
    score_groups = w.groups(len(a), (a * n + i) * n + j)

    w.block()
    a, i, j = _grid(h, n, n)
    score, power, xv = w.data("score"), w.data("exp"), w.data("XV")
    w.total(score, score_part, w.addresses(len(a), 1 + (a * n + i) * n + j), score_groups, "d")
    row_groups = w.groups(len(a), a * n + i)
    i4, a4, v4, j4 = _grid(n, h, d_v, n)
    w.total(xv, xv_part, w.addresses(len(a4), 1 + (a4 * n + j4) * d_v + v4), xv_groups, "d")
    w.totals({score: "d", xv: "d"})
    if guarded:
        _guard(w, shape, score, power)
    else:
        w.stage([("exp", power, {score: 1}, {})])

    w.block()
    product = w.data("e XV")
    w.fetch(w.data("e"), power, w.addresses(len(a4), 1 + (a4 * n + i4) * n + j4))
    w.stage([("product", product, {w.data("e"): 1}, {xv: 1})])
    result_groups = w.groups(len(a4), (i4 * h + a4) * d_v + v4)

    w.block()
    i, a, v = _grid(n, h, d_v)
    result, above, below = w.data("result"), w.data("above"), w.data("below")
    own = w.addresses(len(a), 1 + (i * h + a) * d_v + v)
    if guarded:
        w.total(result, product, own, result_groups, "n")
        w.totals({result: "n"})
    else:
        w.total(above, product, own, result_groups, "n")
        # A token without a result divides by the exponential that BOS holds, exp(0) = 1, times n.
        w.total(below, power, w.addresses(len(a), 1 + a * n + i), row_groups, "n")
        w.totals({above: "n", below: "n"})
        w.stage([("division", result, {above: 1}, {below: 1})])
    if shape.output_dim is not None:
        result = _output(w, shape, result)
    return w.machine(shape.inputs, results, result)


def _guard(w: _Roles, shape: Shape, score: Name, weight: Name) -> None:
    """weight_ij = 1 / sum over u of exp(s_iu - s_ij): two blocks, with a token for each (a, i, j, u)."""
    n, h = shape.n, shape.heads
    a, i, j, u = _grid(h, n, n, n)
    w.block()
    w.fetch(w.data("other score"), score, w.addresses(len(a), 1 + (a * n + i) * n + u))
    w.fetch(w.data("own score"), score, w.addresses(len(a), 1 + (a * n + i) * n + j))
    ratio, total = w.data("ratio"), w.data("ratios")
    w.stage([("exp", ratio, {w.data("other score"): 1, w.data("own score"): -1}, {})])
    groups = w.groups(len(a), (a * n + i) * n + j)
    a, i, j = _grid(h, n, n)
    w.block()
    w.total(total, ratio, w.addresses(len(a), 1 + (a * n + i) * n + j), groups, "n")
    w.totals({total: "n"})
    w.stage([("division", weight, {w.one: 1}, {total: 1})])


def _output(w: _Roles, shape: Shape, result: Name) -> Name:
    """Two more blocks: the joined heads times the output matrix."""
    n, out, joined = shape.n, shape.columns, shape.joined
    i, o, c = _grid(n, out, joined)
    w.block()
    part, output = w.data("T W_O"), w.data("output")
    w.fetch(w.data("T"), result, w.addresses(len(i), 1 + i * joined + c))
    w.fetch(w.data("W_O"), INPUT, w.addresses(len(i), 1 + shape.output_at + c * out + o))
    w.stage([("product", part, {w.data("T"): 1}, {w.data("W_O"): 1})])
    groups = w.groups(len(i), i * out + o)
    i, o = _grid(n, out)
    w.block()
    w.total(output, part, w.addresses(len(i), 1 + i * out + o), groups, "joined")
    w.totals({output: "joined"})
    return output
