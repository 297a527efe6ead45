"""Two-layer ReLU nets: gradients against autograd, the two exact constructions, padding, and each refusal."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from attention_companion.sparse_xor.relu_net import (
    ONE_UNIT_LOSS,
    NetTrainer,
    ReluNets,
    draw_nets,
    net_gradients,
    net_outputs,
    net_parameters,
    stack_nets,
    two_unit_net,
)


def batch_of_nets(seed, lead=(2, 3), h=4, d=5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shapes = ((*lead, h, d), (*lead, h), (*lead, h), lead)
    return ReluNets(*(rng.standard_normal(shape).astype(dtype) for shape in shapes))


def signs(seed, *shape):
    return np.random.default_rng(seed).choice([-1.0, 1.0], size=shape)


@pytest.mark.torch_free
def test_a_net_by_hand():
    # One unit: relu(2 x_0 - x_1 + 1) * 3 - 1 at x = (1, 1) is relu(2) * 3 - 1 = 5 and at (-1, 1) relu(-2) * 3 - 1 = -1.
    net = ReluNets(np.array([[2.0, -1.0]]), np.array([1.0]), np.array([3.0]), np.array(-1.0))
    x = np.array([[1.0, -1.0], [1.0, 1.0]])
    assert net_outputs(net, x).tolist() == [5.0, -1.0]
    # Labels 4 and 1: errors 1 and -2, loss (1 + 4) / 2. Only the first input is active (relu = 2): slopes r = (1, -2).
    loss, (hidden, bias, output, constant) = net_gradients(net, x, np.array([4.0, 1.0]))
    assert float(loss) == 2.5
    assert hidden.tolist() == [[3.0, 3.0]]
    assert (bias.tolist(), output.tolist(), float(constant)) == ([3.0], [2.0], -1.0)


@pytest.mark.parametrize("seed", range(4))
def test_gradients_agree_with_autograd_through_torch_modules(seed):
    torch = pytest.importorskip("torch")
    nets, x, y = batch_of_nets(seed), signs(seed, 2, 1, 5, 7), signs(seed + 1, 2, 1, 7)
    losses, ours = net_gradients(nets, x, y)
    for s, g in itertools.product(range(2), range(3)):
        module = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).double()
        first, last = module[0], module[2]
        with torch.no_grad():
            first.weight[:], first.bias[:] = torch.tensor(nets.hidden[s, g]), torch.tensor(nets.bias[s, g])
            last.weight[0], last.bias[0] = torch.tensor(nets.output[s, g]), float(nets.constant[s, g])
        out = module(torch.tensor(x[s, 0].T))[:, 0]
        assert np.allclose(out.detach().numpy(), net_outputs(nets, x)[s, g], rtol=0, atol=1e-13)
        loss = ((out - torch.tensor(y[s, 0])) ** 2).mean()
        loss.backward()
        assert loss.item() == pytest.approx(losses[s, g], abs=1e-13)
        truths = (first.weight.grad, first.bias.grad, last.weight.grad[0], last.bias.grad[0])
        for truth, gradient in zip(truths, ours, strict=True):
            assert np.allclose(truth.numpy(), gradient[s, g], rtol=0, atol=1e-13)


def test_the_updates_are_adams():
    torch = pytest.importorskip("torch")
    nets = batch_of_nets(8, lead=(), h=3, d=4)
    tensors = [torch.tensor(array.copy(), requires_grad=True) for array in nets.arrays()]
    adam = torch.optim.Adam(tensors, lr=0.05)
    trainer = NetTrainer(nets, 0.05)
    for step in range(20):
        x, y = signs([step, 0], 4, 16), signs([step, 1], 16)
        theirs = ReluNets(*(tensor.detach().numpy() for tensor in tensors))
        for tensor, gradient in zip(tensors, net_gradients(theirs, x, y)[1], strict=True):
            tensor.grad = torch.tensor(np.asarray(gradient))
        adam.step()
        trainer.step(x, y)
    for tensor, array in zip(tensors, nets.arrays(), strict=True):
        assert np.allclose(tensor.detach().numpy(), array, rtol=0, atol=1e-12)


@pytest.mark.torch_free
@pytest.mark.parametrize(("d", "pair"), [(2, (0, 1)), (5, (3, 1)), (7, (0, 6))])
def test_two_units_compute_the_task_and_one_of_them_does_not(d, pair):
    x = np.array(list(itertools.product([-1.0, 1.0], repeat=d))).T
    net, label = two_unit_net(d, pair), -x[pair[0]] * x[pair[1]]
    assert np.array_equal(net_outputs(net, x), label)
    half = ReluNets(net.hidden[:1], net.bias[:1], net.output[:1], net.constant)
    assert np.abs(net_outputs(half, x) - label).max() == 2
    assert sum(a.size for a in net.arrays()) == net_parameters(d, 2) == 2 * d + 5


@pytest.mark.torch_free
def test_the_loss_of_the_best_single_unit_is_two_thirds():
    # relu(x_0 + x_1 - 1) is 1 at (1, 1) and 0 elsewhere; the label is -1 there and has the mean 1/3 elsewhere.
    x = np.array(list(itertools.product([-1.0, 1.0], repeat=2))).T
    net = ReluNets(np.array([[1.0, 1.0]]), np.array([-1.0]), np.array([-4 / 3]), np.array(1 / 3))
    loss, gradients = net_gradients(net, x, -x[0] * x[1])
    assert float(loss) == pytest.approx(2 / 3, abs=1e-15)
    assert max(float(np.abs(g).max()) for g in gradients[2:]) < 1e-15
    assert Fraction(2, 3) == ONE_UNIT_LOSS


@pytest.mark.torch_free
def test_padding_changes_nothing_and_stays_zero():
    rng = np.random.default_rng(5)
    nets = draw_nets(rng, 6, [2, 4])
    alone = ReluNets(*(np.array(a[0, :2] if a.ndim > 1 else a[0]) for a in nets.arrays()))
    both, single = NetTrainer(nets, 0.05), NetTrainer(alone, 0.05)
    for step in range(30):
        x = signs(step, 6, 32).astype(np.float32)
        y = -x[0] * x[1]
        both.step(x, y)
        single.step(x, y)
    assert not nets.hidden[0, 2:].any()
    assert not nets.bias[0, 2:].any()
    assert not nets.output[0, 2:].any()
    for padded, plain in zip(nets.arrays(), alone.arrays(), strict=True):
        assert np.allclose(padded[0, :2] if padded.ndim > 1 else padded[0], plain, rtol=0, atol=1e-5)
    assert np.abs(nets.hidden[1, 2:]).max() > 0.1
    assert {array.dtype for array in nets.arrays()} == {np.dtype(np.float32)}


@pytest.mark.torch_free
def test_four_units_learn_and_the_loss_falls():
    rng = np.random.default_rng(1)
    nets = stack_nets([draw_nets(rng, 8, [4]), draw_nets(rng, 8, [4])])
    trainer = NetTrainer(nets, 0.02)
    for _ in range(600):
        x = rng.choice(np.array([-1, 1], np.float32), size=(2, 1, 8, 64))
        losses = trainer.step(x, -x[..., 2, :] * x[..., 5, :])
    assert losses.shape == (2, 1)
    assert losses.max() < 0.05


@pytest.mark.torch_free
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: net_parameters(0, 1), "d is 0"),
        (lambda: net_parameters(4, 0), "width is 0"),
        (lambda: draw_nets(np.random.default_rng(0), 4, []), "at least one width"),
        (lambda: draw_nets(np.random.default_rng(0), 4, [0]), "at least 1"),
        (lambda: two_unit_net(4, (1, 1)), "p != q"),
        (lambda: net_outputs(two_unit_net(4, (0, 1)), np.ones((3, 2))), "take 4 inputs"),
        (lambda: NetTrainer(two_unit_net(4, (0, 1)), 0.0), "learning_rate is 0.0"),
        (lambda: NetTrainer(two_unit_net(4, (0, 1)), float("nan")), "learning_rate is nan"),
    ],
)
def test_what_it_does_not_take(call, said):
    with pytest.raises(ValueError, match=said):
        call()
