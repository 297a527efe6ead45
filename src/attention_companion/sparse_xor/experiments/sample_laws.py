"""How many samples a large step should need: the laws that the chapter on finite samples derives.

Both are leading order in 1/m and treat sums over samples as normal. In units of 2/d^2, the growth of a target's score
in the population step, the noise of a score after n samples has variance d (1 + d/m) / n.

Learning asks that the noise, which is nearly the same in both heads, does not outweigh what separates them. Landing
asks only that it lifts no other position above both targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Law = Callable[[int, int, float], float]


def learning_law(d: int, m: int, n: float) -> float:
    """Probability that a large step on n samples sends each head to a target of its own; d >= 3, n may be inf.

    1 - (2/pi) arctan sqrt(rho^2 + d (m + d - 2) / (4 n)) with rho = 2 d sqrt(d - 2) / (2 d^2 - d - 2).
    """
    _check(d, m, n)
    rho = 2 * d * math.sqrt(d - 2) / (2 * d * d - d - 2)
    return 1 - 2 / math.pi * math.atan(math.sqrt(rho**2 + d * (m + d - 2) / (4 * n)))


def landing_law(d: int, m: int, n: float) -> float:
    """Probability that a large step on n samples leaves each head on one of the targets; d >= 3, n may be inf.

    In units of 2/d^2 the better target grows by 1 + s max(z, z'), any other position by t w, with z, z' and the d - 2
    values of w independent standard normal, s^2 = d (1 + d/m) / n (noise) and t^2 = s^2 + 2/m (noise and cross-talk:
    the overlap of an embedding with those of the two targets).
    """
    _check(d, m, n)
    noise = math.sqrt(d * (1 + d / m) / n)
    spread = math.sqrt(noise**2 + 2 / m)
    z = np.linspace(-7, 7, 701)
    below = np.array([_normal_below(value) for value in z])
    density = np.exp(-(z**2) / 2) * below  # of the larger of two, up to a constant
    each = np.array([_normal_below(value) for value in (1 + noise * z) / spread])
    return float(density @ each ** (d - 2) / density.sum())


def size_by_law(law: Law, d: int, m: int, share: float = 0.95) -> float:
    """The n at which ``law`` reaches ``share`` of its value at n = infinity, by bisection in ln n.

    Raises ValueError for a share outside 0..1 (both excluded).
    """
    if not 0 < share < 1:
        raise ValueError(f"share is {share}; give a number between 0 and 1")
    goal = share * law(d, m, math.inf)
    low, high = 0.0, math.log(1e18)
    if law(d, m, math.exp(low)) >= goal:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if law(d, m, math.exp(middle)) < goal:
            low = middle
        else:
            high = middle
    return math.exp(high)


def geometric_sizes(centre: float, below: float = 16.0, above: float = 1.5, per_octave: int = 2) -> list[int]:
    """Whole sample sizes from centre/below to centre*above, ``per_octave`` to each factor of two, ascending.

    The law says where to look; what is found there is measured.
    """
    if not (centre >= 1 and below >= 1 and above >= 1 and per_octave >= 1):
        raise ValueError(
            f"centre = {centre}, below = {below}, above = {above}, per_octave = {per_octave}; give numbers >= 1"
        )
    steps = range(-math.floor(math.log2(below) * per_octave), math.floor(math.log2(above) * per_octave) + 1)
    return sorted({max(1, round(centre * 2 ** (step / per_octave))) for step in steps})


def _normal_below(value: float) -> float:
    return 0.5 * math.erfc(-value / math.sqrt(2))


def _check(d: int, m: int, n: float) -> None:
    if d < 3 or m < 1 or not n > 0:
        raise ValueError(f"d = {d}, m = {m}, n = {n}; the law needs d >= 3, m >= 1 and n > 0")
