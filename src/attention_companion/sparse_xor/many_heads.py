"""The population loss of k heads whose outputs are multiplied, for parities of k bits, and its gradient.

The model is f(x) = sigma prod_h (a_h . x), the label y = sigma prod_{s in S} x_s with k hidden positions S and
the same sign sigma (which drops out; chapter and paper take -1). With k = 2 this is ``loss``.

Derivation. E[(f - y)^2] = E f^2 - 2 E f y + 1.

- E f y: in the product over heads only the terms that use every hidden position once survive, so E f y is the
permanent
  of the k x k matrix of weights that the heads put on S: one term for each matching of heads to targets.
- E f^2 is the mean of a product of 2k linear forms in independent signs, each head twice. The mean of a product
is a sum over the
  partitions of its factors into blocks of products of joint cumulants. Joint cumulants of linear forms in
  independent signs are kappa_|B| sum_i prod_{h in B} a_h,i, where kappa_n is the n-th cumulant of one sign: 0 for
  odd n, and 1, -2, 16, -272, 7936 for n = 2, 4, 6, 8, 10. With T_n = sum_i prod_h a_h,i^(n_h), n in {0, 1, 2}^k,

      E f^2 = sum over partitions into even blocks of prod_B kappa_|B| T_{n(B)}.
      (1)

  There are 4, 31, 379 partitions for k = 2, 3, 4; those of one type are collected. For k = 2, (1) is equation (2)
  of ``loss``.

The cost is O(3^k d): no sum over inputs. Through the softmax dL/ds_h = a_h * (g_h - a_h . g_h) with g_h = dL/da_h.

Source: our derivation.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from functools import cache
from numbers import Rational
from typing import Any, TypeAlias

import numpy as np

from ._validation import FloatArray

#: More heads are refused: the number of partitions grows faster than exponentially.
MOST_HEADS = 5

Exponents: TypeAlias = tuple[int, ...]


def product_loss(heads: Any, support: Any) -> Any:
    """E[(f(x) - y)^2] for f the product of k heads and y the parity of k bits, without a factor 1/2.

    Parameters: ``heads`` has shape (..., k, d) with 1 <= k <= 5 and d >= k, any finite real weights; ``support``
    has shape (..., k), the hidden positions, distinct, 0-based. Batch axes lead and broadcast.

    Returns an array of the batch shape (a scalar without batch axes) in the dtype of ``heads``: float32, float64,
    or object arrays of ``Fraction``, which are computed exactly. Integers become float64.

    Raises TypeError for other dtypes and for positions that are no integers, ValueError for wrong shapes, values
    that are not finite, positions that are out of range or repeated;
    OverflowError when the loss exceeds the dtype. Memory is O(3^k) copies of one head, so hand
    over large batches in chunks.

    Source: our derivation, equation (1) of this module.
    """
    weights, places = read_many_heads(heads, support)
    with np.errstate(over="ignore", invalid="ignore"):
        loss = _second_moment(weights)[0] - 2 * _permanent(weights, places)[0] + 1
    if weights.dtype != object and not np.isfinite(loss).all():
        raise OverflowError(
            f"the loss of weights as large as {np.abs(weights).max()} exceeds {weights.dtype}; use Fractions or "
            "smaller weights"
        )
    return loss


def product_score_gradient(heads: Any, support: Any) -> Any:
    """dL/ds for the scores s of every head, a_h = softmax(s_h): shape (..., k, d). Arguments and errors as above."""
    weights, places = read_many_heads(heads, support)
    slope = _second_moment(weights)[1]
    inner = np.broadcast_to(places[..., np.newaxis, :], (*slope.shape[:-1], places.shape[-1]))
    on_targets = np.take_along_axis(slope, inner, axis=-1) - 2 * _permanent(weights, places)[1]
    np.put_along_axis(slope, inner, on_targets, axis=-1)
    return weights * (slope - (weights * slope).sum(axis=-1, keepdims=True))


def read_many_heads(heads: Any, support: Any) -> tuple[FloatArray, Any]:
    """Weights (..., k, d) and hidden positions (..., k), of one batch shape; errors as in ``product_loss``."""
    try:
        weights, places = np.asarray(heads), np.asarray(support)
    except ValueError:
        raise ValueError(
            "heads or support has rows of unequal lengths; expected heads (..., k, d) and support (..., k)"
        ) from None
    if weights.dtype.kind in "iu":
        weights = weights.astype(np.float64)
    if weights.dtype not in (np.dtype(np.float32), np.dtype(np.float64), np.dtype(object)):
        raise TypeError(f"heads has dtype {weights.dtype}; give float32, float64, integers or Fractions")
    if weights.dtype == object:
        for entry in weights.flat:
            if isinstance(entry, bool) or not isinstance(entry, Rational):
                raise TypeError(
                    f"heads holds {entry!r} beside Fractions; give Fractions and integers, or only floats"
                )
    if weights.ndim < 2 or not 1 <= weights.shape[-2] <= MOST_HEADS:
        raise ValueError(f"heads has shape {weights.shape}; expected (..., k, d) with 1 <= k <= {MOST_HEADS}")
    k, d = weights.shape[-2:]
    if weights.dtype != object and not np.isfinite(weights).all():
        raise ValueError("heads holds a weight that is not finite; every weight must be")
    listed = () if isinstance(support, np.ndarray) else np.asarray(support, dtype=object).flat
    if places.dtype.kind not in "iu" or any(isinstance(entry, bool | np.bool_) for entry in listed):
        raise TypeError(f"support is {support!r} of dtype {places.dtype}; give integer positions")
    if places.ndim < 1 or places.shape[-1] != k:
        raise ValueError(f"support has shape {places.shape}; with {k} heads expected (..., {k})")
    if places.min(initial=0) < 0 or places.max(initial=0) >= d:
        raise ValueError(
            f"support holds {places.min()}..{places.max()}; with d = {d} a position lies in 0..{d - 1}"
        )
    if (np.diff(np.sort(places, axis=-1), axis=-1) == 0).any():
        raise ValueError("support holds a position twice; the label is a product of different bits")
    try:
        batch = np.broadcast_shapes(weights.shape[:-2], places.shape[:-1])
    except ValueError:
        raise ValueError(
            f"the batch axes of heads {weights.shape} and support {places.shape} do not broadcast; axes before "
            "(k, d) and (k,) must be equal or 1"
        ) from None
    return np.broadcast_to(weights, (*batch, k, d)), np.broadcast_to(places, (*batch, k))


def _permanent(weights: FloatArray, places: Any) -> tuple[Any, FloatArray]:
    """The permanent of the weights on the support, shape (...), and its derivatives, shape (..., k, k)."""
    k = weights.shape[-2]
    inner = np.broadcast_to(places[..., np.newaxis, :], (*weights.shape[:-1], k))
    block = np.take_along_axis(weights, inner, axis=-1)
    total, slope = 0 * block[..., 0, 0], 0 * block
    for matching in itertools.permutations(range(k)):
        chosen = [block[..., h, s] for h, s in enumerate(matching)]
        total = total + math.prod(chosen)
        for h, s in enumerate(matching):
            slope[..., h, s] += math.prod(chosen[:h] + chosen[h + 1 :])
    return total, slope


def _second_moment(weights: FloatArray) -> tuple[Any, FloatArray]:
    """E f^2, shape (...), and its derivatives with respect to the weights, shape (..., k, d)."""
    k = weights.shape[-2]
    one = 0 * weights[..., 0, :] + 1
    powers: dict[Exponents, Any] = {(0,) * k: one}
    for n in itertools.product(range(3), repeat=k):
        last = max((h for h in range(k) if n[h]), default=None)
        if last is not None:
            powers[n] = powers[_lowered(n, last)] * weights[..., last, :]
    terms = second_moment_terms(k)
    sums = {n: powers[n].sum(axis=-1) for n in {n for blocks, _ in terms for n in blocks}}
    total, by_sum = 0 * one[..., 0], dict.fromkeys(sums, 0 * one[..., 0])
    for blocks, coefficient in terms:
        factors = [sums[n] for n in blocks]
        total = total + coefficient * math.prod(factors)
        for j, n in enumerate(blocks):
            by_sum[n] = by_sum[n] + coefficient * math.prod(factors[:j] + factors[j + 1 :])
    slope = 0 * weights
    for n, outer in by_sum.items():
        for h in range(k):
            if n[h]:
                slope[..., h, :] += n[h] * np.asarray(outer)[..., np.newaxis] * powers[_lowered(n, h)]
    return total, slope


@cache
def second_moment_terms(k: int) -> tuple[tuple[tuple[Exponents, ...], int], ...]:
    """Equation (1), collected: each entry is (the exponents n of the factors T_n, the integer coefficient)."""
    collected: Counter[tuple[Exponents, ...]] = Counter()
    for partition in _even_partitions(tuple(h for h in range(k) for _ in range(2))):
        blocks = tuple(sorted(tuple(block.count(h) for h in range(k)) for block in partition))
        collected[blocks] += math.prod(sign_cumulant(len(block)) for block in partition)
    return tuple(sorted(collected.items()))


@cache
def sign_cumulant(n: int) -> int:
    """The n-th cumulant of a fair sign, from moments 1, 0, 1, 0, ...: 1, -2, 16, -272 for n = 2, 4, 6, 8."""
    if n % 2:
        return 0
    # The n-th moment is the sum over j of C(n - 1, j - 1) kappa_j times the (n - j)-th moment.
    return 1 - sum(math.comb(n - 1, j - 1) * sign_cumulant(j) for j in range(2, n, 2))


def _even_partitions(slots: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """All partitions of the slots (equal entries are different slots) into blocks of even size."""
    if not slots:
        yield []
        return
    first, rest = slots[0], slots[1:]
    for size in range(1, len(slots), 2):
        for partners in itertools.combinations(range(len(rest)), size):
            block = (first, *(rest[j] for j in partners))
            others = tuple(slot for j, slot in enumerate(rest) if j not in partners)
            for partition in _even_partitions(others):
                yield [block, *partition]


def _lowered(n: Exponents, h: int) -> Exponents:
    return (*n[:h], n[h] - 1, *n[h + 1 :])
