"""Independent checks of the loss of k heads: enumeration in integers and rationals, autograd, and the even point.

Every oracle walks over the 2^d inputs and shares no formula with ``many_heads``.

The even point. Let every head spread evenly over the hidden positions and put nothing elsewhere. By symmetry the
loss has no slope there along the support, and its curvature with respect to the scores of the support takes three
values: 0 for scores that move together within a head, and those of ``saddle_rates``. Derivation: with X the mean
of the k hidden bits and u, w two weight vectors on the support that sum to zero, differentiate E prod_h (a_h .
x)^2 - 2 perm. Twice in one head: 2 E X^(2k-2) (u.x)(w.x) = 2 alpha u.w. In two heads: 4 alpha u.w from the
square, and -2 c (sum_(i != j) u_i w_j) = +2 c u.w from the permanent. A score moves a weight by 1/k of itself.
For scores alike in all heads the head's own term meets k - 1 cross terms; for scores that sum to zero over the
heads the cross terms come back with weight -1.

Source: our derivation.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from ..checks import inputs
from ..many_heads import product_loss, product_score_gradient, second_moment_terms


def saddle_rates(k: int) -> tuple[Fraction, Fraction]:
    """Curvatures of the loss where all k heads spread evenly over the support and nowhere else: (common,
    separating).

    Scores that move alike in all heads meet the first, scores whose sum over the heads is zero the second. With
    X the mean of the k hidden bits, alpha = E X^(2k-2) (1 - x_1 x_2) and c = (k-2)! / k^(k-2),

        common = (2 alpha + (k - 1)(4 alpha + 2 c)) / k^2 > 0,        separating = -(2 alpha + 2 c) / k^2 < 0:

    for every k >= 2 the even point repels the heads from each other and from nothing else. Exact, by enumeration
    of 2^k bits.
    """
    x = [[int(bit) for bit in row] for row in inputs(k)]
    alpha = sum(Fraction(sum(row), k) ** (2 * k - 2) * (1 - row[0] * row[1]) for row in x) / Fraction(2**k)
    c = Fraction(math.factorial(k - 2), k ** (k - 2))
    return (2 * alpha + (k - 1) * (4 * alpha + 2 * c)) / k**2, -(2 * alpha + 2 * c) / k**2


def saddle_difference(k: int, *, spread: float = 0.0) -> float:
    """Largest difference between ``saddle_rates`` and the eigenvalues of the Hessian of the enumerated loss
    (torch).

    The Hessian with respect to the k x k scores has the eigenvalue 0 (k times), common (k - 1 times) and separating
    ((k - 1)^2 times). ``spread`` moves the first head's first score away from the even point: the control.
    """
    import torch

    x = torch.tensor(inputs(k), dtype=torch.float64)

    def loss(scores: Any) -> Any:
        return (((torch.softmax(scores, dim=1) @ x.T).prod(dim=0) - x.prod(dim=1)) ** 2).mean()

    point = torch.zeros(k, k, dtype=torch.float64)
    point[0, 0] = spread
    curvature = torch.autograd.functional.hessian(loss, point).reshape(k * k, k * k).numpy()
    common, separating = (float(rate) for rate in saddle_rates(k))
    expected = np.sort([0.0] * k + [common] * (k - 1) + [separating] * (k - 1) ** 2)
    return float(np.abs(np.linalg.eigvalsh(curvature) - expected).max())


def loss_mismatches_on_grid(k: int, *, fourth_cumulant: bool = True) -> tuple[int, int]:
    """(grid points of {0, 1, 2}^(k k) at which the closed form of the loss differs from enumeration at d = k, all
    points).

    Both sides have degree at most 2 in each weight, so no mismatch is a proof for d = k; the chapter carries it
    to every d. All numbers are integers below 2^53 (the mean times 2^k), exact in float64. k is 2 or 3: the grid
    has 3^(k k) points. The control, ``fourth_cumulant`` = False, leaves out what Gaussian bits would not have:
    all cumulants above the second.
    """
    if k not in (2, 3):
        raise ValueError(f"k is {k}; the grid is walked for k = 2 and 3 (3^16 points are too many)")
    grid = np.array(list(itertools.product((0.0, 1.0, 2.0), repeat=k * k))).reshape(-1, k, k)
    support = np.arange(k)
    ours = product_loss(grid, support) if fourth_cumulant else gaussian_loss(grid, support)
    return int((2**k * ours != enumerated_sum(grid, support)).sum()), len(grid)


def loss_mismatches_at_random(k: int, d: int, cases: int, seed: int, *, fourth_cumulant: bool = True) -> int:
    """At how many of ``cases`` random points of integers in 0..10^6 the closed form differs from enumeration,
    exactly.

    A polynomial of degree 2k that is not zero vanishes at such a point with probability at most 2k / 10^6.
    """
    rng, wrong = np.random.default_rng([seed, k, d]), 0
    for _ in range(cases):
        drawn = rng.integers(0, 10**6, size=(k, d), endpoint=True)
        heads = np.array([[Fraction(int(w)) for w in head] for head in drawn], dtype=object)
        support = rng.choice(d, k, replace=False)
        ours = product_loss(heads, support) if fourth_cumulant else gaussian_loss(heads, support)
        wrong += bool(2**d * ours != enumerated_sum(heads, support))
    return wrong


def gaussian_loss(heads: Any, support: Any) -> Any:
    """The loss if the bits of E f^2 were independent standard normals: only blocks of two. The control of the loss."""
    weights, k = np.asarray(heads), np.shape(heads)[-2]
    inner = weights @ weights.swapaxes(-1, -2)
    moment: Any = 0
    for blocks, coefficient in second_moment_terms(k):
        if all(sum(n) == 2 for n in blocks):
            pairs = [[h for h in range(k) for _ in range(n[h])] for n in blocks]
            moment = moment + coefficient * math.prod(inner[..., a, b] for a, b in pairs)
    matched = sum(
        math.prod(weights[..., h, support[s]] for h, s in enumerate(matching))
        for matching in itertools.permutations(range(k))
    )
    return 1 + moment - 2 * matched


def enumerated_sum(heads: Any, support: Any) -> Any:
    """The sum of (f(x) - y)^2 over all 2^d inputs, from the definition, in the numbers of ``heads`` (..., k, d)."""
    weights, x = np.asarray(heads), inputs(np.shape(heads)[-1])
    signs = x.astype(object) if weights.dtype == object else x
    errors = (weights @ signs.T).prod(axis=-2) - signs[:, support].prod(axis=-1)
    return (errors**2).sum(axis=-1)


def gradient_difference(k: int, cases: int, seed: int, *, shift: int = 0) -> float:
    """Largest relative difference between ``product_score_gradient`` and autograd of the enumerated loss (torch).

    Each case draws d in k..8 and scores; the difference is relative to the largest entry. ``shift`` = 1 gives the
    kernel the hidden positions moved by one place: the control.
    """
    import torch

    rng, worst = np.random.default_rng([seed, k]), 0.0
    for _ in range(cases):
        d = int(rng.integers(k + 1, 9))
        scores = torch.tensor(rng.normal(size=(k, d)), requires_grad=True)
        support = rng.choice(d, k, replace=False)
        x = torch.tensor(inputs(d), dtype=torch.float64)
        weights = torch.softmax(scores, dim=1)
        loss = (((weights @ x.T).prod(dim=0) - x[:, support].prod(dim=1)) ** 2).mean()
        (slope,) = torch.autograd.grad(loss, [scores])
        ours = product_score_gradient(weights.detach().numpy(), (support + shift) % d)
        worst = max(worst, float(np.abs(ours - slope.numpy()).max() / slope.abs().max()))
    return worst
