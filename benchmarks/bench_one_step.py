"""What one population step costs, as ratios within one run (no absolute time is claimed).

    python benchmarks/bench_one_step.py [--rows 1000000] [--width 512] [--repeats 7] [--small 1024] [--middle 100000]

1. Large embeddings in float32: the whole public call against two passes of the fastest of three things that read the
   embeddings once, numpy's V @ theta and V.T @ w and torch.sum(V), with one thread and with two; and the memory it
   needs beyond what was there at entry, in percent of the embeddings.
2. Small embeddings in float64, one thread: against torch autograd through the closed form of the loss, which computes
   the same gradients, the same step and the same new weights.

Each number of threads gets a process of its own, as libraries read it when they start. Medians of warm runs, taken in
turn (one of each, then again), so that a disturbance meets all alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from attention_companion.sparse_xor import one_step

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def medians(tasks: dict[str, Callable[[], object]], repeats: int, runs: int = 1) -> dict[str, float]:
    """Median seconds of each task. They take turns of ``runs`` runs each, after a run that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            task()
            for _ in range(runs):
                start = time.perf_counter()
                task()
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def problem(d: int, m: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows and a unit query, drawn a part at a time so that nothing larger than the embeddings is made."""
    rng = np.random.default_rng(0)
    rows = np.empty((d, m), dtype=dtype)
    for first in range(0, d, 20_000):
        part = rows[first : first + 20_000]
        part[:] = rng.normal(size=part.shape)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    theta = rng.normal(size=m).astype(dtype)
    return rows, theta / np.linalg.norm(theta)


def memory_status(field: str) -> int | None:
    """A field of /proc/self/status in bytes; None where there is no such file."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith(field + ":"))
    return 1024 * int(line.split()[1])


def peak_above_entry(task: Callable[[], object]) -> int | None:
    """Bytes of resident memory at the task's peak above those at its start; None where the system does not tell."""
    if memory_status("VmHWM") is None:
        return None
    Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark to what is resident now
    before, mark = memory_status("VmRSS"), memory_status("VmHWM")
    task()
    after = memory_status("VmHWM")
    if before is None or mark is None or after is None or mark > before * 1.01 + 2**24:
        return None
    return after - before


def measure_large(d: int, m: int, repeats: int) -> dict[str, float | None]:
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    rows, theta = problem(d, m, np.float32)
    weights, tensor, rate = np.full(d, np.float32(1 / d)), torch.from_numpy(rows), float(d) ** 2

    def step() -> object:
        return one_step(rows, theta, (1, d - 1), rate)

    # The first call measures the memory: later ones could reuse what it gave back.
    peak = peak_above_entry(step)
    passes = {
        "V @ theta": lambda: rows @ theta,
        "V.T @ w": lambda: rows.T @ weights,
        "torch.sum(V)": lambda: torch.sum(tensor),
    }
    seconds: dict[str, float | None] = dict(medians({**passes, "one_step": step}, repeats))
    return {**seconds, "peak": None if peak is None else peak / rows.nbytes}


def measure_autograd(d: int, m: int, repeats: int) -> dict[str, float]:
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    rows, theta = problem(d, m, np.float64)
    p, q, rate = 1, d - 1, 0.3 * float(d) ** 2
    tensor, query = torch.from_numpy(rows), torch.from_numpy(theta)

    def by_autograd() -> tuple[torch.Tensor, torch.Tensor]:
        first, second = query.clone().requires_grad_(), (-query).requires_grad_()
        a, b = torch.softmax(tensor @ first, 0), torch.softmax(tensor @ second, 0)
        both = a * b
        loss = 1 + (a @ a) * (b @ b) + 2 * (a @ b) ** 2 - 2 * (both @ both) - 2 * (a[p] * b[q] + a[q] * b[p])
        slopes = torch.autograd.grad(loss, (first, second))
        with torch.no_grad():
            moved = first - rate * slopes[0], second - rate * slopes[1]
            return torch.softmax(tensor @ moved[0], 0), torch.softmax(tensor @ moved[1], 0)

    def ours() -> object:
        return one_step(rows, theta, (p, q), rate)

    step, other = one_step(rows, theta, (p, q), rate), by_autograd()
    np.testing.assert_allclose(step.gamma, other[0].numpy(), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(step.gamma_tilde, other[1].numpy(), rtol=1e-9, atol=1e-15)
    # A task of microseconds is warm after a few runs in a row, not after one that follows the other task.
    runs = max(1, min(50, 2_000_000 // rows.size))
    return medians({"one_step": ours, "autograd": by_autograd}, repeats, runs)


def in_a_process(threads: int, arguments: list[str]) -> dict[str, float]:
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
    command = [sys.executable, __file__, *arguments]
    result = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, float] = json.loads(result.stdout)
    return answer


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**6, help="large d (default 10^6)")
    parser.add_argument("--width", type=int, default=512, help="m of the large problem (default 512)")
    parser.add_argument("--small", type=int, default=1024, help="small d beside autograd, m = 48 (default 1024)")
    parser.add_argument("--middle", type=int, default=10**5, help="larger d beside autograd (default 10^5)")
    parser.add_argument("--repeats", type=int, default=7, help="runs whose median counts (default 7)")
    parser.add_argument("--only", nargs=3, metavar=("WHAT", "D", "M"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.only:
        what, d, m = options.only[0], int(options.only[1]), int(options.only[2])
        measure = {"large": measure_large, "autograd": measure_autograd}[what]
        print(json.dumps(measure(d, m, options.repeats)))
        return

    print(f"d = {options.rows}, m = {options.width}, float32; times in units of the fastest single pass")
    print(f"{'threads':>7} {'V @ theta':>10} {'V.T @ w':>9} {'torch.sum':>10} {'one_step':>9} "
          f"{'one_step / two passes':>22} {'peak memory, % of V':>20}")  # fmt: skip
    for threads in (1, 2):
        arguments = ["--only", "large", str(options.rows), str(options.width)]
        times = in_a_process(threads, [*arguments, "--repeats", str(options.repeats)])
        peak = times.pop("peak")
        fastest = min(seconds for name, seconds in times.items() if name != "one_step")
        relative = [times[name] / fastest for name in ("V @ theta", "V.T @ w", "torch.sum(V)", "one_step")]
        shown = "not told" if peak is None else f"{100 * peak:.1f}"
        print(f"{threads:>7} {relative[0]:>10.2f} {relative[1]:>9.2f} {relative[2]:>10.2f} {relative[3]:>9.2f} "
              f"{relative[3] / 2:>22.2f} {shown:>20}")  # fmt: skip

    print(f"\n{'d':>9} {'m':>4}   autograd / one_step   (float64, one thread)")
    for d, repeats in ((options.small, 5 * options.repeats), (options.middle, 2 * options.repeats)):
        times = in_a_process(1, ["--only", "autograd", str(d), "48", "--repeats", str(repeats)])
        print(f"{d:>9} {48:>4}   {times['autograd'] / times['one_step']:>19.2f}")


if __name__ == "__main__":
    main()
