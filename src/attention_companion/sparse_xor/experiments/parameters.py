"""How few parameters: the smallest ReLU nets that learn the task, and where a trained net shows the pair.

Seed number s draws its own start, pair and inputs from ``np.random.default_rng([seed, d, s])``, so that more seeds
extend fewer. Inputs are fresh at every step, which is as close to the population loss as a net that is trained step by
step comes. The nets of one seed, one for each width, see the same inputs; statistics are over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._validation import FloatArray
from ..fixed_features import bit_products, draw_features, mean_least_loss, sign_table
from ..relu_net import (
    NetTrainer,
    ReluNets,
    draw_nets,
    net_outputs,
    stack_nets,
    two_unit_net,
)

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Recipe:
    """How the nets are trained: Adam steps, fresh inputs a step, learning rate, and inputs of the final test."""

    steps: int = 1200
    batch: int = 128
    learning_rate: float = 0.02
    test: int = 4096


@dataclass(frozen=True, eq=False)
class Visibility:
    """What the first layers show of the pair, at the start and when the test loss first reaches each level.

    Index 0 of the second axis is the start, index l the level ``levels[l - 1]``; arrays are (seeds, levels + 1).
    ``reached``: the level was reached; ``columns``: the two longest columns of the first layer are the pair's (False
    where not reached); ``units``: the share of hidden units whose two largest weights are the pair's (nan where not
    reached); ``lengths`` (levels + 1, d): the column lengths of seed 0, and ``pair`` its pair.
    """

    levels: tuple[float, ...]
    reached: Bools
    columns: Bools
    units: FloatArray
    lengths: FloatArray
    pair: tuple[int, int]


def learned_losses(d: int, widths: Sequence[int], seeds: int, seed: int, recipe: Recipe) -> FloatArray:
    """Mean squared errors on fresh inputs after training, float64 (seeds, widths).

    For each seed one fully connected net of every width is trained on its own pair. Trained in float32; the test runs
    in float64. Raises ValueError for fewer than one seed or widths below 1.
    """
    nets, pairs, rngs = _starts(d, widths, seeds, seed)
    trainer = NetTrainer(nets, recipe.learning_rate)
    for x in _batches(rngs, d, recipe.batch, recipe.steps):
        trainer.step(x[:, np.newaxis], _labels(x, pairs)[:, np.newaxis])
    return np.stack([_test_loss(_of_seed(nets, s), rngs[s], pairs[s], recipe.test) for s in range(seeds)])


def smallest_nets(shares: FloatArray, widths: Sequence[int], share: float) -> npt.NDArray[np.int64]:
    """The smallest of ``widths`` (ascending) that at least ``share`` of the seeds learned, int64 (...).

    ``shares`` (..., widths) are shares of seeds. Raises ValueError when somewhere no width is wide enough.
    """
    enough = np.asarray(shares) >= share - 1e-12  # a share is a quotient of integers: 19/20 must count as 0.95
    if not enough.any(axis=-1).all():
        raise ValueError(
            f"no width of {list(widths)} is learned by a share of {share} of the seeds everywhere "
            f"(largest shares {np.asarray(shares).max(axis=-1).tolist()}); give wider nets or train longer"
        )
    return np.asarray(np.asarray(widths, dtype=np.int64)[enough.argmax(axis=-1)])


def resampled_nets(
    rng: np.random.Generator, learned: Bools, widths: Sequence[int], share: float, draws: int
) -> npt.NDArray[np.int64]:
    """``smallest_nets`` of ``draws`` resamplings of the seeds, int64 (draws, lengths); ``learned`` is boolean with
    shape (seeds, lengths, widths).

    Seeds at different input lengths share nothing and are resampled independently.
    """
    seeds, lengths, _ = learned.shape
    counts = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=(draws, lengths))
    shares = np.einsum("nds,sdw->ndw", counts, learned.astype(np.float64)) / seeds
    return smallest_nets(shares, widths, share)


def watch_nets(
    d: int, width: int, seeds: int, levels: Sequence[float], seed: int, recipe: Recipe, every: int = 5
) -> Visibility:
    """Train one net of ``width`` a seed and look at its first layer whenever the test loss first reaches a level.

    The loss is taken on ``recipe.test`` fixed test inputs of the seed after every ``every`` steps, so a level is
    noticed up to that many steps late. ``levels`` descend. ValueError for levels that do not.
    """
    if list(levels) != sorted(levels, reverse=True) or not levels:
        raise ValueError(f"levels is {list(levels)}; give at least one, in descending order")
    nets, pairs, rngs = _starts(d, [width], seeds, seed)
    test = _signs(rngs, d, recipe.test)
    truth = _labels(test, pairs)
    shape = (seeds, len(levels) + 1)
    reached, columns = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    units, lengths = np.full(shape, np.nan), np.full((len(levels) + 1, d), np.nan)
    bounds = np.concatenate([[np.inf], levels])
    trainer = NetTrainer(nets, recipe.learning_rate)

    def look() -> None:
        now = ReluNets(*(array[:, 0] for array in nets.arrays()))
        losses = ((net_outputs(now, test) - truth).astype(np.float64) ** 2).mean(axis=-1)
        fresh = (losses[:, np.newaxis] <= bounds) & ~reached
        if fresh.any():
            shown, alone = column_verdict(now.hidden, pairs), unit_share(now.hidden, pairs)
            columns[fresh] = np.broadcast_to(shown[:, np.newaxis], shape)[fresh]
            units[fresh] = np.broadcast_to(alone[:, np.newaxis], shape)[fresh]
            lengths[fresh[0]] = np.linalg.norm(now.hidden[0].astype(np.float64), axis=0)
            reached[fresh] = True

    look()
    for number, x in enumerate(_batches(rngs, d, recipe.batch, recipe.steps), start=1):
        trainer.step(x[:, np.newaxis], _labels(x, pairs)[:, np.newaxis])
        if number % every == 0:
            look()
            if reached.all():
                break
    return Visibility(tuple(levels), reached, columns, units, lengths, (int(pairs[0, 0]), int(pairs[0, 1])))


def column_verdict(hidden: FloatArray, pairs: npt.NDArray[np.int64]) -> Bools:
    """Whether the two longest columns of first layers (..., h, d) are those of the pairs (..., 2)."""
    return _top_two_are(np.linalg.norm(hidden, axis=-2), pairs)


def unit_share(hidden: FloatArray, pairs: npt.NDArray[np.int64]) -> FloatArray:
    """The share of units (rows of (..., h, d)) whose two largest weights, in size, are those of the pairs (..., 2)."""
    return np.asarray(_top_two_are(np.abs(hidden), pairs[..., np.newaxis, :]).mean(axis=-1))


def one_unit_losses(d: int, units: int, seed: int, mirrored: bool = False) -> FloatArray:
    """The least loss, over output weights and constant, of each of ``units`` single hidden units; float64 (units,).

    The first unit is relu(x_0 + x_1 - 1), which attains the bound of 2/3; the others have normal weights, every second
    one only on the pair (0, 1). ``mirrored`` adds to each unit its mirror image with the input negated: the control.
    All 2^d inputs are used.
    """
    rng, table = np.random.default_rng([seed, d]), sign_table(d)
    weights, shift = rng.standard_normal((units, d)), rng.standard_normal(units)
    weights[::2, 2:] = 0
    weights[0, :2], shift[0] = 1, -1
    if mirrored:
        weights[0, :2], shift[0] = 1, 0
    label = -(table[:, :1] * table[:, 1:2])
    losses = []
    for row, b in zip(weights, shift, strict=True):
        forms = [row, -row] if mirrored else [row]
        active = [np.maximum(table @ form + b, 0) for form in forms]
        losses.append(mean_least_loss(np.stack([np.ones(len(table)), *active], axis=1), label))
    return np.array(losses)


def two_unit_mismatches(lengths: Sequence[int], units: int = 2) -> int:
    """Inputs at which the net of ``two_unit_net`` differs from the label, over all pairs and all 2^d inputs.

    ``units`` = 1 leaves the second hidden unit out: the control.
    """
    wrong = 0
    for d in lengths:
        table = sign_table(d).T.astype(np.float64)
        for p in range(d):
            for q in range(p + 1, d):
                net = two_unit_net(d, (p, q))
                kept = ReluNets(net.hidden[:units], net.bias[:units], net.output[:units], net.constant)
                wrong += int(np.count_nonzero(net_outputs(kept, table) != -table[p] * table[q]))
    return wrong


def feature_losses(
    d: int, k: int, counts: Sequence[int], families: Sequence[str], seed: int
) -> dict[str, FloatArray]:
    """Mean least losses over all products of ``k`` of ``d`` bits, for each family of features and each count."""
    targets = bit_products(d, k)
    found = {}
    for number, family in enumerate(families):
        rng = np.random.default_rng([seed, d, k, number])
        found[family] = np.array(
            [mean_least_loss(draw_features(rng, family, d, n, k), targets) for n in counts]
        )
    return found


def net_sizes(d: Sequence[int], widths: npt.NDArray[np.int64]) -> FloatArray:
    """Parameters of nets with ``widths`` (..., d) hidden units on each of the input lengths ``d``, float64."""
    return np.asarray(widths * (np.asarray(d) + 2) + 1, dtype=np.float64)


def log_slopes(d: Sequence[int], sizes: FloatArray) -> FloatArray:
    """Least-squares slopes of ln(sizes) against ln(d); ``sizes`` (..., d), one slope for each leading index."""
    x = np.log(np.asarray(d, dtype=np.float64))
    x = x - x.mean()
    return np.asarray(np.log(sizes) @ x / (x @ x))


def around(estimate: float | FloatArray, interval: tuple[float, float]) -> tuple[float, float]:
    """``interval``, stretched where needed so that it holds ``estimate``.

    The percentiles of resampled integers may end just beside the estimate; stretching can only make a verdict milder.
    """
    return min(interval[0], float(estimate)), max(interval[1], float(estimate))


def _starts(
    d: int, widths: Sequence[int], seeds: int, seed: int
) -> tuple[ReluNets, npt.NDArray[np.int64], list[np.random.Generator]]:
    """Nets with batch axes (seeds, widths), pairs (seeds, 2), and the seeds' generators for the inputs to come."""
    if seeds < 1:
        raise ValueError(f"seeds is {seeds}; give at least 1")
    rngs = [np.random.default_rng([seed, d, s]) for s in range(seeds)]
    pairs = np.stack([rng.choice(d, 2, replace=False) for rng in rngs]).astype(np.int64)
    return stack_nets([draw_nets(rng, d, widths) for rng in rngs]), pairs, rngs


def _signs(rngs: Sequence[np.random.Generator], d: int, count: int) -> FloatArray:
    """``count`` uniform inputs for each generator, float32 (seeds, d, count): a column an input."""
    size = d * count
    drawn = [np.frombuffer(rng.bytes(-(-size // 8)), dtype=np.uint8) for rng in rngs]
    bits = np.stack([np.unpackbits(bytes_, count=size) for bytes_ in drawn])
    return bits.reshape(len(rngs), d, count).astype(np.float32) * 2 - 1


def _batches(rngs: Sequence[np.random.Generator], d: int, batch: int, steps: int) -> Iterator[FloatArray]:
    for _ in range(steps):
        yield _signs(rngs, d, batch)


def _labels(x: FloatArray, pairs: npt.NDArray[np.int64]) -> FloatArray:
    """-x_p x_q, (seeds, count), for inputs (seeds, d, count)."""
    bits = np.take_along_axis(x, pairs[:, :, np.newaxis], axis=1)
    return -bits[:, 0] * bits[:, 1]


def _of_seed(nets: ReluNets, s: int) -> ReluNets:
    return ReluNets(*(array[s].astype(np.float64) for array in nets.arrays()))


def _test_loss(nets: ReluNets, rng: np.random.Generator, pair: npt.NDArray[np.int64], count: int) -> FloatArray:
    x = _signs([rng], len(nets.hidden[0, 0]), count).astype(np.float64)
    error = net_outputs(nets, x) - _labels(x, pair[np.newaxis])
    return np.asarray((error * error).mean(axis=-1))


def _top_two_are(strength: FloatArray, pairs: npt.NDArray[np.int64]) -> Bools:
    """Whether the two largest entries of (..., d) stand at the positions (..., 2)."""
    top = np.argpartition(-strength, 1, axis=-1)[..., :2]
    return np.asarray((np.sort(top, axis=-1) == np.sort(pairs, axis=-1)).all(axis=-1))
