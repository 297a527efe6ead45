"""Writing an encoder down: named channels, position columns, and heads that fetch from an address.

A head that must look at the token with address k, for a query that knows the address q, uses the bilinear score

    2 q k - k^2 = q^2 - (q - k)^2 = <(q, 1), (2k, -k^2)>,

largest exactly where k = q, or else at the nearest address: integers, so the maximum is exact. An address below 0
therefore selects the beginning-of-sequence token (BOS, address 0), whose input is 0: this is how a token that has
nothing to fetch fetches nothing. A group mean is the same score with one address for all members of a group.

In heads that only one token may use (the paper's layout) the query is 1/2 - (t - t0)^2 times a flag on the members,
against 0 on BOS and -1 on all other tokens: token t0 selects the members, every other token selects BOS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .encoder import Block, Head, Machine, Operation

#: A channel before numbers are given out: "x" for the input, ("column", i) or ("data", name).
Name = Any
#: Sum of channels times weights, by name.
NamedForm = Mapping[Name, Fraction | int]

INPUT: Name = "x"


class Wiring:
    """A machine under construction, of ``length`` tokens; token 0 is BOS.

    With ``merge_equal`` position columns that happen to be equal are stored once. Without it only one and the same
    array is: which columns there are, and so where the weights stand, then depends on no shape.
    """

    def __init__(self, length: int, merge_equal: bool = True):
        self.length = length
        self.merge_equal = merge_equal
        self._columns: list[npt.NDArray[np.int64]] = []
        self._column_at: dict[int, Name] = {}
        self._column_of: dict[bytes, Name] = {}
        self._flags: dict[bytes, tuple[Name, Name]] = {}
        self._squares: dict[Name, npt.NDArray[np.int64]] = {}
        self._data: dict[Name, None] = {}
        self._blocks: list[tuple[list[tuple[Any, Any, Any]], list[list[tuple[str, Name, Any, Any]]]]] = []
        self.token = np.arange(length, dtype=np.int64)
        self.one = self.column(np.ones(length, dtype=np.int64))

    # -- channels -----------------------------------------------------------------------------------------------------

    def column(self, values: npt.NDArray[np.int64]) -> Name:
        """A position column of ``values``, an int64 array of shape (length,)."""
        # Arrays in _columns live on, so an id in _column_at is one array's; to compare contents costs their length.
        if id(values) not in self._column_at:
            name = ("column", len(self._columns))
            if self.merge_equal:
                name = self._column_of.setdefault(values.tobytes(), name)
            if name[1] < len(self._columns):
                return name
            self._columns.append(values)
            self._column_at[id(values)] = name
        return self._column_at[id(values)]

    def squares(self, values: npt.NDArray[np.int64]) -> Name:
        """The position column of the squares of a position column."""
        name = self.column(values)
        if name not in self._squares:
            self._squares[name] = values * values
        return self.column(self._squares[name])

    def addresses(self, count: int, values: npt.NDArray[np.int64]) -> Name:
        """A column of addresses for tokens 1..count, and one that leads to BOS (even with an offset) for all others."""
        column = np.full(self.length, -self.length, dtype=np.int64)
        column[1 : count + 1] = values
        return self.column(column)

    def data(self, *name: Any) -> Name:
        """The data channel of that name; new names make new channels, which start at 0."""
        channel = ("data", name)
        self._data.setdefault(channel)
        return channel

    # -- blocks -------------------------------------------------------------------------------------------------------

    def block(self) -> None:
        """Begin the next block."""
        self._blocks.append(([], []))

    def fetch(self, target: Name, source: Name, base: Name, offset: int = 0) -> None:
        """A head: target += source at the token with address base + offset."""
        own = self.token
        self._head({base: 1, self.one: offset}, own, {(target, source): 1})

    def mean(
        self,
        target: Name,
        source: Name,
        query: Name,
        groups: npt.NDArray[np.int64],
        weight: Fraction | int = 1,
    ) -> None:
        """A head: target += weight x mean of the source over the tokens of the query's group."""
        self._head({query: 1}, groups, {(target, source): weight})

    def _head(
        self, query: NamedForm, keys: npt.NDArray[np.int64], value: Mapping[tuple[Name, Name], Any]
    ) -> None:
        key = self.column(keys), self.squares(keys)
        self._blocks[-1][0].append(([query, {self.one: 1}], [{key[0]: 2}, {key[1]: -1}], value))

    def mean_for(
        self, target: Name, source: Name, token: int, members: npt.NDArray[np.bool_], weight: Fraction | int
    ) -> None:
        """A head for one token: there target += weight x mean of the source over members; elsewhere BOS is read."""
        flags = members.tobytes()
        if flags not in self._flags:
            others = ~members
            others[0] = False
            self._flags[flags] = (self.column(members.astype(np.int64)), self.column(others.astype(np.int64)))
        inside, outside = self._flags[flags]
        own, square = self.column(self.token), self.squares(self.token)
        query = {square: -1, own: 2 * token, self.one: Fraction(1, 2) - token**2}
        self._blocks[-1][0].append(
            ([query, {self.one: 1}], [{inside: 1}, {outside: -1}], {(target, source): weight})
        )

    def stage(self, operations: Iterable[tuple[str, Name, NamedForm, NamedForm]]) -> None:
        """Token-wise operations (kind, target, left form, right form), applied at once."""
        self._blocks[-1][1].append(list(operations))

    # -- the finished machine -----------------------------------------------------------------------------------------

    def machine(self, inputs: int, outputs: int, output: Name) -> Machine:
        """Number the channels. Inputs stand at tokens 1..inputs, outputs at 1..outputs of the channel ``output``."""
        number: dict[Name, int] = {INPUT: 0}
        for i in range(len(self._columns)):
            number["column", i] = 1 + i
        for name in self._data:
            number[name] = len(number)

        def form(named: NamedForm) -> dict[int, Fraction]:
            return {number[name]: Fraction(weight) for name, weight in named.items() if weight}

        def matrix(rows: list[NamedForm]) -> dict[tuple[int, int], Fraction]:
            return {
                (r, channel): weight for r, row in enumerate(rows) for channel, weight in form(row).items()
            }

        shared: dict[Any, dict[tuple[int, int], Fraction]] = {}

        def key_matrix(rows: list[NamedForm]) -> dict[tuple[int, int], Fraction]:
            # Equal key matrices are one object: the plan prepares each once.
            return shared.setdefault(tuple(tuple(row.items()) for row in rows), matrix(rows))

        blocks = tuple(
            Block(
                tuple(
                    Head(
                        matrix(query),
                        key_matrix(key),
                        {
                            (number[target], number[source]): Fraction(w)
                            for (target, source), w in value.items()
                        },
                    )
                    for query, key, value in heads
                ),
                tuple(
                    tuple(
                        Operation(kind, number[target], form(left), form(right))
                        for kind, target, left, right in stage
                    )
                    for stage in stages
                ),
            )
            for heads, stages in self._blocks
        )
        return Machine(
            blocks,
            len(number),
            np.stack(self._columns, axis=1),
            np.arange(1, inputs + 1),
            np.arange(1, outputs + 1),
            number[output],
        )
