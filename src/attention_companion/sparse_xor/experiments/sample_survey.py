"""The chapter's survey: sizes that suffice for several lengths and widths, found and predicted.

A width is a number, kept while d grows, or None: as wide as the input is long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .sample_laws import Law, geometric_sizes, landing_law, size_by_law
from .sample_sizes import size_that_suffices, slope_of
from .samples import SampleOutcomes, one_step_outcomes, several_step_outcomes

Width = int | None
Outcomes = dict[int, SampleOutcomes]


def name_of(width: Width) -> str:
    """How the chapter calls a width: "m=48" or "m=d"."""
    return "m=d" if width is None else f"m={width}"


def survey_one_step(
    law: Law, dimensions: Sequence[int], widths: Sequence[Width], starts: int, seed: int
) -> dict[str, Outcomes]:
    """Outcomes of one large step by name of the width and d, at sizes around those that ``law`` predicts."""
    found: dict[str, Outcomes] = {name_of(width): {} for width in widths}
    for d in dimensions:
        numbers = sorted({d if width is None else width for width in widths})
        sizes = [geometric_sizes(size_by_law(law, d, m)) for m in numbers]
        seen = dict(zip(numbers, one_step_outcomes(d, numbers, sizes, starts, seed), strict=True))
        for width in widths:
            found[name_of(width)][d] = seen[d if width is None else width]
    return found


def survey_several_steps(
    dimensions: Sequence[int],
    widths: Sequence[Width],
    starts: int,
    seed: int,
    *,
    rate_factor: float,
    steps: int,
) -> dict[str, Outcomes]:
    """The same after ``steps`` steps at the rate ``rate_factor`` d^2, at sizes about those of the landing law.

    There is no law for several steps, and fewer samples may do than for landing in one: the sizes reach far down, lest
    the smallest one tried, which grows like the law, be taken for the one that suffices.
    """
    return {
        name_of(width): {
            d: several_step_outcomes(
                d,
                m,
                geometric_sizes(size_by_law(landing_law, d, m), below=16, above=4),
                starts,
                seed,
                rate=rate_factor * d * d,
                steps=steps,
            )
            for d in dimensions
            for m in [d if width is None else width]
        }
        for width in widths
    }


def predicted_sizes(law: Law, dimensions: Sequence[int], width: Width) -> list[float]:
    """The sizes that ``law`` gives at each d."""
    return [size_by_law(law, d, d if width is None else width) for d in dimensions]


def predicted_slope(law: Law, dimensions: Sequence[int], width: Width) -> float:
    """The slope of those sizes, fitted as the measured ones are."""
    sizes = predicted_sizes(law, dimensions, width)
    return float(slope_of([math.log(d) for d in dimensions], [math.log(n) for n in sizes]))


@dataclass(frozen=True, eq=False)
class LawCheck:
    """Failures over starts at n = d (m + d): of the step on the sample, of the population step, and by the law."""

    samples: int
    starts: int
    failed: int
    failed_population: int
    law: float


def check_learning_law(law: Law, d: int, m: int, starts: int, seed: int) -> LawCheck:
    """Count failures to learn at n = d (m + d), where the law's noise term is 1/4, whatever d and m are."""
    n = d * (m + d)
    seen = one_step_outcomes(d, [m], [[n]], starts, seed)[0]
    failed = starts - int(seen.learned.sum())
    return LawCheck(n, starts, failed, starts - int(seen.learned_population.sum()), 1 - law(d, m, n))


def flipped_labels(
    d: int, m: int, flipped: float, starts: int, seed: int, share: float = 0.95
) -> SampleOutcomes:
    """Outcomes when labels are flipped with the given probability, at the sizes that a signal so weakened needs.

    Flipping shrinks the mean of y by 1 - 2 flipped, so the size of the landing law grows by the inverse square.

    Raises ValueError for a probability outside 0..1/2 (the latter excluded): at 1/2 nothing is left to learn.
    """
    if not 0 <= flipped < 0.5:
        raise ValueError(f"flipped is {flipped}; give a probability of at least 0 and below 1/2")
    centre = size_by_law(landing_law, d, m, share) / (1 - 2 * flipped) ** 2
    return one_step_outcomes(d, [m], [geometric_sizes(centre)], starts, seed, flipped=flipped)[0]


def landing_size(seen: SampleOutcomes, share: float = 0.95) -> float:
    """The size from which heads land on the pair ``share`` times as often as with the population step."""
    return float(
        size_that_suffices(seen.sizes, seen.landed.mean(axis=0), seen.landed_population.mean(), share)
    )
