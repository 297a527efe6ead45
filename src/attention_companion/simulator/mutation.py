"""Changing an encoder in one place, and holding the prover's verdict against an evaluation that knows nothing of it.

A prover that always says "holds" would pass every test on right encoders. Here one weight is changed at random; then
the proof's verdict and the dense run of the changed weights, on exact rationals (1 + x + x^2 in place of exp) and on
balls, must not contradict each other:

    proved   no input shows a difference, and none raises      -> the mutant is *equivalent*
    refuted  the counterexample is confirmed by the dense run  -> the mutant is *caught*
    neither  nothing is claimed                                -> *undecided*
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from .arithmetic import Arithmetic, Ball, Rational
from .build import Encoder, build
from .dense import run_densely
from .encoder import Block, Form, Head, Machine, Matrix, check_machine
from .prove import Counterexample, prove, random_layer
from .reading import read_layer
from .target import evaluate

#: Where a weight can stand, and what can be done to it.
KINDS = ("query", "key", "value", "left", "right")
CHANGES = ("change", "drop", "move")
VERDICTS = ("caught", "equivalent", "undecided")

Address = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Mutant:
    """A changed machine, and where (an address as :meth:`.Machine.weights` gives it) and how it was changed."""

    machine: Machine
    kind: str
    change: str
    address: Address


def kind_of(address: Address) -> str:
    """The kind of weight an address belongs to, one of ``KINDS``."""
    return str(address[3] if address[1] == "head" else address[4])


def mutate(machine: Machine, rng: np.random.Generator, kind: str | None = None) -> Mutant:
    """Change one weight: kind of weight, weight, and change are each drawn uniformly, in that order.

    "change" gives it another value, "drop" sets it to 0, "move" reads or writes another channel with it (which can make
    a score read data, or data overwrite a position). ValueError when the machine has no weight of that kind.
    """
    weights = list(machine.weights())
    present = [name for name in KINDS if any(kind_of(address) == name for address, _ in weights)]
    if kind is None:
        kind = present[rng.integers(len(present))]
    places = [(address, weight) for address, weight in weights if kind_of(address) == kind]
    if not places:
        raise ValueError(f"the machine has no weight of kind {kind!r}; it has {', '.join(present)}")
    address, weight = places[rng.integers(len(places))]
    change = CHANGES[rng.integers(len(CHANGES))]
    if change == "move":
        changed = with_weight(
            with_weight(machine, address, Fraction(0)), _moved(machine, address, rng), weight
        )
    elif change == "drop":
        changed = with_weight(machine, address, Fraction(0))
    else:
        others = [-weight, weight + 1, weight - 1, 2 * weight, weight / 2]
        others = [value for value in others if value != weight]
        changed = with_weight(machine, address, others[rng.integers(len(others))])
    check_machine(changed)
    return Mutant(changed, kind, change, address)


def _moved(machine: Machine, address: Address, rng: np.random.Generator) -> Address:
    """The address with another channel: for W of a head the target, else the channel that is read."""
    at = 4 if kind_of(address) == "value" else len(address) - 1
    old = address[at]
    # Mostly a position for a score, so that the mutant still has sets that do not depend on data.
    if kind_of(address) in ("query", "key") and rng.random() < 0.75:
        channels = [c for c in machine.position_channels if c != old]
    else:
        channels = [c for c in range(machine.width) if c != old]
    return (*address[:at], channels[rng.integers(len(channels))], *address[at + 1 :])


def with_weight(machine: Machine, address: Address, weight: Fraction) -> Machine:
    """The machine with that weight in place of the one at ``address``."""
    b, where = address[0], address[1]
    block = machine.blocks[b]
    if where == "head":
        _, _, h, name, row, column = address
        matrix: Matrix = {**getattr(block.heads[h], name), (row, column): weight}
        head: Head = replace(block.heads[h], **{name: matrix})
        changed = Block((*block.heads[:h], head, *block.heads[h + 1 :]), block.stages)
    else:
        _, _, s, o, side, channel = address
        stage = block.stages[s]
        form: Form = {**getattr(stage[o], side), channel: weight}
        old = stage[o]
        operation = replace(old, left=form) if side == "left" else replace(old, right=form)
        stages = (*block.stages[:s], (*stage[:o], operation, *stage[o + 1 :]), *block.stages[s + 1 :])
        changed = Block(block.heads, stages)
    return replace(machine, blocks=(*machine.blocks[:b], changed, *machine.blocks[b + 1 :]))


def with_vanishing_divisors(machine: Machine) -> Machine:
    """Every division divides by 0: with such divisors n1 d2 = n2 d1 would read 0 = 0, and prove anything."""
    changed = machine
    for b, block in enumerate(machine.blocks):
        for s, stage in enumerate(block.stages):
            for o, operation in enumerate(stage):
                if operation.kind == "division":
                    for channel in operation.right:
                        changed = with_weight(changed, (b, "stage", s, o, "right", channel), Fraction(0))
    return changed


def without_bos(machine: Machine) -> Machine:
    """The machine without its first token (BOS); all addresses stay what they were."""
    return replace(
        machine,
        positions=machine.positions[1:],
        input_tokens=machine.input_tokens - 1,
        output_tokens=machine.output_tokens - 1,
    )


def surrogate(x: Fraction) -> Fraction:
    """1 + x + x^2, positive for all x."""
    return 1 + x + x * x


@dataclass(frozen=True)
class Judgement:
    """Of one mutant: the proof's verdict (one of ``VERDICTS``), and what contradicts it ("" if nothing does)."""

    kind: str
    change: str
    verdict: str
    contradiction: str
    differs: bool  # whether any of the random inputs showed a difference or raised


def judge(encoder: Encoder, mutant: Mutant, rng: np.random.Generator, inputs: int = 20) -> Judgement:
    """The proof's verdict on a mutant of a plain encoder, held against dense runs on random rational inputs."""
    changed = Encoder(mutant.machine, encoder.shape, "changed")
    proof = prove(changed)
    layers = [random_layer(encoder.shape, rng) for _ in range(inputs)]
    seen = next((text for layer in layers if (text := difference(mutant.machine, layer))), "")
    contradiction = ""
    if proof.holds is True:
        verdict, contradiction = "equivalent", seen
    elif proof.holds is False:
        verdict = "caught"
        assert proof.counterexample is not None
        if not confirms(mutant.machine, proof.counterexample):
            contradiction = (
                f"the dense run does not confirm the counterexample ({proof.counterexample.found})"
            )
    else:
        verdict = "undecided"
    return Judgement(mutant.kind, mutant.change, verdict, contradiction, bool(seen))


def confirms(machine: Machine, found: Counterexample) -> bool:
    """Whether the dense run on balls, or an exact division by zero, shows the difference at a counterexample."""
    return bool(_difference(machine, (found.X, found.heads, found.output), Ball(400)))


def difference(machine: Machine, layer: tuple[Any, Any, Any]) -> str:
    """How a plain encoder's dense run differs from T at a rational layer; "" if it does not, as far as can be told."""
    return _difference(machine, layer, Rational(surrogate)) or _difference(machine, layer, Ball(200))


def _difference(machine: Machine, layer: tuple[Any, Any, Any], kind: Arithmetic) -> str:
    read = read_layer(*layer, kind)
    if isinstance(kind, Ball):
        with kind.precision():
            return _compare(machine, read, kind)
    return _compare(machine, read, kind)


def _compare(machine: Machine, read: Any, kind: Arithmetic) -> str:
    wanted = evaluate(read.matrices(kind), kind).reshape(-1)
    try:
        got = run_densely(machine, read.sequence(kind), kind)
    except ZeroDivisionError as problem:
        return str(problem)
    except ArithmeticError:  # balls of scores overlap: not known
        return ""
    apart = [
        (a, b)
        for a, b in zip(got, wanted, strict=True)
        if not (a.overlaps(b) if isinstance(kind, Ball) else a == b)
    ]
    return f"{kind.name}: U gives {apart[0][0]}, T is {apart[0][1]}" if apart else ""


@dataclass
class Tally:
    """How many mutants of each (kind, verdict) there were, and every contradiction."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    undecided_but_different: int = 0
    contradictions: list[str] = field(default_factory=list)

    @property
    def mutants(self) -> int:
        return sum(self.counts.values())

    def table(self) -> list[tuple[str, int, int, int]]:
        """Rows (kind of weight, caught, equivalent, undecided)."""
        return [
            (
                kind,
                self.counts[kind, "caught"],
                self.counts[kind, "equivalent"],
                self.counts[kind, "undecided"],
            )
            for kind in KINDS
        ]


def study(
    layout: str,
    shapes: Sequence[tuple[int, int, int, int]],
    mutants: int,
    seed: int,
    inputs: int = 20,
) -> Tally:
    """Judge that many mutants of a layout: the shapes (n, d, d_v, heads) in turn, and all kinds of weights in turn."""
    encoders = [build(n, d, d_v, heads, layout) for n, d, d_v, heads in shapes]
    tally = Tally()
    for m in range(mutants):
        rng = np.random.default_rng([seed, m])
        encoder = encoders[m % len(encoders)]
        mutant = mutate(encoder.machine, rng, KINDS[m // len(encoders) % len(KINDS)])
        judgement = judge(encoder, mutant, rng, inputs)
        tally.counts[judgement.kind, judgement.verdict] += 1
        tally.undecided_but_different += judgement.verdict == "undecided" and judgement.differs
        if judgement.contradiction:
            tally.contradictions.append(
                f"{layout}, shape {shapes[m % len(shapes)]}, mutant {m} ({judgement.change} at {mutant.address}): "
                f"{judgement.verdict}, but {judgement.contradiction}"
            )
    return tally
