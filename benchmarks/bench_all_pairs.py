"""All pairs at fixed embeddings in one call, against one call of one_step a pair.

    python benchmarks/bench_all_pairs.py [--d 1024] [--m 48] [--sampled 200] [--repeats 3]

Warm medians of one run on one machine. Calling one_step for every pair would take minutes, so it is timed on randomly
sampled pairs and extrapolated to all of them; the outcomes of the sampled pairs are compared as well. Seconds are of
this machine, with the threads that BLAS was given (set OMP_NUM_THREADS=1 for one); the ratio travels better.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

from attention_companion.sparse_xor import one_step
from attention_companion.sparse_xor.all_pairs import outcome_all_pairs

#: Stands in for the limit of large rates: at unit embeddings a growth is near 1/d^2, and gaps are far above 1e-13.
LARGE_RATE = 1e15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d", type=int, default=1024, help="positions (default 1024)")
    parser.add_argument("--m", type=int, default=48, help="embedding width (default 48)")
    parser.add_argument(
        "--sampled", type=int, default=200, help="pairs that one_step is timed on (default 200)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="timed runs, the median counts (default 3)")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    d, m = options.d, options.m
    rows, theta = rng.normal(size=(d, m)), rng.normal(size=m)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    theta /= np.linalg.norm(theta)
    sampled = [tuple(int(i) for i in rng.choice(d, 2, replace=False)) for _ in range(options.sampled)]

    outcome_all_pairs(rows[: min(d, 64)], theta)  # warm
    times = []
    for _ in range(options.repeats):
        start = time.perf_counter()
        outcomes = outcome_all_pairs(rows, theta)
        times.append(time.perf_counter() - start)
    ours = median(times)

    one_step(rows, theta, sampled[0], LARGE_RATE)
    times, differ = [], 0
    for p, q in sampled:
        start = time.perf_counter()
        step = one_step(rows, theta, (p, q), LARGE_RATE)
        times.append(time.perf_counter() - start)
        ends = {int(step.gamma.argmax()), int(step.gamma_tilde.argmax())}
        differ += int(outcomes[p, q]) != (2 if not ends <= {p, q} else 2 - len(ends))

    pairs = d * (d - 1) // 2
    theirs = median(times) * pairs
    shares = np.bincount(outcomes[np.triu_indices(d, 1)], minlength=4) / pairs
    print(f"d = {d}, m = {m}, {pairs} pairs, float64")
    print(f"outcome_all_pairs       {ours:10.3f} s")
    print(f"one_step for each pair  {theirs:10.3f} s, extrapolated from {len(sampled)} sampled pairs")
    print(f"ratio                   {theirs / ours:10.1f}")
    print(f"sampled outcomes that differ: {differ}")
    print("success {:.4f}, collapse {:.4f}, distractor {:.4f}, exact tie {:.4f}".format(*shares))


if __name__ == "__main__":
    main()
