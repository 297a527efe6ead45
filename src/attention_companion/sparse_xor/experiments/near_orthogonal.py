"""How nearly orthogonal random embeddings are: the largest inner product of d random unit vectors, over draws."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Rows of V V^T that are held at once.
ROWS = 512


def largest_inner_products(
    d: int, m: int, draws: int, seed: int, *, positive: bool = False
) -> npt.NDArray[np.float64]:
    """max over i != j of |v_i.v_j| for ``draws`` independent draws of d vectors uniform on the sphere: shape (draws,).

    ``positive`` makes all coordinates positive: the control, whose inner products lie near 2 / pi. Draw k comes from
    ``default_rng([seed, d, m, k])``. O(draws d^2 m) time, O(ROWS d + d m) memory, float64.

    Raises ValueError for d < 2, m < 1 or draws < 1.
    """
    if d < 2 or m < 1 or draws < 1:
        raise ValueError(f"d = {d}, m = {m}, draws = {draws}; give d >= 2, m >= 1 and at least one draw")
    largest = np.zeros(draws)
    for k in range(draws):
        rows = np.random.default_rng([seed, d, m, k]).standard_normal((d, m))
        if positive:
            rows = np.abs(rows)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        for first in range(0, d, ROWS):
            # Columns from this block's first position on: the products before it were seen already.
            part = np.abs(rows[first : first + ROWS] @ rows[first:].T)
            np.fill_diagonal(part, 0.0)
            largest[k] = max(largest[k], float(part.max()))
    return largest
