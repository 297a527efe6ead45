"""MaxMin (Lemma 7): each consecutive pair becomes its maximum and its minimum, with relu as the only token-wise map.

Every token fetches its partner, and max(a, b) = a + relu(b - a), min(a, b) = a - relu(a - b). A second layer keeps the
maximum at even places and the minimum at odd ones. ReLU and LeakyReLU follow: pair each number with a 0; the maximum is
relu(x), and the maximum plus alpha times the minimum is x for x > 0 and alpha x for x < 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arithmetic import Rational
from ..rasp import NOWHERE, Numbers, Rasp
from .plain_sequences import in_type_of, read_sequence

MAXMIN_BASIS = ("relu",)


def maxmin_program(values: Numbers, count: int, distance: int = 1) -> Numbers:
    """Max and min of the pairs (0, 1), (2, 3), ... among the first ``count`` tokens: two layers, heads (1, 2).

    An odd last token is its own partner, so it stays. ``distance`` (1) is how far apart partners are; another value is
    a control.
    """
    run = values.run
    t = run.indices.values
    partner = np.where(t % 2 == 0, t + distance, t - distance)
    partner = np.where((partner < 0) | (partner >= count), t, partner)
    other = run.fetch(values, partner, "partner")
    higher, lower = values + (other - values).relu(), values - (values - other).relu()
    even = run.fetch(higher, np.where(t % 2 == 0, t, NOWHERE), "even places")
    return even + run.fetch(lower, np.where(t % 2 == 1, t, NOWHERE), "odd places")


def spread(values: Numbers, count: int) -> Numbers:
    """Number p moves to token 2 p; the tokens between them hold 0 (one layer, one head)."""
    run = values.run
    t = run.indices.values
    return run.fetch(values, np.where((t % 2 == 0) & (t < 2 * count), t // 2, NOWHERE), "spread")


def relu_program(values: Numbers, count: int, read: int = 0) -> Numbers:
    """relu of the first ``count`` tokens from MaxMin; the run has 2 ``count`` tokens.

    ``read`` (0) says which of each pair to read, 0 for the even place; 1 is a control.
    """
    run = values.run
    t = run.indices.values
    pairs = maxmin_program(spread(values, count), 2 * count)
    return run.fetch(pairs, np.where(t < count, 2 * t + read, NOWHERE), "maxima")


def leaky_relu_program(values: Numbers, count: int, alpha: Any, read: int = 0) -> Numbers:
    """LeakyReLU with slope ``alpha`` (a number) below 0, as maximum + alpha minimum; ``read`` as above."""
    run = values.run
    t = run.indices.values
    pairs = maxmin_program(spread(values, count), 2 * count)
    highest = run.fetch(pairs, np.where(t < count, 2 * t + read, NOWHERE), "maxima")
    lowest = run.fetch(pairs, np.where(t < count, 2 * t + 1 - read, NOWHERE), "minima")
    return highest + lowest.scale(alpha)


def maxmin(sequence: Any) -> list[Any]:
    """Each consecutive pair becomes (its maximum, its minimum); an odd last element stays as it is.

    Parameters
    ----------
    sequence
        Real numbers, shape (L,) with L >= 1: ints, Fractions or finite floats.

    Returns
    -------
    A list of L numbers: ints for ints, floats if any is a float, else Fractions. The program runs on exact
    rationals, so that no rounding turns a maximum into a neighbour of it.

    Raises TypeError or ValueError for what is no sequence of finite real numbers.

    Source: Lemma 7 of the paper, as its summary gives it; the odd last element is our convention.
    """
    exact = read_sequence(sequence, "sequence")
    kind = Rational()
    run = Rasp(kind, kind.array(exact), basis=MAXMIN_BASIS)
    return in_type_of(sequence, list(maxmin_program(run.tokens, run.length).values))
