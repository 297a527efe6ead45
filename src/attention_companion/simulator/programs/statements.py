"""What each program is held to: how it is called at given sizes, and what it should return, from the definition.

``expected`` is written for any kind of number with nested lists, sums and products, and shares no address arithmetic
with the programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..arithmetic import Arithmetic
from ..rasp import Rasp
from ..shape import Shape
from .inverse import adjugate_inverse
from .matrices import Matrix, product, reread, transpose
from .simulate import length_needed, many_heads_program, single_head_program
from .softmax import softmax_rows

Sizes = tuple[int, ...]
Rows = list[list[Any]]


@dataclass(frozen=True)
class Statement:
    """``program(run, sizes, options)`` returns as many numbers as ``expected(kind, tokens, sizes)`` holds it to.

    ``names`` are those of the sizes, ``inputs`` and ``length`` the numbers of input tokens and of all tokens,
    ``exponentials`` how many different exponentials occur; ``where`` restricts the inputs it speaks of.
    """

    names: tuple[str, ...]
    inputs: Callable[[Sizes], int]
    length: Callable[[Sizes, Mapping[str, Any]], int]
    exponentials: Callable[[Sizes], int]
    program: Callable[[Rasp, Sizes, Mapping[str, Any]], list[Any]]
    expected: Callable[[Arithmetic, Sequence[Any], Sizes], list[Any]]
    where: str = ""


def shape_of(sizes: Sizes) -> Shape:
    """(n, d, d_v), (n, d, d_v, h) or (n, d, d_v, h, output_dim) as a Shape."""
    return Shape.read(*sizes)


def flat(matrix: Matrix) -> list[Any]:
    return [value for row in matrix.entries() for value in row]


def rows_of(tokens: Sequence[Any], rows: int, columns: int, start: int = 0) -> Rows:
    return [list(tokens[start + i * columns : start + (i + 1) * columns]) for i in range(rows)]


def times(kind: Arithmetic, left: Rows, right: Rows) -> Rows:
    """The matrix product, from its definition."""
    columns = list(zip(*right, strict=True))
    return [
        [sum((a * b for a, b in zip(row, column, strict=True)), kind.number(0)) for column in columns]
        for row in left
    ]


def softmax(kind: Arithmetic, matrix: Rows) -> Rows:
    result = []
    for row in matrix:
        powers = kind.exp(kind.array(row))
        total = kind.array([sum(powers, kind.number(0))] * len(row))
        result.append(list(kind.divide(powers, total)))
    return result


def attention_of(kind: Arithmetic, tokens: Sequence[Any], sizes: Sizes) -> list[Any]:
    """T(X) of <T, X>."""
    shape = shape_of(sizes)
    n, d, d_v = shape.n, shape.d, shape.d_v
    x = rows_of(tokens, n, d)
    joined: Rows = [[] for _ in range(n)]
    at = n * d
    for _ in range(shape.heads):
        a, v = rows_of(tokens, d, d, at), rows_of(tokens, d, d_v, at + d * d)
        at += d * d + d * d_v
        weights = softmax(kind, times(kind, times(kind, x, a), [list(c) for c in zip(*x, strict=True)]))
        for i, row in enumerate(times(kind, weights, times(kind, x, v))):
            joined[i] += row
    if shape.output_dim is not None:
        joined = times(kind, joined, rows_of(tokens, len(joined[0]), shape.output_dim, at))
    return [value for row in joined for value in row]


def _inverse_of(kind: Arithmetic, tokens: Sequence[Any], sizes: Sizes) -> list[Any]:
    """By Cramer's rule, minors expanded along rows."""
    size = sizes[0]
    rows = rows_of(tokens, size, size)
    minus = kind.number(-1)

    def determinant(matrix: Rows) -> Any:
        if not matrix:
            return kind.number(1)
        total = kind.number(0)
        for j, value in enumerate(matrix[0]):
            minor = [row[:j] + row[j + 1 :] for row in matrix[1:]]
            term = value * determinant(minor)
            total = total + (term * minus if j % 2 else term)
        return total

    whole = determinant(rows)
    above = []
    for i in range(size):
        for j in range(size):
            minor = [row[:i] + row[i + 1 :] for r, row in enumerate(rows) if r != j]
            above.append(determinant(minor) * minus if (i + j) % 2 else determinant(minor))
    return list(kind.divide(kind.array(above), kind.array([whole] * len(above))))


def _area(sizes: Sizes) -> int:
    return sizes[0] * sizes[1]


def _simulator_length(sizes: Sizes, options: Mapping[str, Any]) -> int:
    return length_needed(shape_of(sizes), options.get("arrangement", "paper"))


def _product_length(sizes: Sizes, options: Mapping[str, Any]) -> int:
    r, k, c = sizes
    return max(r * k + k * c, r * c, r * k * c if options.get("arrangement") == "scratch" else 0)


def _product(run: Rasp, sizes: Sizes, options: Mapping[str, Any]) -> list[Any]:
    r, k, c = sizes
    return flat(product(Matrix(run.tokens, r, k), Matrix(run.tokens, k, c, r * k), **options))


def _one_matrix(program: Callable[..., Matrix]) -> Callable[[Rasp, Sizes, Mapping[str, Any]], list[Any]]:
    return lambda run, sizes, options: flat(program(Matrix(run.tokens, sizes[0], sizes[1]), **options))


STATEMENTS: dict[str, Statement] = {
    "bijection": Statement(
        ("rows", "columns"),
        _area,
        lambda s, o: _area(s),
        lambda s: 0,
        _one_matrix(reread),
        lambda kind, tokens, s: list(tokens),
    ),
    "transpose": Statement(
        ("rows", "columns"),
        _area,
        lambda s, o: _area(s),
        lambda s: 0,
        _one_matrix(transpose),
        lambda kind, tokens, s: [v for column in zip(*rows_of(tokens, *s), strict=True) for v in column],
    ),
    "softmax": Statement(
        ("rows", "columns"),
        _area,
        lambda s, o: _area(s),
        _area,
        _one_matrix(softmax_rows),
        lambda kind, tokens, s: [v for row in softmax(kind, rows_of(tokens, *s)) for v in row],
    ),
    "product": Statement(
        ("rows", "inner", "columns"),
        lambda s: s[0] * s[1] + s[1] * s[2],
        _product_length,
        lambda s: 0,
        _product,
        lambda kind, tokens, s: [
            v
            for row in times(kind, rows_of(tokens, s[0], s[1]), rows_of(tokens, s[1], s[2], s[0] * s[1]))
            for v in row
        ],
    ),
    "single_head": Statement(
        ("n", "d", "d_v"),
        lambda s: shape_of(s).inputs,
        _simulator_length,
        lambda s: s[0] ** 2,
        lambda run, s, o: flat(single_head_program(run, shape_of(s), **o)),
        attention_of,
    ),
    "many_heads": Statement(
        ("n", "d", "d_v", "heads"),
        lambda s: shape_of(s).inputs,
        _simulator_length,
        lambda s: s[3] * s[0] ** 2,
        lambda run, s, o: flat(many_heads_program(run, shape_of(s), **o)),
        attention_of,
    ),
    "many_heads_output": Statement(
        ("n", "d", "d_v", "heads", "output_dim"),
        lambda s: shape_of(s).inputs,
        _simulator_length,
        lambda s: s[3] * s[0] ** 2,
        lambda run, s, o: flat(many_heads_program(run, shape_of(s), **o)),
        attention_of,
    ),
    "inverse": Statement(
        ("size",),
        lambda s: s[0] ** 2,
        lambda s, o: s[0] ** 2,
        lambda s: 0,
        lambda run, s, o: flat(adjugate_inverse(Matrix(run.tokens, s[0], s[0]), **o)),
        _inverse_of,
        where="wherever the determinant is not 0",
    ),
}
