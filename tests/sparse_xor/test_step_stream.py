"""The two-pass route of one step: the plain route's answer, whatever the shape, block, layout, dtype or size."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import _step_stream, one_step, population_gradient, step
from attention_companion.sparse_xor._step_stream import LARGEST_SCORE, mirrored_gradients, two_scores

pytestmark = pytest.mark.torch_free


def problem(seed, d, m, dtype=np.float64, spread=1.0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(d, m))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    theta = rng.normal(size=m)
    theta *= spread / np.linalg.norm(theta)
    p, q = (int(i) for i in rng.choice(d, 2, replace=False))
    return rows.astype(dtype), theta.astype(dtype), p, q


def exact_mirrored(rows, theta, p, q):
    """Judge in long doubles, from the definition: softmax, then the sum over positions of dL/ds_i v_i."""
    rows, theta = rows.astype(np.longdouble), theta.astype(np.longdouble)
    heads = []
    for query in (theta, -theta):
        powers = np.exp(rows @ query)
        heads.append(powers / powers.sum())
    answers = []
    for a, b in (heads, heads[::-1]):
        g = 2 * (b @ b) * a + 4 * (a @ b) * b - 4 * a * b**2
        g[p] -= 2 * b[q]
        g[q] -= 2 * b[p]
        answers.append((a * (g - a @ g)) @ rows)
    return answers


@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(2, 70),
    m=st.sampled_from([1, 2, 5, 64, 127, 128, 200]),
    block=st.integers(1, 80),
    dtype=st.sampled_from([np.float32, np.float64]),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 3.0, 30.0, 1e3, 1e10]),
    shift=st.sampled_from([0.0, 1.0, 30.0]),
    size=st.sampled_from([1e-20, 1.0, 1e12]),
)
@settings(max_examples=200, deadline=None)
def test_agrees_with_the_definition_or_declines(seed, d, m, block, dtype, spread, shift, size):
    rows, theta, p, q = problem(seed, d, m, dtype, spread)
    rows, theta = ((rows + shift) * size).astype(dtype), (theta / size).astype(dtype)
    gradients = mirrored_gradients(rows, theta, p, q, block=block)
    scores = rows.astype(np.float64) @ theta.astype(np.float64)
    if gradients is None:
        return
    assert np.abs(scores).max() <= LARGEST_SCORE[rows.dtype] * 1.001
    # A score's rounding grows with the sizes it is summed from, and shifts every weight by as much.
    in_score = (np.abs(rows.astype(np.float64)) @ np.abs(theta.astype(np.float64))).max()
    tolerance = (200 + 20 * m * in_score) * _step_stream.CANCELLATION * np.finfo(dtype).eps
    for ours, judge in zip(gradients, exact_mirrored(rows, theta, p, q), strict=True):
        assert ours.dtype == dtype
        assert np.abs(ours - judge).max() <= tolerance * np.abs(ours).max()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "m", "block"), [(5000, 130, 64), (5000, 130, 7), (3000, 20, 100), (64, 130, 64)])
def test_does_not_decline_where_it_is_meant_to_work(dtype, d, m, block):
    rows, theta, p, q = problem(1, d, m, dtype)
    streamed = mirrored_gradients(rows, theta, p, q, block=block)
    assert streamed is not None
    judge = exact_mirrored(rows, theta, p, q)
    plain = population_gradient(rows, theta, -theta, (p, q))
    for ours, theirs, right in zip(streamed, plain, judge, strict=True):
        size, rounding = np.abs(right).max(), np.finfo(dtype).eps
        assert np.abs(ours - right).max() <= 10 * rounding * size
        assert np.abs(theirs - right).max() <= 30 * rounding * size


def test_declines_scores_and_cancellations_it_cannot_take():
    rows, theta, p, q = problem(2, 300, 20)
    assert mirrored_gradients(rows, theta, p, q) is not None
    assert mirrored_gradients(rows, theta * 1e3, p, q) is None
    # A common shift changes no attention and no gradient, but every sum: 1e6 of it leaves no digits to add.
    far = mirrored_gradients(rows + 1e6, theta - theta.mean(), p, q)
    assert far is None
    # Heads that are nearly one-hot have a tiny gradient beside terms of order one.
    steep = np.concatenate([np.zeros(2), np.full(298, -30.0)])
    assert mirrored_gradients(np.stack([steep, np.ones(300)], axis=1), np.array([1.0, 0.0]), 0, 1) is None
    for bad in (np.nan, np.inf):
        for row in (0, 299):
            spoiled = rows.copy()
            spoiled[row, 3] = bad
            assert mirrored_gradients(spoiled, theta, p, q, block=7) is None


@pytest.mark.parametrize("m", [3, 127, 128, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_scores(m, dtype):
    rows, theta, _, _ = problem(3, 101, m, dtype)
    for block in (None, 1, 10, 101, 500):
        ours = two_scores(rows, theta, 2 * theta[::-1], block=block)
        assert ours.dtype == dtype
        expected = np.stack([rows @ theta, rows @ (2 * theta[::-1])])
        assert ours == pytest.approx(expected, abs=100 * float(np.finfo(dtype).eps))


@pytest.fixture
def always_stream(monkeypatch):
    monkeypatch.setattr(step, "STREAM_FROM", 0)
    monkeypatch.setattr(_step_stream, "BLOCK_BYTES", 4096)
    calls = []

    def counted(*arguments):
        answer = mirrored_gradients(*arguments)
        calls.append(answer is not None)
        return answer

    monkeypatch.setattr(step, "mirrored_gradients", counted)
    return calls


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("spread", "rate"), [(1.0, 1e3), (1.0, 3e5), (3e3, 10.0), (1e25, 10.0)])
def test_the_public_step_does_not_depend_on_the_route(always_stream, monkeypatch, dtype, spread, rate):
    rows, theta, p, q = problem(4, 200, 150, dtype, spread)
    streamed = one_step(rows, theta, (p, q), rate)
    assert always_stream == [spread == 1]
    monkeypatch.setattr(step, "STREAM_FROM", rows.size + 1)
    plain = one_step(rows, theta, (p, q), rate)
    assert len(always_stream) == 1
    rounding = float(np.finfo(dtype).eps)
    for name in ("theta", "theta_tilde"):
        expected = getattr(plain, name)
        assert getattr(streamed, name) == pytest.approx(expected, abs=200 * rounding * float(np.abs(expected).max()))
    assert streamed.gamma == pytest.approx(plain.gamma, abs=3e3 * rounding)
    assert streamed.gamma_tilde == pytest.approx(plain.gamma_tilde, abs=3e3 * rounding)
    assert streamed.specialised == plain.specialised


def test_every_layout_gives_the_same_step(always_stream):
    rows, theta, p, q = problem(5, 200, 150)
    wide = np.zeros((400, 300))
    wide[::2, ::2] = rows
    expected = one_step(rows, theta, (p, q), 1e3)
    for layout in (np.asfortranarray(rows), wide[::2, ::2], rows[::-1].copy()[::-1]):
        same = one_step(layout, theta, (p, q), 1e3)
        assert same.gamma == pytest.approx(expected.gamma, rel=1e-12)
    assert always_stream == [True] * 4


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("attention", ["softmax", "linear", "erf"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (57, 149), (199, 149), (199, 4)])
@pytest.mark.parametrize("zeros", [False, True])
def test_an_entry_that_is_not_finite_is_found_anywhere(monkeypatch, stream, attention, bad, place, zeros):
    """Also where the query is 0, so that a product may skip it."""
    if stream:
        monkeypatch.setattr(step, "STREAM_FROM", 0)
        monkeypatch.setattr(_step_stream, "BLOCK_BYTES", 4096)
    rows, theta, p, q = problem(6, 200, 150)
    rows[place] = bad
    if zeros:
        theta[place[1]] = 0
    with pytest.raises(ValueError, match=rf"embeddings\[{place[0]}, {place[1]}\] is {bad}; every entry must be"):
        one_step(rows, theta, (p, q), 1.0, attention)


def test_a_query_with_zeros_makes_it_look_at_every_entry(monkeypatch):
    """A matrix-vector product may leave out what a zero multiplies (most do not), and a NaN there with it."""
    rows, theta, p, q = problem(6, 20, 15)
    looks = []
    monkeypatch.setattr(step, "require_finite", lambda array, name: looks.append(name))
    one_step(rows, theta, (p, q), 1.0)
    assert looks == []
    theta[3] = 0
    one_step(rows, theta, (p, q), 1.0)
    assert looks == ["embeddings"]


def test_finite_sums_that_overflow_are_not_called_infinite_entries(always_stream):
    rows, theta, p, q = problem(7, 200, 150, np.float32)
    huge = np.float32(3e38) * np.sign(rows)
    huge[:, 0] = 3e38
    with pytest.raises(OverflowError, match=r"the gradient for embeddings as large as 3e\+38|learning_rate"):
        one_step(huge, theta * np.float32(1e-38), (p, q), 1e9)
    assert always_stream == [False]


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("spread", [1.0, 1e30], ids=["streamed", "careful"])
def test_no_temporary_as_large_as_the_embeddings(layout, spread):
    """numpy reports its arrays to tracemalloc, so this is a count, not a measurement."""
    rows, theta, p, q = problem(8, 40_000, 300, np.float32)
    rows = np.asarray(rows, order=layout)
    theta = theta * np.float32(spread)
    if spread > 1:
        rows *= np.float32(1e10)  # scores leave float32
    one_step(rows[:9000], theta, (1, 2), 1.0)
    tracemalloc.start()
    one_step(rows, theta, (p, q), 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= rows.nbytes / 5
