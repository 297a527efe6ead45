"""Does U read one sequence and nothing else, and does it always do the same with it?

The encoder is built from the shape alone; a run takes the plan of its weights and one flat sequence. The checks hand
over exactly that, and compare with T of the layer that the sequence stands for, in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..arithmetic import Float, Rational
from ..build import Encoder, build
from ..encoder import Machine
from ..execute import plan, run
from ..mutation import surrogate
from ..programs.simulate import length_needed, single_head_program
from ..prove import random_layer
from ..rasp import Rasp
from ..reading import read_layer
from ..shape import Shape
from ..target import attention

Layer = tuple[Any, Any, Any]
#: From one sequence of exact numbers to the result, row by row.
Simulator = Callable[[Any, Rational], list[Any]]


def by_encoder(machine: Machine) -> Simulator:
    """The machine as a function of one sequence; its plan is made once, before any sequence is seen."""
    planned = plan(machine)
    return lambda sequence, kind: list(run(planned, sequence, kind))


def by_program(shape: Shape) -> Simulator:
    """The program of Theorem 6 as a function of one sequence; one head."""

    def simulated(sequence: Any, kind: Rational) -> list[Any]:
        matrix = single_head_program(Rasp(kind, sequence, length_needed(shape)), shape)
        return [value for row in matrix.entries() for value in row]

    return simulated


def follows(simulator: Simulator, layers: Sequence[Layer]) -> bool:
    """Whether the simulator, handed nothing but <T, X>, returns T(X) exactly, for every one of the layers."""
    kind = Rational(surrogate)
    for layer in layers:
        read = read_layer(*layer, kind)
        wanted = [entry for row in attention(*layer, arithmetic="rational", exp=surrogate) for entry in row]
        got = [Fraction(int(v.p), int(v.q)) for v in simulator(read.sequence(kind), kind)]
        if got != wanted:
            return False
    return True


def draw_layers(shape: Shape, count: int, seed: int) -> list[Layer]:
    """Random rational layers of a shape."""
    rng = np.random.default_rng([seed, shape.n, shape.d, shape.d_v, shape.heads])
    return [random_layer(shape, rng) for _ in range(count)]


def with_baked_matrix(encoder: Encoder, a: Fraction) -> Machine:
    """The control: a `positional` encoder for d = 1 whose first block multiplies by the number ``a`` held in its
    weights, instead of by the A that it fetches from the sequence."""
    if encoder.layout != "positional" or encoder.shape.d != 1:
        raise ValueError(f"{encoder!r} is not a positional encoder for d = 1")
    machine = encoder.machine
    ones = machine.position_channels[int(np.flatnonzero((machine.positions == 1).all(axis=0))[0])]
    first = machine.blocks[0]
    (stage,) = first.stages
    # The first operation of the layout is X_ik times A_kk'.
    baked = (replace(stage[0], right={ones: a}), *stage[1:])
    return replace(machine, blocks=(replace(first, stages=(baked,)), *machine.blocks[1:]))


def reads_one_input(layout: str, sizes: tuple[int, int, int], count: int, seed: int) -> bool:
    """Whether one encoder (or, for "program", the program) follows ``count`` different layers of a shape."""
    shape = Shape.read(*sizes)
    simulator = by_program(shape) if layout == "program" else by_encoder(build(*sizes, layout=layout).machine)
    return follows(simulator, draw_layers(shape, count, seed))


def baked_reads_one_input(n: int, count: int, seed: int) -> bool:
    """The same for the control, whose weights hold the A of the first layer."""
    layers = draw_layers(Shape.read(n, 1, 1), count, seed)
    a = layers[0][1][0][0][0][0]
    machine = with_baked_matrix(build(n, 1, 1), a)
    assert follows(by_encoder(machine), layers[:1]), "the control must be right on the layer it was made for"
    return follows(by_encoder(machine), layers)


def changes(layouts: Sequence[str], sizes: Sequence[tuple[int, int, int]], repeats: int, seed: int) -> int:
    """In how many of the repetitions anything moved: weights, position table, exact result or float64 bits.

    Each repetition builds the encoder anew and runs other data in between.
    """
    moved = 0
    for layout in layouts:
        for shape in sizes:
            layer, *others = draw_layers(Shape.read(*shape), 1 + repeats, seed)
            first = build(*shape, layout=layout)
            exact = first.run(*layer, arithmetic="rational", exp=surrogate)
            floats = _floats(first, layer)
            for other in others:
                encoder = build(*shape, layout=layout)
                encoder.run(*other, arithmetic="rational", exp=surrogate)
                _floats(encoder, other)
                moved += (
                    fingerprint(encoder.machine) != fingerprint(first.machine)
                    or encoder.run(*layer, arithmetic="rational", exp=surrogate) != exact
                    or _floats(encoder, layer) != floats
                )
    return moved


def fingerprint(machine: Machine) -> tuple[Any, ...]:
    """All that a machine is made of, to be compared."""
    return tuple(machine.weights()), machine.positions.tobytes(), machine.width, machine.output_channel


def _floats(encoder: Encoder, layer: Layer) -> bytes:
    kind = Float()
    sequence = read_layer(*layer, Rational()).sequence(Rational())
    return run(
        encoder.plan, np.array([float(Fraction(int(v.p), int(v.q))) for v in sequence]), kind
    ).tobytes()


def trained_changes(seeds: int, steps: int, first_seed: int) -> int:
    """The control: of small networks trained to imitate T for n = 2, d = d_v = 1, how many differ from the first.

    The networks have one hidden layer of 16 tanh units, from <T, X> (four numbers) to T(X) (two), and are trained on
    the same 64 layers by ``steps`` steps of gradient descent; only the seed of their start differs.
    """
    rng = np.random.default_rng(first_seed)
    inputs = rng.normal(size=(64, 4))
    wanted = np.stack([attention(x[:2, None], [(x[2:3, None], x[3:, None])])[:, 0] for x in inputs])
    outputs = []
    for seed in range(seeds):
        start = np.random.default_rng([first_seed, seed])
        w, v = start.normal(size=(4, 16)) / 2, start.normal(size=(16, 2)) / 4
        for _ in range(steps):
            hidden = np.tanh(inputs @ w)
            error = (hidden @ v - wanted) / len(inputs)
            w, v = (
                w - 0.3 * inputs.T @ ((error @ v.T) * (1 - hidden**2)),
                v - 0.3 * hidden.T @ error,
            )
        outputs.append(np.tanh(inputs[:1] @ w) @ v)
    return sum(not np.array_equal(output, outputs[0]) for output in outputs[1:])
