"""One step of linear and erf heads: autograd and enumeration as judges, a step worked out by hand, and faults."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from attention_companion.sparse_xor import one_step

pytestmark = pytest.mark.torch_free


def start(seed, d=7, m=5, size=1.0):
    rng = np.random.default_rng(seed)
    pair = tuple(int(i) for i in rng.choice(d, 2, replace=False))
    return size * rng.normal(size=(d, m)) / math.sqrt(m), rng.normal(size=m), pair


def enumerated_step(embeddings, theta, pair, rate, attention):
    """Autograd through the mean over all 2^d inputs of (f(x) - y)^2, which shares no formula with the kernel."""
    torch = pytest.importorskip("torch")
    d = len(embeddings)
    x = 1.0 - 2 * ((torch.arange(2**d)[:, None] >> torch.arange(d)) & 1).double()
    rows = torch.tensor(embeddings)
    queries = [torch.tensor(t, requires_grad=True) for t in (theta, -theta)]
    kind = {"linear": lambda s: s, "erf": torch.special.erf, "softmax": lambda s: torch.softmax(s, 0)}[attention]

    def loss(queries):
        first, second = (x @ kind(rows @ query) for query in queries)
        return ((-first * second + x[:, pair[0]] * x[:, pair[1]]) ** 2).mean()

    slopes = torch.autograd.grad(loss(queries), queries)
    moved = [(query - rate * slope).detach() for query, slope in zip(queries, slopes, strict=True)]
    return [query.numpy() for query in moved], [kind(rows @ query).numpy() for query in moved], float(loss(moved))


@pytest.mark.parametrize("attention", ["softmax", "linear", "erf"])
@pytest.mark.parametrize("seed", range(4))
def test_moves_as_autograd_through_every_input_says(seed, attention):
    embeddings, theta, pair = start(seed)
    rate = 0.05
    queries, heads, _ = enumerated_step(embeddings, theta, pair, rate, attention)
    ours = one_step(embeddings, theta, pair, rate, attention=attention)
    assert np.abs(ours.theta - theta).max() > 1e-4
    assert ours.theta == pytest.approx(queries[0], abs=1e-13)
    assert ours.theta_tilde == pytest.approx(queries[1], abs=1e-13)
    assert ours.gamma == pytest.approx(heads[0], abs=1e-13)
    assert ours.gamma_tilde == pytest.approx(heads[1], abs=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("attention", ["linear", "erf"])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1e4])
def test_odd_heads_stay_negatives_of_each_other(attention, rate, dtype):
    embeddings, theta, pair = start(1)
    step = one_step(embeddings.astype(dtype), theta.astype(dtype), pair, rate, attention)
    assert np.array_equal(step.theta_tilde, -step.theta)
    assert np.array_equal(step.gamma_tilde, -step.gamma)
    assert step.gamma.dtype == step.theta.dtype == dtype
    assert type(step.specialised) is bool
    # A product of a head with its own negative: f = (sum gamma_i x_i)^2 has no -x_p x_q to give with equal sizes.
    assert not step.specialised


def test_a_linear_step_worked_out_by_hand():
    """V = 1 (d = m = 3), theta = (1, 1/2, 0), pair (0, 1), rate 1/10.

    a = (1, 1/2, 0), b = -a: |b|^2 = 5/4, a.b = -5/4.
    g = 2 (5/4) a + 4 (-5/4) b - 4 a b^2 - 2 (b_1 e_0 + b_0 e_1)
      = (5/2, 5/4, 0) + (5, 5/2, 0) - (4, 1/2, 0) + (1, 2, 0) = (9/2, 21/4, 0).
    theta' = (1 - 9/20, 1/2 - 21/40, 0) = (11/20, -1/40, 0), and gamma = theta' as V = 1.
    """
    step = one_step(np.eye(3), [1.0, 0.5, 0.0], (0, 1), Fraction(1, 10), "linear")
    assert step.theta == pytest.approx([11 / 20, -1 / 40, 0], abs=1e-15)
    assert step.gamma == pytest.approx([0.55, -0.025, 0], abs=1e-15)
    assert step.gamma_tilde == pytest.approx([-0.55, 0.025, 0], abs=1e-15)


def test_an_erf_step_worked_out_by_hand():
    """V = 1 (d = m = 2), theta = (x, 0), e = erf(x): a = (e, 0), b = -a, |b|^2 = e^2 = -a.b.

    g = (2 e^3 + 4 e^3 - 4 e^3, 0) - 2 (b_1 e_0 + b_0 e_1) = (2 e^3, 2 e); erf' = 2/sqrt(pi) exp(-s^2).
    """
    x, rate = 0.7, 0.25
    e, root = 0.6778011938374184, 1.1283791670955126  # erf(0.7) and 2/sqrt(pi), from tables
    step = one_step(np.eye(2), [x, 0.0], (0, 1), rate, "erf")
    expected = [x - rate * 2 * e**3 * root * math.exp(-0.49), -rate * 2 * e * root]
    assert step.theta == pytest.approx(expected, abs=1e-15)
    assert step.gamma == pytest.approx([math.erf(t) for t in expected], abs=1e-15)


@pytest.mark.parametrize("attention", ["linear", "erf"])
def test_specialised_is_the_enumerated_loss_below_a_thousandth(attention, monkeypatch):
    """b = -a keeps the loss away from 0, so that the true threshold only ever says no; a higher one shows that the
    verdict is this loss's."""
    from attention_companion.sparse_xor import step as module

    assert module.SPECIALISED_LOSS == 1e-3
    losses = []
    for seed in range(6):
        embeddings, theta, pair = start(seed, size=0.5)
        losses.append(enumerated_step(embeddings, theta, pair, 0.05, attention)[2])
        assert one_step(embeddings, theta, pair, 0.05, attention).specialised is (losses[-1] < 1e-3)
    assert min(losses) < max(losses) * 0.99
    monkeypatch.setattr(module, "SPECIALISED_LOSS", float(np.median(losses)))
    verdicts = {
        one_step(*start(seed, size=0.5)[:2], start(seed, size=0.5)[2], 0.05, attention).specialised: seed
        for seed in range(6)
    }
    assert set(verdicts) == {True, False}
    for verdict, seed in verdicts.items():
        assert verdict is bool(losses[seed] < np.median(losses))


@pytest.mark.parametrize("attention", ["sigmoid", "Softmax", ""])
def test_an_unknown_kind_is_named_with_the_three_there_are(attention):
    with pytest.raises(ValueError, match=rf"attention is '{attention}'; choose one of softmax, linear, erf"):
        one_step(np.eye(3), np.ones(3), (0, 1), 1.0, attention)
    with pytest.raises(TypeError, match="attention is None"):
        one_step(np.eye(3), np.ones(3), (0, 1), 1.0, None)


def test_scores_and_losses_beyond_the_dtype():
    huge, small = np.full((3, 1), 1e20, dtype=np.float32), np.ones(1, dtype=np.float32)
    with pytest.raises(OverflowError, match=r"scores of erf attention .* exceed float32; use float64, a smaller"):
        one_step(huge, 1e20 * small, (0, 1), 0.0, "erf")
    with pytest.raises(OverflowError, match="scores of linear attention"):
        one_step(huge, 1e20 * small, (0, 1), 0.0, "linear")
    # The weights fit, the loss does not: that is no small loss.
    assert not one_step(np.eye(2) * 1e100, np.ones(2) * 1e-80, (0, 1), 0.0, "linear").specialised
    assert np.isfinite(one_step(np.eye(2) * 1e100, np.ones(2), (0, 1), 0.0, "erf").gamma).all()


@pytest.mark.parametrize("attention", ["linear", "erf"])
@pytest.mark.parametrize(
    ("embeddings", "theta", "pair", "message"),
    [
        (np.ones(3), np.ones(3), (0, 1), r"embeddings has shape \(3,\)"),
        (np.eye(3), np.ones(2), (0, 1), r"theta has shape \(2,\)"),
        (np.eye(3), np.ones(3), (1, 1), "choose p != q"),
        (np.eye(3), np.ones(3), (0, 3), "pair holds 3"),
        (np.eye(3), [1.0, np.nan, 1.0], (0, 1), r"theta\[1\] is nan"),
    ],
)
def test_bad_input_is_refused_alike(attention, embeddings, theta, pair, message):
    with pytest.raises(ValueError, match=message):
        one_step(embeddings, theta, pair, 1.0, attention)
