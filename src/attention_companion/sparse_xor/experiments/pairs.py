"""All pairs at fixed embeddings: shares of the outcomes over draws, and the two numbers that decide a pair.

Derivation of the criterion. In the units of ``all_pairs`` the growth of head 1 at p minus that at q is, for unit rows,

    (t - 1/t) (1 - c) - (pair-free terms) = 2 D (1 - c) - (2/d) (x_p - x_q) + smaller,

with t = e^D, D = s_p - s_q, c = v_p.v_q and x = V sum_i v_i; for head 2, D changes its sign. The heads end on one
target when the second part outweighs the first: |x_p - x_q| > d (1 - c) |D|.

Source: our derivation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attention_companion.sparse_xor.all_pairs import COLLAPSE, SUCCESS, outcome_all_pairs

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairShares:
    """Over draws: shares of all pairs, arrays of shape (draws, 4) and (draws,)."""

    outcomes: Array
    """Columns: success, collapse, distractor, exact tie."""
    predicted: Array
    """The share of pairs whose outcome the criterion gives."""


def draw(d: int, m: int, k: int, seed: int) -> tuple[Array, Array]:
    """Embeddings (d, m) and query (m,), uniform on the unit sphere, from ``default_rng([seed, d, m, k])``."""
    rng = np.random.default_rng([seed, d, m, k])
    rows, theta = rng.normal(size=(d, m)), rng.normal(size=m)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), theta / np.linalg.norm(theta)


def first_order_outcomes(embeddings: Array, theta: Array) -> npt.NDArray[np.int8]:
    """The criterion of the module's head for all pairs of unit rows: 0 success, 1 collapse; shape (d, d), int8.

    The diagonal is -1. Distractors and ties are beyond it.
    """
    scores, common = embeddings @ theta, embeddings @ embeddings.sum(axis=0)
    pull = np.abs(common[:, None] - common)
    lean = len(embeddings) * (1 - embeddings @ embeddings.T) * np.abs(scores[:, None] - scores)
    predicted = np.where(pull > lean, COLLAPSE, SUCCESS).astype(np.int8)
    np.fill_diagonal(predicted, -1)
    return predicted


def pair_shares(d: int, m: int, draws: int, seed: int) -> PairShares:
    """All d (d - 1) / 2 pairs at each of ``draws`` draws; O(draws d^3) time.

    Raises ValueError for d < 2, m < 1 or draws < 1.
    """
    if d < 2 or m < 1 or draws < 1:
        raise ValueError(f"d = {d}, m = {m}, draws = {draws}; give d >= 2, m >= 1 and at least one draw")
    above = np.triu_indices(d, 1)
    outcomes, predicted = np.empty((draws, 4)), np.empty(draws)
    for k in range(draws):
        rows, theta = draw(d, m, k, seed)
        seen = outcome_all_pairs(rows, theta)[above]
        outcomes[k] = np.bincount(seen, minlength=4) / len(seen)
        predicted[k] = float((first_order_outcomes(rows, theta)[above] == seen).mean())
    return PairShares(outcomes, predicted)
