"""What the kernels accept, and the errors they raise when it is something else.

Two kinds of numbers are read. Floating arrays (float32 or float64; integers become float64) are computed in their
own dtype. Lists that hold ``fractions.Fraction`` (with integers between them, if one likes) are computed exactly.
The two kinds are never mixed silently: a float beside a Fraction would make an "exact" answer that is not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[Any]
ExactVector: TypeAlias = tuple[Fraction, ...]
Weights: TypeAlias = Sequence[Fraction | int] | Sequence[float] | npt.NDArray[Any]
Heads: TypeAlias = tuple[FloatArray, FloatArray] | tuple[ExactVector, ExactVector]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def read_heads(gamma: Weights, gamma_tilde: Weights) -> Heads:
    """Read two weight vectors of equal length d >= 2, both as arrays of one float dtype or both as Fractions.

    Raises TypeError for entries that are neither, or for floats beside Fractions; ValueError for a wrong shape, for
    unequal lengths and for values that are not finite.
    """
    first, second = _read_vector(gamma, "gamma"), _read_vector(gamma_tilde, "gamma_tilde")
    if len(first) != len(second):
        raise ValueError(
            f"gamma has {len(first)} weights and gamma_tilde has {len(second)}; "
            "both heads attend over the same positions, so give them the same length"
        )
    if len(first) < 2:
        raise ValueError(f"gamma has {len(first)} weight(s); the pair needs at least 2 positions")
    if isinstance(first, tuple) or isinstance(second, tuple):
        return _as_exact(first, "gamma"), _as_exact(second, "gamma_tilde")
    dtype = np.result_type(_working_dtype(first, "gamma"), _working_dtype(second, "gamma_tilde"))
    return _as_float(first, dtype, "gamma"), _as_float(second, dtype, "gamma_tilde")


def read_pair(pair: Sequence[int], d: int) -> tuple[int, int]:
    """Read the 0-based pair (p, q) of distinct positions in 0..d-1.

    Raises TypeError for indices that are not integers, ValueError for any other fault.
    """
    try:
        entries = list(pair)
    except TypeError:
        raise TypeError(f"pair is {pair!r}; give two integers (p, q)") from None
    if len(entries) != 2:
        raise ValueError(f"pair is {pair!r} with {len(entries)} entries; give two integers (p, q)")
    for index in entries:
        if isinstance(index, bool | np.bool_) or not isinstance(index, Integral):
            raise TypeError(f"pair holds {index!r} of type {type(index).__name__}; give two integers (p, q)")
    p, q = (operator.index(index) for index in entries)
    for index in (p, q):
        if not 0 <= index < d:
            raise ValueError(f"pair holds {index}; with d = {d} positions an index lies in 0..{d - 1}")
    if p == q:
        raise ValueError(
            f"pair is ({p}, {q}); the label is a product of two different bits, so choose p != q"
        )
    return p, q


def read_embeddings(embeddings: Any, **queries: Any) -> tuple[FloatArray, ...]:
    """Read embeddings (d, m) with d >= 2, m >= 1, and named query vectors (m,), all in one float dtype.

    Raises TypeError for entries that are not real numbers of a supported dtype, ValueError for wrong shapes and for
    values that are not finite.
    """
    rows, *vectors = read_embeddings_unread(embeddings, **queries)
    require_finite(rows, "embeddings")
    return (rows, *vectors)


def read_embeddings_unread(embeddings: Any, **queries: Any) -> tuple[FloatArray, ...]:
    """The same without looking at the embeddings' entries, for callers that meet them anyway.

    Looking costs as much as a product with a vector; who calls this owes :func:`require_finite` wherever the products
    leave a doubt. Embeddings of the common dtype are not copied, whatever their layout.
    """
    raw = {"embeddings": _numeric_array(embeddings, "embeddings")}
    raw |= {name: _numeric_array(values, name) for name, values in queries.items()}
    dtype = np.result_type(*(_working_dtype(array, name) for name, array in raw.items()))
    shape = raw["embeddings"].shape
    if len(shape) != 2:
        raise ValueError(f"embeddings has shape {shape}; expected (d, m), one row a position")
    if shape[0] < 2 or shape[1] < 1:
        raise ValueError(f"embeddings has shape {shape}; expected (d, m) with d >= 2 and m >= 1")
    for name in queries:
        if raw[name].shape != (shape[1],):
            raise ValueError(
                f"{name} has shape {raw[name].shape}; with embeddings of shape {shape} expected ({shape[1]},)"
            )
    vectors = (_as_float(raw[name], dtype, name) for name in queries)
    return (_converted(raw["embeddings"], dtype, "embeddings"), *vectors)


def all_finite(array: FloatArray) -> bool:
    """Whether no entry is NaN or infinite. A finite sum says so at once; only another sum needs the closer look."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduce(array)
    return math.isfinite(total) or bool(np.isfinite(array).all())


def require_finite(array: FloatArray, name: str) -> None:
    """ValueError that names the first entry that is NaN or infinite; no temporary as large as the array."""
    # Minimum and maximum propagate NaN and need no mask.
    if not array.size or (np.isfinite(array.min()) and np.isfinite(array.max())):
        return
    if not array.ndim:
        raise ValueError(f"{name} is {array}; every entry must be finite")
    step = max(1, 2**20 // max(1, array[0].size))
    for first in range(0, len(array), step):
        bad = np.argwhere(~np.isfinite(array[first : first + step]))
        if len(bad):
            where = (first + int(bad[0][0]), *(int(index) for index in bad[0][1:]))
            place = ", ".join(map(str, where))
            raise ValueError(f"{name}[{place}] is {array[where]}; every entry must be finite")


def read_learning_rate(learning_rate: Any, dtype: np.dtype[Any]) -> Any:
    """Read a finite learning rate >= 0 as a scalar of ``dtype``; TypeError or ValueError otherwise."""
    if isinstance(learning_rate, np.ndarray) and learning_rate.ndim == 0:
        learning_rate = learning_rate[()]
    number = isinstance(learning_rate, int | float | Fraction | np.integer | np.floating)
    if isinstance(learning_rate, bool) or not number:
        raise TypeError(f"learning_rate is {learning_rate!r}; give one real number")
    if isinstance(learning_rate, np.floating):
        # Exact for every type up to float64; comparing a float32 with a float64 bound would cast the bound down.
        learning_rate = float(learning_rate)
    # Comparisons come first: they are exact for any real type, and a NaN fails them all.
    if not 0 <= learning_rate < float("inf"):
        raise ValueError(f"learning_rate is {learning_rate!r}; give a finite number that is not negative")
    if learning_rate > float(np.finfo(dtype).max):
        raise ValueError(
            f"learning_rate is {learning_rate!r}, too large for {dtype}; use float64 or a smaller one"
        )
    return dtype.type(float(learning_rate))


def _read_vector(values: Any, name: str) -> FloatArray | ExactVector:
    if not isinstance(values, np.ndarray) and not hasattr(values, "__array__"):
        try:
            values = list(values)
        except TypeError:
            raise TypeError(f"{name} is {values!r}; give a 1-D array or a list of numbers") from None
        if any(isinstance(value, Fraction) for value in values):
            return _fractions(values, name)
    array = _numeric_array(values, name, allow_fractions=True)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected one weight a position, shape (d,)")
    if array.dtype == object and not _holds_integers(array):
        return _fractions(list(array), name)
    return array


def _numeric_array(values: Any, name: str, *, allow_fractions: bool = False) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of unequal lengths; give a rectangular array") from None
    if array.dtype == object and allow_fractions and any(isinstance(entry, Fraction) for entry in array.flat):
        return array
    _working_dtype(array, name)
    return array


def _holds_integers(array: npt.NDArray[Any]) -> bool:
    """Integer dtypes, and object arrays of Python integers, which is how numpy keeps those beyond 64 bits."""
    if array.dtype == object:
        return all(type(entry) is int for entry in array.flat)
    return bool(np.issubdtype(array.dtype, np.integer))


def _working_dtype(array: npt.NDArray[Any], name: str) -> np.dtype[Any]:
    """The dtype to compute in: float32 and float64 as they are, integers in float64."""
    if array.dtype in _FLOATS:
        return array.dtype
    if _holds_integers(array):
        return np.dtype(np.float64)
    raise TypeError(
        f"{name} has dtype {array.dtype}; give float32, float64 or integers (or Fractions for weights)"
    )


def _as_float(array: npt.NDArray[Any], dtype: np.dtype[Any], name: str) -> FloatArray:
    converted = _converted(array, dtype, name)
    require_finite(converted, name)
    return converted


def _converted(array: npt.NDArray[Any], dtype: np.dtype[Any], name: str) -> FloatArray:
    try:
        return array.astype(dtype, copy=False)
    except OverflowError:
        raise ValueError(
            f"{name} holds an integer too large for float64; scale it or use Fractions"
        ) from None


def _fractions(values: list[Any], name: str) -> ExactVector:
    for index, value in enumerate(values):
        if isinstance(value, bool | np.bool_) or not isinstance(value, Rational):
            raise TypeError(
                f"{name}[{index}] is {value!r} of type {type(value).__name__} beside Fractions; "
                "give only Fractions and integers for an exact result, or only floats"
            )
    return tuple(Fraction(int(value.numerator), int(value.denominator)) for value in values)


def _as_exact(vector: FloatArray | ExactVector, name: str) -> ExactVector:
    if isinstance(vector, tuple):
        return vector
    if not _holds_integers(vector):
        raise TypeError(
            f"{name} holds {vector.dtype} while the other head holds Fractions; "
            "give both heads as Fractions and integers for an exact result, or both as floats"
        )
    return tuple(Fraction(int(value)) for value in vector)
