"""Why token-wise maps must be declared: with arbitrary ones a single hard-attention layer computes every function.

With as many heads as tokens, head k fetches token k to everybody, and a map that may be any function does the rest.
One head is enough if a map may also be applied before it: token k multiplies its number by base^k, the mean of all
tokens holds every number as a digit, and the second map reads the digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..arithmetic import Rational
from ..rasp import Numbers, Rasp
from ..symbolic import Symbolic

Function = Callable[[list[Fraction]], Sequence[Any]]


def gather(run: Rasp, heads: int | None = None) -> list[Numbers]:
    """One layer: head k brings the number of token k to every token, for k < ``heads`` (all tokens if None)."""
    count = run.length if heads is None else heads
    return [run.fetch(run.tokens, np.full(run.length, k), f"token {k}") for k in range(count)]


def lengths_not_gathered(longest: int, missing: int = 0) -> int:
    """At how many lengths L = 1..``longest`` some token lacks a number after one layer of L - ``missing`` heads.

    The tokens are indeterminates, so that agreement is agreement for all real numbers. A head that is missing leaves 0.
    """
    failed = 0
    for length in range(1, longest + 1):
        kind = Symbolic(length, 0)
        run = Rasp(kind, kind.array(kind.inputs))
        channels = [channel.values for channel in gather(run, max(0, length - missing))]
        channels += [kind.zeros(length)] * (length - len(channels))
        held = all(channels[k][t].same(kind.inputs[k]) for k in range(length) for t in range(length))
        failed += not held or run.layers > 1
    return failed


def by_gathering(tokens: Sequence[Fraction], function: Function, missing: int = 0) -> list[Any]:
    """What token t holds, for every t, after a gathering layer and the map "``function`` of all channels, entry t"."""
    kind = Rational()
    run = Rasp(kind, kind.array(tokens))
    channels = [channel.values for channel in gather(run, run.length - missing)]
    channels += [kind.zeros(run.length)] * missing
    outputs = []
    for t in range(run.length):
        everything = [Fraction(int(c[t].p), int(c[t].q)) for c in channels]
        result = function(everything)
        outputs.append(result[t] if t < len(result) else Fraction(0))
    return outputs


def by_one_head(tokens: Sequence[int], base: int) -> list[int]:
    """All numbers, as any token reads them from ONE mean: tokens are naturals, and right if all are below ``base``."""
    kind = Rational()
    run = Rasp(kind, kind.array(tokens))
    raised = Numbers(run, np.array([v * base**k for k, v in enumerate(run.tokens.values)], dtype=object))
    everybody = run.select(run.positions(0), run.positions(0), "==", "everybody")
    rest = run.aggregate(everybody, raised).scale(run.length).values[0]
    whole, digits = int(rest.p), []
    for _ in tokens:
        whole, digit = divmod(whole, base)
        digits.append(digit)
    return digits


def one_head_failures(
    lengths: Sequence[int], largest: int, cases: int, seed: int, base: int | None = None
) -> int:
    """Random sequences of naturals up to ``largest`` that are read back wrongly; base ``largest`` + 1 if None."""
    rng = np.random.default_rng([seed, largest])
    wrong = 0
    for length in lengths:
        for _ in range(cases):
            tokens = [int(v) for v in rng.integers(0, largest + 1, length)]
            wrong += by_one_head(tokens, largest + 1 if base is None else base) != tokens
    return wrong


def median(tokens: Sequence[Fraction]) -> list[Fraction]:
    """The middle number (the lower of two), as one output: a function that has nothing to do with attention."""
    return [sorted(tokens)[(len(tokens) - 1) // 2]]


def is_prime(tokens: Sequence[Fraction]) -> list[Fraction]:
    """1 if the sum of the numbers is a prime, else 0, as one output."""
    total = sum(tokens, Fraction(0))
    n = int(total)
    prime = total == n and n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))
    return [Fraction(int(prime))]
