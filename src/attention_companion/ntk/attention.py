"""Linearized attention and its Gram matrix.

The layer has no parameters. Softmax attention with the training set itself as queries, keys and values is
softmax(X X^T) X; dropping the softmax leaves Z = X X^T X (the definition this part of the book studies, as quoted
from "Influence Malleability in Linearized Attention", arXiv 2603.13085). Its Gram matrix is

    Z Z^T = X X^T X X^T X X^T = G^3,    G = X X^T,

for every real X: associativity and (X X^T)^T = X X^T are all that is used. So every eigenvalue is cubed, and with it
the condition number. Scaling the rows of Z to unit length (which the paper does before its network) turns G^3 into
D^-1 G^3 D^-1 with D = diag(|z_i|), and the eigenvalues are then cubes no longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_companion.ntk.exact import Array, as_matrix, from_flint, is_exact, multiply, to_flint


def linearized_attention(X: Any, query: Any = None) -> Array:
    """X X^T X, or query X^T X; rows are NOT rescaled (see :func:`normalise_rows`).

    :param X: (n, d) the keys and values: the whole training set, one row an example.
    :param query: (q, d), or (d,) for one query; ``None`` takes X itself. A test point x is carried to x X^T X, with
        X the training set (our reading: the sources do not say how test points pass the layer).
    :returns: (n, d), (q, d) or (d,). If X and query are both exact (integer arrays of any width, booleans, nested
        lists of ``int`` or ``Fraction``) the result is exact, an ``object`` array of Python ``int``, or of
        ``Fraction`` if any entry was one; nothing can wrap. Otherwise the result has the floating dtype of the
        floating input (float32 stays float32), and an exact partner is rounded to it first.
    :raises ValueError: shapes that do not match, empty or non-finite input.
    :raises TypeError: entries that are not real numbers.
    :raises OverflowError: the product of finite floats leaves the range of their dtype.
    """
    keys = as_matrix(X, "X")
    queries = keys if query is None else as_matrix(query, "query", vector=True)
    if queries.shape[1] != keys.shape[1]:
        raise ValueError(
            f"query has rows of length {queries.shape[1]}, X of length {keys.shape[1]}; they must be equal"
        )
    if is_exact(keys) and is_exact(queries):
        exact_keys = to_flint(keys)
        exact_queries = exact_keys if query is None else to_flint(queries)
        # (q, n) times (n, d) rather than through the (d, d) matrix: for images n < d.
        result = from_flint(multiply(multiply(exact_queries, exact_keys.transpose()), exact_keys))
    else:
        dtype = np.result_type(*(a.dtype for a in (keys, queries) if not is_exact(a)))
        result = _float_attention(queries.astype(dtype), keys.astype(dtype))
    return result[0] if query is not None and np.ndim(query) == 1 else result


def _float_attention(queries: Array, keys: Array) -> Array:
    n, d = keys.shape
    # Associativity is free to be used: the inner product of the cheaper shape, never a matrix of 60000 x 60000.
    with np.errstate(over="ignore", invalid="ignore"):
        result = (queries @ keys.T) @ keys if n <= d else queries @ (keys.T @ keys)
    return _refuse_overflow(result, "linearized attention")


def gram(X: Any) -> Array:
    """G = X X^T, (n, n): exact (``object`` array) for exact X, in the dtype of X for floats, symmetric to the last bit.

    :param X: (n, d), as for :func:`linearized_attention`, which lists the errors too.
    """
    rows = as_matrix(X, "X")
    if is_exact(rows):
        matrix = to_flint(rows)
        return from_flint(multiply(matrix, matrix.transpose()))
    with np.errstate(over="ignore", invalid="ignore"):
        product = rows @ rows.T
    # BLAS may round (i, j) and (j, i) differently; the condition number insists on symmetry.
    return _refuse_overflow(np.tril(product) + np.tril(product, -1).T, "the Gram matrix")


def normalise_rows(X: Any) -> Array:
    """Each row divided by its Euclidean norm, (n, d); zero rows stay zero.

    :param X: (n, d), any real input. Floats keep their dtype; exact input becomes float64 (norms are irrational),
        correctly even where its entries exceed the range of float64.
    :returns: rows of unit norm up to a few units of the last place, whatever their scale (no overflow, no underflow).
    """
    rows = as_matrix(X, "X")
    if is_exact(rows):
        largest = [max(abs(entry) for entry in row) or 1 for row in rows.tolist()]
        # Exact division by the largest entry first: int / int is correctly rounded and lies in [-1, 1].
        rows = np.array([[float(v / m) for v in row] for row, m in zip(rows.tolist(), largest, strict=True)])
    scale = np.max(np.abs(rows), axis=1, keepdims=True)
    scaled = rows / np.where(scale == 0, 1, scale)
    norm = np.sqrt(np.sum(scaled * scaled, axis=1, keepdims=True))
    return (scaled / np.where(norm == 0, 1, norm)).astype(rows.dtype)


def _refuse_overflow(result: Array, what: str) -> Array:
    if not np.all(np.isfinite(result)):
        raise OverflowError(
            f"{what} exceeds the largest {result.dtype} number ({np.finfo(result.dtype).max:.4g}); scale X down, or "
            "give integers or fractions to compute exactly"
        )
    return result
