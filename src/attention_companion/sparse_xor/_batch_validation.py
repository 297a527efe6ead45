"""Reading the arguments of the batched kernels: shapes that broadcast, values that are finite, pairs that are pairs."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ._validation import FloatArray, _as_float, _numeric_array, _working_dtype


@dataclass(frozen=True, eq=False)
class Problem:
    """Embeddings (..., d, m), both queries (..., 2, m), pairs (..., 2), and the batch shape of all three."""

    rows: FloatArray
    queries: FloatArray
    pairs: npt.NDArray[np.int64]
    batch: tuple[int, ...]


def read_problem(embeddings: Any, theta: Any, theta_tilde: Any, pairs: Any) -> Problem:
    """Read a batch; TypeError for dtypes, ValueError for shapes, for values that are not finite and for bad pairs."""
    raw = {"embeddings": _numeric_array(embeddings, "embeddings"), "theta": _numeric_array(theta, "theta")}
    if theta_tilde is not None:
        raw["theta_tilde"] = _numeric_array(theta_tilde, "theta_tilde")
    dtype = np.result_type(*(_working_dtype(array, name) for name, array in raw.items()))
    arrays = {name: _as_float(array, dtype, name) for name, array in raw.items()}
    rows = arrays["embeddings"]
    if rows.ndim < 2 or rows.shape[-2] < 2 or rows.shape[-1] < 1:
        raise ValueError(
            f"embeddings has shape {rows.shape}; expected (..., d, m) with d >= 2 positions and m >= 1 coordinates"
        )
    d, m = rows.shape[-2:]
    for name in list(arrays)[1:]:
        if arrays[name].ndim < 1 or arrays[name].shape[-1] != m:
            raise ValueError(
                f"{name} has shape {arrays[name].shape}; with embeddings {rows.shape} expected (..., {m})"
            )
    first = arrays["theta"]
    second = arrays.get("theta_tilde", -first)
    read = read_pairs(pairs, d)
    try:
        queries = np.stack(np.broadcast_arrays(first, second), axis=-2)
        batch = np.broadcast_shapes(rows.shape[:-2], queries.shape[:-2], read.shape[:-1])
    except ValueError:
        shapes = {name: array.shape for name, array in arrays.items()} | {"pairs": read.shape}
        raise ValueError(
            f"the batch axes do not broadcast: {shapes}; all axes before the last (the last two of embeddings) must "
            "be equal or 1"
        ) from None
    # Leading axes are made explicit, so that "the axis before the last two" means the same for all.
    if rows.ndim > 2:
        rows = rows.reshape((1,) * (len(batch) + 2 - rows.ndim) + rows.shape)
        queries = queries.reshape((1,) * (len(batch) + 2 - queries.ndim) + queries.shape)
    return Problem(rows, queries, read, batch)


def read_weights(
    gamma: Any, gamma_tilde: Any, pairs: Any
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
    """Read the weights (..., d) of both heads and their pairs (..., 2), whose batch axes broadcast."""
    raw = {"gamma": _numeric_array(gamma, "gamma"), "gamma_tilde": _numeric_array(gamma_tilde, "gamma_tilde")}
    dtype = np.result_type(*(_working_dtype(array, name) for name, array in raw.items()))
    first, second = (_as_float(array, dtype, name) for name, array in raw.items())
    if first.ndim < 1 or second.ndim < 1 or first.shape[-1] != second.shape[-1] or first.shape[-1] < 2:
        raise ValueError(
            f"gamma has shape {first.shape} and gamma_tilde {second.shape}; expected (..., d) with one d >= 2 for both"
        )
    read = read_pairs(pairs, first.shape[-1])
    try:
        np.broadcast_shapes(first.shape[:-1], second.shape[:-1], read.shape[:-1])
    except ValueError:
        raise ValueError(
            f"the batch axes do not broadcast: gamma {first.shape}, gamma_tilde {second.shape}, pairs {read.shape}; "
            "all axes before the last must be equal or 1"
        ) from None
    return first, second, read


def read_pairs(pairs: Any, d: int) -> npt.NDArray[np.int64]:
    """Read pairs (..., 2) of distinct positions 0..d-1."""
    array = _array_without_bools(pairs, "pairs", "integers, shape (..., 2)")
    if array.dtype == bool or not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"pairs has dtype {array.dtype}; give integers, shape (..., 2)")
    if array.ndim < 1 or array.shape[-1] != 2:
        raise ValueError(f"pairs has shape {array.shape}; expected (..., 2), a (p, q) for each element")
    outside = (array < 0) | (array >= d)
    if outside.any():
        raise ValueError(
            f"pairs holds {array[outside][0]}; with d = {d} positions an index lies in 0..{d - 1}"
        )
    same = array[..., 0] == array[..., 1]
    if same.any():
        p = array[same][0][0]
        raise ValueError(
            f"pairs holds ({p}, {p}); the label is a product of two different bits, so choose p != q"
        )
    return array.astype(np.int64)


def read_rates(rates: Any, dtype: np.dtype[Any], *, limit_allowed: bool) -> FloatArray:
    """Read learning rates (...), each >= 0 and, unless the limit is allowed, finite."""
    array = _array_without_bools(rates, "learning rates", "real numbers")
    if array.dtype == bool or not (
        np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)
    ):
        raise TypeError(f"learning rates have dtype {array.dtype}; give real numbers")
    wrong = ~(array >= 0)
    if wrong.any():
        raise ValueError(f"learning rates hold {array[wrong][0]}; give numbers that are not negative")
    endless = np.isinf(array)
    if endless.any() and not limit_allowed:
        raise ValueError(
            "learning rates hold inf; the limit of large rates exists for one step of softmax attention only, give "
            "finite numbers"
        )
    large = array > np.finfo(dtype).max
    if (large & ~endless).any():
        raise ValueError(f"learning rates hold {array[large & ~endless][0]}, too large for {dtype}")
    return array.astype(dtype)


def _array_without_bools(values: Any, name: str, expected: str) -> npt.NDArray[Any]:
    """np.asarray with an error that says more; beside numbers numpy would read True as 1."""
    try:
        array = np.asarray(values)
        if not isinstance(values, np.ndarray):
            for entry in np.asarray(values, dtype=object).flat:
                if isinstance(entry, bool | np.bool_):
                    raise TypeError(f"{name} holds {entry!r}; give {expected}")
    except ValueError:
        raise ValueError(f"{name} is {values!r}, of unequal lengths; give {expected}") from None
    return array


def read_steps(steps: Any, stop_below: Any) -> tuple[int, float | None]:
    """Read the number of steps (an integer >= 0) and the loss at which to stop (positive, or None)."""
    if isinstance(steps, bool | np.bool_) or not isinstance(steps, Integral):
        raise TypeError(f"steps is {steps!r}; give an integer >= 0")
    if steps < 0:
        raise ValueError(f"steps is {steps}; give an integer >= 0")
    if stop_below is None:
        return int(steps), None
    if isinstance(stop_below, bool) or not isinstance(stop_below, Real):
        raise TypeError(f"stop_below is {stop_below!r}; give a positive number or None")
    if not 0 < float(stop_below) < float("inf"):
        raise ValueError(f"stop_below is {stop_below!r}; give a positive finite number or None")
    return int(steps), float(stop_below)
