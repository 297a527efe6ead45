"""What a step (or several) on a finite sample makes of random starts, at many sample sizes at once.

The sizes of one start are prefixes of one stream of inputs, and one stream serves several widths: all that a step
needs of the first n samples is a sum, so one pass gives the outcome at every size on a grid. Inputs are drawn in whole
blocks of a fixed length, so that neither the sizes nor the widths in use change what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..attention import softmax_of_scores
from ..batch import classify, train
from ..gradient import float_score_gradient
from ..samples import add_up, input_factors, one_step_from_samples, score_slopes, weight_gradient_sum
from ..starts import Starts, draw_starts, sphere
from ..step import one_step

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

#: Entries of x in a block; half a megabyte as float64, which stays near the processor.
BLOCK_ENTRIES = 2**16
#: Row b holds the eight signs of the byte b.
_SIGNS: Floats = (2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1) - 1).astype(
    float
)


@dataclass(frozen=True, eq=False)
class SampleOutcomes:
    """Outcomes over S starts at G sample sizes; start k has the same embeddings, query and pair at every size.

    ``learned`` (S, G): the heads end on the two targets, one each. ``landed`` (S, G): each head ends on one of the two
    targets, perhaps both on the same. The arrays with ``population`` (S,) say the same of the population step.
    """

    sizes: npt.NDArray[np.int64]
    learned: Bools
    landed: Bools
    learned_population: Bools
    landed_population: Bools


def sign_blocks(d: int, start: int, seed: int) -> Iterator[Bytes]:
    """Endless blocks (rows, ceil(d/8)) of random bytes, the same for one (seed, d, start); see :func:`signs_of`."""
    rng = np.random.default_rng([seed, d, start, 0, 16])
    rows, width = max(8, BLOCK_ENTRIES // d), -(-d // 8)
    while True:
        yield rng.integers(0, 256, size=(rows, width), dtype=np.uint8)


def signs_of(block: Bytes, d: int) -> Floats:
    """The inputs (rows, d) as float64 that a block of bytes stands for, one bit a sign."""
    return np.take(_SIGNS, block, axis=0).reshape(len(block), 8 * block.shape[1])[:, :d]


def first_inputs(d: int, start: int, seed: int, samples: int) -> Iterator[Floats]:
    """The first ``samples`` inputs of a start's stream, block by block."""
    for block in sign_blocks(d, start, seed):
        part = signs_of(block[:samples], d)
        yield part
        samples -= len(part)
        if not samples:
            return


def one_step_outcomes(
    d: int,
    widths: Sequence[int],
    sizes: Sequence[Sequence[int]],
    starts: int,
    seed: int,
    *,
    flipped: float = 0.0,
) -> list[SampleOutcomes]:
    """One step in the limit of large rates from ``starts`` random starts, one result a width.

    Parameters
    ----------
    d, widths, sizes
        Input length, embedding widths, and for each width its sample sizes in ascending order.
    starts, seed
        Start k at width m is that of ``draw_starts(d, m, [k], seed)``; its sample comes from the same seed and k, and
        is shared by the widths.
    flipped
        Probability with which a label is exchanged for its negative: a control. The population step is taken without.

    In the limit of large rates a head ends on the position whose score grows most. Memory is O(d m + BLOCK_ENTRIES).
    Raises ValueError for sizes that do not ascend, fewer than one start, or a probability outside 0..1.
    """
    grids = [_read_sizes(grid) for grid in sizes]
    if len(grids) != len(widths) or not widths:
        raise ValueError(f"{len(widths)} widths and {len(grids)} lists of sizes; give one list a width")
    if starts < 1 or not 0 <= flipped <= 1:
        raise ValueError(
            f"starts is {starts} and flipped is {flipped}; give starts >= 1 and 0 <= flipped <= 1"
        )
    hits = [np.zeros((2, starts, len(grid) + 1), dtype=bool) for grid in grids]
    for k in range(starts):
        drawn = [draw_starts(d, m, [k], seed) for m in widths]
        for place, (start, gradients) in enumerate(
            zip(drawn, _prefix_gradients(d, k, drawn, grids, seed, flipped), strict=True)
        ):
            hits[place][:, k] = _large_step(start, gradients)
    return [
        SampleOutcomes(grid, found[0, :, :-1], found[1, :, :-1], found[0, :, -1], found[1, :, -1])
        for grid, found in zip(grids, hits, strict=True)
    ]


def several_step_outcomes(
    d: int, m: int, sizes: Sequence[int], starts: int, seed: int, *, rate: float, steps: int
) -> SampleOutcomes:
    """``steps`` steps at a finite rate, all on the mean loss of the same sample, beside as many population steps.

    "Learned" asks for a weight of at least 0.99 on a target of its own for each head. Starts, sizes, samples and
    errors as for :func:`one_step_outcomes`; memory is O(d m + d max(sizes)).
    """
    grid = _read_sizes(sizes)
    if starts < 1:
        raise ValueError(f"starts is {starts}; give at least 1")
    hits = np.zeros((2, starts, len(grid) + 1), dtype=bool)
    for k in range(starts):
        start = draw_starts(d, m, [k], seed)
        rows, (p, q) = start.embeddings[0], start.pairs[0]
        x = np.concatenate(list(first_inputs(d, k, seed, int(grid[-1]))))
        y = -x[:, p] * x[:, q]
        ends = [_descend(rows, start, x[:n], y[:n], rate, steps) for n in grid]
        population = train(start.embeddings, start.theta, start.pairs, rate, steps)
        weights = np.concatenate(
            [np.stack(ends), np.stack([population.gamma, population.gamma_tilde], axis=1)]
        )
        seen = classify(weights[:, 0], weights[:, 1], start.pairs)
        hits[:, k] = seen.specialised, ~seen.distracted
    return SampleOutcomes(grid, hits[0, :, :-1], hits[1, :, :-1], hits[0, :, -1], hits[1, :, -1])


def growth_after(
    d: int, m: int, sizes: Sequence[int], start: int, seed: int
) -> tuple[Floats, tuple[int, int]]:
    """How much each score grows in one step, in units of 2/d^2 a unit of rate, and the pair.

    The result has shape (len(sizes) + 1, 2, d): both heads after a step on each sample size, and last after the
    population step. Rate and unit make the growth of a target near 1 for the population.
    """
    drawn = draw_starts(d, m, [start], seed)
    rows, theta = drawn.embeddings[0], drawn.theta[0]
    pair = (int(drawn.pairs[0, 0]), int(drawn.pairs[0, 1]))
    rate, moved = d * d / 2, []
    for n in sizes:
        stream = ((x, -x[:, pair[0]] * x[:, pair[1]]) for x in first_inputs(d, start, seed, int(n)))
        step = one_step_from_samples(rows, theta, stream, learning_rate=rate)
        moved.append([step.theta, step.theta_tilde])
    whole = one_step(rows, theta, pair, rate)
    moved.append([whole.theta, whole.theta_tilde])
    return (np.array(moved) - np.stack([theta, -theta])) @ rows.T, pair


def enumeration_disagreement(dimensions: Sequence[int], cases: int, seed: int, *, left_out: int = 0) -> float:
    """Largest difference between the step on all 2^d inputs and the population step, relative to the largest move.

    ``cases`` random starts for each d, with rates of order d^2. The control leaves out the first ``left_out`` inputs.
    """
    worst = 0.0
    for d in dimensions:
        bits = (np.arange(left_out, 2**d)[:, np.newaxis] >> np.arange(d)) & 1
        x = (2 * bits - 1).astype(np.int8)
        for case in range(cases):
            rng = np.random.default_rng([seed, d, case, 0, 19])
            rows, theta = sphere(rng, d, 6), sphere(rng, 6)
            p, q = (int(i) for i in rng.choice(d, 2, replace=False))
            rate = float(rng.uniform(0.1, 10)) * d * d
            ours = one_step_from_samples(rows, theta, x, -x[:, p] * x[:, q], rate)
            truth = one_step(rows, theta, (p, q), rate)
            move = max(np.abs(truth.theta - theta).max(), np.abs(truth.theta_tilde + theta).max())
            gap = max(
                np.abs(ours.theta - truth.theta).max(), np.abs(ours.theta_tilde - truth.theta_tilde).max()
            )
            worst = max(worst, float(gap / move))
    return worst


def _read_sizes(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    grid = np.asarray(sizes, dtype=np.int64)
    if grid.ndim != 1 or not grid.size or grid[0] < 1 or (np.diff(grid) <= 0).any():
        raise ValueError(f"sizes are {list(sizes)}; give sample sizes >= 1 in ascending order")
    return grid


def _prefix_gradients(
    d: int, k: int, drawn: Sequence[Starts], grids: Sequence[npt.NDArray[np.int64]], seed: int, flipped: float
) -> list[Floats]:
    """For each width the mean gradients by the weights after each of its sizes, shape (G, 2, d)."""
    weights = np.stack(
        [
            [softmax_of_scores(start.embeddings[0], query[0]) for query in (start.theta, start.theta_tilde)]
            for start in drawn
        ]
    )
    pairs = np.stack([start.pairs[0] for start in drawn])
    found = [np.zeros((len(grid), 2, d)) for grid in grids]
    flips = np.random.default_rng([seed, d, k, 0, 17])
    totals, done = np.zeros((len(drawn), 2, d)), 0
    stops = np.unique(np.concatenate(grids))
    last = np.array([grid[-1] for grid in grids])
    for block in sign_blocks(d, k, seed):
        # A width whose largest size has been passed takes part no more.
        x = signs_of(block[: stops[-1] - done], d)
        sign = np.where(flips.random(len(block)) < flipped, -1.0, 1.0)[: len(x)] if flipped else 1.0
        active = last > done
        y = -x[:, pairs[active, 0]].T * x[:, pairs[active, 1]].T * sign
        factors = input_factors(x, y, weights[active])
        inside = stops[(stops > done) & (stops < done + len(x))]
        ends = [*inside.tolist(), done + len(x)]
        for begin, end in pairwise([done, *ends]):
            part = slice(begin - done, end - done)
            totals[active] += add_up(factors[..., part], x[part])
            for place, grid in enumerate(grids):
                found[place][grid == end] = totals[place] / end
        done += len(x)
        if done >= stops[-1]:
            return found
    raise AssertionError("the stream of signs is endless")


def _large_step(start: Starts, gradients: Floats) -> tuple[Bools, Bools]:
    """(learned, landed), each (G + 1,), when every head goes to the position whose score grows most.

    ``gradients`` (G, 2, d) are those by the weights; the last outcome is that of the population step.
    """
    rows, pair = start.embeddings[0], start.pairs[0]
    a, b = (softmax_of_scores(rows, query[0]) for query in (start.theta, start.theta_tilde))
    slopes = score_slopes(np.broadcast_to(np.stack([a, b]), gradients.shape), gradients)
    population = [float_score_gradient(a, b, *pair), float_score_gradient(b, a, *pair)]
    ends = (-np.concatenate([slopes, [population]]) @ rows @ rows.T).argmax(axis=-1)
    landed = ((ends == pair[0]) | (ends == pair[1])).all(axis=-1)
    return np.asarray(landed & (ends[:, 0] != ends[:, 1])), np.asarray(landed)


def _descend(rows: Floats, start: Starts, x: Floats, y: Floats, rate: float, steps: int) -> Floats:
    """The weights (2, d) after ``steps`` steps on the mean loss of the sample (x, y)."""
    queries = np.stack([start.theta[0], start.theta_tilde[0]])
    for _ in range(steps):
        weights = np.stack([softmax_of_scores(rows, query) for query in queries])
        slopes = score_slopes(weights, weight_gradient_sum(x, y, weights) / len(x))
        queries = queries - rate * slopes @ rows
    return np.stack([softmax_of_scores(rows, query) for query in queries])
