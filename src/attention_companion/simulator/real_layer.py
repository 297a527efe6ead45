"""From the weights of a trained attention layer to the target's form: pairs (A, V), an output matrix and X.

A trained layer has biases and a scale, the target softmax(X A X^T) X V has neither. Both fit in without approximation:

    x -> (x, 1)                          a constant coordinate carries the biases,
    A  = W'_Q W'_K^T / sqrt(d_k)         with W' = W and below it b, so (x, 1) W' = x W + b; the scale goes into A,
    V  = W'_V,
    V -> (V, e)                          if there is an output bias: e picks the constant coordinate; the weights of a
                                         row sum to 1, so the head's answer has a 1 there; W_O gets the bias as a row.

Arrays in, arrays out; float64 throughout (a float32 weight is a float64 exactly).

Source: ours. The released weights' own conventions are named at each function.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
#: Names of a layer's four projections in the usual libraries, as (query, key, value, output).
FAMILIES = (
    ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"),
    ("query", "key", "value", "output.dense"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("q_proj", "k_proj", "v_proj", "out_proj"),
    ("q_lin", "k_lin", "v_lin", "out_lin"),
)


class LayerError(ValueError):
    """The arrays are not an attention layer; the message says which is wrong, what was expected and how to mend it."""


@dataclass(frozen=True, eq=False)
class Projections:
    """x -> x W + b, four times. W_Q, W_K, W_V have shape (d, heads * d_k or d_v), W_O (heads * d_v, out) or None."""

    query: Array
    key: Array
    value: Array
    output: Array | None = None
    query_bias: Array | None = None
    key_bias: Array | None = None
    value_bias: Array | None = None
    output_bias: Array | None = None


@dataclass(frozen=True, eq=False)
class Merged:
    """A layer as :func:`.attention` and ``Encoder.run`` take it."""

    x: Array
    heads: list[tuple[Array, Array]]
    output: Array | None


def merge(
    x: Any,
    layer: Projections,
    heads: int,
    *,
    only: Sequence[int] | None = None,
    scale: float | None = None,
    constant: bool = True,
) -> Merged:
    """The layer's (A, V), output matrix and X, with biases and scale moved inside.

    Parameters
    ----------
    x
        Shape (n, d).
    heads
        Their number h; head a owns the columns a d_k .. (a + 1) d_k - 1 of W_Q and W_K, and likewise of W_V.
    only
        These heads (from 0, in this order), without the output matrix; None for all, with it.
    scale
        What scores are multiplied by; None for 1/sqrt(d_k).
    constant
        False leaves the biases out (a control: the result is then another layer's).

    Raises LayerError for shapes that do not fit together, entries that are not finite, unknown heads.
    """
    rows = matrix(x, "X")
    if heads < 1:
        raise LayerError(f"heads is {heads}; give a whole number of at least 1")
    d = rows.shape[1]
    for name, weight in (("W_Q", layer.query), ("W_K", layer.key), ("W_V", layer.value)):
        if weight.shape[0] != d:
            raise LayerError(f"{name} takes vectors of {weight.shape[0]} numbers; X has rows of {d}")
        if weight.shape[1] % heads:
            raise LayerError(f"{name} has {weight.shape[1]} columns, no multiple of {heads} heads; give their number")
    if layer.query.shape != layer.key.shape:
        raise LayerError(
            f"W_Q has {layer.query.shape[1]} columns and W_K has {layer.key.shape[1]}; both need {heads} x d_k "
            "(layers that share keys among heads have to be written out first)"
        )
    if layer.output is not None and layer.output.shape[0] != layer.value.shape[1]:
        raise LayerError(
            f"W_O has {layer.output.shape[0]} rows; the joined heads have {layer.value.shape[1]} columns"
        )
    if layer.output_bias is not None and layer.output is None:
        raise LayerError("there is an output bias but no output matrix; give both or neither")
    chosen = range(heads) if only is None else only
    if wrong := [a for a in chosen if not 0 <= a < heads]:
        raise LayerError(f"there is no head {wrong[0]}; the layer has heads 0 to {heads - 1}")
    biases = (layer.query_bias, layer.key_bias, layer.value_bias)
    output = layer.output if only is None else None
    output_bias = layer.output_bias if only is None and constant else None
    extended = constant and (any(bias is not None for bias in biases) or output_bias is not None)

    def with_bias(weight: Array, bias: Array | None) -> Array:
        if not extended:
            return weight
        return np.vstack([weight, np.zeros(weight.shape[1]) if bias is None else bias])

    if extended:
        rows = np.hstack([rows, np.ones((len(rows), 1))])
    q, k, v = (
        np.split(with_bias(weight, bias), heads, axis=1)
        for weight, bias in zip((layer.query, layer.key, layer.value), biases, strict=True)
    )
    factor = 1 / np.sqrt(q[0].shape[1]) if scale is None else scale
    if output_bias is not None:
        assert output is not None
        one = np.zeros((d + 1, 1))
        one[d] = 1
        v = [np.hstack([part, one]) for part in v]
        blocks = np.split(output, heads, axis=0)
        zero = np.zeros_like(output_bias)
        output = np.vstack([np.vstack([b, zero if a else output_bias]) for a, b in enumerate(blocks)])
    return Merged(rows, [(factor * (q[a] @ k[a].T), v[a]) for a in chosen], output)


def matrix(values: Any, name: str) -> Array:
    """A float64 matrix, finite and not empty; LayerError otherwise."""
    array = _numbers(values, name)
    if array.ndim != 2 or not array.size:
        raise LayerError(f"{name} has shape {array.shape}; expected two dimensions, none of them 0")
    return array


def vector(values: Any, name: str, size: int) -> Array:
    """A float64 vector of that size, finite; LayerError otherwise."""
    array = _numbers(values, name)
    if array.shape != (size,):
        raise LayerError(f"{name} has shape {array.shape}; its weight asks for ({size},)")
    return array


def _numbers(values: Any, name: str) -> Array:
    try:
        raw = np.asarray(values)
    except ValueError as error:
        raise LayerError(f"{name} is no rectangular array of numbers ({error})") from error
    if raw.dtype.kind not in "fiu":
        raise LayerError(f"{name} holds {raw.dtype} entries; expected real numbers (ragged rows become objects)")
    array = raw.astype(np.float64)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise LayerError(f"{name} holds {array[where]} at {where}; every entry must be finite")
    return array


def projections(tensors: Mapping[str, Any], prefix: str = "") -> Projections:
    """The projections among named tensors.

    Two spellings: ``W_Q``, ``W_K``, ``W_V``, ``W_O`` with ``b_Q`` ... mean x W + b; what PyTorch modules store
    (``query.weight``, ``q_proj.weight``, ``in_proj_weight``, ...) means x W^T + b and is transposed here. ``prefix``
    (such as ``encoder.layer.0.``) stands before each name.

    Raises LayerError where none or several layers are found, or one is incomplete.
    """
    if prefix:
        if not any(name.startswith(prefix) for name in tensors):
            raise LayerError(f"no tensor begins with {prefix!r}; there are {_some(tensors)}")
        tensors = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    if any(f"W_{letter}" in tensors for letter in "QKV"):
        return _read(tensors, [f"W_{x}" for x in "QKVO"], [f"b_{x}" for x in "QKVO"], transposed=False)
    if "in_proj_weight" in tensors:
        return _packed(tensors)
    families = [family for family in FAMILIES if f"{family[0]}.weight" in tensors]
    if families:
        # Some families differ only in the name of the output matrix: the one that is there decides.
        family = next((f for f in families if f"{f[3]}.weight" in tensors), families[0])
        weights, biases = ([f"{name}.{part}" for name in family] for part in ("weight", "bias"))
        return _read(tensors, weights, biases, transposed=True)
    inside = {m.group(1) for name in tensors if (m := re.match(r"(.*?)(attention\.self\.query|q_proj|in_proj)", name))}
    hint = f"; layers lie under the prefixes {', '.join(sorted(inside)[:4])}" if inside else ""
    raise LayerError(
        f"no attention layer among {_some(tensors)}: expected A and V, or W_Q, W_K, W_V, or query.weight and so on"
        f"{hint}"
    )


def _read(tensors: Mapping[str, Any], weights: list[str], biases: list[str], transposed: bool) -> Projections:
    if absent := [name for name in weights[:3] if name not in tensors]:
        raise LayerError(
            f"{', '.join(absent)} missing; a layer needs {', '.join(weights[:3])}; there are {_some(tensors)}"
        )
    w = [matrix(tensors[name], name) if name in tensors else None for name in weights]
    if transposed:
        w = [None if m is None else m.T for m in w]
    b = [
        vector(tensors[name], name, m.shape[1]) if name in tensors and m is not None else None
        for name, m in zip(biases, w, strict=True)
    ]
    if biases[3] in tensors and w[3] is None:
        raise LayerError(f"{biases[3]} is there but {weights[3]} is not; give both or neither")
    query, key, value = (m for m in w[:3] if m is not None)
    return Projections(query, key, value, w[3], *b)


def _packed(tensors: Mapping[str, Any]) -> Projections:
    """``torch.nn.MultiheadAttention``: query, key and value one below the other."""
    packed = matrix(tensors["in_proj_weight"], "in_proj_weight")
    if packed.shape[0] % 3:
        raise LayerError(f"in_proj_weight has {packed.shape[0]} rows; expected three blocks of equal size")
    names = ("q_proj", "k_proj", "v_proj")
    split = {f"{n}.weight": part for n, part in zip(names, np.split(packed, 3), strict=True)}
    if "in_proj_bias" in tensors:
        bias = vector(tensors["in_proj_bias"], "in_proj_bias", packed.shape[0])
        split |= {f"{n}.bias": part for n, part in zip(names, np.split(bias, 3), strict=True)}
    split |= {name: tensors[name] for name in ("out_proj.weight", "out_proj.bias") if name in tensors}
    weights, biases = ([f"{n}.{part}" for n in (*names, "out_proj")] for part in ("weight", "bias"))
    return _read(split, weights, biases, transposed=True)


def _some(tensors: Mapping[str, Any]) -> str:
    names = sorted(tensors)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more if names else "no arrays at all"
