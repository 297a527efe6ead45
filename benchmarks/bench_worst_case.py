"""How the certified worst case grows with d, as ratios within one run (no absolute time is claimed).

    python benchmarks/bench_worst_case.py [--largest 1048576] [--repeats 5]

Each row quadruples d. An O(d log d) method multiplies its time by 4 log(4d)/log(d), a little more than 4; a quadratic
one by 16. Beside it stand the two things it is made of or replaces: numpy's argsort of d keys, which is O(d log d) on
the same machine at the same moment, and enumeration of all inputs, which doubles with every single bit.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

from attention_companion.sparse_xor import worst_case_error


def seconds(task: Callable[[], object], repeats: int) -> float:
    """The fastest of several runs: the one that was disturbed least."""
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return best


def enumerate_inputs(a: np.ndarray, b: np.ndarray, p: int, q: int) -> float:
    """sup |f - y| by doubling: 2^(d-1) numbers in each of three arrays."""
    u, w, label = a[[p]], b[[p]], np.array([-1.0])
    for i in range(len(a)):
        if i != p:
            u, w = np.concatenate([u + a[i], u - a[i]]), np.concatenate([w + b[i], w - b[i]])
            label = np.concatenate([label, -label if i == q else label])
    return float(np.abs(-u * w - label).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=2**20, help="largest d (default 2^20)")
    parser.add_argument("--repeats", type=int, default=5, help="runs a row, the fastest counts (default 5)")
    options = parser.parse_args()
    rng = np.random.default_rng(0)

    print(f"{'d':>9} {'time x4d':>9} {'d log d':>9} {'argsort':>9} {'bounds / argsort':>17}")
    d, before = 2**12, (math.nan, math.nan)  # the first row has nothing to be compared with
    while d <= options.largest:
        a, b = rng.dirichlet(np.ones(d), size=2)
        ours = seconds(lambda a=a, b=b: worst_case_error(a, b, (0, 1)), options.repeats)
        sort = seconds(lambda a=a, b=b: np.argsort(b / a), options.repeats)
        expected = 4 * math.log(d) / math.log(d / 4)
        print(
            f"{d:>9} {ours / before[0]:>9.2f} {expected:>9.2f} {sort / before[1]:>9.2f} {ours / sort:>17.2f}"
        )
        d, before = 4 * d, (ours, sort)

    print(f"\n{'d':>9} {'enumeration / bounds':>22}")
    for d in (12, 14, 16, 18, 20):
        a, b = rng.dirichlet(np.ones(d), size=2)
        ours = seconds(lambda a=a, b=b: worst_case_error(a, b, (0, 1)), options.repeats)
        full = seconds(lambda a=a, b=b: enumerate_inputs(a, b, 0, 1), options.repeats)
        print(f"{d:>9} {full / ours:>22.1f}")


if __name__ == "__main__":
    main()
