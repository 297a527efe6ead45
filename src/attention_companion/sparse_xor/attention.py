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
        if np.isfinite(scores).all():
            below = scores - scores.max()
        else:
            # Some score left the dtype. Powers of two are taken out exactly, the differences are formed in range,
            # and on the way back a difference can only grow to -inf, whose exponential is the right limit, 0.
            small_rows, row_exponent = _scaled(embeddings)
            small_query, query_exponent = _scaled(theta)
            small = small_rows @ small_query
            below = np.ldexp(small - small.max(), row_exponent + query_exponent)
        powers = np.exp(below)
    return powers / powers.sum()


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


def _scaled(array: FloatArray) -> tuple[FloatArray, int]:
    """array = scaled * 2^exponent with entries of scaled below 1 in absolute value."""
    exponent = int(np.frexp(np.abs(array).max())[1])
    return np.ldexp(array, -exponent), exponent
