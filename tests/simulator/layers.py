"""Layers and machines that the tests of the simulator share."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
from hypothesis import strategies as st

from attention_companion.simulator import Shape

LAYOUTS = ("positional", "paper", "constant", "universal")

#: (X, A, V) of the first golden value of the study.
GOLDEN = (
    [[F(1, 2), F(-1)], [F(2, 3), F(3)], [F(0), F(-5, 4)]],
    [[F(1), F(2)], [F(-1, 2), F(1, 3)]],
    [[F(2), F(-1, 3)], [F(1, 7), F(4)]],
)


def surrogate(x):
    """Positive and rational, in place of exp in exact runs."""
    return 1 + x + x * x


def rational_layer(shape: Shape, rng: np.random.Generator, top: int = 9):
    """X, [(A, V)], W_O or None with small Fractions as entries."""

    def matrix(rows, columns):
        return [
            [F(int(rng.integers(-top, top + 1)), int(rng.integers(2, 8))) for _ in range(columns)]
            for _ in range(rows)
        ]

    x = matrix(shape.n, shape.d)
    heads = [(matrix(shape.d, shape.d), matrix(shape.d, shape.d_v)) for _ in range(shape.heads)]
    return x, heads, None if shape.output_dim is None else matrix(shape.joined, shape.output_dim)


def float_layer(shape: Shape, rng: np.random.Generator, scale: float = 1.0):
    """The same with standard normal floats; scores grow with the cube of ``scale``."""
    x = scale * rng.normal(size=(shape.n, shape.d))
    heads = [
        (scale * rng.normal(size=(shape.d, shape.d)), rng.normal(size=(shape.d, shape.d_v)))
        for _ in range(shape.heads)
    ]
    output = None if shape.output_dim is None else rng.normal(size=(shape.joined, shape.output_dim))
    return x, heads, output


def as_fractions(balls_or_numbers):
    return [[F(value) for value in row] for row in balls_or_numbers]


#: Rationals that tend to go wrong: zeros, ties, huge denominators, both signs.
AWKWARD = st.one_of(
    st.sampled_from([F(0), F(1), F(-1), F(1, 2)]),
    st.fractions(min_value=-3, max_value=3, max_denominator=5),
    st.builds(F, st.integers(-(10**20), 10**20), st.integers(10**20, 10**21)),
)


def matrices(rows: int, columns: int):
    return st.lists(st.lists(AWKWARD, min_size=columns, max_size=columns), min_size=rows, max_size=rows)


@st.composite
def awkward_layers(draw, largest: int = 3):
    """(X, heads, output or None) of a small shape; rows may repeat."""
    n, d, d_v, h = (draw(st.integers(1, largest)) for _ in range(4))
    x = draw(matrices(n, d))
    if n > 1 and draw(st.booleans()):
        x[-1] = list(x[0])
    heads = [(draw(matrices(d, d)), draw(matrices(d, d_v))) for _ in range(min(h, 2))]
    out = draw(st.none() | st.integers(1, 2))
    return x, heads, None if out is None else draw(matrices(len(heads) * d_v, out))
