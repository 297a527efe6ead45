"""A trained layer through the compiled simulator: what it answers, how far that is from a reference, what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ..build import Encoder, build
from ..real_layer import Array, Merged, Projections
from ..target import attention

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Ran:
    """One run: the encoder with its sizes, its answer, and seconds to build, to plan and to run."""

    encoder: Encoder
    answer: Array
    build_seconds: float
    plan_seconds: float
    run_seconds: float

    @property
    def cells(self) -> int:
        """Cells (channel, token) that the run stores; the dense state has length x width."""
        return self.encoder.plan.cells


def encoder_for(layer: Merged, layout: str) -> Encoder:
    """The encoder of that layer's shape."""
    a, v = layer.heads[0]
    columns = None if layer.output is None else layer.output.shape[1]
    return build(len(layer.x), len(a), v.shape[1], heads=len(layer.heads), layout=layout, output_dim=columns)


def simulate(layer: Merged, layout: str) -> Ran:
    """U(<T, X>) by an encoder built for this layer, with what it took."""
    encoder, build_seconds = _timed(lambda: encoder_for(layer, layout))
    _, plan_seconds = _timed(lambda: encoder.plan)
    answer, run_seconds = _timed(lambda: encoder.run(layer.x, layer.heads, layer.output))
    return Ran(encoder, answer, build_seconds, plan_seconds, run_seconds)


def heads_one_by_one(encoder: Encoder, layer: Merged) -> Array:
    """The joined heads (n, h d_v), each run through the same encoder of one head."""
    return np.concatenate([encoder.run(layer.x, [head]) for head in layer.heads], axis=1)


def error_by_head(answer: Array, reference: Array, heads: int) -> list[float]:
    """The largest absolute difference in the columns of each head."""
    return [float(part.max()) for part in np.split(np.abs(answer - reference), heads, axis=1)]


def cut(layer: Projections, coordinates: int, columns: int) -> Projections:
    """A toy layer from a corner of a real one: its first coordinates, and the first columns of W_Q, W_K, W_V."""
    q, k, v = (m[:coordinates, :columns] for m in (layer.query, layer.key, layer.value))
    biases = (
        None if b is None else b[:columns] for b in (layer.query_bias, layer.key_bias, layer.value_bias)
    )
    return Projections(q, k, v, None, *biases)


def direct(x: Array, layer: Projections) -> Array:
    """softmax((x W_Q + b_Q)(x W_K + b_K)^T / sqrt(d_k)) (x W_V + b_V) of one head, with nothing moved anywhere."""
    q, k, v = (
        x @ weight + (0 if bias is None else bias)
        for weight, bias in (
            (layer.query, layer.query_bias),
            (layer.key, layer.key_bias),
            (layer.value, layer.value_bias),
        )
    )
    scores = q @ k.T / np.sqrt(q.shape[1])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers @ v / powers.sum(axis=1, keepdims=True))


def target_error(layer: Merged, reference: Array) -> float:
    """How far the target T(X) itself, not its simulation, is from a reference."""
    return float(np.abs(attention(layer.x, layer.heads, layer.output) - reference).max())


def attention_weights(layer: Merged, head: int) -> Array:
    """softmax(X A X^T) of one head, (n, n); rows are queries."""
    a, _ = layer.heads[head]
    scores = layer.x @ a @ layer.x.T
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _timed(action: Callable[[], R]) -> tuple[R, float]:
    start = time.perf_counter()
    result = action()
    return result, time.perf_counter() - start
