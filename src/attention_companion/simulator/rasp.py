"""A RASP-style language: a program works on sequences, and moves numbers between tokens by selecting and averaging.

A program is a Python function that is handed a :class:`Rasp` (one run: some tokens and a kind of numbers) and combines
its sequences. There are two types of them. :class:`Numbers` hold data; token-wise maps from the run's declared basis
and linear forms work on them. :class:`Integers` hold positions; only they may decide who attends to whom:

    select(keys, queries, predicate)   which keys each query selects,
    aggregate(selector, values)        the mean of the selected values; 0 where nothing is selected,
    selector_width(selector)           how many are selected.

A selection that read data would change with the input, and nothing could be proved for all inputs at once; so it
raises, unless the run says ``integer_selectors=True`` (Match2 needs it, over a finite alphabet). The run counts layers
(the depth of nested aggregates) and heads (different selectors at one depth), and keeps every pattern for pictures.

Source: the language RASP of Weiss, Goldberg and Yahav (2021), in a form of ours: a closed basis of token-wise maps,
and numbers of any kind of :mod:`.arithmetic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from ._rasp_selector import Selector, compare
from .arithmetic import Arithmetic

#: Token-wise maps of attention programs.
BASIS = ("product", "exp", "division")
#: All that a run may declare: relu for MaxMin, table (a finite embedding table) for Match2 and k-PARITY.
MAPS = (*BASIS, "relu", "table")
#: An address that no token has: a query for it selects nothing.
NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Integers:
    """An integer at each token, shape (length,); from positions alone unless ``reads_data``."""

    run: Rasp
    values: npt.NDArray[np.int64]
    depth: int = 0
    reads_data: bool = False

    def numbers(self) -> Numbers:
        """The same values as data."""
        return Numbers(self.run, self.run.kind.array(int(v) for v in self.values), self.depth)


@dataclass(frozen=True, eq=False)
class Numbers:
    """A number of the run's kind at each token, shape (length,); ``depth`` counts the attention layers behind it.

    Sums, differences and constant multiples are linear and free, as a transformer's own matrices do them. ``*`` of two
    sequences, :meth:`exp`, ``/``, :meth:`relu` and :meth:`table` are token-wise maps and must be in the run's basis.
    """

    run: Rasp
    values: npt.NDArray[Any]
    depth: int = 0

    def __add__(self, other: Numbers) -> Numbers:
        return self._with(other, self.values + other.values)

    def __sub__(self, other: Numbers) -> Numbers:
        return self + other.scale(-1)

    def scale(self, factor: Any) -> Numbers:
        """The constant multiple ``factor`` (an integer, a Fraction or a number of the run's kind)."""
        return Numbers(self.run, self.values * self.run.kind.number(factor), self.depth)

    def __mul__(self, other: Numbers) -> Numbers:
        self.run.declared("product")
        return self._with(other, self.values * other.values)

    def __truediv__(self, other: Numbers) -> Numbers:
        """Raises ZeroDivisionError where a divisor is (or, for balls, may be) 0, at any token."""
        self.run.declared("division")
        return self._with(other, self.run.kind.divide(self.values, other.values))

    def exp(self) -> Numbers:
        """The exponential; OverflowError where float64 cannot hold it."""
        self.run.declared("exp")
        with np.errstate(over="ignore"):
            image = self.run.kind.exp(self.values)
        if image.dtype == np.float64 and not np.isfinite(image).all():
            raise OverflowError(
                f"exp({float(np.max(self.values)):.6g}) exceeds float64 (the limit is near 709.78); use ball "
                "arithmetic or a smaller layer"
            )
        return Numbers(self.run, image, self.depth)

    def relu(self) -> Numbers:
        """max(x, 0)."""
        self.run.declared("relu")
        return Numbers(self.run, self.run.kind.relu(self.values), self.depth)

    def table(self, entries: Mapping[Any, int]) -> Integers:
        """An embedding table: the integer that ``entries`` holds for each value, whose keys are the finite alphabet.

        Raises ValueError for a value outside the alphabet, TypeError for numbers without exact equality (balls and
        polynomials).
        """
        self.run.declared("table")
        if self.run.kind.name not in ("rational", "float64"):
            raise TypeError(
                f"a table needs exact values, not {self.run.kind.name} numbers; run it on rationals"
            )
        images = []
        for token, value in enumerate(self.values):
            exact = Fraction(int(value.p), int(value.q)) if isinstance(value, flint.fmpq) else Fraction(value)
            if exact not in entries:
                raise ValueError(
                    f"token {token} is {exact}, which is not in the table's alphabet of {len(entries)} values"
                )
            images.append(entries[exact])
        return Integers(self.run, np.array(images, dtype=np.int64), self.depth, reads_data=True)

    def _with(self, other: Numbers, values: npt.NDArray[Any]) -> Numbers:
        return Numbers(self.run, values, max(self.depth, other.depth))


@dataclass(frozen=True, eq=False)
class Step:
    """What one aggregate did: its layer, its pattern and what it brought to each token, shape (length,)."""

    layer: int
    selector: Selector
    brought: npt.NDArray[Any]


class Rasp:
    """One run: tokens of one kind of numbers, and the record of what the program did with them.

    Parameters
    ----------
    kind
        The arithmetic (float64, rational, ball, symbolic); for balls, stay inside ``kind.precision()``.
    tokens
        The input, one number a token (:meth:`.Arithmetic.array` makes them).
    length
        Number of tokens, at least that of the input; the tokens behind the input hold 0.
    basis
        The token-wise maps that the program may use, out of :data:`MAPS`.
    integer_selectors
        Let selectors read integers that come from data through a table.
    keep_steps
        Keep what every aggregate brought, in ``steps``, for a walk through the layers.

    ``tokens`` and ``indices`` are its base sequences; ``layers``, ``heads_per_layer``, ``maps_used`` and ``heads``
    what it has used so far.
    """

    def __init__(
        self,
        kind: Arithmetic,
        tokens: npt.NDArray[Any],
        length: int | None = None,
        basis: tuple[str, ...] = BASIS,
        integer_selectors: bool = False,
        keep_steps: bool = False,
    ):
        if not len(tokens):
            raise ValueError("the input sequence is empty; give at least one token")
        if kind.dtype is not object and not np.isfinite(tokens).all():
            raise ValueError("a token is not finite; every token must be a finite number")
        self.length = len(tokens) if length is None else length
        if self.length < len(tokens):
            raise ValueError(f"{len(tokens)} tokens do not fit in a length of {self.length}")
        unknown = [name for name in basis if name not in MAPS]
        if unknown:
            raise ValueError(f"basis names {', '.join(unknown)}; the token-wise maps are {', '.join(MAPS)}")
        self.kind, self.basis, self.integer_selectors = kind, basis, integer_selectors
        values = kind.zeros(self.length)
        values[: len(tokens)] = tokens
        self.tokens = Numbers(self, values)
        self.indices = Integers(self, np.arange(self.length, dtype=np.int64))
        self.maps_used: set[str] = set()
        self.steps: list[Step] = []
        self._keep_steps = keep_steps
        self._selectors: dict[tuple[bytes, bytes, str, int, bool], Selector] = {}
        self._heads: dict[int, dict[int, Selector]] = {}

    def positions(self, values: Any) -> Integers:
        """An integer for each position, shape (length,), or one for all: a column of the position table.

        Raises TypeError for what is not integers, ValueError for another length.
        """
        column = np.asarray(values)
        if not np.issubdtype(column.dtype, np.integer):
            raise TypeError(f"positions hold {column.dtype}; only integers may enter a selector")
        if column.shape not in ((), (self.length,)):
            raise ValueError(f"positions have shape {column.shape}; expected ({self.length},) or one integer")
        return Integers(self, np.broadcast_to(column, self.length).astype(np.int64))

    def constant(self, value: Any) -> Numbers:
        """The same number at each token."""
        return self.positions(1).numbers().scale(value)

    def select(self, keys: Integers, queries: Integers, predicate: str = "==", label: str = "") -> Selector:
        """All pairs with ``key predicate query``. Equal selections are one selector, so they count as one head.

        Raises TypeError where a sequence holds data, ValueError for an unknown predicate.
        """
        for name, sequence in (("keys", keys), ("queries", queries)):
            if not isinstance(sequence, Integers):
                raise TypeError(f"{name} of a selector hold data; selectors read integer positions only")
            if sequence.reads_data and not self.integer_selectors:
                raise TypeError(
                    f"{name} of a selector depend on the data; selectors read positions only, unless the run is made "
                    "with integer_selectors=True"
                )
        depth = max(keys.depth, queries.depth)
        reads_data = keys.reads_data or queries.reads_data
        known = (keys.values.tobytes(), queries.values.tobytes(), predicate, depth, reads_data)
        if known not in self._selectors:
            self._selectors[known] = compare(keys.values, queries.values, predicate, depth, reads_data, label)
        return self._selectors[known]

    def aggregate(self, selector: Selector, values: Numbers) -> Numbers:
        """The mean of ``values`` over the keys that each query selects; 0 where it selects none."""
        depth = 1 + max(selector.depth, values.depth)
        self._record(depth, selector)
        means = self._means(selector, values)
        if self._keep_steps:
            self.steps.append(Step(depth, selector, means))
        return Numbers(self, means, depth)

    def _means(self, selector: Selector, values: Numbers) -> npt.NDArray[Any]:
        kind, widths = self.kind, selector.widths
        if kind.dtype is not object:
            queries = np.repeat(np.arange(self.length), widths)
            sums = np.bincount(queries, weights=values.values[selector.keys], minlength=self.length)
            return np.asarray(sums / np.maximum(widths, 1))
        means = kind.zeros(self.length)
        seen: dict[bytes, Any] = {}
        for query in np.nonzero(widths)[0]:
            chosen = selector.keys[selector.starts[query] : selector.starts[query + 1]]
            if len(chosen) == 1:
                means[query] = values.values[chosen[0]]
                continue
            # Tokens of one row of a matrix select the same keys: their sum is worked out once.
            name = chosen.tobytes()
            if name not in seen:
                total = values.values[chosen[0]]
                for key in chosen[1:]:
                    total = total + values.values[key]
                seen[name] = total * kind.number(Fraction(1, len(chosen)))
            means[query] = seen[name]
        return means

    def selector_width(self, selector: Selector) -> Integers:
        """How many keys each query selects; a head of its own, as in RASP."""
        self._record(selector.depth + 1, selector)
        return Integers(self, selector.widths.astype(np.int64), selector.depth + 1, selector.reads_data)

    def fetch(self, values: Numbers, addresses: npt.NDArray[np.int64], label: str = "") -> Numbers:
        """The value at the token ``addresses[t]``, for each token t; 0 for an address that no token has."""
        return self.aggregate(self.select(self.indices, self.positions(addresses), "==", label), values)

    def declared(self, name: str) -> None:
        """Note the use of a token-wise map; ValueError if the run's basis lacks it."""
        if name not in self.basis:
            raise ValueError(
                f"the map {name!r} is not in this run's declared basis ({', '.join(self.basis)})"
            )
        self.maps_used.add(name)

    def _record(self, depth: int, selector: Selector) -> None:
        self._heads.setdefault(depth, {})[id(selector)] = selector

    @property
    def layers(self) -> int:
        """Attention layers used: the depth of nested aggregates, each run as early as its input allows."""
        return max(self._heads, default=0)

    @property
    def heads(self) -> list[list[Selector]]:
        """The attention patterns, layer by layer, in the order of their first use: what the pictures show."""
        return [list(self._heads.get(layer, {}).values()) for layer in range(1, self.layers + 1)]

    @property
    def heads_per_layer(self) -> tuple[int, ...]:
        return tuple(len(layer) for layer in self.heads)
