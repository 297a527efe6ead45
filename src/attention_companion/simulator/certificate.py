"""Certificates: an encoder's weights, one rational layer, and bounds on the result, for a check by other code.

A certificate is plain JSON. ``book/_static/verify_certificate.py`` (standard library only, and nothing of this package)
runs the weights on intervals of fractions, computes T from its definition, and accepts if both lie within the bounds.
"""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any

from .arithmetic import Rational
from .build import Encoder
from .encoder import Form, Head, Matrix
from .reading import Layer, read_layer
from .target import attention

FORMAT = "hard-attention-encoder-certificate-1"
#: Bounds are multiples of 10^-DIGITS, at most two such steps wider than the enclosures that they hold.
DIGITS = 40


def certificate(encoder: Encoder, X: Any, heads: Any, output: Any = None, bits: int = 200) -> dict[str, Any]:
    """The certificate of an encoder at one layer of exact numbers (integers and Fractions) of its shape.

    Raises ValueError when U and T are apart at that layer, or for a wrong layer; TypeError for floats.
    """
    exact = read_layer(X, heads, output, Rational())
    ours = encoder.run(X, heads, output, arithmetic="ball", bits=bits)
    theirs = attention(X, heads, output, arithmetic="ball", bits=bits)
    for i, (row, wanted) in enumerate(zip(ours, theirs, strict=True)):
        for j, (u, t) in enumerate(zip(row, wanted, strict=True)):
            if not u.overlaps(t):
                raise ValueError(f"U and T differ at row {i}, column {j}: {u.str(10)} and {t.str(10)}")
    machine = encoder.machine
    return {
        "format": FORMAT,
        "layout": encoder.layout,
        "shape": {"n": exact.shape.n, "d": exact.shape.d, "d_v": exact.shape.d_v, "heads": exact.shape.heads},
        "layers": machine.layers,
        "heads_per_layer": list(machine.heads_per_layer),
        "nonzero_weights": machine.nonzero_weights,
        "width": machine.width,
        "output_channel": machine.output_channel,
        "input_tokens": machine.input_tokens.tolist(),
        "output_tokens": machine.output_tokens.tolist(),
        "positions": machine.positions.tolist(),
        "blocks": [
            {
                "heads": [_head(head) for head in block.heads],
                "stages": [
                    [
                        {"kind": o.kind, "target": o.target, "left": _form(o.left), "right": _form(o.right)}
                        for o in stage
                    ]
                    for stage in block.stages
                ],
            }
            for block in machine.blocks
        ],
        **_layer(exact),
        "bounds": [
            [_bounds(u, t) for u, t in zip(row, wanted, strict=True)]
            for row, wanted in zip(ours, theirs, strict=True)
        ],
    }


def write_certificate(path: str | Path, encoder: Encoder, X: Any, heads: Any, output: Any = None) -> None:
    """:func:`certificate` as a JSON file."""
    text = json.dumps(certificate(encoder, X, heads, output), separators=(",", ":"))
    Path(path).write_text(text + "\n", encoding="utf-8")


def _layer(layer: Layer) -> dict[str, Any]:
    def matrix(rows: list[list[Any]]) -> list[list[str]]:
        return [[str(Fraction(value)) for value in row] for row in rows]

    return {
        "X": matrix(layer.x),
        "heads": [{"A": matrix(a), "V": matrix(v)} for a, v in layer.heads],
        "W_O": None if layer.output is None else matrix(layer.output),
    }


def _head(head: Head) -> dict[str, Any]:
    def entries(matrix: Matrix) -> list[list[Any]]:
        return [[row, column, str(weight)] for (row, column), weight in sorted(matrix.items()) if weight]

    return {"query": entries(head.query), "key": entries(head.key), "value": entries(head.value)}


def _form(form: Form) -> list[list[Any]]:
    return [[channel, str(weight)] for channel, weight in sorted(form.items()) if weight]


def _bounds(*balls: Any) -> list[str]:
    """The smallest and largest number of the balls, rounded outwards."""
    ends = [_fraction(ball.mid()) + sign * _fraction(ball.rad()) for ball in balls for sign in (-1, 1)]
    scale = 10**DIGITS
    return [str(Fraction(floor(min(ends) * scale), scale)), str(Fraction(ceil(max(ends) * scale), scale))]


def _fraction(point: Any) -> Fraction:
    mantissa, exponent = (int(part) for part in point.man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent
