"""Two-layer ReLU nets, trained many at a time: the feed-forward side of the comparison of parameters.

A net with h hidden units answers

    f(x) = e + sum_j c_j relu(w_j . x + b_j),        h (d + 2) + 1 trained numbers,

every hidden unit being connected to every one of the d inputs. With r = 2 (f - y) / n the mean squared error over n
inputs has the gradients

    dL/de = sum r,  dL/dc_j = sum r relu(z_j),  dL/db_j = sum r c_j [z_j > 0],  dL/dw_j = sum r c_j [z_j > 0] x,

z_j being w_j . x + b_j. A unit whose numbers are all zero has z_j = 0 and so no gradient at all: it stays zero for
ever. This is what lets nets of different widths be trained in one array: the narrower ones are padded with such units.

Two facts that the chapter on parameters uses.

1. Two units are enough for y = -x_p x_q: 1 - relu(x_p + x_q) - relu(-x_p - x_q), as x_p x_q = abs(x_p + x_q) - 1 for
   signs (``two_unit_net``).
2. One unit is not: its loss is at least 2/3. The mean of f over the other inputs is a function F of (x_p, x_q), and
   putting F for f does not raise the loss. F is monotone in each sign, in directions given by the signs of c w_p and
   c w_q. Turn the signs so that F rises in both: the label becomes u v or -u v of two signs. For u v, which is 1 at
   (-,-), -1 at (-,+) and (+,-), 1 at (+,+), let F have the values A <= B, C <= D. As A <= (B + C) / 2 and the squared
   error of (B, C) is at least that of their mean, the best F has A = B = C = -1/3, the mean of 1, -1, -1, and D = 1:
   the loss is ((4/3)^2 + 2 (2/3)^2) / 4 = 2/3. For -u v turn both signs and the sign of F. The unit
   relu(x_p + x_q - 1), which is 1 at (+,+) and 0 elsewhere, attains it with the right c and e.

Source: our derivation; the updates are Adam's (Kingma and Ba, 2015) with their default constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from ._validation import FloatArray, read_pair

#: The least loss of a net with one hidden unit, whatever its weights; derived at the head of this module.
ONE_UNIT_LOSS = Fraction(2, 3)


@dataclass(frozen=True, eq=False)
class ReluNets:
    """A batch of nets. ``hidden`` (..., h, d), ``bias`` and ``output`` (..., h), ``constant`` (...), one dtype."""

    hidden: FloatArray
    bias: FloatArray
    output: FloatArray
    constant: FloatArray

    def arrays(self) -> tuple[FloatArray, ...]:
        """The four arrays in the order of the fields; views, so that writing to them trains the nets."""
        return self.hidden, self.bias, self.output, self.constant


def net_parameters(d: int, width: int) -> int:
    """How many numbers a net with ``width`` hidden units on ``d`` inputs trains: width (d + 2) + 1."""
    if d < 1 or width < 1:
        raise ValueError(f"d is {d} and width is {width}; a net has at least one input and one hidden unit")
    return width * (d + 2) + 1


def draw_nets(rng: np.random.Generator, d: int, widths: Sequence[int]) -> ReluNets:
    """One float32 net for each of ``widths``, padded with zero units to the widest: ``hidden`` is (G, max, d).

    Weights are normal, with variance 1/d in the first layer and 1/h in the second (h the net's own width), so that
    f starts of order one; biases and the constant start at zero. ValueError for no widths or widths below 1.
    """
    if not widths or min(widths) < 1:
        raise ValueError(f"widths is {list(widths)}; give at least one width, each at least 1")
    largest, count = max(widths), len(widths)
    alive = np.arange(largest) < np.asarray(widths)[:, np.newaxis]
    hidden = rng.standard_normal((count, largest, d)) / np.sqrt(d)
    output = rng.standard_normal((count, largest)) / np.sqrt(np.asarray(widths))[:, np.newaxis]
    return ReluNets(
        (hidden * alive[..., np.newaxis]).astype(np.float32),
        np.zeros((count, largest), np.float32),
        (output * alive).astype(np.float32),
        np.zeros(count, np.float32),
    )


def stack_nets(nets: Sequence[ReluNets]) -> ReluNets:
    """Nets of equal shapes with one new leading axis, e.g. one entry a seed."""
    return ReluNets(*(np.stack(arrays) for arrays in zip(*(net.arrays() for net in nets), strict=True)))


def two_unit_net(d: int, pair: Sequence[int]) -> ReluNets:
    """The net with two hidden units that equals -x_p x_q on every sign string, float64, no batch axis."""
    p, q = read_pair(pair, d)
    hidden = np.zeros((2, d))
    hidden[0, [p, q]], hidden[1, [p, q]] = 1, -1
    return ReluNets(hidden, np.zeros(2), -np.ones(2), np.array(1.0))


def net_outputs(nets: ReluNets, x: FloatArray) -> FloatArray:
    """f(x), shape (..., n), for inputs ``x`` of shape (..., d, n): a column an input, batch axes as in numpy.

    Computed in the common dtype of nets and inputs. ValueError when the nets have another number of inputs.
    """
    if x.shape[-2] != nets.hidden.shape[-1]:
        raise ValueError(
            f"x has shape {x.shape} and the nets take {nets.hidden.shape[-1]} inputs; expected (..., d, n)"
        )
    active = np.maximum(nets.hidden @ x + nets.bias[..., np.newaxis], 0)
    return (nets.output[..., np.newaxis, :] @ active)[..., 0, :] + nets.constant[..., np.newaxis]


def net_gradients(nets: ReluNets, x: FloatArray, y: FloatArray) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """The mean squared error over the inputs, shape (...), and its gradients in the order of ``ReluNets.arrays``.

    ``x`` is (..., d, n), a column an input, and ``y`` (..., n); batch axes broadcast against those of the nets.
    """
    before = nets.hidden @ x + nets.bias[..., np.newaxis]
    active = np.maximum(before, 0)
    error = (nets.output[..., np.newaxis, :] @ active)[..., 0, :] + nets.constant[..., np.newaxis] - y
    slope = error * np.array(2 / x.shape[-1], error.dtype)
    through = nets.output[..., np.newaxis] * slope[..., np.newaxis, :] * (before > 0)
    return (error * error).mean(axis=-1), (
        through @ np.swapaxes(x, -1, -2),
        through.sum(axis=-1),
        (active @ slope[..., np.newaxis])[..., 0],
        slope.sum(axis=-1),
    )


class NetTrainer:
    """Adam on a batch of nets, in place: each call of ``step`` moves every net once, each by its own gradient."""

    def __init__(self, nets: ReluNets, learning_rate: Any) -> None:
        if isinstance(learning_rate, bool | np.bool_) or not isinstance(learning_rate, Real):
            raise TypeError(f"learning_rate is {learning_rate!r}; give one real number above 0")
        if not 0 < float(learning_rate) < float("inf"):
            raise ValueError(f"learning_rate is {learning_rate!r}; give a finite number above 0")
        self.nets, self.learning_rate, self.steps = nets, float(learning_rate), 0
        self._first = [np.zeros_like(array) for array in nets.arrays()]
        self._second = [np.zeros_like(array) for array in nets.arrays()]

    def step(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """One update on the inputs ``x`` (..., d, n) with labels ``y`` (..., n); the losses before it, (...).

        Raises ValueError for shapes that do not fit the nets and for losses that are not finite, before any net moves.
        """
        batch, d = self.nets.constant.shape, self.nets.hidden.shape[-1]
        x, y = np.asarray(x), np.asarray(y)
        if x.ndim < 2 or x.shape[-2] != d or not x.shape[-1] or y.shape[-1:] != x.shape[-1:]:
            raise ValueError(
                f"x has shape {x.shape} and y {y.shape}; expected (..., {d}, n) and (..., n) with one n >= 1 for both"
            )
        for name, lead in (("x", x.shape[:-2]), ("y", y.shape[:-1])):
            if len(lead) > len(batch) or any(
                a not in (1, b) for a, b in zip(lead[::-1], batch[::-1], strict=False)
            ):
                raise ValueError(
                    f"{name} has batch axes {lead}; those of the nets are {batch}, and each must fit them"
                )
        with np.errstate(over="ignore", invalid="ignore"):
            losses, gradients = net_gradients(self.nets, x, y)
        if not np.isfinite(losses).all():
            raise ValueError(
                f"a loss is {losses[~np.isfinite(losses)].flat[0]}: x, y or a net holds NaN or numbers too large for "
                f"{losses.dtype}; give inputs and labels -1 and +1, or a smaller learning rate"
            )
        self.steps += 1
        rate = self.learning_rate / (1 - 0.9**self.steps)
        scale = 1 / np.sqrt(1 - 0.999**self.steps)
        for array, slope, first, second in zip(
            self.nets.arrays(), gradients, self._first, self._second, strict=True
        ):
            # Python floats are weak in numpy's promotion: everything stays in the dtype of the nets.
            first += (slope - first) * 0.1
            second += (slope * slope - second) * 0.001
            array -= float(rate) * first / (np.sqrt(second) * float(scale) + 1e-8)
        return losses
