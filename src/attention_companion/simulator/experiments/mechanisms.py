"""Forms of attention beside the plain one: is each a layer that U simulates, and one that is none.

Each check takes a mechanism as libraries write it, turns it into matrices (A, V), hands those to the encoder and
compares with the mechanism itself, computed apart in float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..build import build

Array = npt.NDArray[np.float64]


def softmax(scores: Array) -> Array:
    """Along the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def plain(n: int, d: int, d_v: int, heads: int, output_dim: int | None, layout: str, seed: int) -> float:
    """Largest difference between U and softmax(X A X^T) X V, heads side by side, times W_O if there is one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    pairs = [(rng.normal(size=(d, d)) / d, rng.normal(size=(d, d_v))) for _ in range(heads)]
    output = None if output_dim is None else rng.normal(size=(heads * d_v, output_dim))
    wanted = np.concatenate([softmax(x @ a @ x.T) @ x @ v for a, v in pairs], axis=1)
    wanted = wanted if output is None else wanted @ output
    return _gap(build(n, d, d_v, heads, layout, output_dim).run(x, pairs, output), wanted)


def with_biases(n: int, d: int, d_k: int, layout: str, seed: int) -> float:
    """Largest difference for a layer with W_Q, W_K, W_V, their biases and scores divided by sqrt(d_k).

    With x' = (x, 1) and W' = (W; b), q.k / sqrt(d_k) = x' (W'_Q W'_K^T / sqrt(d_k)) x'^T and the values are x' W'_V.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    wq, wk, wv = (rng.normal(size=(d, d_k)) for _ in range(3))
    bq, bk, bv = (rng.normal(size=d_k) for _ in range(3))
    wanted = softmax((x @ wq + bq) @ (x @ wk + bk).T / d_k**0.5) @ (x @ wv + bv)
    extended = np.column_stack([x, np.ones(n)])
    a = np.vstack([wq, bq]) @ np.vstack([wk, bk]).T / d_k**0.5
    return _gap(build(n, d + 1, d_k, layout=layout).run(extended, [(a, np.vstack([wv, bv]))]), wanted)


def hardest_only(n: int, d: int, layout: str, seed: int) -> float:
    """The control: attention to the token of the largest score alone, a selection that depends on the data."""
    rng = np.random.default_rng(seed)
    x, a, v = rng.normal(size=(n, d)), rng.normal(size=(d, d)), rng.normal(size=(d, d))
    return _gap(build(n, d, d, layout=layout).run(x, [(a, v)]), (x @ v)[(x @ a @ x.T).argmax(axis=1)])


def causal(n: int, d: int, layout: str, seed: int) -> float:
    """A causal mask: token i attends to tokens up to i. No A of the plain form says so."""
    rng = np.random.default_rng(seed)
    x, a, v = rng.normal(size=(n, d)), rng.normal(size=(d, d)) / d, rng.normal(size=(d, d))
    scores = np.where(np.tri(n, dtype=bool), x @ a @ x.T, -np.inf)
    return _gap(build(n, d, d, layout=layout).run(x, [(a, v)]), softmax(scores) @ x @ v)


def _gap(ours: Array, wanted: Array) -> float:
    return float(np.abs(ours - wanted).max() / max(1.0, np.abs(wanted).max()))
