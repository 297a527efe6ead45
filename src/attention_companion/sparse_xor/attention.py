"""Attention weights from embeddings and a query, without overflow whatever their size."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._validation import FloatArray, read_embeddings


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
        # A score of -inf beside a finite largest one has weight 0 either way; nothing needs to be scaled for it.
        if not np.isnan(scores).any() and np.isfinite(scores.max()):
            below = scores - scores.max()
        else:
            below = _below_the_largest(embeddings, theta)
        powers = np.exp(below)
    return powers / powers.sum()


def _below_the_largest(embeddings: FloatArray, theta: FloatArray) -> FloatArray:
    """score - largest score where the largest one leaves the dtype, each row in units of its own power of two.

    Taking powers of two out is exact. On the way back a difference can only grow to -inf, whose exponential is the
    right limit, 0.
    """
    row_exponents = np.frexp(np.abs(embeddings).max(axis=1))[1]
    query_exponent = int(np.frexp(np.abs(theta).max())[1])
    small = (np.ldexp(embeddings, -row_exponents[:, np.newaxis]) * np.ldexp(theta, -query_exponent)).sum(axis=1)
    mantissa, exponent = np.frexp(small)
    exponent = exponent + row_exponents + query_exponent
    # Among numbers of one sign the exponent decides, then the mantissa; a negative one is larger the smaller it is.
    sign = np.sign(mantissa)
    top = np.lexsort((mantissa, sign * exponent, sign))[-1]
    here = np.ldexp(mantissa, np.maximum(exponent - exponent[top], -(2**14)))
    return np.ldexp(here - mantissa[top], exponent[top])


def weighted_rows(embeddings: FloatArray, weights: FloatArray) -> FloatArray:
    """embeddings.T @ weights, shape (m,); OverflowError when the result exceeds the dtype."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = embeddings.T @ weights
    if not np.isfinite(total).all():
        raise OverflowError(
            f"the gradient for embeddings as large as {np.abs(embeddings).max()} exceeds {embeddings.dtype}; "
            "scale the embeddings down"
        )
    return total
