"""What linear attention cannot do when the embedding is narrow: a lower bound on its loss for any two queries.

Derivation. Linear attention has the weights a = V theta and b = V theta~, so both lie in the column space of V,
whatever the queries. Let H be the orthogonal projector onto that space (d x d, H = H^T = H^2), h_i = H_ii its diagonal
(the leverages: 0 <= h_i <= 1, sum h_i = rank V), and write a = alpha u, b = beta w with unit vectors u, w and
tau = alpha beta. Equation (2) of ``loss`` becomes a parabola in tau:

    L = 1 - 2 tau B + tau^2 Q  >=  1 - B^2 / Q,        B = u_p w_q + u_q w_p,
                                                       Q = 1 + 2 (u.w)^2 - 2 sum_i u_i^2 w_i^2.

1. |B| <= S = sqrt(h_p h_q) + |H_pq|. As u = H u and w = H w, B = u^T M w with
   M = H (e_p e_q^T + e_q e_p^T) H = x y^T + y x^T for x = H e_p, y = H e_q. Such a matrix has the eigenvalues
   x.y +- |x| |y|, and x.y = H_pq, |x|^2 = h_p, |y|^2 = h_q. u^T M w is at most the largest modulus of these.
2. Q >= 1 - 2 max_i h_i, because u_i^2 = (u.He_i)^2 <= h_i and sum w_i^2 = 1. So, if max h < 1/2,

    L >= 1 - S^2 / (1 - 2 max h).                                                                            (plain)

3. Sharper: let t_i = u_i w_i = <u w^T, (He_i)(He_i)^T>. The matrices (He_i)(He_i)^T have the Gram matrix
   G = H o H (entries squared), u w^T has Frobenius norm 1, and (u.w)^2 - sum t_i^2 = (1.t)^2 - |t|^2 = t^T (J - I) t
   with J the matrix of ones. Hence sum t_i^2 - (u.w)^2 <= mu, the largest eigenvalue (at least 0) of
   G^(1/2) (I - J) G^(1/2), so Q >= 1 - 2 mu and, if mu < 1/2,

    L >= 1 - S^2 / (1 - 2 mu).                                                                           (sharpened)

   Here mu <= the largest eigenvalue of G <= its largest row sum = max_i sum_j H_ij^2 = max h, so (sharpened) is never
   below (plain) and holds wherever (plain) does.

Only the space matters, so the bounds hold as well for weights divided by any number, such as their sum: a normalised
linear attention escapes neither. They say nothing once V has rank d, where every weight vector can be had.

Wide embeddings. Two more bounds ask nothing of the leverages.

4. (row) f = -sum_i a_i b_i - sum_(i<j) c_ij x_i x_j with c_ij = a_i b_j + a_j b_i, and the products of bits are
   orthonormal, so L >= (1 - P)^2 + sum over j not in {p, q} of c_pj^2 + c_qj^2 with P = c_pq. Off its entry p the
   vector r = a_p b + b_p a of the space has the entries c_pj. Let delta_q be the squared distance of e_q from the space
   after coordinate p has been dropped from both. The projection of e_q has the squared length 1 - delta_q, so a vector
   of that space with entry P at q has a squared length of at least P^2 / (1 - delta_q), of which
   P^2 delta_q / (1 - delta_q) lies off q. With delta_p likewise,

       K = delta_p / (1 - delta_p) + delta_q / (1 - delta_q),
       L >= min over P of (1 - P)^2 + K P^2 = K / (1 + K).

   It is positive for almost every V of rank at most d - 2.
5. (average) With an orthonormal basis w_1..w_r of the space, f is a combination of the r (r + 1) / 2 products
   (w_k.x)(w_l.x): features that do not depend on the pair. By Bessel's inequality (``fixed_features``) the least losses
   of the d (d - 1) / 2 pairs have a mean of at least 1 - r (r + 1) / (d (d - 1)).

Source: our derivation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._validation import FloatArray, read_embeddings, read_pair


def linear_attention_lower_bound(embeddings: Any, pair: Sequence[int], *, sharpened: bool = False) -> float:
    """A number that E[(f(x) - y)^2] with gamma = V theta, gamma~ = V theta~ is never below, for any two queries.

    Parameters
    ----------
    embeddings
        V, shape (d, m), finite; rows of any length and V of any rank. Only its column space matters.
    pair
        (p, q), 0-based.
    sharpened
        False: 1 - (sqrt(h_p h_q) + |H_pq|)^2 / (1 - 2 max h), O(d m^2). True: the same with mu <= max h in place of
        max h, at least as large, O(d^3); see the head of this module.

    Returns
    -------
    float
        The bound, at most 1 (computed in float64 with a rounding error near 1e-13; it may be negative and then says
        nothing). 1 is the loss of answering 0 always. Directions in which V has singular values below
        max(d, m) * eps (of the dtype given) times the largest count as rounding and do not belong to the space.

    Raises ValueError where the bound does not exist (max h, or mu, at least 1/2: the embedding is too wide, or a
    position has a direction almost to itself), and as for wrong shapes, values or pairs; TypeError for unsupported
    dtypes.

    Source: our derivation, at the head of this module.
    """
    basis, p, q = _read(embeddings, pair)
    leverages = (basis * basis).sum(axis=1)
    signal = np.sqrt(leverages[p] * leverages[q]) + abs(basis[p] @ basis[q])
    spread, name = (_excess(basis), "mu") if sharpened else (float(leverages.max(initial=0)), "max h")
    if not spread < 0.5:
        raise ValueError(
            f"no lower bound: {name} is {spread:.6g} for embeddings of shape {np.shape(embeddings)} and rank "
            f"{basis.shape[1]}, and the bound needs it below 1/2; use narrower embeddings"
            f"{'' if sharpened else ', or sharpened=True, which needs less'}"
        )
    return float(1 - signal**2 / (1 - 2 * spread))


def linear_attention_row_bound(embeddings: Any, pair: Sequence[int]) -> float:
    """A number in [0, 1] that the loss of linear attention is never below, for embeddings of any width.

    K / (1 + K) of step 4 at the head of this module, O(d m^2). For narrow embeddings
    :func:`linear_attention_lower_bound` is larger. 0, up to rounding, where V has rank d - 1 or more. Parameters and
    errors as there, except that no embedding is refused.

    Source: our derivation, at the head of this module.
    """
    basis, p, q = _read(embeddings, pair)
    if not basis.shape[1]:
        return 1.0
    total = 0.0
    for dropped, kept in ((p, q), (q, p)):
        rest = np.delete(basis, dropped, axis=0)
        left, singular, _ = np.linalg.svd(rest, full_matrices=False)
        # A direction that coordinate ``dropped`` had to itself leaves a singular value of 0, and no direction.
        row = left[kept - (kept > dropped), singular > max(basis.shape) * np.finfo(np.float64).eps]
        reach = min(float(row @ row), 1.0)
        if reach == 0:
            return 1.0
        total += (1 - reach) / reach
    return total / (1 + total)


def linear_attention_average_bound(embeddings: Any) -> float:
    """1 - r (r + 1) / (d (d - 1)) for embeddings of rank r: a lower bound of the mean of the least loss over all pairs.

    Step 5 at the head of this module: each pair may have the best queries of its own. Negative, saying nothing, only at
    rank d. Errors as for :func:`linear_attention_lower_bound`; d >= 2.

    Source: our derivation, at the head of this module.
    """
    basis, _, _ = _read(embeddings, (0, 1))
    d, rank = basis.shape
    return 1 - rank * (rank + 1) / (d * (d - 1))


def linear_attention_pair_share(embeddings: Any, pair: Sequence[int]) -> float:
    """The largest share (a_p^2 + a_q^2) / |a|^2 of any weight vector a = V theta != 0, a float in [0, 1].

    It is the largest eigenvalue of the 2 x 2 block of H at (p, q): (a_p, a_q) = E^T u |a| for the unit vector u = H u,
    and the largest |E^T H u|^2 is that of E^T H E. Parameters and errors as for
    :func:`linear_attention_lower_bound`, but it exists for every V; 0 when V = 0.

    Source: our derivation.
    """
    basis, p, q = _read(embeddings, pair)
    rows = basis[[p, q]]
    return float(np.clip(np.linalg.eigvalsh(rows @ rows.T)[-1], 0, 1))


def _read(embeddings: Any, pair: Sequence[int]) -> tuple[FloatArray, int, int]:
    """An orthonormal basis of the column space, float64 (d, rank), and the pair."""
    (rows,) = read_embeddings(embeddings)
    p, q = read_pair(pair, len(rows))
    # A power of two scales exactly and keeps the singular values away from overflow.
    exponent = int(np.frexp(np.abs(rows).max())[1])
    wide = np.ldexp(rows.astype(np.float64), -exponent)
    left, singular, _ = np.linalg.svd(wide, full_matrices=False)
    cut = max(rows.shape) * float(np.finfo(rows.dtype).eps) * singular.max()
    return left[:, singular > cut], p, q


def _excess(basis: FloatArray) -> float:
    """mu: the largest eigenvalue of G^(1/2) (I - J) G^(1/2), G = H o H, and at least 0."""
    projector = basis @ basis.T
    values, vectors = np.linalg.eigh(projector * projector)
    # Negative eigenvalues of G are rounding. With G = R R^T the sought matrix is similar to R^T (I - J) R.
    values = np.maximum(values, 0)
    sums = np.sqrt(values) * vectors.sum(axis=0)
    return max(0.0, float(np.linalg.eigvalsh(np.diag(values) - np.outer(sums, sums))[-1]))
