"""Running the encoders: what a run costs as shapes grow, the torch module beside it, and programs beside weights."""

from __future__ import annotations

import importlib
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Float, Rational
from ..build import Encoder, build_encoder
from ..execute import plan, run
from ..mutation import surrogate, with_weight
from ..programs import maxmin, newton_inverse, prove_program
from ..prove import prove
from ..reading import read_layer
from ..shape import Shape
from ..target import attention
from .sizes_machines import in_declared_form, larger_of_pairs

Rows = npt.NDArray[np.float64]


def float_layer(shape: Shape, rng: np.random.Generator) -> tuple[Rows, list[tuple[Rows, Rows]], Rows | None]:
    """X, [(A, V)] and W_O with normal entries; A is divided by d, so that scores have variance near 1 for every d."""
    n, d, d_v = shape.n, shape.d, shape.d_v
    x = rng.normal(size=(n, d))
    heads = [(rng.normal(size=(d, d)) / d, rng.normal(size=(d, d_v))) for _ in range(shape.heads)]
    return x, heads, None if shape.output_dim is None else rng.normal(size=(shape.joined, shape.output_dim))


# -- growth -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """One shape: ``cells`` a run stores, ``bytes`` allocated at most while the encoder is built, planned and run once,
    seconds to build, to plan and to run (warm median), and the largest error relative to the largest entry of T."""

    n: int
    length: int
    width: int
    cells: int
    bytes: int
    build_seconds: float
    plan_seconds: float
    run_seconds: float
    error: float


def growth(layout: str, lengths: Iterable[int], d: int, seed: int, repeats: int = 5) -> list[Growth]:
    """One head with d_v = d at each number of tokens n, float64. Raises ValueError for ``repeats`` below 1."""
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}; a median needs at least one run")
    found = []
    for n in lengths:
        shape = Shape.read(n, d, d)
        x, heads, _ = float_layer(shape, np.random.default_rng([seed, n, d]))
        start = time.perf_counter()
        encoder = build_encoder(shape, layout, False)
        built = time.perf_counter()
        cells, length, width = encoder.plan.cells, encoder.length, encoder.width
        planned = time.perf_counter()
        got, wanted = encoder.run(x, heads), attention(x, heads)
        seconds = statistics.median(_seconds(partial(encoder.run, x, heads)) for _ in range(repeats))
        del encoder
        peak = _peak_bytes(partial(_build_and_run, shape, layout, x, heads))
        found.append(
            Growth(
                n,
                length,
                width,
                cells,
                peak,
                built - start,
                planned - built,
                seconds,
                float(np.abs(got - wanted).max() / np.abs(wanted).max()),
            )
        )
    return found


def _build_and_run(shape: Shape, layout: str, x: Rows, heads: list[tuple[Rows, Rows]]) -> None:
    build_encoder(shape, layout, False).run(x, heads)


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _peak_bytes(call: Callable[[], Any]) -> int:
    """Most bytes allocated at once during a call, by Python and numpy."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# -- the torch module -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """Planned run against dense module on one input: largest difference relative to T, and seconds for one run each."""

    difference: float
    planned_seconds: float
    dense_seconds: float


def beside_module(encoder: Encoder, module: Any, seed: int, repeats: int = 3) -> Beside:
    """``module`` is a torch module for the encoder's shape, its own or a changed one's."""
    torch = importlib.import_module("torch")
    x, heads, output = float_layer(encoder.shape, np.random.default_rng(seed))
    sequence = torch.from_numpy(read_layer(x, heads, output, Float()).sequence(Float()))
    with torch.no_grad():
        dense = module(sequence).numpy()
        planned, wanted = encoder.run(x, heads, output), attention(x, heads, output)
        slow = statistics.median(_seconds(lambda: module(sequence)) for _ in range(repeats))
    fast = statistics.median(_seconds(lambda: encoder.run(x, heads, output)) for _ in range(repeats))
    return Beside(float(np.abs(dense - planned).max() / np.abs(wanted).max()), fast, slow)


def module_with_change(encoder: Encoder) -> Any:
    """The module of the encoder with the first weight of its first W doubled: a control."""
    address, weight = next((a, w) for a, w in encoder.machine.weights() if a[1] == "head" and a[3] == "value")
    module = importlib.import_module("..torch_module", __package__)
    return module.to_torch(with_weight(encoder.machine, address, 2 * weight), encoder.shape.n)


@dataclass(frozen=True)
class Exported:
    """A module that ``torch.export`` took: outputs whose bits moved, and what its graph holds."""

    moved: int
    maxima: int
    branches: int


def exported(encoder: Encoder, seed: int) -> Exported:
    """``maxima`` counts the maxima over scores in the graph (one a head), ``branches`` conditions and loops in it."""
    torch = importlib.import_module("torch")
    x, heads, output = float_layer(encoder.shape, np.random.default_rng(seed))
    sequence = torch.from_numpy(read_layer(x, heads, output, Float()).sequence(Float()))
    module = encoder.to_torch()
    program = torch.export.export(module, (sequence,))
    with torch.no_grad():
        moved = int((program.module()(sequence) != module(sequence)).sum())
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    maxima = sum(node.target is torch.ops.aten.amax.default for node in calls)
    plain = [node for node in calls if isinstance(node.target, torch._ops.OpOverload)]
    return Exported(moved, maxima, len(calls) - len(plain))


def moved_outputs(encoder: Encoder, other: Any, seed: int) -> int:
    """Outputs in which another module differs from the encoder's own, on one random layer."""
    torch = importlib.import_module("torch")
    x, heads, output = float_layer(encoder.shape, np.random.default_rng(seed))
    sequence = torch.from_numpy(read_layer(x, heads, output, Float()).sequence(Float()))
    with torch.no_grad():
        return int((other(sequence) != encoder.to_torch()(sequence)).sum())


def reread(module: Any, folder: Path) -> tuple[Any, int]:
    """Save a module as ``encoder.safetensors`` in ``folder`` and read it again: the module read, the file's bytes."""
    files = importlib.import_module("..torch_module", __package__)
    path = folder / "encoder.safetensors"
    files.save(module, path)
    return files.load(path), path.stat().st_size


def differing_tensors(first: Any, second: Any) -> int:
    """Tensors of two modules that differ in name, shape or value."""
    torch = importlib.import_module("torch")
    one, two = first.state_dict(), second.state_dict()
    return sum(
        name not in one or name not in two or not torch.equal(one[name], two[name])
        for name in one.keys() | two.keys()
    )


# -- programs and loops -----------------------------------------------------------------------------------------------


def compiled(layout: str, shapes: Sequence[Shape]) -> bool:
    """Whether at every shape the layout's weights have the declared form and equal the program of U for all reals.

    Both are proved equal to T, hence to each other.
    """
    for shape in shapes:
        encoder = build_encoder(shape, layout, False)
        numbers = (shape.n, shape.d, shape.d_v, shape.heads)
        if shape.output_dim is not None:
            program = prove_program("many_heads_output", *numbers, shape.output_dim)
        elif shape.heads == 1:
            program = prove_program("single_head", *numbers[:3])
        else:
            program = prove_program("many_heads", *numbers)
        if not (in_declared_form(encoder.machine) and program.holds is True and prove(encoder).holds is True):
            return False
    return True


@dataclass(frozen=True)
class MaximumCompiled:
    """A machine for the program ``maxmin``: does it equal the program, and are its weights of the declared form?"""

    equal: bool
    declared: bool


def maximum_compiled(pairs: int, seed: int, draws: int = 20) -> MaximumCompiled:
    """Exact rationals, ``draws`` random sequences of 2 ``pairs`` numbers."""
    machine, rng, kind = larger_of_pairs(pairs), np.random.default_rng(seed), Rational(surrogate)
    planned, equal = plan(machine), True
    for _ in range(draws):
        values = [Fraction(int(v), 7) for v in rng.integers(-40, 40, 2 * pairs)]
        got = [Fraction(int(v.p), int(v.q)) for v in run(planned, kind.array(values), kind)]
        equal = equal and got == maxmin(values)
    return MaximumCompiled(equal, in_declared_form(machine))


def newton_steps(conditions: Iterable[float], seed: int, size: int = 3) -> list[int]:
    """Iterations of Newton's inverse, at a symmetric matrix of each condition number: eigenvalues from 1 to it,
    equally spaced in their logarithms, in a random orthonormal basis (the same for all)."""
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]
    return [
        newton_inverse((basis * np.geomspace(1, condition, size)) @ basis.T).iterations
        for condition in conditions
    ]
