"""The first gradient, position by position, and which head goes to which target.

Alignment. The first step adds eta times -dL/dtheta to the query, so the score of position i grows by eta times

    A_i = v_i . (-dL/dtheta)        and, for the second head,        A~_i = v_i . (-dL/dtheta~).

As all embeddings have length one, A_i is proportional to the cosine between v_i and the step: A_i is what we call the
alignment of the gradient with position i. For a large rate a head ends on the position of its largest alignment, so a
head can be distracted only if another position beats both targets; the ratio

    min(A_p, A_q) / max over i outside the pair of A_i,

the smaller over the two heads, above 1 says that both targets beat every other position in both heads. It says nothing
on which of the two targets wins: when the two heads collapse, both ratios can be large.

Source: our derivation; that the first gradient is aligned with both targets is the paper's statement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._validation import FloatArray
from ..batch import classify, step_batch
from ..starts import chunks_of_starts, draw_starts

#: Where two heads end, in the order of the rows of a table: head 1's position, head 2's position.
CELLS = ("(p, q)", "(q, p)", "(p, p)", "(q, q)", "elsewhere")


@dataclass(frozen=True, eq=False)
class FirstGradients:
    """Per start: ``ratio`` (starts,) of alignments, ``tops`` (starts, 2) the position of each head's largest
    alignment, and ``pairs`` (starts, 2). ``ratio`` is infinite where no other position has a
    positive alignment, see :func:`alignment_ratio`."""

    ratio: FloatArray
    tops: npt.NDArray[np.int64]
    pairs: npt.NDArray[np.int64]


def first_gradients(d: int, m: int, starts: int, seed: int, *, other_pair: bool = False) -> FirstGradients:
    """Alignments of the first gradients from the paper's start, for starts 0, 1, ... of ``draw_starts``.

    ``other_pair`` takes the gradient of the loss for the two positions that follow the pair's, which are disjoint
    from it, and judges it against the pair: the control. Float64; memory is that of one chunk of starts.
    Raises ValueError for d < 5 (too short for a second pair that is disjoint from the first) or no start.
    """
    if d < 5:
        raise ValueError(f"d is {d}; two disjoint pairs and a further position need d >= 5")
    ratios, tops, pairs = [], [], []
    for drawn in chunks_of_starts(d, m, starts, seed):
        trained = disjoint_pairs(drawn.pairs, d) if other_pair else drawn.pairs
        step = step_batch(drawn.embeddings, drawn.theta, trained, np.inf)  # an infinite rate leaves -gradient
        along = np.stack([step.theta, step.theta_tilde], axis=1) @ drawn.embeddings.swapaxes(-1, -2)
        ratios.append(alignment_ratio(along, drawn.pairs).min(axis=-1))
        tops.append(along.argmax(axis=-1))
        pairs.append(drawn.pairs)
    return FirstGradients(np.concatenate(ratios), np.concatenate(tops), np.concatenate(pairs))


def disjoint_pairs(pairs: npt.NDArray[np.int64], d: int) -> npt.NDArray[np.int64]:
    """For each pair (..., 2) of d >= 5 positions another one that shares no position with it: the two positions that
    come next, counted from each target, or the next free ones."""
    first, second = pairs[..., 0], pairs[..., 1]

    def next_free(position: npt.NDArray[np.int64], *taken: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        moved = (position + 1) % d
        for _ in taken:
            busy = np.any([moved == other for other in taken], axis=0)
            moved = np.where(busy, (moved + 1) % d, moved)
        return moved

    third = next_free(first, first, second)
    return np.stack([third, next_free(second, first, second, third)], axis=-1)


def alignment_ratio(along: FloatArray, pairs: npt.NDArray[np.int64]) -> FloatArray:
    """min over the pair of the alignments over the largest of all others; (starts, heads) from (starts, heads, d).

    Where no other alignment is positive the quotient would mean nothing: it is +inf if the pair's alignments are both
    positive, and -inf (which counts as not aligned) otherwise.
    """
    there = np.broadcast_to(pairs[:, np.newaxis, :], (*along.shape[:-1], 2))
    targets = np.take_along_axis(along, there, axis=-1).min(axis=-1)
    others = along.copy()
    np.put_along_axis(others, there, -np.inf, axis=-1)
    most = others.max(axis=-1)
    ratio = targets / np.where(most > 0, most, 1)
    return np.where(most > 0, ratio, np.where(targets > 0, np.inf, -np.inf))


def alignments_of_start(d: int, m: int, index: int, seed: int) -> tuple[FloatArray, tuple[int, int]]:
    """Alignments of start ``index`` with every position, (2, d), one row a head, and the start's pair."""
    drawn = draw_starts(d, m, [index], seed)
    step = step_batch(drawn.embeddings, drawn.theta, drawn.pairs, np.inf)
    along = np.stack([step.theta, step.theta_tilde], axis=1)[0] @ drawn.embeddings[0].T
    return along, (int(drawn.pairs[0, 0]), int(drawn.pairs[0, 1]))


def cell_counts(tops: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64]) -> dict[str, int]:
    """How many starts end in each of ``CELLS``; ``tops`` (starts, 2) is where head 1 and head 2 look most."""
    on_p, on_q = tops == pairs[:, :1], tops == pairs[:, 1:]
    straight, crossed = on_p[:, 0] & on_q[:, 1], on_q[:, 0] & on_p[:, 1]
    counts = [straight, crossed, on_p.all(axis=1), on_q.all(axis=1)]
    inside = [int(np.count_nonzero(hits)) for hits in counts]
    return dict(zip(CELLS, [*inside, len(tops) - sum(inside)], strict=True))


def map_shows_pair(gamma: FloatArray, gamma_tilde: FloatArray, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether the two heads' largest weights stand on the pair, one head on each target; (...) from (..., d)."""
    tops = np.stack([gamma.argmax(axis=-1), gamma_tilde.argmax(axis=-1)], axis=-1)
    return np.asarray((np.sort(tops, axis=-1) == np.sort(pairs, axis=-1)).all(axis=-1))


def mean_map_shows_pair(
    gamma: FloatArray, gamma_tilde: FloatArray, pairs: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Whether the two largest weights of the mean of both heads' maps stand on the pair; (...) from (..., d).

    Two weights that have both underflowed to zero are not told apart, and count as not showing the pair.
    """
    both = gamma + gamma_tilde
    there = np.broadcast_to(pairs, (*both.shape[:-1], 2))
    targets = np.take_along_axis(both, there, axis=-1).min(axis=-1)
    others = both.copy()
    np.put_along_axis(others, there, -np.inf, axis=-1)
    return np.asarray(targets > others.max(axis=-1))


@dataclass(frozen=True, eq=False)
class MapReadings:
    """Per start, what the attention maps show: after the step and before it; boolean (starts,).

    ``collapsed``: after the step the largest weights of both heads stand on the same target.
    """

    heads: npt.NDArray[np.bool_]
    mean: npt.NDArray[np.bool_]
    heads_before: npt.NDArray[np.bool_]
    mean_before: npt.NDArray[np.bool_]
    collapsed: npt.NDArray[np.bool_]


def map_readings(d: int, m: int, starts: int, learning_rate: float, seed: int) -> MapReadings:
    """Read the pair off the attention maps of starts 0, 1, ... before and after one step, in two ways.

    ``heads``: the position of the largest weight of each head (:func:`map_shows_pair`); ``mean``: the two largest
    weights of the mean map (:func:`mean_map_shows_pair`).
    """
    parts = []
    for drawn in chunks_of_starts(d, m, starts, seed):
        rows, theta, pairs = (x[:, np.newaxis] for x in (drawn.embeddings, drawn.theta, drawn.pairs))
        heads = step_batch(rows, theta, pairs, np.array([0.0, learning_rate]))
        pairs = np.broadcast_to(pairs, (*heads.gamma.shape[:-1], 2))
        parts.append(
            np.stack(
                [
                    map_shows_pair(heads.gamma, heads.gamma_tilde, pairs),
                    mean_map_shows_pair(heads.gamma, heads.gamma_tilde, pairs),
                    classify(heads.gamma, heads.gamma_tilde, pairs).collapsed,
                ]
            )
        )
    shown = np.concatenate(parts, axis=1)
    return MapReadings(shown[0, :, 1], shown[1, :, 1], shown[0, :, 0], shown[1, :, 0], shown[2, :, 1])


@dataclass(frozen=True, eq=False)
class ExampleMaps:
    """Attention maps of chosen starts: ``heads`` (n, 2, d) after the step, ``pairs`` (n, 2), ``starts`` (their
    numbers) and ``outcomes`` (in words)."""

    heads: FloatArray
    pairs: npt.NDArray[np.int64]
    starts: tuple[int, ...]
    outcomes: tuple[str, ...]


def example_maps(
    d: int, m: int, starts: int, learning_rate: float, seed: int, *, succeeded: int = 2, failed: int = 1
) -> ExampleMaps:
    """The first ``succeeded`` starts that specialise and the first ``failed`` that do not, out of ``starts``.

    Chosen by outcome, so that both kinds are seen; fewer are returned when there are fewer. Starts as in
    ``draw_starts``; O(starts d m) memory, so keep d small.
    """
    drawn = draw_starts(d, m, range(starts), seed)
    step = step_batch(drawn.embeddings, drawn.theta, drawn.pairs, learning_rate)
    seen = classify(step.gamma, step.gamma_tilde, drawn.pairs)
    chosen = [*np.flatnonzero(seen.specialised)[:succeeded], *np.flatnonzero(~seen.specialised)[:failed]]

    def outcome(k: int) -> str:
        if seen.specialised[k]:
            return "one head on each target"
        if seen.collapsed[k]:
            return "both heads on one target"
        return "a head outside the pair" if seen.distracted[k] else "undecided"

    return ExampleMaps(
        np.stack([step.gamma, step.gamma_tilde], axis=1)[chosen],
        drawn.pairs[chosen],
        tuple(int(k) for k in chosen),
        tuple(outcome(int(k)) for k in chosen),
    )


def ratio_law(d: int, m: int) -> float:
    """Leading order of the ratio of alignments for large d and m: sqrt(m / ln d) / 2.

    The first gradient is near (2/d^2)(v_p + v_q). A target's alignment is then near 2/d^2, and that of another position
    (2/d^2) v_i.(v_p + v_q) is nearly normal with variance (2/d^2)^2 2/m; the largest of d normal variables is near
    sqrt(2 ln d) standard deviations. Raises ValueError for d < 3 or m < 1.
    """
    if d < 3 or m < 1:
        raise ValueError(f"d is {d} and m is {m}; need d >= 3 and m >= 1")
    return float(np.sqrt(m / np.log(d)) / 2)
