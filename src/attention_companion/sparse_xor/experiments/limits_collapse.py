"""Two heads on one target: exact numbers on the pair, a condition under which they stay, and how many leave.

Theorem. Let both heads leave at most eps <= 1/10 of their weight off one position t, embeddings of unit length, and
18 e eta T eps / (1 - eps) <= 1. Then after T steps of rate eta both heads still attend most to t.

Proof. Let R be the largest minus the smallest entry of g = dL/da, and h = -a (g - a.g), which sums to zero, so that
abs(h_t) <= eps R and sum abs(h) <= 2 eps R. A score changes by eta sum_k K_jk h_k; at j minus at t the factors
K_jk - K_tk lie in [-2, 2], an interval of length 4, and the h_k sum to zero: the change is at most
eta (4/2)(2 eps R) = 4 eta eps R. The entries of g (see ``gradient``) lie between -2 - 4 eps^3 and 2 + 4 eps^2, so
R <= 4.5 as long as eps <= 0.24. While the scores have moved by at most 1 in sum, a_j / a_t has grown by a factor e at
most, so
eps_now <= e eps / (1 - eps) with the eps of the start, and eps_now <= 0.24 since e/9 / (1 + e/9) < 0.24; each step then
moves them by at most 18 e eta eps / (1 - eps), T steps by at most 1. By induction on the steps the scores never move by
more than 1, and more than half of the weight stays on t.

Source: our derivation.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attention_companion.sparse_xor._validation import FloatArray
from attention_companion.sparse_xor.batch import classify, step_batch, train
from attention_companion.sparse_xor.gradient import score_gradient
from attention_companion.sparse_xor.loss import population_loss
from attention_companion.sparse_xor.starts import chunks_of_starts


def pair_loss(alpha: Fraction, beta: Fraction) -> Fraction:
    """2 (1 - c)^2, c = alpha + beta - 2 alpha beta: the loss of heads (1 - alpha, alpha), (1 - beta, beta) on (p, q).

    From f = -(1 - c) - c x_p x_q: the error is (1 - c)(x_p x_q - 1), whose square has mean 2 (1 - c)^2.
    """
    return 2 * (1 - alpha - beta + 2 * alpha * beta) ** 2


def pair_slope(alpha: Fraction, beta: Fraction) -> Fraction:
    """-4 (1 - c)(1 - 2 beta) alpha (1 - alpha): the derivative of ``pair_loss`` in head 1's score at q."""
    return -4 * (1 - alpha - beta + 2 * alpha * beta) * (1 - 2 * beta) * alpha * (1 - alpha)


def pair_mismatches(d: int, *, pair: tuple[int, int] = (0, 1), support: tuple[int, int] = (0, 1)) -> int:
    """On how many points of the grid {0, 1/4, 1/2, 3/4, 1}^2 the two formulas and the exact kernels differ.

    The heads have length ``d`` and weight on ``support`` only; the formulas assume that this is the pair.
    """
    grid, differ = [Fraction(k, 4) for k in range(5)], 0
    for alpha, beta in itertools.product(grid, repeat=2):
        heads = []
        for weight in (alpha, beta):
            head = [Fraction(0)] * d
            head[support[0]], head[support[1]] = 1 - weight, weight
            heads.append(head)
        slope = score_gradient(heads[0], heads[1], pair)[support[1]]
        loss = population_loss(heads[0], heads[1], pair)
        differ += loss != pair_loss(alpha, beta) or slope != pair_slope(alpha, beta)
    return differ


def stays(off_weight: FloatArray, learning_rate: float, steps: int) -> npt.NDArray[np.bool_]:
    """Whether the theorem's condition holds, for eps = ``off_weight`` (B,), the larger of both heads' off-weights."""
    eps = np.asarray(off_weight)
    if ((eps < 0) | (eps > 1)).any():
        raise ValueError(f"off_weight reaches from {eps.min()} to {eps.max()}; weights lie in [0, 1]")
    bound = 18 * math.e * learning_rate * steps * eps
    return np.asarray((eps <= 0.1) & (bound <= 1 - eps))


@dataclass(frozen=True)
class Recovery:
    """What became of starts whose heads collapsed in the first step, after further steps of the same rate.

    ``collapsed``: how many did; ``bound``: those that satisfy the theorem's condition; ``bound_left``: of these, how
    many no longer have both heads on the old target; ``free`` and ``free_left``: the same for the others;
    ``recovered``: all that ended specialised.
    """

    starts: int
    collapsed: int
    bound: int
    bound_left: int
    free: int
    free_left: int
    recovered: int


def recovery(d: int, m: int, starts: int, seed: int, kappa: float, further: int) -> Recovery:
    """One step of rate kappa d^2 from the starts of ``draw_starts``; the collapsed ones take ``further`` more steps.

    Weights off the target are summed themselves, not found as 1 minus a weight, so that 1e-300 stays what it is.
    """
    rate, totals = kappa * d**2, np.zeros(6, dtype=np.int64)
    for drawn in chunks_of_starts(d, m, starts, seed):
        first = step_batch(drawn.embeddings, drawn.theta, drawn.pairs, rate)
        at = np.flatnonzero(classify(first.gamma, first.gamma_tilde, drawn.pairs).collapsed)
        if not at.size:
            continue
        top = first.gamma[at].argmax(axis=1)
        off = np.maximum(*(_off(weights[at], top) for weights in (first.gamma, first.gamma_tilde)))
        bound = stays(off, rate, further)
        pairs = drawn.pairs[at]
        last = train(
            drawn.embeddings[at], first.theta[at], pairs, rate, further, theta_tilde=first.theta_tilde[at]
        )
        left = (last.gamma.argmax(axis=1) != top) | (last.gamma_tilde.argmax(axis=1) != top)
        recovered = classify(last.gamma, last.gamma_tilde, pairs).specialised
        groups = (np.ones_like(bound), bound, bound & left, ~bound, ~bound & left, recovered)
        totals += [int(group.sum()) for group in groups]
    return Recovery(starts, *(int(total) for total in totals))


def _off(weights: FloatArray, top: npt.NDArray[np.int64]) -> FloatArray:
    others = weights.copy()
    others[np.arange(len(others)), top] = 0
    return np.asarray(others.sum(axis=1))
