"""Outcomes of all pairs: against the definition in ball arithmetic, exact ties and near-ties, symmetries, refusals."""

from __future__ import annotations

import importlib
import subprocess
import sys
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from attention_companion.sparse_xor import one_step
from attention_companion.sparse_xor.all_pairs import outcome_all_pairs

pytestmark = pytest.mark.torch_free

# The package may offer a function of the module's name; the module itself is wanted here.
all_pairs = importlib.import_module("attention_companion.sparse_xor.all_pairs")
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "bench_all_pairs.py"


def sphere(rng, *shape):
    vectors = rng.normal(size=shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def ball(x):
    value = Fraction(float(x))
    return arb(fmpq(value.numerator, value.denominator))


def growths_by_definition(rows, theta, p, q):
    """-V V^T [a (g - a.g)] for both heads, in balls, term by term from the gradient's definition."""
    rows, theta = [[ball(x) for x in row] for row in rows], [ball(x) for x in theta]
    scores = [sum(x * y for x, y in zip(row, theta, strict=True)) for row in rows]
    powers = [[(sign * s).exp() for s in scores] for sign in (1, -1)]
    heads = [[e / sum(power) for e in power] for power in powers]
    result = []
    for a, b in (heads, heads[::-1]):
        squares, overlap = sum(y * y for y in b), sum(x * y for x, y in zip(a, b, strict=True))
        g = [2 * squares * x + 4 * overlap * y - 4 * x * y * y for x, y in zip(a, b, strict=True)]
        g[p] -= 2 * b[q]
        g[q] -= 2 * b[p]
        mean = sum(x * y for x, y in zip(a, g, strict=True))
        r = [x * (y - mean) for x, y in zip(a, g, strict=True)]
        w = [sum(row[k] * x for row, x in zip(rows, r, strict=True)) for k in range(len(theta))]
        result.append([-sum(x * y for x, y in zip(row, w, strict=True)) for row in rows])
    return result


def brute_force(rows, theta, bits=300):
    """The outcome matrix where ``bits`` separate all growths; 3 where the largest ones still overlap."""
    d = len(rows)
    outcomes = np.full((d, d), -1)
    with ctx.workprec(bits):
        for p, q in combinations(range(d), 2):
            ends = []
            for u in growths_by_definition(rows, theta, p, q):
                largest = [j for j in range(d) if not any(u[j] < other for other in u)]
                ends.append(largest[0] if len(largest) == 1 else None)
            if None in ends:
                outcome = 3
            else:
                outcome = 2 if not set(ends) <= {p, q} else int(ends[0] == ends[1])
            outcomes[p, q] = outcomes[q, p] = outcome
    return outcomes


@pytest.mark.parametrize("seed", range(24))
def test_is_the_limit_by_definition(seed):
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(2, 8)), int(rng.integers(1, 6))
    rows, theta = rng.normal(size=(d, m)), rng.normal(size=m) * rng.choice([0.1, 1, 5])
    if seed % 2:
        rows = sphere(rng, d, m)
    assert np.array_equal(outcome_all_pairs(rows, theta), brute_force(rows, theta))


def test_all_outcomes_occur_and_agree_with_large_finite_steps():
    seen = set()
    for seed, (d, m) in enumerate([(12, 5), (20, 10), (40, 12), (30, 3)]):
        rng = np.random.default_rng(seed)
        rows, theta = sphere(rng, d, m), sphere(rng, m)
        outcomes = outcome_all_pairs(rows, theta)
        for p, q in combinations(range(d), 2):
            step = one_step(rows, theta, (p, q), 1e13)
            ends = {int(step.gamma.argmax()), int(step.gamma_tilde.argmax())}
            assert outcomes[p, q] == (2 if not ends <= {p, q} else 2 - len(ends))
        seen |= set(outcomes.ravel().tolist())
    assert seen == {-1, 0, 1, 2}


def test_chunks_do_not_show(monkeypatch):
    rng = np.random.default_rng(1)
    rows, theta = sphere(rng, 30, 6), sphere(rng, 6)
    whole = outcome_all_pairs(rows, theta)
    monkeypatch.setattr(all_pairs, "CHUNK", 90)
    assert np.array_equal(outcome_all_pairs(rows, theta), whole)


def test_shape_symmetry_and_dtype():
    rng = np.random.default_rng(2)
    outcomes = outcome_all_pairs(sphere(rng, 9, 4).astype(np.float32), sphere(rng, 4).astype(np.float32))
    assert outcomes.shape == (9, 9)
    assert outcomes.dtype == np.int8
    assert np.array_equal(outcomes, outcomes.T)
    assert (outcomes.diagonal() == -1).all()
    assert (outcomes >= 0).sum() == 72


def test_symmetries_of_the_problem():
    rng = np.random.default_rng(3)
    rows, theta = sphere(rng, 40, 8), sphere(rng, 8)
    outcomes = outcome_all_pairs(rows, theta)
    order = rng.permutation(40)
    assert np.array_equal(outcome_all_pairs(rows[order], theta), outcomes[np.ix_(order, order)])
    # Minus theta exchanges the heads.
    assert np.array_equal(outcome_all_pairs(rows, -theta), outcomes)
    rotation, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    assert np.array_equal(outcome_all_pairs(rows @ rotation, theta @ rotation), outcomes)
    # A common factor of the embeddings, taken back by theta, changes no score; powers of two do it without rounding.
    for power in (-600, 500):
        scaled = outcome_all_pairs(np.ldexp(rows, power), np.ldexp(theta, -power))
        assert np.array_equal(scaled, outcomes)


@pytest.mark.parametrize(
    ("rows", "theta"),
    [
        pytest.param(np.eye(6), np.zeros(6), id="orthonormal, theta zero"),
        pytest.param(np.eye(6), np.full(6, 0.1), id="orthonormal, equal scores"),
        pytest.param(np.repeat(np.eye(3), 2, axis=0), np.array([0.1, 0.2, 0.3]), id="every row twice"),
        pytest.param(np.zeros((4, 3)), np.ones(3), id="no embeddings at all"),
        pytest.param(np.array([[1.0, 2.0], [0.3, 1.0]]), np.zeros(2), id="d = 2, no gradient"),
        pytest.param(np.ones((5, 1)), np.array([0.7]), id="one embedding for all"),
    ],
)
def test_ties_everywhere(rows, theta):
    d = len(rows)
    assert np.array_equal(outcome_all_pairs(rows, theta), np.where(np.eye(d, dtype=bool), -1, 3))


def test_ties_of_a_rotated_frame_are_those_of_its_floats():
    # A rotated orthonormal frame is only nearly orthonormal in floats, so its near-ties are no ties.
    rotation, _ = np.linalg.qr(np.random.default_rng(4).normal(size=(5, 5)))
    outcomes = outcome_all_pairs(rotation, np.zeros(5))
    assert not (outcomes == 3).any()
    assert np.array_equal(outcomes, brute_force(rotation, np.zeros(5)))


def test_equal_rows_tie_only_where_they_grow_most():
    rng = np.random.default_rng(5)
    rows = np.vstack([sphere(rng, 10, 30), np.zeros((2, 30))])
    rows[10] = rows[11] = sphere(rng, 30)
    outcomes = outcome_all_pairs(rows, sphere(rng, 30))
    # With one of the twins as a target its double grows as much; both as targets: both heads tie on them.
    assert (outcomes[10, :10] != 2).all()
    assert (outcomes[10, :10] == 3).any()
    assert outcomes[10, 11] == 3
    assert not (outcomes[:10, :10] == 3).any()
    # As one row takes the place of two, the others compete with the same embeddings; nothing else may be a tie.
    assert np.array_equal(outcomes[10, :10], outcomes[11, :10])


def test_a_tie_outside_the_pair_goes_before_the_distractor():
    # Long rows beside the pair win its heads; their opposites keep the sum of all embeddings small.
    far = np.array([3.0, 3.0])
    theta = np.array([0.01, 0.02])
    assert outcome_all_pairs(np.vstack([np.eye(2), far, -far]), theta)[0, 1] == 2
    assert outcome_all_pairs(np.vstack([np.eye(2), far, far, -far, -far]), theta)[0, 1] == 3


@pytest.mark.parametrize("sign", [1, -1])
def test_near_ties_are_told_apart(sign):
    theta = np.array([0.3, np.nextafter(0.3, sign), 0.1, -0.2])
    outcomes = outcome_all_pairs(np.eye(4), theta)
    assert outcomes[0, 1] == 0
    assert np.array_equal(outcomes, brute_force(np.eye(4), theta))
    assert outcome_all_pairs(np.eye(4), np.array([0.3, 0.3, 0.1, -0.2]))[0, 1] == 3


def test_near_doubles_are_no_ties():
    rng = np.random.default_rng(6)
    rows, theta = sphere(rng, 6, 5), sphere(rng, 5)
    rows[1] = rows[0]
    rows[1, 2] = np.nextafter(rows[1, 2], 1)
    outcomes = outcome_all_pairs(rows, theta)
    assert not (outcomes == 3).any()
    assert np.array_equal(outcomes, brute_force(rows, theta))


@pytest.mark.parametrize(
    ("rows", "theta", "most_bits"),
    [
        pytest.param(
            np.vstack([sphere(np.random.default_rng(5), 9, 30)[[0, *range(9)]]]), None, 0, id="rows"
        ),
        pytest.param(np.eye(9), np.array([1.0, 1, 1, 2, 3, 4, 5, 6, 7]) / 9, 0, id="symmetry"),
        # Equal scores of rows of unequal lengths: no symmetry exchanges them, and at d = 2 they tie all the same.
        pytest.param(np.array([[1.0, 2.0], [0.5, 1.25]]), np.array([3.0, -2.0]), 128, id="exponentials"),
    ],
)
def test_ties_with_a_reason_take_no_more_bits(monkeypatch, rows, theta, most_bits):
    module = importlib.import_module("attention_companion.sparse_xor._all_pairs_exact")
    in_balls = module.ExactGrowth._not_dominated

    def counted(self, sign, p, q, groups, bits):
        assert bits <= most_bits
        return in_balls(self, sign, p, q, groups, bits)

    monkeypatch.setattr(module.ExactGrowth, "_not_dominated", counted)
    theta = sphere(np.random.default_rng(1), rows.shape[1]) if theta is None else theta
    assert outcome_all_pairs(rows, theta)[0, 1] == 3


def test_scores_beyond_the_floats():
    rng = np.random.default_rng(7)
    rows, theta = sphere(rng, 5, 4), 400 * sphere(rng, 4)
    assert np.array_equal(outcome_all_pairs(rows, theta), brute_force(rows, theta, bits=6000))
    with pytest.raises(OverflowError, match="scale theta down"):
        outcome_all_pairs(rows, 1e6 * theta)
    with pytest.raises(OverflowError, match="scale theta down"):
        outcome_all_pairs(1e200 * rows, 1e200 * theta)


def test_the_error_bound_holds_with_room():
    """The float growths against balls: never off by more than the bound, and the bound is not absurdly wide."""
    rng = np.random.default_rng(8)
    rows, theta = sphere(rng, 20, 6), sphere(rng, 6)
    heads = all_pairs._float_heads(rows, theta, rows @ rows.T)
    worst = 0.0
    for p, q in [(0, 1), (3, 17), (5, 6)]:
        with ctx.workprec(200):
            exact = growths_by_definition(rows, theta, p, q)
            scores = [float(x) for x in rows @ theta]
            c = 1 / (sum(arb(x).exp() for x in scores) * sum((-arb(x)).exp() for x in scores))
            for head, growth in zip(heads, exact, strict=True):
                t = np.exp(head.scores[p] - head.scores[q])
                ours = t * t * head.gram[p] + t * head.base - (t * t + 1) * head.mean + head.gram[q]
                truth = np.array([float(u / (2 * c)) for u in growth]) * t
                worst = max(worst, np.abs(ours - truth).max() / (head.error * (t * t + t * head.eta + 1)))
    assert 1e-5 < worst < 1


@pytest.mark.parametrize(
    ("rows", "theta", "error", "says"),
    [
        (np.eye(3), np.ones(2), ValueError, r"expected \(3,\)"),
        (np.ones((1, 3)), np.ones(3), ValueError, "d >= 2"),
        (np.array([[1.0, np.nan], [0, 1]]), np.ones(2), ValueError, r"embeddings\[0, 1\] is nan"),
        (np.eye(2), np.array([np.inf, 0]), ValueError, r"theta\[0\] is inf"),
        (np.eye(2) * 1j, np.ones(2), TypeError, "complex128"),
    ],
)
def test_refusals(rows, theta, error, says):
    with pytest.raises(error, match=says):
        outcome_all_pairs(rows, theta)


def test_the_benchmark_runs():
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--d", "12", "--m", "4", "--sampled", "5", "--repeats", "1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "66 pairs" in done.stdout
    assert "extrapolated" in done.stdout
