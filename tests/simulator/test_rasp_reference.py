"""Constants from the reference RASP interpreter, an oracle that shares nothing with ours.

Each SOURCE below was typed into github.com/tech-srl/RASP at 61dde62577589b291db39d192de7d481ce97fdae (Python 3.11,
antlr4-python3-runtime 4.9, graphviz 0.21, termcolor), once, and its answer is the constant beside it, with the
interpreter's three decimals. To do it again, in a checkout of that commit, for a source S and an input X:

    printf 'set example [5, -3, 8, 2, 7, -6]\\ntokens = tokens_int;\\n%s\\nanswer(%s);\\nquit()\\n' "$S" "$X" |
        python -m RASP_support
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from attention_companion.simulator import Rasp, match2, maxmin, parity
from attention_companion.simulator.arithmetic import Rational
from attention_companion.simulator.programs.matrices import Matrix, product, transpose
from attention_companion.simulator.programs.softmax import softmax_rows

TOKENS = [5, -3, 8, 2, 7, -6]


def run_on(tokens, exp=None):
    kind = Rational(exp)
    return Rasp(kind, kind.array(tokens))


def floats(values):
    return [int(v.p) / int(v.q) for v in values]


def test_an_empty_selection():
    # SOURCE answer = aggregate(select(indices, indices + 2, ==), tokens);
    run = run_on(TOKENS)
    moved = run.aggregate(run.select(run.indices, run.positions(run.indices.values + 2)), run.tokens)
    assert floats(moved.values) == [8, 2, 7, -6, 0, 0]


def test_averages():
    # SOURCE answer = aggregate(select(indices, indices % 4, <=), tokens);
    run = run_on(TOKENS)
    selector = run.select(run.indices, run.positions(run.indices.values % 4), "<=")
    means = run.aggregate(selector, run.tokens)
    assert floats(means.values) == pytest.approx([5, 1.0, 3.333, 3.0, 5, 1.0], abs=5e-4)


def test_a_width_of_a_combination():
    # SOURCE answer = selector_width(select(indices % 3, indices - 2, <) and not select(indices, 4, ==));
    run = run_on(TOKENS)
    t = run.indices.values
    below = run.select(run.positions(t % 3), run.positions(t - 2), "<")
    four = run.select(run.indices, run.positions(4))
    assert run.selector_width(below & ~four).values.tolist() == [0, 0, 0, 2, 3, 5]


def test_an_average_over_a_union():
    # SOURCE answer = aggregate(select(indices, 1, <) or select(indices, indices, >), tokens);
    run = run_on(TOKENS)
    union = run.select(run.indices, run.positions(1), "<") | run.select(run.indices, run.indices, ">")
    means = run.aggregate(union, run.tokens)
    assert floats(means.values) == pytest.approx([2.167, 3.2, 2.0, 2.0, -0.5, 5], abs=5e-4)


def test_transpose():
    # SOURCE answer = aggregate(select(indices, (indices % 2) * 3 + (indices - indices % 2) / 2, ==), tokens);
    assert floats(transpose(Matrix(run_on(TOKENS).tokens, 2, 3)).values.values) == [5, 2, -3, 7, 8, -6]


@pytest.mark.parametrize("arrangement", ["paper", "scratch"])
def test_product(arrangement):
    # SOURCE i = (indices - indices % 4) / 4;
    #        left = aggregate(select(indices, i * 2 + (indices % 4 - indices % 2) / 2, ==), tokens);
    #        right = aggregate(select(indices, 4 + indices % 4, ==), tokens);
    #        entry = select(i * 2 + indices % 2, indices, ==) and select(4, indices, >);
    #        answer = 2 * aggregate(entry, left * right);
    tokens = run_on([1, 2, 3, 4, 5, -6, 7, 8]).tokens
    result = product(Matrix(tokens, 2, 2), Matrix(tokens, 2, 2, 4), arrangement)
    assert floats(result.values.values) == [19, 10, 43, 14, 0, 0, 0, 0]


def test_softmax_with_powers_of_two():
    # SOURCE r = (indices - indices % 3) / 3;
    #        answer = 2 ^ tokens / (3 * aggregate(select(r, r, ==), 2 ^ tokens));
    run = run_on([1, 2, 0, -1, -1, 3], exp=lambda x: F(2) ** int(x))
    weights = softmax_rows(Matrix(run.tokens, 2, 3))
    reference = [0.286, 0.571, 0.143, 0.056, 0.056, 0.889]
    assert np.allclose(floats(weights.values.values), reference, rtol=0, atol=5e-4)


def test_maxmin():
    # SOURCE other = aggregate(select(indices, indices + 1 - 2 * (indices % 2), ==), tokens);
    #        answer = (tokens if tokens > other else other) if indices % 2 == 0
    #            else (other if tokens > other else tokens);
    assert maxmin([-3, 5, 8, 2, -7, -6, 4, 4]) == [5, -3, 8, 2, -6, -7, 4, 4]


def test_match2():
    # SOURCE answer = aggregate(select(tokens % 19, (0 - tokens) % 19, ==), 1);
    assert match2([63, 70, 77, 94, 67, 39], 19) == [1, 1, 1, 1, 0, 1]
    assert match2([19, 3, 5, 16, 0, 7], 19) == [1, 1, 0, 1, 1, 0]


def test_parity():
    # SOURCE inside = indicator(indices == 0 or indices == 2 or indices == 3);
    #        answer = (length * aggregate(select(1, 1, ==), tokens * inside)) % 2;
    assert parity([1, 1, 0, 1, 1, 0], [0, 2, 3]) == 0
    assert parity([1, 1, 1, 1, 1, 0], [0, 2, 3]) == 1
