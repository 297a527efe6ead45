"""What the explorer shows: two tables of a notebook's run, read strictly and packed into one small object.

The tables are the CSV files that stand behind the two figures of the notebook, so that a reader who downloads them
holds every number that the explorer can show.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

SUCCESS_COLUMNS = ("d", "m", "factor", "starts", "specialised", "collapsed", "distracted", "low", "high")
MAP_COLUMNS = ("d", "m", "factor", "start", "p", "q", "head 1", "head 2")
#: Attention weights are stored as integers in this unit.
UNITS = 10_000
#: The factor of a map that was taken before any step: a step of rate 0.
BEFORE = 0.0
#: More than this many characters of data make the page slow to open on a phone.
LIMIT = 500_000


class Malformed(ValueError):
    """A table does not hold what the explorer needs; the message names the table, the row and what was expected."""


def read_rows(text: str, columns: Sequence[str], what: str) -> list[dict[str, str]]:
    """The rows of a CSV whose header is exactly `columns`. Raises `Malformed`."""
    reader = csv.reader(io.StringIO(text))
    header = next(reader, [])
    if tuple(header) != tuple(columns):
        raise Malformed(
            f"{what}: the columns are {', '.join(header) or 'none'}; expected {', '.join(columns)}"
        )
    rows = []
    for number, cells in enumerate(reader, start=2):
        if len(cells) != len(columns):
            raise Malformed(f"{what}, line {number}: {len(cells)} cells; expected {len(columns)}")
        rows.append(dict(zip(columns, cells, strict=True)))
    if not rows:
        raise Malformed(f"{what}: no rows; the notebook that writes it must draw at least one point")
    return rows


def success_cells(text: str, what: str = "success") -> dict[tuple[int, int, float], list[float]]:
    """(d, m, factor) -> [starts, specialised, collapsed, distracted, low, high]. Raises `Malformed`."""
    cells: dict[tuple[int, int, float], list[float]] = {}
    for number, row in enumerate(read_rows(text, SUCCESS_COLUMNS, what), start=2):
        where = f"{what}, line {number}"
        key = _key(row, where)
        starts, *counts = (
            _whole(row, name, where) for name in ("starts", "specialised", "collapsed", "distracted")
        )
        low, high = (_number(row, name, where) for name in ("low", "high"))
        if starts < 1 or sum(counts) > starts:
            raise Malformed(
                f"{where}: {counts} of {starts} starts; expected counts that {starts} >= 1 can hold"
            )
        if not 0 <= low <= counts[0] / starts <= high <= 1:
            raise Malformed(f"{where}: interval {low} to {high} does not hold the share {counts[0]}/{starts}")
        if key in cells:
            raise Malformed(f"{where}: d, m, factor = {key} stands twice")
        cells[key] = [starts, *counts, round(low, 6), round(high, 6)]
    return cells


def attention_maps(text: str, what: str = "maps") -> dict[tuple[int, int, float, int], dict[str, Any]]:
    """(d, m, factor, start) -> {"pair": [p, q], "heads": [weights, weights]}, in `UNITS`. Raises `Malformed`."""
    maps: dict[tuple[int, int, float, int], dict[str, Any]] = {}
    for number, row in enumerate(read_rows(text, MAP_COLUMNS, what), start=2):
        where = f"{what}, line {number}"
        d, m, factor = _key(row, where, least=BEFORE)
        pair = [_whole(row, name, where) for name in ("p", "q")]
        if not (0 <= min(pair) < max(pair) < d):
            raise Malformed(f"{where}: pair {pair}; expected two different positions in 0..{d - 1}")
        key = (d, m, factor, _whole(row, "start", where))
        if key in maps:
            raise Malformed(f"{where}: d, m, factor, start = {key} stands twice")
        heads = [_weights(row[f"head {h}"], d, f"{where}, head {h}") for h in (1, 2)]
        maps[key] = {"pair": pair, "heads": heads}
    return maps


def payload(success: str, maps: str) -> dict[str, Any]:
    """The object that the page carries; cells are named by their places in the lists d, m, factors and starts.

    A combination that neither table holds is simply absent; the page says so when a reader asks for it.
    Raises `Malformed` for a table that cannot be read, or maps at sizes or rates that the first table lacks.
    """
    cells, drawn = success_cells(success), attention_maps(maps)
    axes = [sorted({key[i] for key in cells}) for i in range(3)]
    starts = sorted({key[3] for key in drawn})
    d_axis, m_axis, factors = axes
    packed: dict[str, Any] = {}
    before: dict[str, Any] = {}
    for (d, m, factor, start), map_ in drawn.items():
        if d not in d_axis or m not in m_axis or (factor != BEFORE and factor not in factors):
            raise Malformed(f"maps: d, m, factor = {(d, m, factor)} is not in the table of successes")
        place = [d_axis.index(d), m_axis.index(m), starts.index(start)]
        if factor == BEFORE:
            before[_name(place)] = map_
            continue
        packed[_name([place[0], place[1], factors.index(factor), place[2]])] = map_["heads"]
        first = drawn.get((d, m, BEFORE, start))
        if first is None or first["pair"] != map_["pair"]:
            raise Malformed(
                f"maps: start {start} at d, m = {(d, m)} has no map of the same pair before the step (factor 0)"
            )
    return {
        "units": UNITS,
        "d": d_axis,
        "m": m_axis,
        "factors": factors,
        "starts": starts,
        "cells": {
            _name([axis.index(part) for axis, part in zip(axes, k, strict=True)]): v for k, v in cells.items()
        },
        "before": before,
        "after": packed,
    }


def embed(data: Mapping[str, Any]) -> str:
    """JSON that cannot leave the script element it stands in.

    Without a `<` there is neither an end tag nor the start of a comment; the escape means the same to JSON.
    Raises `Malformed` above `LIMIT` characters.
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    if len(text) > LIMIT:
        raise Malformed(
            f"the two tables take {len(text)} characters in the page, more than {LIMIT}; keep fewer maps or sizes"
        )
    return text.replace("<", "\\u003c")


def _name(places: Sequence[int]) -> str:
    return ".".join(map(str, places))


def _key(row: Mapping[str, str], where: str, least: float | None = None) -> tuple[int, int, float]:
    d, m, factor = _whole(row, "d", where), _whole(row, "m", where), _number(row, "factor", where)
    positive = factor > 0 or (least is not None and factor >= least)
    if d < 2 or m < 1 or not positive:
        raise Malformed(
            f"{where}: d = {d}, m = {m}, factor = {factor:g}; expected d >= 2, m >= 1, a positive factor"
        )
    return d, m, factor


def _weights(text: str, d: int, where: str) -> list[int]:
    try:
        weights = [int(part) for part in text.split()]
    except ValueError:
        raise Malformed(f"{where}: weights must be integers between blanks, got {text[:40]!r}") from None
    # Rounding moves each weight by at most half a unit.
    if len(weights) != d or min(weights) < 0 or abs(sum(weights) - UNITS) > d / 2:
        raise Malformed(
            f"{where}: {len(weights)} weights that sum to {sum(weights)}; expected {d} that are not negative and sum "
            f"to {UNITS} up to rounding"
        )
    return weights


def _whole(row: Mapping[str, str], name: str, where: str) -> int:
    if not row[name].isascii() or not row[name].isdigit():
        raise Malformed(f"{where}: {name} is {row[name]!r}; expected a whole number that is not negative")
    return int(row[name])


def _number(row: Mapping[str, str], name: str, where: str) -> float:
    try:
        number = float(row[name])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Malformed(f"{where}: {name} is {row[name]!r}; expected a finite number")
    return number
