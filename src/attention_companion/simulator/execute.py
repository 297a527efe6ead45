"""Running a machine whose scores read positions only: plan once from its weights, then evaluate only cells that count.

A cell is (channel, token). Going backwards from the outputs, the plan collects which cells every block reads; heads
become index lists (whom each query selects), operations become index lists (which tokens need them). Everything comes
from the machine's own matrices and position table: a changed weight changes the plan as it changes the machine.

Memory is that of the cells read, not of length x width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import Arithmetic
from .encoder import Form, Head, Machine, Matrix, Operation, scores_read_positions_only
from .selection import LARGEST_KEY, Integers, Keys, Selection, select

Cells = dict[int, Integers]  # channel -> ascending tokens
#: Queries of several heads that are selected for in one go; more would only take memory.
TOGETHER = 1_000_000


@dataclass(frozen=True, eq=False)
class _Bring:
    """One nonzero of a head's W: add weight x mean of the source over each query's set to the target."""

    target: int
    target_at: Integers
    source: int
    source_at: Integers
    starts: Integers | None  # of the sets within source_at; None when every set is one token
    sizes: Integers | None
    set_of: Integers | None
    weight: Any


@dataclass(frozen=True, eq=False)
class _Apply:
    """One operation on the tokens that need it: where the target and the summands of both forms lie."""

    kind: str
    target: int
    target_at: Integers
    left: list[tuple[int, Integers, Any]]
    right: list[tuple[int, Integers, Any]]


@dataclass(frozen=True, eq=False)
class Plan:
    """What to do, block by block, and which tokens each channel is stored for."""

    machine: Machine
    homes: Cells
    blocks: list[tuple[list[_Bring], list[list[_Apply]]]]

    @property
    def cells(self) -> int:
        """Cells stored during a run."""
        return sum(len(tokens) for tokens in self.homes.values())


def plan(machine: Machine, divisors_everywhere: bool = False) -> Plan:
    """Work out what the outputs depend on.

    With ``divisors_everywhere`` every division is evaluated at every token, as the machine itself does; a proof that
    no divisor vanishes needs that.

    Raises ValueError when a score reads data: then the selected sets are not known before a run.
    """
    if not scores_read_positions_only(machine):
        raise ValueError("a score reads a channel that holds data; evaluate this machine densely instead")
    everywhere = np.arange(machine.length)
    needed: Cells = {machine.output_channel: np.unique(machine.output_tokens)}
    homes: Cells = dict(needed)
    table = _KeyTable(machine)
    reads: list[tuple[list[Any], list[list[tuple[Operation, Integers]]]]] = []
    for block in reversed(machine.blocks):
        stages: list[list[tuple[Operation, Integers]]] = []
        for stage in reversed(block.stages):
            wanted = []
            grown = dict(needed)
            for operation in stage:
                tokens = needed.get(operation.target)
                if divisors_everywhere and operation.kind == "division":
                    tokens = everywhere
                    _grow(grown, operation.target, tokens)
                if tokens is None:
                    continue
                wanted.append((operation, tokens))
                for form in (operation.left, operation.right):
                    for channel, weight in form.items():
                        if weight:
                            _grow(grown, channel, tokens)
            needed = grown
            stages.append(wanted)
        wanting = [
            (head, target, source, weight, needed[target])
            for head in block.heads
            for (target, source), weight in head.value.items()
            if weight and target in needed
        ]
        chosen = table.select([(head, tokens) for head, _, _, _, tokens in wanting])
        brought = [(*wish[1:], selection) for wish, selection in zip(wanting, chosen, strict=True)]
        grown = dict(needed)
        members: dict[int, list[Integers]] = {}
        for _, source, _, _, selection in brought:
            members.setdefault(source, []).append(selection.members)
        for source, parts in members.items():
            _grow(grown, source, _union(parts, machine.length))
        needed = grown
        for channel, tokens in needed.items():
            _grow(homes, channel, tokens)
        reads.append((brought, stages[::-1]))
    blocks = [_place(machine, homes, brought, stages) for brought, stages in reversed(reads)]
    return Plan(machine, homes, blocks)


class _KeyTable:
    """Selections of a machine's heads. Heads that share a key matrix (one object) are selected for together."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.keys: dict[tuple[int, int, int], Keys] = {}
        columns = machine.positions.T
        self.largest = [max(int(c.max(initial=0)), -int(c.min(initial=0))) for c in columns]

    def select(self, requests: list[tuple[Head, Integers]]) -> list[Selection]:
        """What the queries of each head select, at each of the tokens."""
        groups: dict[tuple[int, int, int], list[int]] = {}
        for r, (head, _) in enumerate(requests):
            weights = (*head.query.values(), *head.key.values())
            scale = lcm(*(weight.denominator for weight in weights))
            groups.setdefault((id(head.key), head.rows, scale), []).append(r)
        found: dict[int, Selection] = {}
        for shared, members in groups.items():
            _, rows, scale = shared
            if shared not in self.keys:
                key = requests[members[0]][0].key
                self.keys[shared] = Keys(self._project(key, rows, np.arange(self.machine.length), scale))
            for chunk in _chunks(members, [len(tokens) for _, tokens in requests]):
                queries = [self._project(requests[r][0].query, rows, requests[r][1], scale) for r in chunk]
                whole = select(np.concatenate(queries), self.keys[shared])
                ends = np.cumsum([0, *(len(q) for q in queries)])
                for r, first, last in zip(chunk, ends[:-1], ends[1:], strict=True):
                    found[r] = whole if len(chunk) == 1 else whole.part(first, last)
        return [found[r] for r in range(len(requests))]

    def _project(self, matrix: Matrix, rows: int, tokens: Integers, scale: int) -> Integers:
        """scale x matrix x position table, in integers."""
        out = np.zeros((len(tokens), max(rows, 1)), dtype=np.int64)
        reach = [0] * max(rows, 1)
        for (row, channel), weight in matrix.items():
            if weight:
                factor = int(weight * scale)
                reach[row] += abs(factor) * self.largest[channel - 1]
                # The factor alone may be too large for int64, where all its positions are 0.
                if max(reach[row], abs(factor)) > LARGEST_KEY:
                    raise OverflowError(
                        f"positions times weights like {weight} leave int64; use a shorter sequence"
                    )
                out[:, row] += factor * self.machine.positions[tokens, channel - 1]
        return out


def _chunks(members: list[int], sizes: list[int]) -> Iterator[list[int]]:
    """The members one after another, in lists of together at most ``TOGETHER`` queries (or of one member)."""
    chunk: list[int] = []
    total = 0
    for member in members:
        if chunk and total + sizes[member] > TOGETHER:
            yield chunk
            chunk, total = [], 0
        chunk.append(member)
        total += sizes[member]
    yield chunk


def _union(parts: list[Integers], length: int) -> Integers:
    """The tokens that occur in any part, ascending; for thousands of heads, marking tokens is quicker than sorting."""
    if len(parts) == 1:
        return np.unique(parts[0])
    seen = np.zeros(length, dtype=np.bool_)
    for part in parts:
        seen[part] = True
    return np.flatnonzero(seen)


def _grow(cells: Cells, channel: int, tokens: Integers) -> None:
    known = cells.get(channel)
    if known is None:
        cells[channel] = tokens
    elif known is not tokens and not (len(known) >= len(tokens) and np.array_equal(known, tokens)):
        cells[channel] = np.union1d(known, tokens)


def _place(
    machine: Machine,
    homes: Cells,
    brought: list[tuple[int, int, Any, Integers, Selection]],
    stages: list[list[tuple[Operation, Integers]]],
) -> tuple[list[_Bring], list[list[_Apply]]]:
    """From tokens to places within the stored arrays."""
    bring = []
    for target, source, weight, tokens, chosen in brought:
        at = _places(homes, source, chosen.members)
        if chosen.singletons:
            at, starts, sizes, set_of = at[chosen.set_of], None, None, None
        else:
            starts, sizes, set_of = chosen.offsets[:-1], np.diff(chosen.offsets), chosen.set_of
        bring.append(
            _Bring(target, _places(homes, target, tokens), source, at, starts, sizes, set_of, weight)
        )
    applied = [
        [
            _Apply(
                operation.kind,
                operation.target,
                _places(homes, operation.target, tokens),
                _summands(homes, operation.left, tokens),
                _summands(homes, operation.right, tokens),
            )
            for operation, tokens in stage
        ]
        for stage in stages
    ]
    return bring, applied


def _summands(homes: Cells, form: Form, tokens: Integers) -> list[tuple[int, Integers, Any]]:
    return [(channel, _places(homes, channel, tokens), weight) for channel, weight in form.items() if weight]


def _places(homes: Cells, channel: int, tokens: Integers) -> Integers:
    home = homes[channel]
    if home is tokens:
        return np.arange(len(home), dtype=np.int32)
    return np.searchsorted(home, tokens).astype(np.int32)


def run(plan: Plan, inputs: npt.NDArray[Any], arithmetic: Arithmetic) -> npt.NDArray[Any]:
    """Evaluate the planned cells for one input sequence; returns the output tokens' values, in order.

    ``inputs`` is a one-dimensional array of the arithmetic's numbers, one for each input token.

    Raises ZeroDivisionError where a divisor is 0 (float64 raises FloatingPointError under numpy's error state).
    """
    machine = plan.machine
    if inputs.shape != machine.input_tokens.shape:
        raise ValueError(
            f"the input has {inputs.size} numbers; this encoder reads {machine.input_tokens.size}"
        )
    state: dict[int, npt.NDArray[Any]] = {}
    for channel, tokens in plan.homes.items():
        if channel == 0:
            slot = np.full(machine.length, -1)
            slot[machine.input_tokens] = np.arange(machine.input_tokens.size)
            here = slot[tokens]
            state[channel] = arithmetic.zeros(len(tokens))
            state[channel][here >= 0] = inputs[here[here >= 0]]
        elif channel in machine.position_channels:
            column = machine.positions[tokens, channel - 1]
            exact = arithmetic.dtype is not object
            state[channel] = column.astype(np.float64) if exact else arithmetic.array(int(v) for v in column)
        else:
            state[channel] = arithmetic.zeros(len(tokens))
    for brought, stages in plan.blocks:
        added = [(item, _mean(item, state[item.source], arithmetic)) for item in brought]
        for item, values in added:
            state[item.target][item.target_at] += values
        for stage in stages:
            results = [(item, _evaluate(item, state, arithmetic)) for item in stage]
            for applied, values in results:
                state[applied.target][applied.target_at] += values
    return np.asarray(
        state[machine.output_channel][_places(plan.homes, machine.output_channel, machine.output_tokens)]
    )


def _mean(item: _Bring, source: npt.NDArray[Any], arithmetic: Arithmetic) -> npt.NDArray[Any]:
    values = source[item.source_at]
    if item.starts is None or item.sizes is None or item.set_of is None:
        return np.asarray(values if item.weight == 1 else values * arithmetic.number(item.weight))
    sums = np.add.reduceat(values, item.starts)
    if arithmetic.dtype is object:
        factors = np.array([arithmetic.number(item.weight / int(size)) for size in item.sizes], dtype=object)
        return np.asarray((sums * factors)[item.set_of])
    return np.asarray((sums / item.sizes)[item.set_of] * arithmetic.number(item.weight))


def _evaluate(item: _Apply, state: dict[int, npt.NDArray[Any]], arithmetic: Arithmetic) -> npt.NDArray[Any]:
    left = _combine(item.left, state, arithmetic, len(item.target_at))
    if item.kind == "exp":
        return arithmetic.exp(left)
    if item.kind == "relu":
        return arithmetic.relu(left)
    right = _combine(item.right, state, arithmetic, len(item.target_at))
    return np.asarray(left * right) if item.kind == "product" else arithmetic.divide(left, right)


def _combine(
    form: list[tuple[int, Integers, Any]],
    state: dict[int, npt.NDArray[Any]],
    arithmetic: Arithmetic,
    size: int,
) -> npt.NDArray[Any]:
    total: npt.NDArray[Any] | None = None
    for channel, at, weight in form:
        values = state[channel][at]
        if weight != 1:
            values = values * arithmetic.number(weight)
        total = values if total is None else total + values
    return arithmetic.zeros(size) if total is None else total
