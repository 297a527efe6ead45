"""The kinds of attention that part 1 compares: how scores become weights, and how a gradient goes back through.

With scores s = V theta the weights of a head are

    softmax   gamma_i = exp(s_i) / sum_j exp(s_j)      (the paper's model)
    linear    gamma_i = s_i                            (unnormalised)
    erf       gamma_i = erf(s_i)                       (unnormalised; our reading: the paper's definition is not known)

Linear and erf are odd functions of the score, softmax is not: that difference decides the comparison.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._validation import FloatArray

ATTENTION_KINDS = ("softmax", "linear", "erf")


def read_attention(attention: Any) -> str:
    """The kind's name; ValueError (TypeError if it is no string) for anything but "softmax", "linear" or "erf"."""
    if not isinstance(attention, str):
        raise TypeError(f"attention is {attention!r}; give one of the strings {', '.join(ATTENTION_KINDS)}")
    if attention not in ATTENTION_KINDS:
        raise ValueError(f"attention is {attention!r}; choose one of {', '.join(ATTENTION_KINDS)}")
    return attention


def weights_of_scores(scores: FloatArray, attention: str = "softmax") -> FloatArray:
    """Attention weights of finite ``scores``, shape (..., d), over the last axis; dtype kept.

    Raises ValueError for an unknown kind.
    """
    kind = read_attention(attention)
    if kind == "linear":
        return np.array(scores)
    if kind == "erf":
        return _erf(scores)
    with np.errstate(over="ignore"):  # a difference of -inf has the right exponential, 0
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def score_gradient_of(
    scores: FloatArray, weights: FloatArray, weight_gradient: FloatArray, attention: str = "softmax"
) -> FloatArray:
    """dL/ds from dL/dgamma, shape (..., d); ``weights`` are those of ``scores``.

    softmax: gamma * (g - gamma.g); linear: g; erf: g * (2/sqrt(pi)) exp(-s^2). Raises ValueError for an unknown kind.
    """
    kind = read_attention(attention)
    if kind == "linear":
        return np.array(weight_gradient)
    if kind == "erf":
        slope = np.exp(-(scores**2)) * scores.dtype.type(2 / math.sqrt(math.pi))
        return weight_gradient * slope
    # A common shift of g changes nothing, as the weights sum to 1. Taking out the entry of the largest weight keeps
    # the digits of a head that is almost one-hot.
    top = np.argmax(np.broadcast_to(weights, weight_gradient.shape), axis=-1)[..., np.newaxis]
    g = weight_gradient - np.take_along_axis(weight_gradient, top, axis=-1)
    return weights * (g - (weights * g).sum(axis=-1, keepdims=True))


def _erf(scores: FloatArray) -> FloatArray:
    """erf, entry by entry: numpy has none, and torch is brought in only by those who ask for it."""
    import torch

    result: FloatArray = torch.special.erf(torch.from_numpy(np.ascontiguousarray(scores))).numpy()
    return result
