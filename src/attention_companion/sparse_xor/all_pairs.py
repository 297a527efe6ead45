"""What one very large step makes of every pair (p, q) at once, for fixed embeddings and a fixed start.

Derivation. As the learning rate grows, a head puts all its weight on the position whose score grows most. The growth of
head 1's scores is u = -K r with K = V V^T and r = a * (g - a.g), see ``gradient``. At the anti-symmetric start
(theta, -theta) write s = V theta, E_i = e^(s_i), and Z_k = sum_i E_i^k. Then a_i = E_i / Z_1, b_i = 1 / (E_i Z_-1), so
a_i b_i = c := 1 / (Z_1 Z_-1) at every position, and dividing u by 2c leaves

    u_j = t K_jp + K_jq / t - (t + 1/t) (Ka)_j + eta (Ka)_j - (Kh)_j,        t = E_p / E_q,
    h_i = c (Z_-2 E_i^2 + 2 (d - 1)),    eta = sum_i h_i = c (Z_-2 Z_2 + 2 d (d - 1)).

Only t and two columns of K depend on the pair. Multiplied by t this is a sum of three outer products and rows of K,
O(d) a pair. Head 2 has theta and -theta exchanged: E_i becomes 1 / E_i everywhere.

Rounding. Let L be the largest length of a row, N that of theta, and rho a bound on the relative error of all powers
E^k, |k| <= 2, and of sums over d or m terms (below). Collecting the errors of the formula, each to first order, every
t u_j is off by at most 32 rho L^2 (t^2 + t eta + 1); 40 in place of 32 covers the higher orders, as rho < 1e-3.
Where the largest growth does not lead by twice that bound, ``_all_pairs_exact`` decides from the exact values of the
inputs. So no outcome depends on rounding.

Source: our derivation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._all_pairs_exact import TIE, ExactGrowth
from ._validation import FloatArray, read_embeddings

SUCCESS, COLLAPSE, DISTRACTOR, EXACT_TIE, DIAGONAL = 0, 1, 2, 3, -1

#: Entries of the growth of all positions that are held at once: few enough to stay in a processor's cache.
CHUNK = 2**17
#: Scores further apart than this go to the exact route at once: their powers would leave float64.
WIDEST_FLOAT_SPREAD = 60.0
#: Scores further apart than this are refused: telling ties from near-ties would take too many digits.
WIDEST_SPREAD = 1e4

# What a head's scores grow most at: its first target, its second, another position, or several at once.
_FIRST, _SECOND, _OUTSIDE, _SEVERAL = 0, 1, 2, 3


def outcome_all_pairs(embeddings: Any, theta: Any) -> npt.NDArray[np.int8]:
    """The outcome of one step from (theta, -theta) as the learning rate grows without bound, for all pairs.

    ``embeddings`` has shape (d, m), rows of any length; ``theta`` has shape (m,). Returns a symmetric int8 array of
    shape (d, d): 0 success (the heads end on different targets of the pair), 1 collapse (both on the same target),
    2 distractor (a head ends outside the pair), 3 exact tie (the scores of a head grow most at more than one position;
    this goes before 1 and 2), -1 on the diagonal.

    Ties are exact statements about the inputs as the real numbers that they are. A tie is certified by equal rows, by
    a symmetry, or by the independence of exponentials, see ``_all_pairs_exact``; otherwise positions that 2000 bits
    (more where scores lie far apart) do not separate are called tied. Near-ties are told apart.

    O(d^3) time and one float64 array of shape (d, d), V V^T, beside chunks of 1 MB and the result.

    Raises TypeError for unsupported dtypes; ValueError for wrong shapes and values that are not finite; OverflowError
    for scores that differ by more than 10,000.

    Source: our derivation, at the head of this module.
    """
    rows, query = (array.astype(np.float64) for array in read_embeddings(embeddings, theta=theta))
    d = len(rows)
    exact = ExactGrowth(rows, query, WIDEST_SPREAD)
    # A power of two taken from the rows and given to theta changes no score, and the growths by one common factor.
    power = int(np.frexp(np.abs(rows).max())[1])
    rows = np.ldexp(rows, -power)
    with np.errstate(over="ignore", invalid="ignore"):
        heads = _float_heads(rows, np.ldexp(query, power), rows @ rows.T)
    result = np.full((d, d), DIAGONAL, dtype=np.int8)
    size = max(1, CHUNK // d)
    for p in range(d - 1):
        for start in range(p + 1, d, size):
            q = np.arange(start, min(d, start + size))
            ends = [_ends(head, p, q, exact) for head in heads] if heads else _exact_ends(exact, p, q)
            result[p, q] = result[q, p] = _outcomes(ends[0], ends[1])
    return result


@dataclass(frozen=True, eq=False)
class _FloatHead:
    """What one head needs of the pair-free part: scores s, the products Ka and eta Ka - Kh, and the error's unit."""

    sign: int
    gram: FloatArray
    scores: FloatArray
    mean: FloatArray
    base: FloatArray
    eta: float
    error: float


def _float_heads(rows: FloatArray, query: FloatArray, gram: FloatArray) -> list[_FloatHead]:
    """Both heads, or an empty list where float64 cannot hold the powers or bound their errors."""
    d, m = rows.shape
    unit = 2.0**-53
    longest = 1.001 * float(np.sqrt((rows**2).sum(axis=1).max()))
    length = 1.001 * float(np.linalg.norm(query))
    scores = rows @ query
    spread = float(np.ptp(scores)) if np.isfinite(scores).all() else np.inf
    if not spread <= WIDEST_FLOAT_SPREAD:
        return []
    # Scores carry gamma_m L N each; exp is taken to be right within 4 units in the last place.
    rho = 2.2 * (2.02 * m * unit * longest * length + unit * spread) + 12 * unit
    rho += 1.02 * (d + m + 8) * unit
    if not rho < 1e-3:
        return []
    heads = []
    for sign in (1, -1):
        shifted = sign * scores
        shifted = shifted - shifted.max()
        e = np.exp(shifted)
        back = 1 / e
        c = 1 / (e.sum() * back.sum())
        pushed = c * ((back * back).sum() * e * e + 2 * (d - 1))
        eta = float(pushed.sum())
        mean = gram @ (e / e.sum())
        error = 40 * rho * longest**2
        heads.append(_FloatHead(sign, gram, shifted, mean, eta * mean - gram @ pushed, eta, error))
    return heads


def _ends(head: _FloatHead, p: int, q: npt.NDArray[np.int64], exact: ExactGrowth) -> npt.NDArray[np.int8]:
    """Where the head ends for the pairs (p, q[k]): codes of shape (len(q),)."""
    t = np.exp(head.scores[p] - head.scores[q])
    factors = np.stack([t * t, t, -(t * t + 1)], axis=1)
    growth = factors @ np.stack([head.gram[p], head.base, head.mean])
    growth += head.gram[q[0] : q[-1] + 1]
    margin = 2 * head.error * (t * t + t * head.eta + 1)

    lines = np.arange(len(q))
    first, second = growth[:, p].copy(), growth[lines, q].copy()
    growth[:, p] = growth[lines, q] = -np.inf
    others = growth.max(axis=1)
    ends = np.where(first > second, _FIRST, _SECOND).astype(np.int8)
    sure = np.minimum(np.maximum(first, second) - others, np.abs(first - second)) > margin
    outside = np.flatnonzero(others - np.maximum(first, second) > margin)
    if len(outside):
        ends[outside] = _OUTSIDE
        part = growth[outside]
        part[np.arange(len(outside)), part.argmax(axis=1)] = -np.inf
        sure[outside] = others[outside] - part.max(axis=1) > margin[outside]
    for k in np.flatnonzero(~sure):
        growth[k, p], growth[k, q[k]] = first[k], second[k]
        close = np.flatnonzero(growth[k] >= growth[k].max() - margin[k])
        ends[k] = _code(exact.winner(head.sign, p, int(q[k]), close.tolist()), p, int(q[k]))
    return ends


def _exact_ends(exact: ExactGrowth, p: int, q: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int8]]:
    everywhere = list(range(exact.d))
    return [
        np.array([_code(exact.winner(sign, p, int(k), everywhere), p, int(k)) for k in q], dtype=np.int8)
        for sign in (1, -1)
    ]


def _code(winner: int, p: int, q: int) -> int:
    return {TIE: _SEVERAL, p: _FIRST, q: _SECOND}.get(winner, _OUTSIDE)


def _outcomes(first: npt.NDArray[np.int8], second: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Outcomes from the ends of both heads."""
    worst = np.maximum(first, second)
    on_pair = np.where(first == second, COLLAPSE, SUCCESS)
    return np.select([worst == _SEVERAL, worst == _OUTSIDE], [EXACT_TIE, DISTRACTOR], on_pair).astype(np.int8)
