"""Checks of what attention that is not a softmax can never do: the mirrored start, and narrow embeddings.

Three checks, each with the case that must fail it: the loss floor of two opposite heads (a proof on a grid), the
mirror image that odd attention keeps (exact rational descent, and float64 bit for bit), and the lower bound of
``linear_bound`` beside the smallest loss that a search finds.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .._validation import FloatArray
from ..batch import train
from ..linear_bound import (
    linear_attention_average_bound,
    linear_attention_lower_bound,
    linear_attention_row_bound,
)
from ..loss import population_loss
from ..starts import draw_starts

Polynomial = Sequence[Fraction | int]
LINEAR: Polynomial = (0, 1)
#: The first two terms of erf, up to a factor: odd, but not linear.
CUBIC: Polynomial = (0, 1, 0, Fraction(-1, 3))
#: The first three terms of exp, the numerator of softmax: not odd.
QUADRATIC: Polynomial = (1, 1, Fraction(1, 2))


@dataclass(frozen=True)
class GridProof:
    """How many of ``evaluations`` exact comparisons differed."""

    evaluations: int
    mismatches: int


def prove_floor_on_grid(multiple: int = -1) -> GridProof:
    """Prove at d = 4 that the loss of b = -a is 1/2 plus terms that are not negative, by exact evaluation.

    With t = -2 a_p a_q and N = |a|^2,

        L(a, -a) = 1/2 + 2 (t - 1/2)^2 + (N - t)(N + t) + 4 sum of a_i^2 a_j^2 over the pairs {i, j} other than {p, q},

    where N - t and N + t are (a_p +- a_q)^2 plus the other squares. Both sides have degree at most 4 in each of the 4
    weights, so that agreement on {-2..2}^4 is a proof for all real weights. For b = a the same holds with
    t = 2 a_p a_q. The chapter shows why d = 4 carries over to every d.

    All 6 pairs; the loss does not tell (p, q) from (q, p). ``multiple``: b = multiple * a; -1 and 1 are the two
    statements, any other value is a control that must fail.
    """
    mismatches, evaluations = 0, 0
    for p, q in itertools.combinations(range(4), 2):
        for a in itertools.product(range(-2, 3), repeat=4):
            first = [Fraction(s) for s in a]
            loss = population_loss(first, [multiple * s for s in first], (p, q))
            t = Fraction((1 if multiple > 0 else -1) * 2 * a[p] * a[q])
            size = sum(s * s for s in a)
            others = sum(
                a[i] ** 2 * a[j] ** 2 for i, j in itertools.combinations(range(4), 2) if {i, j} != {p, q}
            )
            claimed = Fraction(1, 2) + 2 * (t - Fraction(1, 2)) ** 2 + (size - t) * (size + t) + 4 * others
            mismatches += loss != claimed
            evaluations += 1
    return GridProof(evaluations, mismatches)


def exact_departures(phi: Polynomial, starts: int, steps: int, seed: int) -> int:
    """Coordinates of theta + theta~ that are not zero, counted over exact descents from theta~ = -theta.

    Attention gamma_i = phi(v_i . theta) with a polynomial ``phi`` (coefficients from the constant up), unnormalised;
    d = 5 positions, m = 3, embeddings and queries with random entries in {-3..3}/4, rates in {1..3}/40; everything in
    Fractions. Zero for an odd ``phi``.
    """
    rng, departures = np.random.default_rng(seed), 0
    for _ in range(starts):
        rows = [[Fraction(int(v), 4) for v in row] for row in rng.integers(-3, 4, size=(5, 3))]
        theta = [Fraction(int(v), 4) for v in rng.integers(1, 4, size=3)]
        p, q = (int(i) for i in rng.choice(5, 2, replace=False))
        rate = Fraction(int(rng.integers(1, 4)), 40)
        queries = [theta, [-t for t in theta]]
        for _ in range(steps):
            queries = _exact_step(rows, queries, (p, q), rate, phi)
            departures += sum(s + t != 0 for s, t in zip(*queries, strict=True))
    return departures


def _exact_step(
    rows: list[list[Fraction]],
    queries: list[list[Fraction]],
    pair: tuple[int, int],
    rate: Fraction,
    phi: Polynomial,
) -> list[list[Fraction]]:
    p, q = pair
    scores = [[_dot(row, query) for row in rows] for query in queries]
    heads = [[_polynomial(phi, s) for s in of_query] for of_query in scores]
    slope = [k * c for k, c in enumerate(phi)][1:]
    moved = []
    for k, query in enumerate(queries):
        a, b = heads[k], heads[1 - k]
        squares, overlap = _dot(b, b), _dot(a, b)
        g = [2 * squares * s + 4 * overlap * t - 4 * s * t * t for s, t in zip(a, b, strict=True)]
        g[p] -= 2 * b[q]
        g[q] -= 2 * b[p]
        pull = [_polynomial(slope, s) * t for s, t in zip(scores[k], g, strict=True)]
        moved.append(
            [
                t - rate * sum(row[j] * w for row, w in zip(rows, pull, strict=True))
                for j, t in enumerate(query)
            ]
        )
    return moved


def _dot(first: Sequence[Fraction], second: Sequence[Fraction]) -> Fraction:
    return sum((s * t for s, t in zip(first, second, strict=True)), Fraction(0))


def _polynomial(coefficients: Polynomial, x: Fraction) -> Fraction:
    value = Fraction(0)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def float_departures(attention: str, d: int, m: int, starts: int, steps: int, rate: float, seed: int) -> int:
    """The same count in float64, after ``steps`` steps of the engine from sphere embeddings and mirrored starts."""
    drawn = draw_starts(d, m, range(starts), seed)
    run = train(
        drawn.embeddings,
        drawn.theta,
        drawn.pairs,
        rate,
        steps,
        theta_tilde=drawn.theta_tilde,
        attention=attention,
    )
    return int(np.count_nonzero(run.theta + run.theta_tilde))


@dataclass(frozen=True, eq=False)
class BoundReport:
    """One entry a draw: both lower bounds, and the smallest loss found (float64, shape (draws,))."""

    plain: FloatArray
    sharpened: FloatArray
    found: FloatArray

    @property
    def excess(self) -> float:
        """The largest amount by which a bound exceeds the smallest loss found; positive would refute it."""
        return float((np.maximum(self.plain, self.sharpened) - self.found).max())


def compare_bound(
    d: int, m: int, draws: int, seed: int, *, searches: int = 10, everywhere: bool = False
) -> BoundReport:
    """The lower bounds beside the smallest loss found, for sphere embeddings and pairs of ``draw_starts``.

    ``searches`` random beginnings a draw. ``everywhere``: search among all weights, not only those that linear
    attention can have: the control, in which the loss goes below the bound. Raises ValueError where no bound exists.
    """
    plain, sharpened, found = [], [], []
    for k in range(draws):
        drawn = draw_starts(d, m, [k], seed)
        rows, pair = drawn.embeddings[0], (int(drawn.pairs[0, 0]), int(drawn.pairs[0, 1]))
        plain.append(linear_attention_lower_bound(rows, pair))
        sharpened.append(linear_attention_lower_bound(rows, pair, sharpened=True))
        rng = np.random.default_rng([seed, d, m, k, 1])
        space = np.eye(d) if everywhere else rows
        found.append(smallest_linear_loss(space, pair, rng, searches))
    return BoundReport(np.array(plain), np.array(sharpened), np.array(found))


@dataclass(frozen=True, eq=False)
class WideReport:
    """For all pairs of each draw: the row bound and the smallest loss found (draws, pairs); the bound of their mean."""

    row: FloatArray
    found: FloatArray
    average: FloatArray

    @property
    def excess(self) -> float:
        """The largest amount by which a bound exceeds what was found; positive would refute it."""
        return float(max((self.row - self.found).max(), (self.average - self.found.mean(axis=1)).max()))


def compare_wide(
    d: int, m: int, draws: int, seed: int, *, searches: int = 4, everywhere: bool = False
) -> WideReport:
    """The bounds that hold at every width beside the smallest losses found, for sphere embeddings and all pairs.

    Arguments as in :func:`compare_bound`; the cost is d (d - 1) / 2 searches a draw.
    """
    pairs = list(itertools.combinations(range(d), 2))
    rows = [draw_starts(d, m, [k], seed).embeddings[0] for k in range(draws)]
    rng = np.random.default_rng([seed, d, m, 2])
    return WideReport(
        np.array([[linear_attention_row_bound(v, pair) for pair in pairs] for v in rows]),
        np.array(
            [
                [smallest_linear_loss(np.eye(d) if everywhere else v, pair, rng, searches) for pair in pairs]
                for v in rows
            ]
        ),
        np.array([linear_attention_average_bound(v) for v in rows]),
    )


def smallest_linear_loss(
    embeddings: FloatArray, pair: tuple[int, int], rng: np.random.Generator, searches: int, sweeps: int = 500
) -> float:
    """The smallest loss of a = V theta, b = V theta~ found by minimising exactly over one query after the other.

    For a fixed head b the loss is a quadratic in the other, 1 + a^T A a - 2 a.c with
    A = |b|^2 I + 2 b b^T - 2 diag(b^2) and c = b_q e_p + b_p e_q, so one linear system gives its minimum; the loss
    falls in every turn. ``searches`` random beginnings (the first is the best b for p), each until a turn gains less
    than 1e-12. The loss returned is that of the closed form at the heads found: an upper bound of the true minimum.
    """
    left, singular, _ = np.linalg.svd(embeddings, full_matrices=False)
    basis = left[:, singular > 1e-10 * singular.max()]
    p, q = pair
    best = float("inf")
    for search in range(searches):
        b = basis @ (basis[q] if search == 0 else rng.normal(size=basis.shape[1]))
        a, last = b, float("inf")
        for _ in range(sweeps):
            b = b / np.linalg.norm(b)
            inside = basis.T @ b
            quadratic = basis.T @ ((1 - 2 * b * b)[:, np.newaxis] * basis) + 2 * np.outer(inside, inside)
            target = basis[p] * b[q] + basis[q] * b[p]
            a = basis @ np.linalg.lstsq(quadratic, target, rcond=None)[0]
            loss = float(population_loss(a, b, pair))
            if not last - loss > 1e-12:
                break
            last, a, b = loss, b, a
        best = min(best, loss, last)
    return best
