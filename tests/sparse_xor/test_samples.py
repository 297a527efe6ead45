"""A step on a finite sample: against enumeration, autograd, and itself in other chunks; and each refusal."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from attention_companion.sparse_xor import attention_weights, one_step
from attention_companion.sparse_xor.checks import inputs
from attention_companion.sparse_xor.samples import one_step_from_samples


def start(seed, d=9, m=5, n=200):
    rng = np.random.default_rng(seed)
    embeddings, theta = rng.normal(size=(d, m)), rng.normal(size=m)
    p, q = (int(i) for i in rng.choice(d, 2, replace=False))
    x = rng.choice(np.array([-1, 1], dtype=np.int8), size=(n, d))
    return embeddings, theta, (p, q), x, -x[:, p] * x[:, q]


def stream(x, y, *lengths):
    first = 0
    for length in lengths:
        yield x[first : first + length], y[first : first + length]
        first += length


@pytest.mark.torch_free
@pytest.mark.parametrize("d", [2, 3, 5, 8, 12])
def test_all_inputs_together_are_the_population(d):
    embeddings, theta, (p, q), *_ = start(d, d=d)
    x = inputs(d)
    y, rate = -x[:, p] * x[:, q], 0.7 * d * d
    ours = one_step_from_samples(embeddings, theta, x, y, rate, pair=(p, q))
    truth = one_step(embeddings, theta, (p, q), rate)
    for name in ("theta", "theta_tilde", "gamma", "gamma_tilde"):
        np.testing.assert_allclose(getattr(ours, name), getattr(truth, name), rtol=0, atol=1e-12)
    assert ours.samples == 2**d
    # One input fewer is another sample, and the step tells.
    fewer = one_step_from_samples(embeddings, theta, x[1:], y[1:], rate)
    assert np.abs(fewer.theta - truth.theta).max() > 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_that_of_the_mean_loss_by_autograd(seed):
    torch = pytest.importorskip("torch")
    embeddings, theta, _, x, y = start(seed)
    y = np.where(
        np.random.default_rng(seed).random(len(y)) < 0.3, -y, y
    )  # the labels need not follow the rule
    heads = [torch.tensor(sign * theta, requires_grad=True) for sign in (1.0, -1.0)]
    seen = [
        torch.tensor(x, dtype=torch.float64) @ torch.softmax(torch.tensor(embeddings) @ t, 0) for t in heads
    ]
    loss = ((-seen[0] * seen[1] - torch.tensor(y)) ** 2).mean()
    slopes = [slope.numpy() for slope in torch.autograd.grad(loss, heads)]
    ours = one_step_from_samples(embeddings, theta, x, y, 2.5)
    np.testing.assert_allclose(ours.theta, theta - 2.5 * slopes[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(ours.theta_tilde, -theta - 2.5 * slopes[1], rtol=0, atol=1e-13)
    assert np.array_equal(ours.gamma, attention_weights(embeddings, ours.theta))
    assert np.array_equal(ours.gamma_tilde, attention_weights(embeddings, ours.theta_tilde))


@pytest.mark.torch_free
@pytest.mark.parametrize("chunk", [None, 1, 7, 200, 10**6])
@pytest.mark.parametrize("lengths", [None, (200,), (1, 150, 49), (0, 200, 0)])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
def test_chunks_streams_and_dtypes_change_nothing_but_rounding(chunk, lengths, dtype):
    embeddings, theta, pair, x, y = start(7)
    whole = one_step_from_samples(embeddings, theta, x, y, 30.0)
    x, y = x.astype(dtype), y.astype(dtype)
    given = (x, y) if lengths is None else (stream(x, y, *lengths), None)
    other = one_step_from_samples(embeddings, theta, *given, learning_rate=30.0, chunk=chunk, pair=pair)
    np.testing.assert_allclose(other.theta, whole.theta, rtol=0, atol=1e-13)
    np.testing.assert_allclose(other.theta_tilde, whole.theta_tilde, rtol=0, atol=1e-13)
    assert other.samples == 200
    assert whole.specialised is None
    assert type(other.specialised) is bool


@pytest.mark.torch_free
def test_a_stream_is_read_chunk_by_chunk():
    """No list of the stream is made: every chunk is given back before the next is drawn."""
    embeddings, theta, _, x, y = start(7)
    alive = []

    def chunks():
        for k in range(5):
            part = x[40 * k : 40 * k + 40].copy()
            alive.append(weakref.ref(part))
            yield part, y[40 * k : 40 * k + 40]
            del part
            assert sum(ref() is not None for ref in alive) <= 1

    assert one_step_from_samples(embeddings, theta, chunks(), learning_rate=1.0).samples == 200


@pytest.mark.torch_free
def test_specialised_is_judged_by_the_pair_and_only_by_it():
    rng = np.random.default_rng(0)
    embeddings, theta, pair, x = np.eye(8), np.zeros(8), (2, 5), inputs(8)
    theta[[2, 5]] = 0.5, -0.5
    y = -x[:, 2] * x[:, 5]
    right = one_step_from_samples(embeddings, theta, x, y, 1e4, pair=pair)
    wrong = one_step_from_samples(embeddings, theta, x, y, 1e4, pair=(2, 6))
    assert (right.specialised, wrong.specialised) == (True, False)
    assert np.array_equal(right.theta, wrong.theta)
    assert right.specialised == one_step(embeddings, theta, pair, 1e4).specialised
    noise = one_step_from_samples(embeddings, theta, x, rng.choice([-1, 1], size=256), 1e4, pair=pair)
    assert not noise.specialised


@pytest.mark.torch_free
def test_float32_stays_float32_and_near():
    embeddings, theta, _, x, y = start(3)
    single = one_step_from_samples(embeddings.astype(np.float32), theta.astype(np.float32), x, y, 3.0)
    double = one_step_from_samples(embeddings, theta, x, y, 3.0)
    for name in ("theta", "theta_tilde", "gamma", "gamma_tilde"):
        assert getattr(single, name).dtype == np.float32
        np.testing.assert_allclose(getattr(single, name), getattr(double, name), rtol=0, atol=1e-5)


def replaced(values, where, value):
    values = values.astype(np.float64)
    values[where] = value
    return values


@pytest.mark.torch_free
@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda x, y: {"x": replaced(x, (150, 4), 0)}, ValueError, r"x\[150, 4\] is 0.0; .* -1 or \+1"),
        (lambda x, y: {"x": replaced(x, (150, 4), np.nan)}, ValueError, r"x\[150, 4\] is nan"),
        (lambda x, y: {"y": replaced(y, 171, 0.5)}, ValueError, r"y\[171\] is 0.5"),
        (lambda x, y: {"x": (x > 0).astype(int)}, ValueError, r"x\[0, \d\] is 0; .* 2 b - 1"),
        (lambda x, y: {"x": x > 0}, TypeError, "x has dtype bool"),
        (lambda x, y: {"x": [[1, -1], [1]]}, ValueError, "x has rows of unequal lengths"),
        (lambda x, y: {"x": x[:, :-1]}, ValueError, r"x has shape \(200, 8\); .* expected \(n, 9\)"),
        (lambda x, y: {"x": x[0]}, ValueError, r"x has shape \(9,\)"),
        (lambda x, y: {"y": y[:-1]}, ValueError, r"y has shape \(199,\); .* expected \(200,\)"),
        (lambda x, y: {"x": x[:0], "y": y[:0]}, ValueError, "x holds no sample"),
        (lambda x, y: {"x": iter([]), "y": None}, ValueError, "x holds no sample"),
        (lambda x, y: {"y": None}, TypeError, "y is missing and x is a ndarray"),
        (lambda x, y: {"x": 3, "y": None}, TypeError, "y is missing and x is a int"),
        (lambda x, y: {"x": iter([x]), "y": None}, TypeError, "the stream yields a ndarray"),
        (
            lambda x, y: {"x": iter([(x, y), (x[:, :3], y)]), "y": None},
            ValueError,
            r"x has shape \(200, 3\) \(chunk that begins at sample 200\)",
        ),
        (
            lambda x, y: {"x": iter([(x, y), (replaced(x, (2, 0), 7), y)]), "y": None},
            ValueError,
            r"x\[202, 0\] is 7.0",
        ),
        (lambda x, y: {"pair": (3, 3)}, ValueError, r"pair is \(3, 3\)"),
        (lambda x, y: {"pair": (3, 9)}, ValueError, "pair holds 9"),
        (lambda x, y: {"learning_rate": None}, TypeError, "learning_rate is missing"),
        (lambda x, y: {"learning_rate": -1.0}, ValueError, "learning_rate is -1.0"),
        (lambda x, y: {"learning_rate": np.inf}, ValueError, "learning_rate is inf"),
        (lambda x, y: {"theta": np.full(5, np.nan)}, ValueError, r"theta\[0\] is nan"),
        (lambda x, y: {"chunk": 0}, ValueError, "chunk is 0"),
        (lambda x, y: {"chunk": 2.0}, TypeError, "chunk is 2.0"),
    ],
)
def test_what_it_does_not_take(change, error, match):
    embeddings, theta, pair, x, y = start(5)
    arguments = {"embeddings": embeddings, "theta": theta, "x": x, "y": y, "learning_rate": 1.0, "pair": pair}
    one_step_from_samples(**arguments)
    with pytest.raises(error, match=match):
        one_step_from_samples(**{**arguments, **change(x, y)})


@pytest.mark.torch_free
def test_a_query_beyond_the_dtype_raises():
    embeddings, theta, _, x, y = start(5)
    small = (np.float32(1e30) * embeddings.astype(np.float32), np.float32(1e-30) * theta.astype(np.float32))
    with pytest.raises(OverflowError, match="moves a query beyond float32"):
        one_step_from_samples(*small, x, y, 1e12)


@pytest.mark.torch_free
def test_the_arguments_are_left_alone():
    embeddings, theta, _, x, y = start(5)
    copies = [array.copy() for array in (embeddings, theta, x, y)]
    one_step_from_samples(embeddings, theta, x, y, 10.0)
    assert all(np.array_equal(*both) for both in zip(copies, (embeddings, theta, x, y), strict=True))
