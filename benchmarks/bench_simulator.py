"""The compiled simulator: seconds a run after build, against its own dense module, and the time of proofs.

    python benchmarks/bench_simulator.py [--small]

Warm medians of one run on one machine; seconds are of this machine (set OMP_NUM_THREADS=1 for one thread), ratios
travel better. Processor seconds stand beside wall seconds: on a busy machine they tell what an idle one would need.
The dense module at (64, 16) takes minutes: ONE of its heads is timed and multiplied by their number, which
leaves the token-wise maps out and so favours the dense module. --small runs everything at toy sizes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from statistics import median
from typing import Any

import numpy as np
import torch

from attention_companion.simulator import Encoder, build, prove
from attention_companion.simulator.arithmetic import Float
from attention_companion.simulator.reading import read_layer
from attention_companion.simulator.torch_module import HardAttentionEncoder

LAYOUTS = ("positional", "paper", "constant")


def warm(function: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Median seconds of a call, after one that is not timed."""
    function()
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return median(times)


def float_layer(n: int, d: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) / d**0.5, [(rng.normal(size=(d, d)) / d, rng.normal(size=(d, d)))]


def time_run(layout: str, n: int, d: int, goal: float | None, repeats: int) -> tuple[Encoder, float]:
    start = time.perf_counter()
    encoder = build(n, d, d, layout=layout)
    built = time.perf_counter() - start
    start = time.perf_counter()
    cells = encoder.plan.cells
    planned = time.perf_counter() - start
    layer = float_layer(n, d)
    seconds = warm(lambda: encoder.run(*layer), repeats)
    processor = warm(lambda: encoder.run(*layer), repeats, time.process_time)
    wanted = "" if goal is None else f"  goal {1e3 * goal:.0f} ms: {'met' if seconds <= goal else 'NOT met'}"
    print(
        f"run    {layout:10s} n={n:<4d} d={d:<3d} {1e3 * seconds:9.2f} ms, processor {1e3 * processor:.2f} ms "
        f"(build {built:.2f} s, plan {planned:.2f} s, {encoder.length} tokens, {cells} cells){wanted}"
    )
    return encoder, seconds


def one_dense_head(encoder: Encoder, n: int, d: int) -> float:
    """Seconds of one head of the dense module on its initial state: all scores, the argmax sets, the mean."""
    module = encoder.to_torch()
    assert isinstance(module, HardAttentionEncoder)
    sequence = torch.from_numpy(read_layer(*float_layer(n, d), None, Float()).sequence(Float()))
    first = module.layout["blocks"][0]
    module.layout = {**module.layout, "blocks": [{"heads": first["heads"][:1], "stages": []}]}
    return warm(lambda: module(sequence), 3)


def against_dense(encoder: Encoder, seconds: float, n: int, d: int) -> None:
    heads = sum(encoder.heads_per_layer)
    one = one_dense_head(encoder, n, d)
    ratio = one * heads / seconds
    print(
        f"dense  one head {one:.3f} s, times {heads} heads (extrapolated) {one * heads:.1f} s: ratio {ratio:.0f}"
        f"  goal 1000: {'met' if ratio >= 1000 else 'NOT met'}"
    )


def exact(n: int, d: int, repeats: int) -> None:
    """A rational run, and T with the same surrogate in Python's fractions, straight from the definition."""
    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> list[list[Fraction]]:
        return [[Fraction(int(a), int(b)) for a, b in rng.integers(1, 10, (columns, 2))] for _ in range(rows)]

    x, a, v = matrix(n, d), matrix(d, d), matrix(d, d)
    encoder = build(n, d, d)

    def product(p: Any, q: Any) -> Any:
        columns = list(zip(*q, strict=True))
        return [[sum(s * t for s, t in zip(row, column, strict=True)) for column in columns] for row in p]

    def plain() -> Any:
        scores = product(product(x, a), list(zip(*x, strict=True)))
        powers = [[1 + s + s * s for s in row] for row in scores]
        return [
            [value / sum(power) for value in row]
            for row, power in zip(product(powers, product(x, v)), powers, strict=True)
        ]

    def ours() -> Any:
        return encoder.run(x, [(a, v)], arithmetic="rational", exp=lambda s: 1 + s + s * s)

    assert ours() == plain()
    seconds, theirs = warm(ours, repeats), warm(plain, repeats)
    print(
        f"exact  positional n={n} d={d}: {seconds:.3f} s  goal 0.5 s: {'met' if seconds <= 0.5 else 'NOT met'};  T in "
        f"fractions.Fraction {theirs:.3f} s, ratio {theirs / seconds:.2f}"
    )


def proofs(largest: int, heads: int) -> None:
    reach = range(1, largest + 1)
    for layout in LAYOUTS:
        shapes = [(n, d, v, h) for n in reach for d in reach for v in reach for h in range(1, heads + 1)]
        start, processor = time.perf_counter(), time.process_time()
        held = sum(prove(*shape, layout).holds is True for shape in shapes)
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        print(
            f"proofs {layout:10s} {held} of {len(shapes)} shapes (n, d, d_v <= {largest}, h <= {heads}): "
            f"{seconds:.2f} s, processor {processor:.2f} s  goal 10 s: {'met' if seconds <= 10 else 'NOT met'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="toy sizes, which meet or miss no goal")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs, the median counts (default 5)")
    options = parser.parse_args()
    if options.small:
        encoder, seconds = time_run("positional", 4, 2, None, options.repeats)
        against_dense(encoder, seconds, 4, 2)
        time_run("constant", 4, 2, None, options.repeats)
        exact(3, 2, options.repeats)
        proofs(2, 1)
        return
    encoder, seconds = time_run("positional", 64, 16, 0.020, options.repeats)
    against_dense(encoder, seconds, 64, 16)
    time_run("positional", 128, 16, 0.200, options.repeats)
    time_run("constant", 256, 16, 2.0, options.repeats)
    exact(32, 4, options.repeats)
    proofs(5, 3)


if __name__ == "__main__":
    main()
