"""An encoder with ReLU as its only token-wise map, made from one with product, exp and division, and how far off it is.

Every operation of the given machine is replaced by the ReLUs of :mod:`.relu_basis`. A ReLU writes a channel of its own,
and one more block adds them up with their factors: its one head lets every token attend to itself. A quotient takes
two rounds, the reciprocal and then a product. The attention patterns stay what they were: scores read positions only.

How large a box an operation needs, and what its error does to the result, is worked out along the machine: every
channel has an interval for the exact machine, one for the ReLU machine, and a bound for their difference, over all
tokens and all inputs of absolute value at most ``box``. If x', y' stand for x, y and err by a and b, then

    product    |P(x', y') - xy| <= BC/K^2 + |x| b + |y| a + ab        on |x'| <= B, |y'| <= C
    exp        |E(x') - e^x|    <= error of E + e^top a               top above both intervals
    1/x        |R(x') - 1/x|    <= error of R + a / (low low')        low, low' the lower ends.

Bounds are computed in float64, each enlarged by more than its rounding.

Source: our derivation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np

from .build import Encoder
from .encoder import Block, Form, Head, Machine, Operation
from .relu_basis import SLACK, Pieces, exp_pieces, reciprocal_pieces, square_pieces, upward
from .shape import positive_integer

Interval = tuple[float, float]


@dataclass(frozen=True)
class ReluEncoder:
    """``encoder`` uses ReLU alone; for inputs in [-box, box] it is within ``error`` of the one it was made from."""

    encoder: Encoder
    error: float
    box: float
    pieces: int

    @property
    def relus(self) -> int:
        """ReLUs applied to one token, over all blocks."""
        return self.encoder.machine.operations


@dataclass(frozen=True)
class _Known:
    """Of a channel or a form: an interval in the exact machine, one in the ReLU machine, a bound for the difference."""

    exact: Interval
    near: Interval
    error: float

    def __add__(self, other: _Known) -> _Known:
        return _Known(
            _wider(self.exact[0] + other.exact[0], self.exact[1] + other.exact[1]),
            _wider(self.near[0] + other.near[0], self.near[1] + other.near[1]),
            upward(self.error + other.error),
        )

    def times(self, weight: Fraction) -> _Known:
        w = float(weight)
        exact, near = (sorted((w * end[0], w * end[1])) for end in (self.exact, self.near))
        return _Known(_wider(*exact), _wider(*near), upward(abs(w) * self.error))


def _wider(low: float, high: float) -> Interval:
    return low - abs(low) * SLACK, high + abs(high) * SLACK


def _size(interval: Interval) -> float:
    return max(abs(interval[0]), abs(interval[1]))


def _products(x: Interval, y: Interval) -> Interval:
    ends = [a * b for a in x for b in y]
    return _wider(min(ends), max(ends))


ZERO = _Known((0.0, 0.0), (0.0, 0.0), 0.0)


@dataclass
class _Compiler:
    machine: Machine
    box: float
    pieces: int
    exp_pieces: int
    known: dict[int, _Known] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        columns, tokens = self.machine.positions, np.arange(self.machine.length)
        self.width = self.machine.width
        self.known[0] = _Known((-self.box, self.box), (-self.box, self.box), 0.0)
        for p, channel in enumerate(self.machine.position_channels):
            ends = (float(columns[:, p].min()), float(columns[:, p].max()))
            self.known[channel] = _Known(ends, ends, 0.0)
        found = []
        for wanted in (np.ones_like(tokens), tokens, tokens**2):
            at = [p for p in range(columns.shape[1]) if np.array_equal(columns[:, p], wanted)]
            if not at:
                raise ValueError(
                    "the position table lacks a column of ones, of token numbers or of their squares"
                )
            found.append(1 + at[0])
        self.one, self.token, self.square = found

    def run(self) -> Machine:
        for block in self.machine.blocks:
            self._attend(block.heads)
            heads: tuple[Head, ...] = block.heads
            for stage in block.stages:
                heads = self._stage(heads, stage)
            self.blocks.append(Block(heads))
        old = self.machine
        return Machine(
            tuple(self.blocks),
            self.width,
            old.positions,
            old.input_tokens,
            old.output_tokens,
            old.output_channel,
        )

    def _attend(self, heads: tuple[Head, ...]) -> None:
        added: dict[int, _Known] = {}
        for head in heads:
            for (target, source), weight in head.value.items():
                added[target] = added.get(target, ZERO) + self._of(source).times(weight)
        for target, known in added.items():
            self.known[target] = self._of(target) + known

    def _of(self, channel: int) -> _Known:
        return self.known.get(channel, ZERO)

    def _form(self, form: Form) -> _Known:
        total = ZERO
        for channel, weight in form.items():
            total = total + self._of(channel).times(weight)
        return total

    def _stage(self, heads: tuple[Head, ...], stage: tuple[Operation, ...]) -> tuple[Head, ...]:
        """Emit one stage behind ``heads``; returns the heads of the block that is to follow."""
        first: list[Operation] = []
        sums: dict[int, dict[int, Fraction]] = {}
        gained: dict[int, _Known] = {}
        quotients: list[tuple[int, Form, int]] = []
        inverses: dict[int, dict[int, Fraction]] = {}
        for operation in stage:
            if operation.kind == "division":
                channel = self._new_channel()
                below = self._form(operation.right)
                self.known[channel] = self._reciprocal(
                    operation.right, below, first, inverses.setdefault(channel, {})
                )
                quotients.append((operation.target, operation.left, channel))
                continue
            sum_of = sums.setdefault(operation.target, {})
            if operation.kind == "product":
                known = self._product(operation.left, operation.right, first, sum_of)
            elif operation.kind == "exp":
                known = self._exp(operation.left, first, sum_of)
            else:
                raise ValueError(f"the machine holds {operation.kind!r}; expected product, exp or division")
            gained[operation.target] = gained.get(operation.target, ZERO) + known
        self.blocks.append(Block(heads, (tuple(first),)))
        if quotients:
            second: list[Operation] = []
            for target, left, channel in quotients:
                known = self._product(left, {channel: Fraction(1)}, second, sums.setdefault(target, {}))
                gained[target] = gained.get(target, ZERO) + known
            self.blocks.append(Block((self._adder(inverses),), (tuple(second),)))
        for target, known in gained.items():
            self.known[target] = self._of(target) + known
        return (self._adder(sums),)

    def _adder(self, sums: dict[int, dict[int, Fraction]]) -> Head:
        """A head that lets each token attend to itself (score 2 q k - k^2) and adds up channels."""
        one = Fraction(1)
        value = {(target, source): w for target, form in sums.items() for source, w in form.items() if w}
        return Head(
            {(0, self.token): one, (1, self.one): one},
            {(0, self.token): 2 * one, (1, self.square): -one},
            value,
        )

    def _new_channel(self) -> int:
        self.width += 1
        return self.width - 1

    def _relus(
        self,
        function: Pieces,
        form: Form,
        scale: Fraction,
        into: list[Operation],
        sum_of: dict[int, Fraction],
    ) -> None:
        """scale x function(form): its ReLUs into a stage, their factors and the constant into a sum."""
        sum_of[self.one] = sum_of.get(self.one, Fraction(0)) + scale * function.values[0]
        for change, node in function.relus():
            channel = self._new_channel()
            shifted = {**form, self.one: form.get(self.one, Fraction(0)) - node}
            into.append(
                Operation("relu", channel, {c: w for c, w in shifted.items() if w} or {self.one: Fraction(0)})
            )
            sum_of[channel] = scale * change

    def _product(self, left: Form, right: Form, into: list[Operation], sum_of: dict[int, Fraction]) -> _Known:
        x, y = self._form(left), self._form(right)
        b, c = (Fraction(upward(_size(k.near)) or 1.0) for k in (x, y))
        square = square_pieces(self.pieces)
        for sign in (1, -1):
            form: dict[int, Fraction] = {}
            for part, scale in ((left, 1 / (2 * b)), (right, sign / (2 * c))):
                for channel, weight in part.items():
                    form[channel] = form.get(channel, Fraction(0)) + weight * scale
            self._relus(square, form, sign * b * c, into, sum_of)
        chord = upward(float(b * c) * square.error)
        low, high = _products(x.near, y.near)
        carried = _size(x.exact) * y.error + _size(y.exact) * x.error + x.error * y.error
        return _Known(
            _products(x.exact, y.exact), _wider(low - chord, high + chord), upward(chord + upward(carried))
        )

    def _exp(self, form: Form, into: list[Operation], sum_of: dict[int, Fraction]) -> _Known:
        x = self._form(form)
        low, high = x.near[0] - SLACK, x.near[1] + SLACK
        function = exp_pieces(low, high, self.exp_pieces)
        self._relus(function, form, Fraction(1), into, sum_of)
        carried = exp(max(high, x.exact[1])) * x.error
        return _Known(
            _wider(exp(x.exact[0]), exp(x.exact[1])),
            _wider(exp(low), exp(high)),
            upward(function.error + upward(carried)),
        )

    def _reciprocal(
        self, form: Form, x: _Known, into: list[Operation], sum_of: dict[int, Fraction]
    ) -> _Known:
        (low, high), below = x.near, x.exact[0]
        if low <= 0 or below <= 0:
            raise ValueError(
                f"a divisor lies between {low:.6g} and {high:.6g} as far as can be shown; make the box smaller or take "
                "more pieces"
            )
        high = upward(high)
        function = reciprocal_pieces(low, high, self.pieces)
        self._relus(function, form, Fraction(1), into, sum_of)
        carried = x.error / (low * below)
        return _Known(
            _wider(1 / x.exact[1], 1 / below),
            _wider(1 / high, 1 / low),
            upward(function.error + upward(carried)),
        )


def relu_encoder(encoder: Encoder, box: Any, pieces: int, *, exp_pieces: int | None = None) -> ReluEncoder:
    """The encoder with ReLU as its only token-wise map, for inputs in [-box, box], K = ``pieces`` affine pieces a map.

    ``encoder`` is one of :func:`.build`; a product takes 2K ReLUs, exp K, a quotient 3K. ``exp_pieces`` (K) is the
    number for exp alone; keeping it fixed while K grows is a control.

    Raises ValueError for a box that is not positive, and where a divisor cannot be bounded away from 0.
    """
    count = positive_integer(pieces, "pieces")
    limit = float(box)
    if not 0 < limit < 1e3:
        raise ValueError(f"box is {box}; entries lie in [-box, box] with 0 < box < 1000")
    compiler = _Compiler(encoder.machine, limit, count, count if exp_pieces is None else exp_pieces)
    machine = compiler.run()
    made = Encoder(machine, encoder.shape, f"{encoder.layout}, ReLU only")
    return ReluEncoder(made, compiler.known[machine.output_channel].error, limit, count)
