"""Where one step stops: counted over random starts.

Two kinds of counts. *Preferences* ask only which of the two targets each head's score grows for more; they test the
laws of ``limits_laws`` at any width, because positions outside the pair cannot disturb them. *Successes* ask for 0.99
of the weight, as the book's verdicts do, start by start, so that two recipes can be compared on the same seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attention_companion.sparse_xor._validation import FloatArray
from attention_companion.sparse_xor.batch import classify, step_batch
from attention_companion.sparse_xor.starts import CHUNK_BYTES, Starts, chunks_of_starts, sphere

BoolArray = npt.NDArray[np.bool_]
ROWS = ("sphere", "balanced", "normal")
SECONDS = ("mirrored", "independent", "equal")


@dataclass(frozen=True)
class Preferences:
    """``same`` of ``starts`` random starts ended with both heads' scores grown more at the same target."""

    starts: int
    same: int


def same_preference(
    embeddings: Any, theta: Any, theta_tilde: Any, pairs: Any, kappa: float | None = None
) -> BoolArray:
    """Whether a very large step moves both heads towards the same target of the pair, shape (B,).

    ``embeddings`` (B, d, m), queries (B, m), ``pairs`` (B, 2). With ``kappa`` a step of rate kappa d^2 is taken first.
    The preference of a head is (v_p - v_q) . (minus its gradient). Errors as for ``step_batch``.
    """
    rows, pairs = np.asarray(embeddings), np.asarray(pairs)
    if kappa is not None:
        first = step_batch(rows, theta, pairs, kappa * rows.shape[-2] ** 2, theta_tilde=theta_tilde)
        theta, theta_tilde = first.theta, first.theta_tilde
    heads = step_batch(rows, theta, pairs, np.inf, theta_tilde=theta_tilde)
    index = np.arange(len(rows))
    between = rows[index, pairs[:, 0]] - rows[index, pairs[:, 1]]
    return np.asarray((between * heads.theta).sum(axis=1) * (between * heads.theta_tilde).sum(axis=1) > 0)


def count_preferences(
    d: int,
    m: int,
    starts: int,
    seed: int,
    *,
    rows: str = "sphere",
    second: str = "mirrored",
    kappa: float | None = None,
) -> Preferences:
    """Count ``same_preference`` over random starts with the pair (0, 1).

    Chunk c is drawn by ``default_rng([seed, d, m, c])``, many starts at once for speed: these are not the starts of
    ``draw_starts``. ``rows``: "sphere", "balanced" (centred and scaled back to unit length) or "normal" (coordinates of
    variance 1/m, lengths not one). ``second`` as there.

    Raises ValueError for unknown names, d < 3 (no third position), m < 1 or starts < 1.
    """
    for name, value, allowed in (("rows", rows, ROWS), ("second", second, SECONDS)):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")
    if d < 3 or m < 1 or starts < 1:
        raise ValueError(f"d = {d}, m = {m}, starts = {starts}; need d >= 3, m >= 1 and at least one start")
    size = max(1, CHUNK_BYTES // (8 * d * m))
    same = 0
    for chunk, first in enumerate(range(0, starts, size)):
        rng = np.random.default_rng([seed, d, m, chunk])
        # The whole chunk is drawn even when fewer starts are wanted, so that more starts extend fewer.
        embeddings = rng.standard_normal((size, d, m))
        if rows == "normal":
            embeddings /= np.sqrt(m)
        else:
            embeddings /= _lengths(embeddings)
        if rows == "balanced":
            embeddings -= embeddings.mean(axis=1, keepdims=True)
            embeddings /= _lengths(embeddings)
        theta, other = sphere(rng, size, m), sphere(rng, size, m)
        theta_tilde = {"mirrored": -theta, "independent": other, "equal": theta}[second]
        wanted = slice(0, min(size, starts - first))
        pairs = np.broadcast_to(np.array([0, 1]), (size, 2))[wanted]
        same += int(
            same_preference(embeddings[wanted], theta[wanted], theta_tilde[wanted], pairs, kappa).sum()
        )
    return Preferences(starts, same)


@dataclass(frozen=True, eq=False)
class ByStart:
    """One boolean a start (axis 0) and, where several rates were tried, a rate (axis 1); see ``batch.Outcomes``."""

    specialised: BoolArray
    collapsed: BoolArray
    distracted: BoolArray


def outcomes_by_start(
    d: int,
    m: int,
    starts: int,
    seed: int,
    *,
    kappas: Sequence[float] | float = np.inf,
    steps: int = 1,
    second: str = "mirrored",
    embeddings: str = "sphere",
    unit_steps: bool = False,
) -> ByStart:
    """Take ``steps`` population steps with eta = kappa d^2 from starts 0..starts-1 of ``draw_starts``.

    Parameters
    ----------
    kappas
        One rate or a list of them, each tried on every start; ``np.inf`` for the limit (one step only).
    second
        As for ``draw_starts``.
    embeddings
        As for ``draw_starts``, or "centred": the sphere's, minus their mean, not scaled back.
    unit_steps
        True divides each start's rate by d^2 times the length of the first head's gradient: kappa is then the length of
        its step. A control; the common way to clip gradients. One step only.

    Raises ValueError for steps < 1, or an infinite rate or unit steps with more than one step; other errors as there.
    """
    rates = np.atleast_1d(np.asarray(kappas, dtype=np.float64)) * d**2
    if steps < 1 or (steps > 1 and (unit_steps or np.isinf(rates).any())):
        raise ValueError(f"steps is {steps}; infinite rates and unit steps take exactly 1, others at least 1")
    found: list[list[BoolArray]] = [[], [], []]
    for drawn in _arranged(d, m, starts, seed, second, embeddings):
        rows, pairs = drawn.embeddings[:, np.newaxis], drawn.pairs[:, np.newaxis]
        theta, theta_tilde = drawn.theta[:, np.newaxis], drawn.theta_tilde[:, np.newaxis]
        own = np.broadcast_to(rates, (len(theta), rates.size))
        if unit_steps:
            direction = step_batch(rows, theta, pairs, np.inf, theta_tilde=theta_tilde).theta
            own = own / d**2 / np.linalg.norm(direction, axis=-1)
        heads = step_batch(rows, theta, pairs, own, theta_tilde=theta_tilde)
        for _ in range(steps - 1):
            heads = step_batch(rows, heads.theta, pairs, own, theta_tilde=heads.theta_tilde)
        seen = classify(heads.gamma, heads.gamma_tilde, pairs)
        for part, values in zip(found, (seen.specialised, seen.collapsed, seen.distracted), strict=True):
            part.append(values)
    joined = [np.concatenate(part) for part in found]
    return ByStart(*(part[:, 0] if np.ndim(kappas) == 0 else part for part in joined))


def centring_difference(
    d: int, m: int, starts: int, seed: int, *, kappa: float, steps: int, rescaled: bool
) -> float:
    """Largest difference of an attention weight between plain and centred embeddings, after ``steps`` steps.

    ``rescaled`` scales the centred embeddings back to unit length (the control). Rate kappa d^2; same starts.
    """
    worst = 0.0
    for plain, moved in zip(
        chunks_of_starts(d, m, starts, seed),
        _arranged(d, m, starts, seed, "mirrored", "balanced" if rescaled else "centred"),
        strict=True,
    ):
        one, other = (_train(drawn, kappa * d**2, steps) for drawn in (plain, moved))
        worst = max(worst, *(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True)))
    return worst


def rate_reached(successes: BoolArray, kappas: Sequence[float], share_of_ceiling: float = 0.95) -> float:
    """The kappa at which the success share first reaches ``share_of_ceiling`` times the last column's share.

    ``successes`` has shape (starts, R + 1): one column for each of the R increasing rates ``kappas``, then the limit of
    large rates. Linear interpolation of the share in log kappa. Raises ValueError when the grid does not bracket it.
    """
    shares = np.asarray(successes).mean(axis=0)
    wanted = share_of_ceiling * shares[-1]
    above = np.flatnonzero(shares[:-1] >= wanted)
    if len(shares) != len(kappas) + 1 or not above.size or above[0] == 0:
        raise ValueError(
            f"shares {np.round(shares, 3).tolist()} at kappa = {list(kappas)} and in the limit do not bracket "
            f"{wanted:.3f}; widen the grid of rates"
        )
    high = int(above[0])
    t = (wanted - shares[high - 1]) / (shares[high] - shares[high - 1])
    return float(np.exp(np.log(kappas[high - 1]) * (1 - t) + np.log(kappas[high]) * t))


def _lengths(rows: FloatArray) -> FloatArray:
    """(..., 1): as ``np.linalg.norm``, without a second array of the size of ``rows``."""
    return np.sqrt(np.einsum("...m,...m->...", rows, rows))[..., np.newaxis]


def _arranged(d: int, m: int, starts: int, seed: int, second: str, embeddings: str) -> Iterator[Starts]:
    drawn_as = "sphere" if embeddings == "centred" else embeddings
    for drawn in chunks_of_starts(d, m, starts, seed, second=second, embeddings=drawn_as):
        if embeddings == "centred":
            rows = drawn.embeddings - drawn.embeddings.mean(axis=1, keepdims=True)
            yield Starts(rows, drawn.theta, drawn.theta_tilde, drawn.pairs)
        else:
            yield drawn


def _train(drawn: Starts, rate: float, steps: int) -> tuple[FloatArray, FloatArray]:
    theta, theta_tilde = drawn.theta, drawn.theta_tilde
    for _ in range(steps):
        heads = step_batch(drawn.embeddings, theta, drawn.pairs, rate, theta_tilde=theta_tilde)
        theta, theta_tilde = heads.theta, heads.theta_tilde
    return heads.gamma, heads.gamma_tilde
