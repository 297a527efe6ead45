"""Running a machine the plain way: all channels of all tokens, and argmax over all scores, data-dependent or not.

This is the definition made executable. It costs length^2 scores a head, so it is for small lengths: as a check of the
planned execution, and for machines whose scores read data (a changed weight can make one).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import Arithmetic, Ball
from .encoder import Form, Head, Machine, Matrix

LARGEST_SCORES = 50_000_000


def run_densely(machine: Machine, inputs: npt.NDArray[Any], arithmetic: Arithmetic) -> npt.NDArray[Any]:
    """The output tokens' values for one input sequence, a one-dimensional array of the arithmetic's numbers.

    Raises as :func:`final_state` does.
    """
    state = final_state(machine, inputs, arithmetic)
    return np.asarray(state[machine.output_channel][machine.output_tokens])


def final_state(machine: Machine, inputs: npt.NDArray[Any], arithmetic: Arithmetic) -> list[npt.NDArray[Any]]:
    """All channels of all tokens after the last block: one array of ``length`` numbers for each channel.

    Raises ValueError when length^2 exceeds 5e7 scores, ZeroDivisionError where a divisor is 0, ArithmeticError where
    balls overlap so that the largest score is not known.
    """
    if inputs.shape != machine.input_tokens.shape:
        raise ValueError(
            f"the input has {inputs.size} numbers; this encoder reads {machine.input_tokens.size}"
        )
    if machine.length**2 > LARGEST_SCORES:
        raise ValueError(
            f"a dense run compares {machine.length}^2 scores a head; it is for lengths up to "
            f"{int(LARGEST_SCORES**0.5)}, use the planned run"
        )
    state = [arithmetic.zeros(machine.length) for _ in range(machine.width)]
    state[0][machine.input_tokens] = inputs
    for p, channel in enumerate(machine.position_channels):
        state[channel] = arithmetic.array(int(v) for v in machine.positions[:, p])
    for block in machine.blocks:
        added: list[tuple[int, npt.NDArray[Any]]] = []
        for head in block.heads:
            chosen = _maximisers(head, state, arithmetic)
            means: dict[int, npt.NDArray[Any]] = {}
            for (target, source), weight in head.value.items():
                if source not in means:
                    means[source] = _means(state[source], chosen, arithmetic)
                added.append((target, means[source] * arithmetic.number(weight)))
        for target, values in added:
            state[target] = state[target] + values
        for stage in block.stages:
            results = []
            for operation in stage:
                left = _form(operation.left, state, arithmetic)
                if operation.kind == "exp":
                    value = arithmetic.exp(left)
                elif operation.kind == "relu":
                    value = arithmetic.relu(left)
                else:
                    right = _form(operation.right, state, arithmetic)
                    value = left * right if operation.kind == "product" else arithmetic.divide(left, right)
                results.append((operation.target, value))
            for target, value in results:
                state[target] = state[target] + value
    return state


def _form(form: Form, state: list[npt.NDArray[Any]], arithmetic: Arithmetic) -> npt.NDArray[Any]:
    total = arithmetic.zeros(len(state[0]))
    for channel, weight in form.items():
        total = total + state[channel] * arithmetic.number(weight)
    return total


def _maximisers(head: Head, state: list[npt.NDArray[Any]], arithmetic: Arithmetic) -> list[list[int]]:
    length = len(state[0])
    queries, keys = (
        _rows(head.query, head.rows, state, arithmetic),
        _rows(head.key, head.rows, state, arithmetic),
    )
    scores = np.full((length, length), arithmetic.number(0), dtype=arithmetic.dtype)
    for query, key in zip(queries, keys, strict=True):
        scores = scores + query[:, np.newaxis] * key[np.newaxis, :]
    return [_largest(row, arithmetic) for row in scores]


def _rows(
    matrix: Matrix, rows: int, state: list[npt.NDArray[Any]], arithmetic: Arithmetic
) -> list[npt.NDArray[Any]]:
    forms: list[dict[int, Any]] = [{} for _ in range(rows)]
    for (row, channel), weight in matrix.items():
        forms[row][channel] = weight
    return [_form(form, state, arithmetic) for form in forms]


def _largest(scores: npt.NDArray[Any], arithmetic: Arithmetic) -> list[int]:
    if not isinstance(arithmetic, Ball):
        top = max(scores)
        return [k for k, score in enumerate(scores) if score == top]
    top = max(scores, key=lambda ball: ball.mid())
    chosen = [k for k, score in enumerate(scores) if not score < top]
    if any(not (scores[k] == top) for k in chosen):
        raise ArithmeticError("balls of scores overlap, so their largest is not known: raise bits")
    return chosen


def _means(source: npt.NDArray[Any], chosen: list[list[int]], arithmetic: Arithmetic) -> npt.NDArray[Any]:
    means = arithmetic.zeros(len(chosen))
    for q, members in enumerate(chosen):
        total = source[members[0]]
        for k in members[1:]:
            total = total + source[k]
        means[q] = total if len(members) == 1 else total / arithmetic.number(len(members))
    return means
