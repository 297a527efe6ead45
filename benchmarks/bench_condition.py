"""Side by side: condition numbers by our exact and ball routes, by mpmath, and by plain float64.

    python benchmarks/bench_condition.py [--sizes 20 40] [--digits 60]

One run, one machine, one thread; every time is the best of three and is printed as a ratio to ours, because seconds
do not travel between machines. The digits column says how many digits of each answer are right, measured against the
certified enclosure: speed without it would be an unfair comparison.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from attention_companion.ntk import ConditionEnclosure, condition_number_ball, gram, linearized_attention


def best_of(repeats: int, run: Callable[[], Any]) -> tuple[float, Any]:
    """Shortest wall time in seconds, and the last answer."""
    times, answer = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - start)
    return min(times), answer


def by_mpmath(G: np.ndarray, digits: int) -> Fraction:
    """All eigenvalues at this many digits; the peer that a careful reader would reach for."""
    with mpmath.workdps(digits):
        values = mpmath.eigsy(mpmath.matrix(G.tolist()), eigvals_only=True)
        sign, mantissa, exponent, _ = (max(values) / min(values))._mpf_
        return (-1) ** sign * mantissa * Fraction(2) ** exponent


def by_float64(G: np.ndarray) -> Fraction:
    values = np.linalg.eigvalsh(G.astype(np.float64))
    return Fraction(float(values[-1])) / Fraction(float(values[0]))


def right_digits(answer: Fraction, truth: ConditionEnclosure) -> str:
    middle = (truth.lower + truth.upper) / 2
    error = abs(answer / middle - 1)
    known = truth.upper / truth.lower - 1
    return f"{-math.log10(max(float(error), float(known), 1e-300)):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 40], help="numbers of images")
    parser.add_argument("--digits", type=int, default=60, help="working digits of mpmath")
    parser.add_argument(
        "--ours-only", action="store_true", help="leave mpmath out (it needs minutes at n = 150)"
    )
    options = parser.parse_args()
    print(f"{'n':>4} {'kappa(G^3)':>12} {'route':>24} {'seconds':>9} {'ratio':>8} {'digits':>6}")
    for n in options.sizes:
        # Nearly equal rows, as after attention: random pixels alone would be well conditioned.
        rng = np.random.default_rng(n)
        X = np.clip(rng.integers(0, 256, 784) + rng.integers(-30, 31, (n, 784)), 0, 255).astype(np.uint8)
        G = gram(linearized_attention(X))
        truth = condition_number_ball(G, bits=90)
        routes: list[tuple[str, Callable[[], Any]]] = [
            ("ours, balls", lambda G=G: condition_number_ball(G, method="balls")),
            ("ours, polynomial", lambda G=G: condition_number_ball(G, method="polynomial")),
            ("numpy, float64", lambda G=G: by_float64(G)),
        ]
        if not options.ours_only:
            routes.append((f"mpmath, {options.digits} digits", lambda G=G: by_mpmath(G, options.digits)))
        timed = [(name, *best_of(1 if name.startswith("mpmath") else 3, run)) for name, run in routes]
        ours = min(seconds for name, seconds, _ in timed if name.startswith("ours"))
        for name, seconds, answer in timed:
            value = (answer.lower + answer.upper) / 2 if isinstance(answer, ConditionEnclosure) else answer
            digits = right_digits(value, truth)
            print(
                f"{n:>4} {truth.midpoint:>12.4g} {name:>24} {seconds:>9.4f} {seconds / ours:>8.3g} {digits:>6}"
            )


if __name__ == "__main__":
    main()
