"""``companion simulate``: a person's own attention layer through the compiled simulator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attention_companion.cli import console
from attention_companion.cli.errors import UsageError

if TYPE_CHECKING:
    from attention_companion.simulator.build import Encoder
    from attention_companion.simulator.real_layer import Merged

ARITHMETICS = ("float64", "ball")
SHOWN = 8


@dataclass(frozen=True)
class Asked:
    """The command's options."""

    layout: str = "positional"
    arithmetic: str = "float64"
    bits: int = 200
    heads: int | None = None
    only: tuple[int, ...] = ()
    prefix: str = ""
    input: Path | None = None
    out: Path | None = None
    memory: float = 8.0


def simulate(weights: Path, asked: Asked) -> None:
    """Print U(<T, X>), T(X), how far they are apart and the encoder's size; write both to ``asked.out`` if given.

    Raises UsageError for files, arrays and options that will not do, and for layers that are too large.
    """
    if asked.arithmetic not in ARITHMETICS:
        raise UsageError(
            f"--arithmetic {asked.arithmetic}: choose {' or '.join(ARITHMETICS)} (exact rationals need a rational "
            "function in place of exp: use attention_companion.simulator from Python)"
        )
    if asked.out is not None and asked.out.suffix != ".npz":
        raise UsageError(f"--out {asked.out}: the results are written as .npz; give a name that ends so")
    layer = read_layer(weights, asked)
    check_size(layer, asked)
    from attention_companion.simulator import attention
    from attention_companion.simulator.experiments.real_layer import encoder_for

    options: dict[str, Any] = {"arithmetic": asked.arithmetic, "bits": asked.bits}
    try:
        encoder = encoder_for(layer, asked.layout)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer = encoder.run(layer.x, layer.heads, layer.output, **options)
        target = attention(layer.x, layer.heads, layer.output, **options)
    except (ValueError, OverflowError) as error:
        raise UsageError(str(error)) from error
    for warning in caught:
        typer.echo(f"note: {warning.message}")
    report(encoder, answer, target, asked)
    if asked.out is not None:
        write(asked.out, answer, target)


def read_layer(weights: Path, asked: Asked) -> Merged:
    """The layer and X from the files, in the target's form."""
    from attention_companion.simulator.real_layer import LayerError, Merged, matrix, merge, projections

    arrays = load(weights)
    x = load(asked.input) if asked.input is not None else arrays
    if "X" not in x:
        where = weights if asked.input is None else asked.input
        raise UsageError(f"{where} holds no array X (n tokens, d numbers each): add it, or give --input FILE with an X")
    try:
        if "A" in arrays or "V" in arrays:
            if missing := [name for name in "AV" if name not in arrays]:
                raise UsageError(f"{weights} holds no array {missing[0]}: a layer is A (d, d) and V (d, d_v)")
            forms, maps = stack(arrays["A"], "A"), stack(arrays["V"], "V")
            if len(forms) != len(maps):
                raise UsageError(f"A holds {len(forms)} head(s) and V holds {len(maps)}; give one V for each A")
            if asked.heads not in (None, len(forms)):
                raise UsageError(f"--heads {asked.heads}: A and V are for {len(forms)} head(s); leave the option out")
            if wrong := [a for a in asked.only if not 0 <= a < len(forms)]:
                raise UsageError(f"there is no head {wrong[0]}; the layer has heads 0 to {len(forms) - 1}")
            pairs = [
                (matrix(a, f"A of head {h}"), matrix(v, f"V of head {h}"))
                for h, (a, v) in enumerate(zip(forms, maps, strict=True))
            ]
            output = matrix(arrays["W_O"], "W_O") if "W_O" in arrays and not asked.only else None
            chosen = [pairs[a] for a in asked.only] if asked.only else pairs
            return Merged(matrix(x["X"], "X"), chosen, output)
        layer = projections({name: array for name, array in arrays.items() if name != "X"}, asked.prefix)
        count = 1 if asked.heads is None else asked.heads
        return merge(x["X"], layer, count, only=list(asked.only) or None)
    except LayerError as error:
        raise UsageError(f"{weights}: {error}") from error


def stack(values: Any, name: str) -> Sequence[Any]:
    """One matrix as a list of one, three dimensions as a list of matrices."""
    if values.ndim not in (2, 3):
        raise UsageError(f"{name} has shape {values.shape}; expected a matrix, or one a head: (h, d, ...)")
    return [values] if values.ndim == 2 else list(values)


def load(path: Path) -> dict[str, Any]:
    """All arrays of a file by name: .npz without pickled objects, or .safetensors."""
    import numpy as np

    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    if path.suffix == ".npz":
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (ValueError, OSError, EOFError) as error:
            raise UsageError(
                f"{path} cannot be read ({error}): every array must be a rectangular one of numbers, saved by "
                "numpy.savez"
            ) from error
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="numpy") as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file is no mapping
        except (SafetensorError, TypeError) as error:
            raise UsageError(f"{path} cannot be read ({error}); give float16, float32 or float64 tensors") from error
    raise UsageError(f"{path} is neither .npz nor .safetensors: save the arrays with numpy.savez(FILE, X=X, A=A, V=V)")


def check_size(layer: Merged, asked: Asked) -> None:
    """Refuse what would not fit, before it is built."""
    from attention_companion.simulator.estimate import estimate
    from attention_companion.simulator.shape import Shape

    a, v = layer.heads[0]
    out = None if layer.output is None else layer.output.shape[1]
    shape = Shape(len(layer.x), len(a), v.shape[1], len(layer.heads), out)
    try:
        need = estimate(shape, asked.layout, objects=asked.arithmetic != "float64")
    except ValueError as error:
        raise UsageError(f"--layout: {error}") from error
    if need.bytes > asked.memory * 1e9:
        raise UsageError(
            f"too large: layout {asked.layout} for n = {shape.n}, d = {shape.d}, d_v = {shape.d_v}, {shape.heads} "
            f"head(s) is a sequence of {need.length:,} tokens and needs about {console.size(need.bytes)}, more than "
            f"--memory {asked.memory:g} (GB). Choose one head (--head 0), fewer rows of X, another --layout, or raise "
            "--memory."
        )


def report(encoder: Encoder, answer: Any, target: Any, asked: Asked) -> None:
    """What was computed, how well, and how large the encoder is."""
    shape = encoder.shape
    joined = "" if shape.output_dim is None else f", output matrix to {shape.output_dim} columns"
    typer.echo(f"layer:    n = {shape.n}, d = {shape.d}, d_v = {shape.d_v}, {shape.heads} head(s){joined}")
    heads = ", ".join(map(str, encoder.heads_per_layer))
    typer.echo(f"encoder:  layout {encoder.layout}, {encoder.layers} layers, heads {heads}, width {encoder.width:,}")
    typer.echo(
        f"          {encoder.length:,} tokens, {encoder.nonzero_weights:,} nonzero weights, "
        f"{encoder.position_entries:,} numbers in the table of positions"
    )
    typer.echo(f"U(<T, X>) =\n{shown(answer)}")
    typer.echo(f"T(X) =\n{shown(target)}")
    if asked.arithmetic == "float64":
        typer.echo(f"largest difference: {abs(answer - target).max():.2e}")
        return
    pairs = [(u, t) for row, other in zip(answer, target, strict=True) for u, t in zip(row, other, strict=True)]
    apart = sum(not u.overlaps(t) for u, t in pairs)
    radius = max(float(u.rad()) for u, _ in pairs)
    said = "overlap in every entry" if not apart else f"are DISJOINT in {apart} of {len(pairs)} entries"
    typer.echo(f"enclosures of U and T {said}; largest radius of U: {radius:.2e}")
    if apart:
        raise typer.Exit(1)


def shown(rows: Any) -> str:
    """A matrix for the eye: a corner of a large one, and how many rows and columns there are."""
    height, width = len(rows), len(rows[0])
    lines = []
    for row in list(rows)[:SHOWN]:
        cells = [f"{value: .10g}" if isinstance(value, float) else value.str(15) for value in list(row)[:SHOWN]]
        lines.append("  " + "  ".join(cells) + ("  ..." if width > SHOWN else ""))
    if height > SHOWN:
        lines.append("  ...")
    if height > SHOWN or width > SHOWN:
        lines.append(f"  ({height} x {width})")
    return "\n".join(lines)


def write(path: Path, answer: Any, target: Any) -> None:
    """Both results; balls by their midpoints."""
    import numpy as np

    def floats(rows: Any) -> Any:
        return np.array([[v if isinstance(v, float) else float(v.mid()) for v in row] for row in rows])

    np.savez(path, U=floats(answer), T=floats(target))
    typer.echo(f"written:  {path}")
