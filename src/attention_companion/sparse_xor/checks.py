"""Independent checks of the sparse XOR kernels: enumeration, a finite proof, autograd, and success rates.

Nothing here shares code with the closed forms it judges: every oracle walks over the 2**d inputs. The chapter on one
population step calls these functions and records what they return.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .gradient import population_gradient
from .loss import population_loss
from .partition import PARTITION_PAIR, partition_heads, partition_worst_case
from .starts import StepOutcomes, count_outcomes
from .worst_case import worst_case_error

Pair = tuple[int, int]


def inputs(d: int) -> np.ndarray:
    """All inputs of length ``d``: an int64 array of shape (2**d, d) with entries -1 and +1."""
    bits = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
    return (2 * bits - 1).astype(np.int64)


@dataclass(frozen=True)
class GridProof:
    """How many of ``evaluations`` exact comparisons differed."""

    evaluations: int
    mismatches: int


def prove_loss_on_grid(ones: Fraction = Fraction(1, 2), pairs: Sequence[Pair] | None = None) -> GridProof:
    """Prove the closed form of the loss at d = 4 by exact evaluation on a grid.

    Both sides are polynomials of degree at most 2 in each of the 8 weights, and such a polynomial is fixed by its
    values on {0, 1, 2}**8; so no mismatch on the 6561 grid points is a proof for all real weights. (The chapter
    shows why d = 4 carries over to every d.)

    Parameters
    ----------
    ones
        Probability that a bit is +1. The identity assumes 1/2; any other value is the control that must fail.
    pairs
        The pairs (p, q) to prove it for; by default all 12 ordered pairs.
    """
    d, x = 4, inputs(4)
    up, down = ones.numerator, ones.denominator - ones.numerator
    weight = up ** (x == 1).sum(axis=1) * down ** (x == -1).sum(axis=1)
    grid = np.array(list(itertools.product((0, 1, 2), repeat=d)))
    sums = grid @ x.T  # (81, 16): sum_i a_i x_i, whole numbers, so nothing is rounded
    fractions = [[Fraction(int(w)) for w in row] for row in grid]
    pairs = list(itertools.permutations(range(d), 2)) if pairs is None else list(pairs)
    mismatches = 0
    for p, q in pairs:
        y = -x[:, p] * x[:, q]
        for i, head in enumerate(fractions):
            # The enumerated mean times the denominator, for all second heads at once: int64, nothing is rounded.
            enumerated = ((-sums[i] * sums - y) ** 2 @ weight).tolist()
            mismatches += sum(
                whole != ones.denominator**d * population_loss(head, other, (p, q))
                for whole, other in zip(enumerated, fractions, strict=True)
            )
    return GridProof(evaluations=len(pairs) * len(grid) ** 2, mismatches=mismatches)


def gradient_disagreement(cases: int, seed: int, mirrored: bool = True) -> float:
    """Largest relative difference between the gradient kernel and autograd through enumeration.

    Each case draws d in 3..9, m in 2..8, embeddings of any length, two unrelated queries and a pair; autograd
    differentiates the mean of (f(x) - y)**2 over all 2**d inputs, not the closed form. The difference is taken
    relative to the largest entry of the autograd gradient.

    Parameters
    ----------
    cases, seed
        How many random cases, and the seed of numpy's Generator that draws them.
    mirrored
        If False, the kernel is (wrongly) given the two queries in exchanged order: the control.
    """
    import torch

    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(cases):
        d, m = int(rng.integers(3, 10)), int(rng.integers(2, 9))
        embeddings = rng.normal(size=(d, m))
        queries = rng.normal(size=(2, m))
        p, q = (int(i) for i in rng.choice(d, 2, replace=False))
        tensors = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in queries]
        x = torch.tensor(inputs(d), dtype=torch.float64)
        heads = [x @ torch.softmax(torch.tensor(embeddings) @ t, dim=0) for t in tensors]
        loss = ((-heads[0] * heads[1] + x[:, p] * x[:, q]) ** 2).mean()
        truth = np.stack([g.numpy() for g in torch.autograd.grad(loss, tensors)])
        order = queries if mirrored else queries[::-1]
        ours = np.stack(population_gradient(embeddings, order[0], order[1], (p, q)))
        worst = max(worst, float(np.abs(ours - truth).max() / np.abs(truth).max()))
    return worst


def enumerated_worst_case(gamma: np.ndarray, gamma_tilde: np.ndarray, pair: Pair) -> float:
    """Largest \\|f(x) - y\\| over all 2**d inputs, by walking over them (float64, d up to about 20).

    Built up one bit at a time, so that memory is two arrays of 2**d and no matrix of inputs.
    """
    a, b, y = np.zeros(1), np.zeros(1), np.ones(1)
    for i, (s, t) in enumerate(zip(gamma, gamma_tilde, strict=True)):
        a, b = np.concatenate([a - s, a + s]), np.concatenate([b - t, b + t])
        y = np.concatenate([-y, y]) if i in pair else np.concatenate([y, y])
    return float(np.abs(-a * b + y).max())


def enumerated_worst_case_exact(a: Sequence[Fraction], b: Sequence[Fraction], pair: Pair) -> Fraction:
    """Largest \\|f(x) - y\\| over all 2**d inputs in rationals, by walking over them (d up to about 16)."""
    down_a, down_b = (math.lcm(*(w.denominator for w in head)) for head in (a, b))
    x = inputs(len(a)).astype(object)  # Python integers: they cannot wrap
    sums = [
        x @ np.array([int(w * down) for w in head], dtype=object) for head, down in ((a, down_a), (b, down_b))
    ]
    y = -x[:, pair[0]] * x[:, pair[1]]
    return Fraction(int(np.abs(-sums[0] * sums[1] - y * down_a * down_b).max()), down_a * down_b)


def partition_gap(cases: int, parts: int, seed: int) -> tuple[Fraction, Fraction]:
    """Largest exact gap between the worst case and the partition formula, and the smallest one for the control.

    Each case draws ``parts`` positive integers; their least difference is found by trying all signs. The control uses
    the first head twice (a = b), where the worst case says nothing about sigma.
    """
    rng, gaps, control_gaps = np.random.default_rng(seed), [], []
    for _ in range(cases):
        numbers = [int(w) for w in rng.integers(1, 100, size=parts)]
        formula = partition_worst_case(numbers, int(np.abs(inputs(parts) @ np.array(numbers)).min()))
        first, second = partition_heads(numbers)
        gaps.append(abs(enumerated_worst_case_exact(first, second, PARTITION_PAIR) - formula))
        control_gaps.append(abs(enumerated_worst_case_exact(first, first, PARTITION_PAIR) - formula))
    return max(gaps), min(control_gaps)


@dataclass(frozen=True)
class WorstCaseReport:
    """Over random heads: how far enumerated suprema leave the certified bracket, and how many brackets are a point."""

    cases: int
    outside: float
    """Largest distance of an enumerated supremum from its bracket; 0 if all lie inside."""
    exact: int
    widest: float
    """Width of the widest bracket."""


def check_worst_case(dimensions: Sequence[int], cases: int, seed: int, shift: int = 0) -> WorstCaseReport:
    """Compare the certified bracket of the worst case with enumeration.

    The heads are in turn spread out (Dirichlet weights of concentration 1/2), concentrated on the pair, and of the
    kind that encodes number partitioning, where the bracket is not a point.

    Parameters
    ----------
    dimensions, cases, seed
        ``cases`` pairs of heads for each d; use d > 16, below which the kernel enumerates too.
    shift
        The control enumerates for the pair moved ``shift`` places to the right.
    """
    rng = np.random.default_rng(seed)
    outside, exact, widest, total = 0.0, 0, 0.0, 0
    for d in dimensions:
        for case in range(cases):
            p, q = (int(i) for i in rng.choice(d, 2, replace=False))
            heads = rng.dirichlet(np.full(d, 0.5), size=2)
            if case % 3 == 1:
                heads *= rng.uniform(0, 0.45)
                for head, target in zip(heads, (p, q), strict=True):
                    head[target] += 1 - head.sum()
            elif case % 3 == 2:
                numbers = [int(w) for w in rng.integers(1, 100, size=d - 3)]
                heads = np.array([[float(w) for w in head] for head in partition_heads(numbers)])
                p, q = PARTITION_PAIR
            bound = worst_case_error(heads[0], heads[1], (p, q))
            truth = enumerated_worst_case(heads[0], heads[1], ((p + shift) % d, (q + shift) % d))
            outside = max(outside, float(bound.lower) - truth, truth - float(bound.upper))
            exact += bound.exact
            widest = max(widest, float(bound.upper - bound.lower))
            total += 1
    return WorstCaseReport(cases=total, outside=outside, exact=exact, widest=widest)


def epsilon_excess(dimensions: Sequence[int], cases: int, seed: int, same_target: bool = False) -> Fraction:
    """Largest exact excess of the worst case over 1 - (1 - 2 eps)**2, in rationals.

    Each case draws eps in (0, 1/4], gives head 1 weight exactly 1 - eps on p and head 2 weight exactly 1 - eps on q
    and spreads the rest at random over the other positions. The bound says the excess is never positive, and it is
    exactly zero when neither head wastes weight on the other's target, which the first case at each d is made to do.

    Parameters
    ----------
    same_target
        Put both heads on p: the control, a collapsed pair of heads.
    """
    rng, worst = np.random.default_rng(seed), None
    for d, case in itertools.product(dimensions, range(cases)):
        p, q = (int(i) for i in rng.choice(d, 2, replace=False))
        epsilon = Fraction(int(rng.integers(1, 251)), 1000)
        heads = []
        for target, other in ((p, q), (p if same_target else q, p)):
            waste = [int(w) for w in rng.integers(0, 50, size=d)]
            waste[target] = 0
            waste[(target + 1) % d] += 1  # never all zero
            if case == 0:
                waste[other] = 0
            total = sum(waste)
            head = [epsilon * Fraction(w, total) for w in waste]
            head[target] = 1 - epsilon
            heads.append(head)
        bound = worst_case_error(heads[0], heads[1], (p, q))
        excess = Fraction(bound.upper) - (1 - (1 - 2 * epsilon) ** 2)
        worst = excess if worst is None else max(worst, excess)
    if worst is None:
        raise ValueError(
            f"no case was drawn: dimensions = {list(dimensions)}, cases = {cases}; give at least one"
        )
    return worst


def step_outcomes(
    d: int,
    m: int,
    starts: int,
    learning_rate: float,
    seed: int,
    mirrored: bool = True,
    centred: bool = False,
) -> StepOutcomes:
    """Take one population step from ``starts`` independent random starts and count the outcomes.

    Parameters
    ----------
    d, m, starts, learning_rate, seed
        As for :func:`.starts.count_outcomes`, which this calls with one rate.
    mirrored
        True starts the second head at minus the first (the paper's start); False starts it at the same query: a
        control, from which the heads can never differ.
    centred
        True subtracts the mean embedding and scales back to unit length before the step: the control for the
        collapse law, whose common term is a sum of all embeddings.
    """
    [outcomes] = count_outcomes(
        d,
        m,
        starts,
        [learning_rate],
        seed,
        second="mirrored" if mirrored else "equal",
        embeddings="balanced" if centred else "sphere",
    )
    return outcomes


def collapse_law(d: int) -> float:
    """Probability that one large step sends both heads to one target, to leading order in 1/m, for d >= 3.

    (2/pi) arctan(rho) with rho = 2 d sqrt(d - 2) / (2 d^2 - d - 2), which is 1/sqrt(d) up to a factor 1 + O(1/d).
    Derived in the chapter: after the step the difference of a head's scores at p and at q is S + C for head 1 and
    -S + C for head 2, with S and C independent and normal and sd(C) = rho sd(S); the heads collapse when
    abs(C) > abs(S).
    """
    rho = 2 * d * math.sqrt(d - 2) / (2 * d * d - d - 2)
    return 2 / math.pi * math.atan(rho)
