"""The compiled simulator: one encoder for a shape, its sizes, and running it on <T, X>."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import Arithmetic, Ball, Float, read_arithmetic
from .dense import run_densely
from .encoder import Machine, check_machine, scores_read_positions_only
from .execute import Plan, plan, run
from .layout_constant import build_constant
from .layout_paper import build_paper
from .layout_positional import build_positional
from .reading import Layer, read_layer
from .shape import Shape
from .target import as_rows

LAYOUTS = ("positional", "paper", "constant", "universal")
#: Above this size of a score the plain encoder's exponentials leave float64 (exp(709.8) does); the guarded one runs.
GUARD_ABOVE = 700.0


class GuardedRun(UserWarning):
    """The scores were so large that the guarded encoder ran in place of the plain one."""


class Encoder:
    """An average-hard-attention encoder U with U(<T, X>) = T(X) for all layers T of one shape.

    ``layers``, ``heads_per_layer``, ``width`` (channels), ``length`` (tokens, BOS and scratch tokens included),
    ``nonzero_weights`` (the position table excluded) and ``position_entries`` (numbers in that table) are its sizes;
    ``machine`` holds the weights themselves. Made by :func:`build`; from a machine of one's own (a changed one, say),
    ``Encoder(machine, shape, "changed")`` runs and proves just that machine and knows no guarded one beside it.
    """

    def __init__(self, machine: Machine, shape: Shape, layout: str, guarded: bool = False):
        check_machine(machine)
        for name, tokens, count in (
            ("inputs", machine.input_tokens, shape.inputs),
            ("outputs", machine.output_tokens, shape.n * shape.columns),
        ):
            if tokens.shape != (count,):
                raise ValueError(f"the machine has {tokens.size} {name}; {shape} has {count}")
        self._built = False
        self.machine, self.shape, self.layout, self.guarded = machine, shape, layout, guarded
        self.layers = machine.layers
        self.heads_per_layer = machine.heads_per_layer
        self.width = machine.width
        self.length = machine.length
        self.nonzero_weights = machine.nonzero_weights
        self.position_entries = machine.position_entries

    def __repr__(self) -> str:
        return (
            f"Encoder({self.layout}{', guarded' if self.guarded else ''}: {self.shape}, {self.layers} layers, "
            f"heads {list(self.heads_per_layer)}, width {self.width}, length {self.length}, "
            f"{self.nonzero_weights} nonzero weights, {self.position_entries} position entries)"
        )

    @cached_property
    def plan(self) -> Plan:
        """The planned execution, worked out from the weights at first use (ValueError if scores read data)."""
        return plan(self.machine)

    @cached_property
    def guard(self) -> Encoder:
        """The guarded encoder of the same shape and layout, which no score can overflow.

        ValueError for an encoder that :func:`build` did not make: a guarded one would not be a version of it.
        """
        if not self._built:
            raise ValueError("this encoder was not made by build(), so it has no guarded version")
        return self if self.guarded else build_encoder(self.shape, self.layout, guarded=True)

    def run(
        self,
        X: Any,
        heads: Any,
        output: Any = None,
        arithmetic: str = "float64",
        exp: Callable[[Fraction], Any] | None = None,
        bits: int = 200,
    ) -> Any:
        """U(<T, X>): same arguments, results and errors as :func:`.attention`, for layers of this encoder's shape.

        In float64, when a score exceeds 700 in absolute value, the guarded encoder is run and a :class:`GuardedRun`
        warning says so. Only cells that the result depends on are evaluated, so a division by zero elsewhere goes
        unnoticed (none can occur in an encoder that :func:`.prove` accepts). A machine whose scores read data (only a
        changed one can) is evaluated densely.

        Raises ValueError for exact runs of a guarded encoder: it relies on exp(s - t) = exp(s) / exp(t), which a
        surrogate does not fulfil; OverflowError where float64 does not suffice.
        """
        kind = read_arithmetic(arithmetic, exp, bits)
        if self.guarded and kind.name == "rational":
            raise ValueError(
                "a guarded encoder relies on exp(s - t) = exp(s) / exp(t), which no rational surrogate fulfils: run "
                'the plain encoder exactly, or use arithmetic="ball"'
            )
        layer = read_layer(X, heads, output, kind)
        if layer.shape != self.shape:
            raise ValueError(
                f"this encoder simulates {self.shape}, the layer has {layer.shape}; build one for it"
            )
        if isinstance(kind, Ball):
            with kind.precision():
                return as_rows(self._evaluate(layer, kind).reshape(self.shape.n, -1), kind)
        return as_rows(self._evaluate(layer, kind).reshape(self.shape.n, -1), kind)

    def _evaluate(self, layer: Layer, kind: Arithmetic) -> npt.NDArray[Any]:
        sequence = layer.sequence(kind)
        if not scores_read_positions_only(self.machine):
            return run_densely(self.machine, sequence, kind)
        with np.errstate(all="ignore"):
            try:
                result = run(self.plan, sequence, kind)
            except ZeroDivisionError:
                # Scores far below 0 leave only zeros to divide by.
                if not self._must_guard(kind):
                    raise
        if self._must_guard(kind):
            assert isinstance(kind, Float)
            warnings.warn(
                f"a score of size {kind.largest_exponent:.3g} exceeds {GUARD_ABOVE:g}; ran the guarded encoder "
                f"({self.guard.nonzero_weights} nonzero weights instead of {self.nonzero_weights})",
                GuardedRun,
                stacklevel=3,
            )
            with np.errstate(all="ignore"):
                result = run(self.guard.plan, sequence, kind)
        if kind.name == "float64" and not np.isfinite(result).all():
            raise OverflowError(
                "the result or a step towards it exceeds float64; scale the layer or use ball arithmetic"
            )
        return result

    def _must_guard(self, kind: Arithmetic) -> bool:
        return (
            isinstance(kind, Float)
            and kind.largest_exponent > GUARD_ABOVE
            and self._built
            and not self.guarded
        )

    def to_torch(self) -> Any:
        """The encoder as a plain ``torch.nn.Module`` (float64, dense); see :mod:`.torch_module`."""
        from .torch_module import to_torch

        return to_torch(self.machine, self.shape.n)


def build(
    n: int,
    d: int,
    d_v: int,
    heads: int = 1,
    layout: str = "positional",
    output_dim: int | None = None,
    guarded: bool = False,
) -> Encoder:
    """The encoder that simulates every layer of n tokens, dimension d, ``heads`` heads with values of dimension d_v.

    Parameters
    ----------
    layout
        "positional" (few layers, a head for each inner position), "paper" (our reconstruction of the paper's),
        "constant" (layers, heads and weights do not grow) or "universal" (not one weight depends on the shape).
    output_dim
        Columns of the output matrix W_O, or None for none.
    guarded
        Use 1 / sum over u of exp(s_u - s_j) for the attention weights, which cannot overflow.

    Raises TypeError or ValueError for sizes below 1 and unknown layouts.
    """
    return build_encoder(Shape.read(n, d, d_v, heads, output_dim), layout, guarded)


def build_encoder(shape: Shape, layout: str, guarded: bool = False) -> Encoder:
    """:func:`build` for a checked shape."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {layout!r}; choose one of {', '.join(LAYOUTS)}")
    if layout == "positional":
        machine = build_positional(shape, guarded)
    elif layout == "paper":
        machine = build_paper(shape, guarded)
    else:
        machine = build_constant(shape, guarded, universal=layout == "universal")
    encoder = Encoder(machine, shape, layout, guarded)
    encoder._built = True
    return encoder
