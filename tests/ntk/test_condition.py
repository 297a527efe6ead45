"""Condition numbers: mpmath as oracle, exact laws, and the float64 route failing where it must."""

import math
from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attention_companion.ntk import (
    condition,
    condition_number,
    condition_number_ball,
    gram,
    linearized_attention,
    rank_exact,
)

from .strategies import fraction_rows, integer_rows, law

pytestmark = pytest.mark.torch_free

HILBERT = [[Fraction(1, i + j + 1) for j in range(3)] for i in range(3)]
HILBERT_CUBE_KAPPA = "20714290011717482.21"


def cube(G):
    return G.dot(G).dot(G)


def oracle(G, rank=None, digits=80):
    """|eigenvalue| ratio by mpmath's symmetric QR at many digits; the entries enter exactly."""
    with mpmath.workdps(digits):
        entries = [[Fraction(v) for v in row] for row in np.asarray(G).tolist()]
        matrix = mpmath.matrix([[mpmath.mpf(v.numerator) / v.denominator for v in row] for row in entries])
        values = sorted((abs(v) for v in mpmath.eigsy(matrix, eigvals_only=True)), reverse=True)
        return +(values[0] / values[(rank or len(values)) - 1])


def as_fraction(value):
    sign, mantissa, exponent, _ = value._mpf_
    return (-1) ** sign * mantissa * Fraction(2) ** exponent


def test_golden_two_by_two():
    G = gram([[2, 1], [1, 3]])
    assert condition_number(G) == pytest.approx(6.854101966, abs=1e-9)
    assert condition_number(cube(G)) == pytest.approx(321.9968944, abs=1e-7)


def test_golden_hilbert():
    G = gram(HILBERT)
    assert condition_number(G) == pytest.approx(274635.506133886, rel=1e-10)
    assert condition_number_ball(G).midpoint == pytest.approx(274635.506133886, abs=1e-9)
    assert mpmath.nstr(oracle(G), 15) == "274635.506133886"


def test_golden_hilbert_cubed_to_its_last_digit():
    found = condition_number_ball(cube(gram(HILBERT)), bits=80)
    printed = Fraction(HILBERT_CUBE_KAPPA)
    assert abs(found.lower - printed) < Fraction(5, 1000)
    assert abs(found.upper - printed) < Fraction(5, 1000)
    assert condition_number(cube(gram(HILBERT))) == float(HILBERT_CUBE_KAPPA)
    assert found.contains(as_fraction(oracle(cube(gram(HILBERT)))))


def test_float64_cannot_see_it():
    """The planted failure: float64 arithmetic is off by more than 1% on the same matrix."""
    G = np.array(cube(gram(HILBERT)), dtype=float)
    values = np.linalg.eigvalsh(G)
    assert abs(values[-1] / values[0] / float(HILBERT_CUBE_KAPPA) - 1) > 0.01


def test_a_rounded_matrix_is_another_matrix():
    """Exact arithmetic answers for the matrix as given: rounding its entries already moved the answer."""
    G = np.array(cube(gram(HILBERT)), dtype=float)
    found = condition_number_ball(G)
    assert found.contains(as_fraction(oracle(G)))
    assert condition_number(G) == pytest.approx(float(oracle(G)), rel=1e-15)
    assert not found.contains(Fraction(HILBERT_CUBE_KAPPA))


@pytest.mark.parametrize("n", [2, 6, 10])
def test_hilbert_matrices_against_mpmath(n):
    G = [[Fraction(1, i + j + 1) for j in range(n)] for i in range(n)]
    assert condition_number_ball(G).contains(as_fraction(oracle(G)))
    for rank in range(2, n):
        assert condition_number_ball(G, rank).contains(as_fraction(oracle(G, rank)))
        assert condition_number(G, rank) == pytest.approx(float(oracle(G, rank)), rel=1e-4)


@pytest.mark.parametrize("method", ["polynomial", "balls"])
def test_images_cubed_against_mpmath(method):
    X = np.random.default_rng(0).integers(0, 256, (12, 13), dtype=np.uint8)
    G = gram(linearized_attention(X))
    assert condition_number_ball(G, method=method).contains(as_fraction(oracle(G)))


def test_the_limit_between_float_and_exact(monkeypatch):
    calls = []
    route = condition._enclose
    monkeypatch.setattr(condition, "_enclose", lambda *a, **k: calls.append(1) or route(*a, **k))
    assert condition_number(np.diag([1.0, 1 / 0.99e12])) == pytest.approx(0.99e12, rel=1e-12)
    assert calls == []
    assert condition_number(np.diag([1.0, 1 / 1.01e12])) == pytest.approx(1.01e12, rel=1e-12)
    assert calls == [1]


@pytest.mark.parametrize("n", [61, 150])
def test_large_matrices_take_balls_and_cube_exactly(n):
    X = np.random.default_rng(n).integers(0, 256, (n, n + 10), dtype=np.uint8)
    G = gram(X)
    single, cubed = condition_number_ball(G), condition_number_ball(gram(linearized_attention(X)))
    assert single.lower**3 <= cubed.upper
    assert cubed.lower <= single.upper**3
    assert cubed.upper / cubed.lower - 1 < Fraction(1, 2**60)


def test_undecided_balls_fall_back_to_the_polynomial(monkeypatch):
    def undecided(*_):
        raise condition.Undecided("planted")

    G = gram(np.random.default_rng(1).integers(0, 9, (61, 70)))
    expected = condition_number_ball(G, bits=20, method="polynomial")
    monkeypatch.setattr(condition, "extreme_magnitudes", undecided)
    assert condition_number_ball(G, bits=20) == expected
    with pytest.raises(ValueError, match="planted"):
        condition_number_ball(G, method="balls")


@pytest.mark.parametrize(
    "G",
    [
        [[1, 1], [1, 1]],
        [[Fraction(1, 3), Fraction(1, 3)], [Fraction(1, 3), Fraction(1, 3)]],
        [[0, 0], [0, 0]],
        [[0.0]],
        [[1e300, 0], [0, 0]],
        [[10**400, 10**400], [10**400, 10**400]],
    ],
)
def test_singular_matrices(G):
    assert condition_number(G) == math.inf
    found = condition_number_ball(G)
    assert (found.lower, found.upper, found.midpoint) == (math.inf, math.inf, math.inf)
    assert not found.ball.is_finite()


def test_singularity_is_decided_by_rank_not_by_size():
    tiny = [[1, 0], [0, Fraction(1, 10**200)]]
    assert condition_number(tiny) == pytest.approx(1e200, rel=1e-15)
    assert condition_number(np.diag([1.0, 1e-300])) == pytest.approx(1e300, rel=1e-15)
    # A third row that is the sum of two others: no tolerance is needed to see it, whatever float64 says.
    X = np.random.default_rng(0).integers(0, 256, (3, 9))
    X[2] = X[0] + X[1]
    assert rank_exact(gram(X)) == 2
    assert condition_number(gram(X)) == math.inf
    assert condition_number(gram(X), rank=2) == pytest.approx(float(oracle(gram(X), 2)), rel=1e-12)
    assert condition_number(gram(X), rank=3) == math.inf


def test_a_condition_number_beyond_float64_is_infinite_as_a_float_only():
    found = condition_number_ball([[10**400, 0], [0, 1]])
    assert found.contains(10**400)
    assert found.midpoint == math.inf


@pytest.mark.parametrize("values", [(3, -1), (-3, 1), (-2, -6), (1, -1)])
def test_absolute_values_for_matrices_that_are_not_psd(values):
    G = np.diag(values)
    assert condition_number(G) == pytest.approx(np.linalg.cond(G.astype(float)), rel=1e-14)
    assert condition_number_ball(G).contains(Fraction(max(map(abs, values)), min(map(abs, values))))


def test_rank_orders_by_absolute_value():
    assert condition_number(np.diag([-8.0, 4.0, 1.0]), rank=2) == 2
    assert condition_number_ball(np.diag([-8, 4, 1]), rank=2).contains(2)
    assert condition_number_ball(np.diag([-8, 4, 1]), rank=1).midpoint == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16, np.float32, np.float64])
def test_dtypes(dtype):
    assert condition_number(np.array([[200, 100], [100, 200]], dtype=dtype)) == pytest.approx(3, rel=1e-14)


def test_no_condition_number_below_one():
    for method in ("polynomial", "balls"):
        assert condition_number_ball([[3, 0], [0, 3]], method=method).lower == 1


def test_eigenvalues_beyond_the_largest_float():
    huge = 1.7e308
    assert condition_number(np.array([[huge, huge], [huge, -huge]])) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("exponent", [300, 2000, -2000])
def test_long_doubles(exponent):
    # Where long doubles are no wider than float64, the two larger exponents have nothing to show.
    matrix = np.ldexp(
        np.array([[2, 1], [1, 2]], dtype=np.longdouble), min(exponent, np.finfo(np.longdouble).maxexp - 3)
    )
    if not np.any(matrix):
        matrix = np.array([[2, 1], [1, 2]], dtype=np.longdouble)
    assert condition_number(matrix) == pytest.approx(3, rel=1e-14)


def test_ball_holds_both_ends():
    found = condition_number_ball(gram(HILBERT))
    middle = float(found.ball.mid())
    assert middle == pytest.approx(found.midpoint, rel=1e-15)
    assert found.ball.contains(condition_number_ball(gram(HILBERT), bits=90).ball)


def overlap(a, b):
    return a.lower <= b.upper and b.lower <= a.upper


@law
@given(integer_rows(min_rows=2, max_rows=4, max_columns=5))
def test_law_cubing_cubes_the_condition_number(rows):
    G = gram(rows)
    assume(rank_exact(G) == len(rows))
    single, cubed = condition_number_ball(G), condition_number_ball(cube(G))
    assert single.lower**3 <= cubed.upper
    assert cubed.lower <= single.upper**3
    # The control: kappa squared does not, unless kappa is one.
    if single.lower > 1:
        assert not (single.lower**2 <= cubed.upper and cubed.lower <= single.upper**2)


@law
@given(fraction_rows(), st.fractions(min_value=Fraction(1, 30), max_value=50, max_denominator=30))
def test_law_scaling_changes_nothing(rows, factor):
    G = gram(rows)
    assert condition_number_ball(G, bits=30) == condition_number_ball(factor * G, bits=30)
    assert condition_number_ball(G, bits=30) == condition_number_ball(-factor * G, bits=30)


@law
@given(integer_rows(min_rows=2), st.randoms(use_true_random=False))
def test_law_permutation_changes_nothing(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    G = gram(rows)
    assert condition_number_ball(G, bits=20) == condition_number_ball(G[np.ix_(order, order)], bits=20)


@law
@given(integer_rows(min_rows=2, max_rows=4, max_columns=5))
def test_law_inverse_has_the_same_condition_number(rows):
    G = gram(rows)
    assume(rank_exact(G) == len(rows))
    n = len(rows)
    inverse = condition.integer_multiple(G).inv()
    entries = [[Fraction(int(inverse[i, j].p), int(inverse[i, j].q)) for j in range(n)] for i in range(n)]
    assert overlap(condition_number_ball(G, bits=30), condition_number_ball(entries, bits=30))


@law
@given(integer_rows(min_rows=3, max_rows=5, max_columns=5))
def test_law_grows_with_rank(rows):
    G = gram(rows)
    found = [condition_number_ball(G, k, bits=20) for k in range(1, rank_exact(G) + 1)]
    assert all(a.lower <= b.upper for a, b in pairwise(found))
    assert all(condition_number(G, k) == math.inf for k in range(rank_exact(G) + 1, len(rows) + 1))


@law
@given(integer_rows())
def test_law_gram_has_the_rank_of_its_rows(rows):
    assert rank_exact(rows) == rank_exact(gram(rows)) == np.linalg.matrix_rank(np.array(rows, dtype=float))


@pytest.mark.parametrize(
    ("G", "rank", "error", "says"),
    [
        ([[1, 2]], None, ValueError, r"\(1, 2\)"),
        ([[1, 2], [3, 4]], None, ValueError, r"G\[0,1\] = 2 but G\[1,0\] = 3"),
        (np.array([[1.0, 0.1], [0.1 + 2e-17, 1.0]]), None, ValueError, "rounding"),
        ([[np.nan]], None, ValueError, "nan"),
        ([[1, 0], [0, 1]], 0, ValueError, "rank is 0"),
        ([[1, 0], [0, 1]], 3, ValueError, "between 1 and n = 2"),
        ([[1, 0], [0, 1]], 1.0, TypeError, "rank is 1.0"),
        ([[1, 0], [0, 1]], True, TypeError, "rank is True"),
        ([["a"]], None, TypeError, "real numbers"),
    ],
)
@pytest.mark.parametrize("function", [condition_number, condition_number_ball])
def test_refused_input(function, G, rank, error, says):
    with pytest.raises(error, match=says):
        function(G, rank)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bits": 1}, "bits is 1"),
        ({"method": "float"}, "'float'"),
        ({"rank": 1, "method": "balls"}, "number 1 of 2"),
    ],
)
def test_refused_options(options, says):
    with pytest.raises(ValueError, match=says):
        condition_number_ball([[2, 1], [1, 2]], **options)


def test_every_symmetric_zero_one_matrix_of_order_three():
    """All 64, singular and indefinite ones included, against mpmath and exact rank."""
    for a, b, c, d, e, f in product((0, 1), repeat=6):
        G = [[a, b, c], [b, d, e], [c, e, f]]
        if rank_exact(G) < 3:
            assert condition_number(G) == math.inf
        else:
            assert condition_number(G) == pytest.approx(float(oracle(G)), rel=1e-12)
