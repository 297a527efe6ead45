"""The target T: golden values, a 60-digit reference, properties, and errors for input that is no layer."""

from __future__ import annotations

from fractions import Fraction as F

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.simulator import Shape, attention

from .layers import GOLDEN, awkward_layers, float_layer, matrices, rational_layer, surrogate

X, A, V = GOLDEN


def reference(x, heads, output=None, digits=60):
    """T(X) in mpmath, row by row from the definition; shares nothing with the code under test."""
    with mpmath.workdps(digits + 15):
        numbers = [[mpmath.mpf(v.numerator) / v.denominator for v in row] for row in x]
        rows = [[] for _ in numbers]
        for a, v in heads:
            a = [[mpmath.mpf(F(w).numerator) / F(w).denominator for w in row] for row in a]
            v = [[mpmath.mpf(F(w).numerator) / F(w).denominator for w in row] for row in v]
            for i, query in enumerate(numbers):
                weights = [
                    mpmath.exp(
                        sum(query[r] * a[r][c] * key[c] for r in range(len(query)) for c in range(len(query)))
                    )
                    for key in numbers
                ]
                for c in range(len(v[0])):
                    values = [sum(key[r] * v[r][c] for r in range(len(key))) for key in numbers]
                    rows[i].append(
                        sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
                    )
        if output is not None:
            rows = [
                [
                    sum(
                        row[r] * F(output[r][c]).numerator / F(output[r][c]).denominator
                        for r in range(len(row))
                    )
                    for c in range(len(output[0]))
                ]
                for row in rows
            ]
        return rows


def inside(balls, numbers, bits=200):
    with flint.ctx.workprec(bits + 60):
        return all(
            # The reference itself is known to 1e-68 only.
            ball.overlaps(flint.arb(mpmath.nstr(number, 75, strip_zeros=False)) + flint.arb(0, 1e-68))
            for row, exact in zip(balls, numbers, strict=True)
            for ball, number in zip(row, exact, strict=True)
        )


def test_golden_value_1_scores_and_values():
    product = [[sum(X[i][k] * A[k][c] for k in range(2)) for c in range(2)] for i in range(3)]
    scores = [[sum(product[i][c] * X[j][c] for c in range(2)) for j in range(3)] for i in range(3)]
    assert scores == [
        [F(-1, 6), F(8, 3), F(-5, 6)],
        [F(-11, 4), F(58, 9), F(-35, 12)],
        [F(35, 48), F(-5, 6), F(25, 48)],
    ]
    values = [[sum(X[j][k] * V[k][v] for k in range(2)) for v in range(2)] for j in range(3)]
    assert values == [[F(6, 7), F(-25, 6)], [F(37, 21), F(106, 9)], [F(-5, 28), F(-5)]]


def test_golden_value_1():
    wanted = [
        ["1.6592318657425537648", "10.451402593170879252"],
        ["1.7616459949106170524", "11.774715396031048495"],
        ["0.53497105571992738446", "-2.8481108632833349671"],
    ]
    balls = attention(X, [(A, V)], arithmetic="ball")
    assert [[ball.str(20, radius=False) for ball in row] for row in balls] == wanted
    assert attention(X, [(A, V)]) == pytest.approx(np.array(wanted, dtype=float), rel=1e-14)


def test_golden_value_2_is_exact():
    rows = attention(X, [(A, V)], arithmetic="rational", exp=surrogate)
    assert rows[0] == [F(59191, 37800), F(77141, 8100)]
    assert rows[2] == [F(606745, 951048), F(-341677, 203796)]


def test_golden_value_3_uniform_attention():
    x, a, v = [[1, 2], [3, 4], [5, 7]], [[0, 0], [0, 0]], [[1], [-1]]
    assert attention(x, [(a, v)], arithmetic="rational", exp=surrogate) == [[F(-4, 3)]] * 3


def test_golden_value_4_more_tokens_than_twice_the_dimension():
    x = [[F(1, 2)], [F(-1)], [F(2)], [F(1, 3)], [F(0)]]
    balls = attention(x, [([[F(3, 2)]], [[2]])], arithmetic="ball")
    assert [row[0].str(20, radius=False) for row in balls[:4]] == [
        "2.2193570381683630533",
        "-1.1932018242113804786",
        "3.9348891776014006567",
        "1.7277352546613449074",
    ]
    with flint.ctx.workprec(300):
        assert balls[4][0].contains(flint.arb(flint.fmpq(11, 15)))


@pytest.mark.parametrize("sizes", [(3, 2, 2, 1, None), (2, 3, 1, 2, 2), (5, 1, 2, 1, None), (1, 1, 1, 1, 1)])
def test_balls_hold_the_60_digit_reference_and_are_small(sizes):
    layer = rational_layer(Shape.read(*sizes), np.random.default_rng(1), top=5)
    balls = attention(*layer, arithmetic="ball")
    assert inside(balls, reference(*layer))
    assert all(float(ball.rad()) <= 1e-58 * max(1, abs(float(ball.mid()))) for row in balls for ball in row)


def test_the_reference_check_can_fail():
    balls = attention(X, [(A, V)], arithmetic="ball")
    wrong = reference(X, [(A, V)])
    wrong[1][1] += mpmath.mpf(10) ** -55
    assert not inside(balls, wrong)


@settings(max_examples=30, deadline=None)
@given(awkward_layers(), st.randoms(use_true_random=False))
def test_permuting_rows_of_x_permutes_the_result(layer, random):
    x, heads, output = layer
    order = random.sample(range(len(x)), len(x))
    straight = attention(x, heads, output, "rational", surrogate)
    permuted = attention([x[i] for i in order], heads, output, "rational", surrogate)
    assert permuted == [straight[i] for i in order]


@settings(max_examples=30, deadline=None)
@given(awkward_layers(), matrices(1, 3))
def test_linear_in_the_values(layer, other):
    x, heads, _ = layer
    a, v = heads[0]
    shift = [[value + other[0][r % 3] for value in row] for r, row in enumerate(v)]
    difference = [[s - w for s, w in zip(p, q, strict=True)] for p, q in zip(shift, v, strict=True)]

    def run(values):
        return attention(x, [(a, values)], arithmetic="rational", exp=surrogate)

    assert run(shift) == [
        [s + t for s, t in zip(p, q, strict=True)] for p, q in zip(run(v), run(difference), strict=True)
    ]


@settings(max_examples=30, deadline=None)
@given(awkward_layers())
def test_heads_stand_side_by_side(layer):
    x, heads, _ = layer
    both = attention(x, heads, arithmetic="rational", exp=surrogate)
    single = [attention(x, [head], arithmetic="rational", exp=surrogate) for head in heads]
    assert both == [[value for part in single for value in part[i]] for i in range(len(x))]


def test_a_shift_of_score_rows_by_the_constant_coordinate_changes_nothing():
    # With x_i = (y_i, 1) the change A + w b^T, b = (0, .., 0, 1), adds <x_i, w> to the whole row i of the scores.
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=(5, 3)), np.ones((5, 1))], axis=1)
    a, v, w = rng.normal(size=(4, 4)), rng.normal(size=(4, 2)), rng.normal(size=4)
    plain, shifted = attention(x, [(a, v)]), attention(x, [(a + np.outer(w, [0, 0, 0, 1]), v)])
    assert shifted == pytest.approx(plain, abs=1e-13)
    other = attention(x, [(a + np.outer([0, 0, 0, 1], w), v)])
    assert not np.allclose(other, plain, atol=1e-3), "a shift of the columns must change it"


def test_float64_subtracts_the_maximum():
    x = np.array([[1000.0], [999.0]])
    assert attention(x, [([[1.0]], [[1.0]])]) == pytest.approx(np.array([[1000.0], [1000.0]]))


def test_a_float64_overflow_is_an_error_not_a_nan():
    with pytest.raises(OverflowError, match="ball arithmetic"):
        attention([[1e200]], [([[1.0]], [[1.0]])])


GOOD = {"X": X, "heads": [(A, V)]}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"X": [[1, 2], [3]]}, ValueError, "unequal lengths"),
        ({"X": []}, ValueError, "X is empty"),
        ({"X": [[]]}, ValueError, "X is empty"),
        ({"X": [[1, float("nan")]]}, ValueError, "must be finite"),
        ({"X": [[1, float("inf")]]}, ValueError, "must be finite"),
        ({"X": [[1, "2"]]}, TypeError, r"X\[0\]\[1\] is '2'; give a real number"),
        ({"X": [[1, True]]}, TypeError, "give a real number"),
        ({"X": [[1, 2j]]}, TypeError, "give a real number"),
        ({"X": [1, 2]}, ValueError, "where a row belongs"),
        ({"X": np.zeros(3)}, ValueError, "two dimensions"),
        ({"X": np.zeros((2, 2, 2))}, ValueError, "two dimensions"),
        ({"X": 3}, TypeError, "give a matrix"),
        ({"X": "ab"}, TypeError, "give a matrix"),
        ({"X": [[1, 10**400]]}, ValueError, "too large for float64"),
        ({"heads": []}, ValueError, "at least one pair"),
        ({"heads": 5}, ValueError, "at least one pair"),
        ({"heads": [A]}, ValueError, r"A of head 0|not a pair"),
        ({"heads": [(A, V, V)]}, ValueError, "not a pair"),
        ({"heads": [([[1, 2]], V)]}, ValueError, r"A of head 0 has shape \(1, 2\).*expected \(2, 2\)"),
        ({"heads": [([[1]], V)]}, ValueError, r"expected \(2, 2\)"),
        ({"heads": [(A, [[1, 2]])]}, ValueError, "V of head 0 has 1 rows"),
        ({"heads": [(A, V), (A, [[1], [2]])]}, ValueError, "one d_v"),
        ({"output": [[1]]}, ValueError, "output has 1 rows; 1 head"),
        ({"arithmetic": "float32"}, ValueError, "choose one of float64, rational, ball"),
        ({"arithmetic": "rational"}, ValueError, "give exp=.*ball"),
        ({"exp": surrogate}, ValueError, "leave it out"),
        ({"exp": surrogate, "arithmetic": "ball"}, ValueError, "leave it out"),
        ({"bits": 5, "arithmetic": "ball"}, ValueError, "bits is 5"),
        ({"bits": True, "arithmetic": "ball"}, ValueError, "bits is True"),
        ({"arithmetic": "rational", "exp": lambda x: x - x}, ValueError, "must be positive"),
        ({"arithmetic": "rational", "exp": lambda x: 1.5}, TypeError, "Fraction or an integer"),
        ({"arithmetic": "rational", "exp": surrogate, "X": [[0.5, 1]]}, TypeError, "the float 0.5"),
    ],
)
def test_input_that_is_no_layer_is_refused(change, error, text):
    with pytest.raises(error, match=text):
        attention(**(GOOD | change))


def test_flint_numpy_and_torch_numbers_are_read():
    torch = pytest.importorskip("torch")
    x = [[flint.fmpq(1, 2), flint.fmpz(-1)]]
    exact = attention(x, [(np.array([[1, 2], [3, 4]]), [[1], [1]])], arithmetic="rational", exp=surrogate)
    assert exact == [[F(-1, 2)]]
    rng = np.random.default_rng(0)
    x, heads, _ = float_layer(Shape.read(3, 2, 2), rng)
    pairs = [(torch.tensor(a), torch.tensor(v)) for a, v in heads]
    assert (attention(torch.tensor(x), pairs) == attention(x, heads)).all()
