"""Parities of k bits with k heads: where one step sends the heads, and what the leading order predicts.

Law. Let the heads start at queries theta_1..theta_k and write z_h,s = v_s . theta_h for the score of target s. As
all scores are small, a_h,i is near (1 + score)/d, and the gradient of ``many_heads`` says how fast the score of
target s grows in head h. In units of 2 (k-1)! / d^k and up to terms that are the same for every target or smaller
by a factor of 1/sqrt(m) (all of them) or 1/d (those of D),

    G_h(s) = (1 - k/d) N_s + C_s + D_h(s),
    N_s = sum over the other targets t of v_s . v_t,
    C_s = -(k/d) v_s . (sum of all embeddings off the support),
    D_h(s) = (k z_h,s - sum over all heads g of z_g,s) / (k - 1).

After one very large step head h attends to the target with the largest G_h. N and C are common to all heads; only
D tells heads apart. sqrt(m) N, sqrt(m) C and sqrt(m) z are centred normals whose covariances do not contain m: so
the probability that the k heads pick k different targets tends to a number that the width does not change. N is
the same for both targets when k = 2. For k >= 3 it is not, and it is as large as D. ``law`` evaluates the
probability.

Source: our derivation; the kinds of start are our readings of "anti-symmetric" for more than two heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from .._validation import FloatArray
from ..many_heads import product_score_gradient
from ..starts import sphere
from ..step import SPECIALISED_AT

#: How the k queries start. "mirrored": theta, -theta, theta', -theta', ..., an odd last head independent; "zero":
#: the same with an odd last head at the zero query; "independent": all drawn separately; "equal": all the same.
STARTS = ("mirrored", "zero", "independent", "equal")
_CHUNK = 2**21


@dataclass(frozen=True)
class ManyStarts:
    """Embeddings (B, d, m), queries (B, k, m), hidden positions (B, k)."""

    embeddings: FloatArray
    queries: FloatArray
    support: FloatArray


@dataclass(frozen=True)
class Counts:
    """Over ``starts`` starts: all k heads on k different targets; all heads on targets (perhaps the same ones)."""

    starts: int
    specialised: int
    in_support: int


def draw_many(
    k: int,
    d: int,
    m: int,
    indices: Sequence[int],
    seed: int,
    *,
    start: str = "mirrored",
    length: float = 1.0,
    orthonormal: bool = False,
) -> ManyStarts:
    """Starts number ``indices``; start j uses ``np.random.default_rng([seed, d, m, j])`` and does not depend on
    the others.

    Parameters
    ----------
    k, d, m
        Heads (= hidden bits), positions, width. k = 2 mirrored draws what ``starts.draw_starts`` draws.
    start
        One of ``STARTS``.
    length
        Euclidean length of every query that is not zero (1 is the paper's start).
    orthonormal
        True makes the embeddings orthonormal instead of uniform on the sphere; needs m >= d.

    Raises ValueError for an unknown start, k > d or orthonormal embeddings with m < d.
    """
    if start not in STARTS:
        raise ValueError(f"start is {start!r}; expected one of {', '.join(STARTS)}")
    if not 2 <= k <= d:
        raise ValueError(f"k is {k}; with d = {d} positions give 2 to {d} hidden bits")
    if orthonormal and m < d:
        raise ValueError(f"m is {m}; {d} orthonormal embeddings need a width of at least {d}")
    embeddings, queries = np.empty((len(indices), d, m)), np.empty((len(indices), k, m))
    support = np.empty((len(indices), k), dtype=np.int64)
    for row, j in enumerate(indices):
        rng = np.random.default_rng([seed, d, m, j])
        embeddings[row], first = sphere(rng, d, m), sphere(rng, m)
        support[row] = rng.choice(d, k, replace=False)
        others = sphere(rng, k, m)
        queries[row] = length * _queries(first, others, start)
        if orthonormal:
            embeddings[row] = np.linalg.qr(embeddings[row].T)[0].T
    return ManyStarts(embeddings, queries, support)


def _queries(first: FloatArray, others: FloatArray, start: str) -> FloatArray:
    """The k queries (..., k, m) of one start: the first draw (..., m), and k further ones (..., k, m)."""
    k = others.shape[-2]
    queries = others.copy()
    queries[..., 0, :] = first
    if start == "equal":
        queries[...] = queries[..., :1, :]
    elif start != "independent":
        paired = 2 * (k // 2)
        queries[..., 1:paired:2, :] = -queries[..., 0:paired:2, :]
        if start == "zero" and k % 2:
            queries[..., -1, :] = 0
    return queries


def outcomes_of_one_step(k: int, d: int, m: int, starts: int, seed: int, **options: object) -> Counts:
    """One step in the limit of a large learning rate: every head attends to the position whose score grows most.

    ``options`` are those of ``draw_many``. Memory is bounded; start j is the same whatever ``starts`` is.
    """
    specialised = in_support = 0
    for drawn in _chunks(k, d, m, starts, seed, **options):
        scores = drawn.queries @ drawn.embeddings.swapaxes(-1, -2)
        slope = product_score_gradient(_softmax(scores), drawn.support)
        # The scores grow by -V V^T slope; its size is of order d^-k, its direction decides.
        growth = -(slope @ drawn.embeddings) @ drawn.embeddings.swapaxes(-1, -2)
        hits = _counted(growth.argmax(axis=-1), drawn.support)
        specialised += int(hits[0].sum())
        in_support += int(hits[1].sum())
    return Counts(starts, specialised, in_support)


def outcomes_of_steps(
    k: int,
    d: int,
    m: int,
    starts: int,
    seed: int,
    *,
    growth: float,
    steps: int,
    scaled: bool = True,
    **options: object,
) -> list[Counts]:
    """Counts after 0, 1, ..., ``steps`` small population steps.

    Every step has the rate at which the score that changes most changes by ``growth``, one rate for all heads: as
    ``growth`` tends to 0 this is gradient flow in another time, and one very large ``growth`` is
    ``outcomes_of_one_step``. With ``scaled`` = False all steps have the one rate ``growth`` d^k / (2 (k-1)!), at
    which the score of a target grows by about ``growth`` in the first step. A start counts as specialised when
    every head puts at least 0.99 of its weight on its own target, and as in the support when every head's largest
    weight lies on a target. ``options`` are those of ``draw_many``.
    """
    if not 0 < growth < math.inf or steps < 1:
        raise ValueError(
            f"growth is {growth} and steps is {steps}; give a positive growth and at least 1 step"
        )
    totals = np.zeros((steps + 1, 2), dtype=int)
    rate = growth if scaled else growth * float(d) ** k / (2 * math.factorial(k - 1))
    for drawn in _chunks(k, d, m, starts, seed, **options):
        queries, transposed = drawn.queries, drawn.embeddings.swapaxes(-1, -2)
        for step in range(steps + 1):
            weights = _softmax(queries @ transposed)
            hits, within = _counted(weights.argmax(axis=-1), drawn.support)
            sure = (weights.max(axis=-1) >= SPECIALISED_AT).all(axis=-1)
            totals[step] += int((hits & sure).sum()), int(within.sum())
            slope = product_score_gradient(weights, drawn.support) @ drawn.embeddings
            if scaled:
                fastest = np.abs(slope @ transposed).max(axis=(-1, -2), keepdims=True)
                # At a perfect set of heads nothing moves any more, and there is nothing to scale.
                slope = slope / np.where(fastest > 0, fastest, 1)
            queries = queries - rate * slope
    return [Counts(starts, int(a), int(b)) for a, b in totals]


def law(
    k: int,
    d: float,
    draws: int,
    seed: int,
    *,
    start: str = "mirrored",
    common: bool = True,
    length: float = 1.0,
) -> tuple[float, float]:
    """Probability that one large step specialises, to leading order in 1/m, with its standard error.

    The law at the head of this module, evaluated over ``draws`` normal variables; ``d`` may be ``math.inf``.
    ``common`` = False drops N and C: orthonormal embeddings. ``length`` multiplies D.
    """
    rng = np.random.default_rng([seed, k])
    first, others = rng.normal(size=(draws, k)), rng.normal(size=(draws, k, k))
    z = length * _queries(first, others, start)
    growth = (k * z - z.sum(axis=1, keepdims=True)) / (k - 1)
    if common:
        overlap = np.triu(rng.normal(size=(draws, k, k)), 1)
        overlap = overlap + overlap.swapaxes(1, 2)
        tilt = rng.normal(size=(draws, k))
        shared = overlap.sum(axis=-1)
        if math.isfinite(d):
            shared = (1 - k / d) * shared + (k / d) * math.sqrt(d - k) * tilt
        growth = growth + shared[:, np.newaxis]
    picks = np.sort(growth.argmax(axis=-1), axis=-1)
    share = float((picks == np.arange(k)).all(axis=-1).mean())
    return share, math.sqrt(share * (1 - share) / draws)


def share_difference(first: Counts, second: Counts) -> tuple[float, tuple[float, float]]:
    """Share specialised in ``second`` minus that in ``first``, with Newcombe's 95% interval for independent starts.

    The interval is built from the two Wilson intervals, so it stays honest for shares near 0 and 1.
    """
    shares = [counts.specialised / counts.starts for counts in (first, second)]
    (low, high), (lower, upper) = (_wilson(counts.specialised, counts.starts) for counts in (first, second))
    change = shares[1] - shares[0]
    return change, (
        change - math.hypot(shares[1] - lower, high - shares[0]),
        change + math.hypot(upper - shares[1], shares[0] - low),
    )


def share_over_law(counts: Counts, predicted: tuple[float, float]) -> tuple[float, tuple[float, float]]:
    """The share specialised divided by a law, ``predicted`` = (probability, standard error) as ``law`` returns it.

    The 95% interval joins Wilson's interval of the share with that of the law (1.96 standard errors to each side),
    end to end, so that it is somewhat too wide rather than too narrow. ValueError when the law is not clear of 0.
    """
    value, error = predicted
    half = NormalDist().inv_cdf(0.975) * error
    if value <= half:
        raise ValueError(
            f"the law is {value} with standard error {error}: not clear of 0; give it more draws"
        )
    low, high = _wilson(counts.specialised, counts.starts)
    return counts.specialised / counts.starts / value, (low / (value + half), high / (value - half))


def _wilson(hits: int, total: int) -> tuple[float, float]:
    z = NormalDist().inv_cdf(0.975)
    share, scale = hits / total, 1 + z * z / total
    centre = (share + z * z / (2 * total)) / scale
    half = z * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2) / scale
    return centre - half, centre + half


def _softmax(scores: FloatArray) -> FloatArray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _counted(picks: FloatArray, support: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For picked positions (B, k): do they make up the support, and does every one lie in it? Both (B,)."""
    within = (picks[:, :, np.newaxis] == support[:, np.newaxis, :]).any(axis=-1).all(axis=-1)
    return (np.sort(picks, axis=-1) == np.sort(support, axis=-1)).all(axis=-1), within


def _chunks(k: int, d: int, m: int, starts: int, seed: int, **options: object) -> Iterator[ManyStarts]:
    if starts < 1:
        raise ValueError(f"starts is {starts}; give at least 1")
    size = max(1, _CHUNK // (d * (m + 3**k)))
    for low in range(0, starts, size):
        yield draw_many(k, d, m, range(low, min(starts, low + size)), seed, **options)  # type: ignore[arg-type]
