"""Attention weights from embeddings and a query, without overflow whatever their size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._validation import FloatArray, all_finite, read_embeddings


def attention_weights(embeddings: Any, theta: Any) -> FloatArray:
    """softmax(embeddings @ theta), shape (d,), in the arguments' common dtype.

    ``embeddings`` has shape (d, m), one row a position (rows need not have unit length); ``theta`` has shape (m,).
    Scores that exceed the dtype are handled: only their differences from the largest one matter.

    Raises TypeError for unsupported dtypes, ValueError for wrong shapes and values that are not finite.
    """
    rows, query = read_embeddings(embeddings, theta=theta)
    return softmax_of_scores(rows, query)


def softmax_of_scores(embeddings: FloatArray, theta: FloatArray) -> FloatArray:
    """The same, for arguments that were read already."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = embeddings @ theta
    return softmax_of_known_scores(scores, embeddings, theta)


def softmax_of_known_scores(scores: FloatArray, embeddings: FloatArray, theta: FloatArray) -> FloatArray:
    """softmax(scores) for scores = embeddings @ theta; the factors are needed where the product left the dtype.

    ``scores`` is overwritten.
    """
    # The ufuncs' own reductions: at d = 1024 the methods around them cost as much as the sums.
    top = np.maximum.reduce(scores)
    # A NaN makes the maximum NaN. A score of -inf beside a finite largest one has weight 0 either way.
    if math.isfinite(top):
        with np.errstate(over="ignore"):
            scores -= top
    else:
        scores = _below_the_largest(embeddings, theta)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores)
    return scores


def _below_the_largest(embeddings: FloatArray, theta: FloatArray) -> FloatArray:
    """score - largest score where the largest one leaves the dtype, each row in units of its own power of two.

    Taking powers of two out is exact. On the way back a difference can only grow to -inf, whose exponential is the
    right limit, 0. Rows are taken a block at a time, so that nothing as large as the embeddings is made.
    """
    d, m = embeddings.shape
    row_exponents, small = np.empty(d, dtype=np.int32), np.empty(d, dtype=embeddings.dtype)
    query_exponent = int(np.frexp(np.abs(theta).max())[1])
    query, step = np.ldexp(theta, -query_exponent), max(1, 2**18 // m)
    for first in range(0, d, step):
        block = embeddings[first : first + step]
        exponents = np.frexp(np.maximum(block.max(axis=1), -block.min(axis=1)))[1]
        row_exponents[first : first + step] = exponents
        small[first : first + step] = (np.ldexp(block, -exponents[:, np.newaxis]) * query).sum(axis=1)
    mantissa, exponent = np.frexp(small)
    exponent = exponent + row_exponents + query_exponent
    # Among numbers of one sign the exponent decides, then the mantissa; a negative one is larger the smaller it is.
    sign = np.sign(mantissa)
    top = np.lexsort((mantissa, sign * exponent, sign))[-1]
    here = np.ldexp(mantissa, np.maximum(exponent - exponent[top], -(2**14)))
    with np.errstate(over="ignore"):
        return np.ldexp(here - mantissa[top], exponent[top])


def weighted_rows(embeddings: FloatArray, weights: FloatArray) -> FloatArray:
    """embeddings.T @ weights, shape (m,); OverflowError when the result exceeds the dtype."""
    return all_weighted_rows(embeddings, weights)[0]


def all_weighted_rows(embeddings: FloatArray, *weights: FloatArray) -> tuple[FloatArray, ...]:
    """The same for several vectors of weights, under one check."""
    with np.errstate(over="ignore", invalid="ignore"):
        totals = tuple(embeddings.T @ each for each in weights)
    if not all(all_finite(total) for total in totals):
        raise OverflowError(
            f"the gradient for embeddings as large as {max(embeddings.max(), -embeddings.min())} exceeds "
            f"{embeddings.dtype}; scale the embeddings down"
        )
    return totals
