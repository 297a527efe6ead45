"""One step from (theta, -theta) in two passes over the embeddings, for embeddings far larger than the caches.

Derivation. With theta~ = -theta the scores of the heads are s and -s. Write x_i = exp(s_i), Z = sum x_i and
Z~ = sum 1/x_i, so a_i = x_i / Z, b_i = 1 / (x_i Z~) and a_i b_i = c = 1 / (Z Z~) at EVERY position. The gradient of
``gradient`` becomes g_i = 2 |b|^2 a_i + 4 (d - 1) c b_i, apart from the two targets, and a_i (g_i - a.g) summed against
the rows v_i is

    dL/dtheta = (2 |b|^2 / Z^2) M_2 + 4 (d - 1) c^2 M_0 - (a.g / Z) M_1 - 2 a_p b_q v_p - 2 a_q b_p v_q,

with M_k = sum_i exp(k s_i) v_i and a.g = 2 |a|^2 |b|^2 + 4 d (d - 1) c^2 - 2 (a_p b_q + a_q b_p). The other head
exchanges a with b and k with -k; a.g, M_0 and the target terms' factors are shared. So one pass gives both gradients,
although their coefficients are known only at its end. A second pass gives both heads' new scores.

Rounding. The three sums may cancel, which the plain route avoids by subtracting before it sums. How much they cancel
is measured, and where it is more than a few bits, or a power leaves a safe range, the answer is None: the plain route
it is. Sums inside a block are taken in the embeddings' dtype, those of blocks in float64.

M_0 costs little and tells whether all embeddings are finite: no NaN and no infinity can leave a sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ._validation import FloatArray

#: Embeddings with fewer entries take the plain route: they stay in the caches, and calls cost more than passes.
STREAM_FROM = 2**21
#: Bytes of a block: it has to stay in a core's own cache (commonly 1 to 2 MiB) from the product that brings it in
#: to the one that uses it again.
BLOCK_BYTES = 900 * 1024
#: Blocks whose sums are added in the embeddings' dtype before they go into the float64 totals.
BLOCKS_A_TOTAL = 32
#: Largest |score| the sums are taken for; powers up to twice it, times d, stay far from both ends of the dtype.
LARGEST_SCORE = {np.dtype(np.float32): 10.0, np.dtype(np.float64): 100.0}
#: Sum of the terms' largest entries over the largest entry of the gradient: beyond it too many digits are lost.
CANCELLATION = 16.0
#: Shorter rows are faster in one matrix product than in a dot product each.
_SHORT_ROW = 128

_POWERS = (2, 1, -1, -2)


def block_rows(rows: FloatArray) -> int:
    """How many rows make a block."""
    return max(1, BLOCK_BYTES // (rows.shape[1] * rows.itemsize))


def mirrored_gradients(
    rows: FloatArray, theta: FloatArray, p: int, q: int, *, block: int | None = None
) -> tuple[FloatArray, FloatArray] | None:
    """(dL/dtheta, dL/dtheta~) at theta~ = -theta, each (m,) in the rows' dtype; None where the plain route is due.

    ``rows`` is (d, m) of any layout (a layout other than row by row is copied a block at a time) and ``block`` the
    number of rows taken at once. An answer also says that all rows are finite; None leaves that open.
    """
    sums = _power_sums(rows, theta, block or block_rows(rows))
    if not (sums.within and np.isfinite(sums.rows).all()):
        return None
    up, down = sums.powers[1], sums.powers[2]  # Z and Z~
    a_squared, b_squared = sums.powers[0] / up**2, sums.powers[3] / down**2
    product = 1 / (up * down)
    d = len(rows)
    # The scores of p and q once more: with them no array of d scores has to be kept.
    first, second = (math.exp(float(np.vecdot(np.ascontiguousarray(rows[i]), theta))) for i in (p, q))
    at_p, at_q = first / second * product, second / first * product  # a_p b_q and a_q b_p
    mean = 2 * a_squared * b_squared + 4 * d * (d - 1) * product**2 - 2 * (at_p + at_q)
    shared = 4 * (d - 1) * product**2 * sums.rows[4]
    v_p, v_q = rows[p].astype(np.float64), rows[q].astype(np.float64)
    ours = (2 * b_squared / up**2 * sums.rows[0], shared, -mean / up * sums.rows[1])
    theirs = (2 * a_squared / down**2 * sums.rows[3], shared, -mean / down * sums.rows[2])
    one = _added((*ours, -2 * at_p * v_p, -2 * at_q * v_q), rows.dtype)
    other = _added((*theirs, -2 * at_q * v_p, -2 * at_p * v_q), rows.dtype)
    return None if one is None or other is None else (one, other)


def two_scores(
    rows: FloatArray, first: FloatArray, second: FloatArray, *, block: int | None = None
) -> FloatArray:
    """[rows @ first, rows @ second], shape (2, d), in one pass; overflow as in the products themselves."""
    d, m = rows.shape
    scores = np.empty((2, d), dtype=rows.dtype)
    queries = np.stack([first, second])
    step = block or 4 * block_rows(rows)
    pairs = np.empty((min(step, d), 2), dtype=rows.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, d, step):
            part = np.ascontiguousarray(rows[start : start + step])
            if m < _SHORT_ROW:
                scores[:, start : start + step] = queries @ part.T
            else:
                # Row after row, the second product finds the row in the cache and memory is read in one stream.
                np.vecdot(part[:, np.newaxis, :], queries, out=pairs[: len(part)])
                scores[:, start : start + step] = pairs[: len(part)].T
    return scores


@dataclass
class _PowerSums:
    """Sums over positions of exp(k s): ``powers`` (4,), k = 2, 1, -1, -2; and of exp(k s) v: ``rows`` (5, m), the last
    one k = 0. ``within``: no score is larger than the sums are meant for.
    """

    rows: FloatArray
    powers: list[float] = field(default_factory=lambda: [0.0] * 4)
    within: bool = True


def _power_sums(rows: FloatArray, theta: FloatArray, block: int) -> _PowerSums:
    d, m = rows.shape
    block = min(block, d)
    sums = _PowerSums(np.zeros((5, m)))
    total, part_sum = np.empty((2, 5, m), dtype=rows.dtype)
    weights = np.empty((4, block), dtype=rows.dtype)
    factors = np.array(_POWERS, dtype=rows.dtype)[:, np.newaxis]
    ones = np.ones(block, dtype=rows.dtype)
    scores = np.empty(block * BLOCKS_A_TOTAL, dtype=rows.dtype)
    weighted, plain = part_sum[:4], part_sum[4]
    # Overflow shows in the sums and is dealt with there.
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, d, len(scores)):
            stop = min(start + len(scores), d)
            total.fill(0)
            for here in range(start, stop, block):
                part = np.ascontiguousarray(rows[here : min(here + block, stop)])
                n = len(part)
                if n < block:
                    weights, ones = weights[:, :n].copy(), ones[:n]
                s = scores[here - start : here - start + n]
                # vecdot walks through memory in one stream, which brings the block in at the memory's full speed; a
                # matrix-vector product walks in several and is slower. After it the block is in the cache.
                if m < _SHORT_ROW:
                    np.dot(part, theta, out=s)
                else:
                    np.vecdot(part, theta, out=s)
                np.multiply(s, factors, out=weights)
                np.exp(weights, out=weights)
                np.dot(weights, part, out=weighted)
                np.dot(ones, part, out=plain)
                total += part_sum
            sums.rows += total
            s = scores[: stop - start]
            # NaN fails the comparison; where it comes from is judged by the sums of the rows.
            sums.within = sums.within and bool(max(s.max(), -s.min()) <= LARGEST_SCORE[rows.dtype])
            if not sums.within and np.isfinite(s).all():
                break
            up, down = np.exp(s), np.exp(-s)
            for k, value in enumerate((up @ up, up.sum(), down.sum(), down @ down)):
                sums.powers[k] += float(value)
    return sums


def _added(terms: tuple[FloatArray, ...], dtype: np.dtype[np.generic]) -> FloatArray | None:
    """The sum of the terms in ``dtype``; None where it cancels or leaves the dtype."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = sum(terms[1:], terms[0])
        sizes = sum(float(np.abs(term).max()) for term in terms)
        kept = sizes <= CANCELLATION * float(np.abs(total).max())
        result: FloatArray = total.astype(dtype)
    return result if kept and np.isfinite(result).all() else None
