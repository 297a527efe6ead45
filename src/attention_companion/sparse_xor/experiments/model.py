"""Is the simplified model a standard attention layer, and what does training that layer's matrices do?

Every number here compares ``transformer`` (torch, automatic differentiation of the mean over all 2^d inputs) with
the kernels of the package (closed forms in numpy); the two share no formula.

A step on both W_Q and W_K. Write q = sqrt(m) theta for a head's query and K for its block of W_K, K = I at the
start. The scores are V K^T q / sqrt(m), so the head attends with the effective query u = K^T q / sqrt(m). With g
= dL/dtheta at the start,

    dL/dq = g / sqrt(m),        dL/dK = theta g^T.

Rate r on both: q' = sqrt(m) (theta - (r/m) g) and K' = I - r theta g^T, hence

    u' = (I - r g theta^T)(theta - (r/m) g) = theta - [r/m + r |theta|^2 - (r^2/m) theta.g] g.                 (1)

The first step moves the effective query along g whatever is trained; training the keys changes only its length,
and for large r its sign where theta.g > 0.

Source: our derivation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..attention import attention_weights
from ..checks import inputs
from ..gradient import population_gradient
from ..starts import sphere
from ..step import SPECIALISED_AT, one_step
from ..transformer import transformer

Pair = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """Embeddings (d, m), two queries (m,) on the unit sphere, and the hidden pair."""

    embeddings: np.ndarray
    theta: np.ndarray
    theta_tilde: np.ndarray
    pair: Pair


def draw_case(d: int, m: int, seed: Sequence[int], *, mirrored: bool = True) -> Case:
    """One start; start ``seed`` draws embeddings, query and pair in the order of ``checks.step_outcomes``.

    ``mirrored`` = False draws the second query independently of the first.
    """
    rng = np.random.default_rng(list(seed))
    embeddings, theta = sphere(rng, d, m), sphere(rng, m)
    p, q = (int(i) for i in rng.choice(d, 2, replace=False))
    return Case(embeddings, theta, -theta if mirrored else sphere(rng, m), (p, q))


@dataclass(frozen=True)
class Differences:
    """Largest absolute differences between the torch module and the kernels, over the cases tried."""

    outputs: float
    gradients: float
    cases: int


def differences(
    shapes: Sequence[tuple[int, int]], cases: int, seed: int, *, masked: bool = True
) -> Differences:
    """Compare outputs on all 2^d inputs, and gradients, for ``cases`` starts of each shape (d, m).

    The second query is independent of the first, so that the heads cannot be confused. The gradient of column 0
    of W_Q is multiplied by sqrt(m), which is the conversion. ``masked`` = False leaves the key of the CLS token
    unmasked: the control.
    """
    import torch

    outputs = gradients = 0.0
    for (d, m), case in _cases(shapes, cases, seed):
        module = transformer(case.embeddings, case.theta, case.theta_tilde)
        module.hidden[0] = masked
        x = inputs(d)
        first, second = (
            x @ attention_weights(case.embeddings, query) for query in (case.theta, case.theta_tilde)
        )
        outputs = max(outputs, float(np.abs(module(x).detach().numpy() + first * second).max()))
        (slope,) = torch.autograd.grad(enumerated_loss(module, case.pair), [module.attention.q_proj_weight])
        converted = m**0.5 * slope[:, 0].numpy()
        ours = np.concatenate(population_gradient(case.embeddings, case.theta, case.theta_tilde, case.pair))
        gradients = max(gradients, float(np.abs(converted - ours).max()))
    return Differences(outputs, gradients, cases * len(shapes))


def step_difference(
    shapes: Sequence[tuple[int, int]], cases: int, rate_factor: float, seed: int, *, converted: bool = True
) -> float:
    """Largest difference between the queries after one SGD step on W_Q and after ``one_step``, relative to their
    largest entry.

    The queries' learning rate is ``rate_factor`` sqrt(m) d^2, that of W_Q is m times larger; ``converted`` =
    False (the control) uses the queries' rate for W_Q too.
    """
    import torch

    worst = 0.0
    for (d, m), case in _cases(shapes, cases, seed, mirrored=True):
        rate = rate_factor * m**0.5 * d**2
        module = transformer(case.embeddings, case.theta, case.theta_tilde)
        optimiser = torch.optim.SGD([module.attention.q_proj_weight], lr=m * rate if converted else rate)
        enumerated_loss(module, case.pair).backward()
        optimiser.step()
        moved = torch.cat(module.queries()).detach().numpy()
        step = one_step(case.embeddings, case.theta, case.pair, rate)
        ours = np.concatenate([step.theta, step.theta_tilde])
        worst = max(worst, float(np.abs(moved - ours).max() / np.abs(ours).max()))
    return worst


def gradient_norms(d: int, m: int, starts: int, seed: int) -> dict[str, float]:
    """Mean Euclidean length of the loss gradient by matrix, over anti-symmetric starts.

    Keys: "W_Q column 0", "W_Q elsewhere", "W_K", "W_V", "W_O".
    """
    import torch

    names = ("W_Q column 0", "W_Q elsewhere", "W_K", "W_V", "W_O")
    totals = dict.fromkeys(names, 0.0)
    for _, case in _cases([(d, m)], starts, seed, mirrored=True):
        module = transformer(case.embeddings, case.theta, case.theta_tilde)
        layer = module.attention
        matrices = [layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight, layer.out_proj.weight]
        slope, *others = torch.autograd.grad(enumerated_loss(module, case.pair), matrices)
        parts = (slope[:, 0], slope[:, 1:], *others)
        for name, part in zip(names, parts, strict=True):
            totals[name] += float(part.norm()) / starts
    return totals


def effective_step(
    theta: np.ndarray, gradient: np.ndarray, rate: float, *, keys: bool = True, crossed: bool = True
) -> np.ndarray:
    """The effective query after one step with rate ``rate`` on W_Q and, if ``keys``, on W_K: equation (1), shape
    (m,).

    ``crossed`` = False drops the term of second order in the rate.
    """
    length = rate / len(theta)
    if keys:
        length = length + rate * (theta @ theta) - crossed * rate * length * (theta @ gradient)
    return theta - length * gradient


def key_step_difference(
    shapes: Sequence[tuple[int, int]], cases: int, rate_factor: float, seed: int, *, crossed: bool = True
) -> float:
    """Largest difference between equation (1) and the effective query after an SGD step on W_Q and W_K, relative
    to its largest entry. The rate of both matrices is ``rate_factor`` sqrt(m) d^2; ``crossed`` = False is the
    control.
    """
    import torch

    worst = 0.0
    for (d, m), case in _cases(shapes, cases, seed):
        rate = rate_factor * m**0.5 * d**2
        module = transformer(case.embeddings, case.theta, case.theta_tilde)
        layer = module.attention
        enumerated_loss(module, case.pair).backward()
        torch.optim.SGD([layer.q_proj_weight, layer.k_proj_weight], lr=rate).step()
        queries = torch.stack(module.queries())
        effective = torch.einsum("hij,hi->hj", layer.k_proj_weight.reshape(2, m, m), queries).detach().numpy()
        slopes = population_gradient(case.embeddings, case.theta, case.theta_tilde, case.pair)
        ours = np.stack(
            [
                effective_step(query, slope, rate, crossed=crossed)
                for query, slope in zip((case.theta, case.theta_tilde), slopes, strict=True)
            ]
        )
        worst = max(worst, float(np.abs(effective - ours).max() / np.abs(ours).max()))
    return worst


def specialised_after_step(
    d: int, m: int, starts: int, rate_factors: Sequence[float], seed: int
) -> dict[str, np.ndarray]:
    """In how many of ``starts`` one step specialises, by what is trained and by the rate on the weight matrices.

    Rates are ``rate_factors`` times m sqrt(m) d^2 (on the queries, ``rate_factors`` sqrt(m) d^2). Returns integer
    arrays of the shape of ``rate_factors`` under "W_Q" and "W_Q and W_K". Uses equation (1), so d may be large.
    """
    counts = {trained: np.zeros(len(rate_factors), dtype=int) for trained in ("W_Q", "W_Q and W_K")}
    for k in range(starts):
        case = draw_case(d, m, [seed, d, m, k])
        p, q = case.pair
        slopes = population_gradient(case.embeddings, case.theta, case.theta_tilde, case.pair)
        for (trained, hits), (j, factor) in ((c, f) for c in counts.items() for f in enumerate(rate_factors)):
            rate = factor * m**1.5 * d**2
            first, second = (
                attention_weights(case.embeddings, effective_step(query, slope, rate, keys="W_K" in trained))
                for query, slope in zip((case.theta, case.theta_tilde), slopes, strict=True)
            )
            hits[j] += max(min(first[p], second[q]), min(first[q], second[p])) >= SPECIALISED_AT
    return counts


def enumerated_loss(module: Any, pair: Pair) -> Any:
    """The mean of (f(x) - y)^2 over all 2^d inputs, a torch scalar that carries a gradient."""
    d = len(module.positions) - 1
    x = inputs(d)
    labels = module.positions.new_tensor(-x[:, pair[0]] * x[:, pair[1]])
    return ((module(x) - labels) ** 2).mean()


def _cases(
    shapes: Sequence[tuple[int, int]], cases: int, seed: int, *, mirrored: bool = False
) -> Iterator[tuple[tuple[int, int], Case]]:
    if cases < 1 or not shapes:
        raise ValueError(f"cases is {cases} and shapes is {shapes!r}; give at least one of each")
    for d, m in shapes:
        for k in range(cases):
            yield (d, m), draw_case(d, m, [seed, d, m, k], mirrored=mirrored)
