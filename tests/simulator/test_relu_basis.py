"""ReLU alone: pieces and their bounds, the encoder made of them, and what breaks each."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.simulator import attention, build
from attention_companion.simulator.encoder import scores_read_positions_only
from attention_companion.simulator.relu_basis import (
    division_error,
    exp_pieces,
    reciprocal_pieces,
    relu_division,
    relu_exp,
    relu_product,
    square_pieces,
)
from attention_companion.simulator.relu_machine import relu_encoder

pytestmark = pytest.mark.torch_free


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
def test_squares_are_exact_at_nodes_and_off_by_the_stated_error_in_the_middle(count):
    square = square_pieces(count)
    assert len(square.relus()) == square.count == count
    assert all(square.exactly(t) == t * t for t in square.nodes)
    middle = square.nodes[0] + F(1, count)
    assert square.exactly(middle) - middle**2 == F(1, count**2)
    assert square.error >= 1 / count**2


def test_the_product_predicted_for_k_pieces():
    # 1/K^2 at x = y = 1/K: 6.2e-2, 3.9e-3, 2.4e-4, 1.5e-5, 9.5e-7.
    for count in (4, 16, 64, 256, 1024):
        error = relu_product(1 / count, 1 / count, count) - 1 / count**2
        assert abs(error) * count**2 == pytest.approx(1, abs=1e-8)


@settings(deadline=None, max_examples=60)
@given(st.floats(-3, 3), st.floats(-3, 3), st.integers(1, 40))
def test_products_stay_within_their_bound(x, y, count):
    assert abs(relu_product(x, y, count, bound=3.0) - x * y) <= 9 / count**2 + 1e-12


@settings(deadline=None, max_examples=60)
@given(st.floats(-2, 1.5), st.floats(0.25, 4), st.floats(-1, 1), st.integers(1, 40))
def test_exp_and_quotients_stay_within_their_bounds(x, y, above, count):
    assert -1e-12 <= relu_exp(x, -2, 1.5, count) - np.exp(x) <= exp_pieces(-2, 1.5, count).error
    error = abs(relu_division(above, y, count, 1.0, 0.25, 4.0) - above / y)
    assert error <= division_error(count, 1.0, 0.25, 4.0)


def test_bounds_are_of_the_right_size_and_not_only_safe():
    x = np.linspace(-1, 1, 20001)
    assert np.max(exp_pieces(-1, 1, 16)(x) - np.exp(x)) > 0.9 * exp_pieces(-1, 1, 16).error
    y = np.linspace(0.5, 2, 20001)
    assert np.max(reciprocal_pieces(0.5, 2, 16)(y) - 1 / y) > 0.99 * reciprocal_pieces(0.5, 2, 16).error


def test_a_node_left_out_breaks_the_bound():
    broken = square_pieces(8, without=3)
    assert broken.count == 7
    x = np.linspace(-1, 1, 4001)
    assert np.max(np.abs(broken(x) - x**2)) > 3.9 * broken.error


def test_what_pieces_refuse():
    with pytest.raises(ValueError, match="outside the box"):
        relu_product(1.5, 0.0, 4)
    with pytest.raises(ValueError, match="outside the box"):
        relu_exp(np.nan, 0.0, 1.0, 4)
    with pytest.raises(ValueError, match="above 0"):
        reciprocal_pieces(0.0, 1.0, 4)
    with pytest.raises(ValueError, match="expected low < high"):
        exp_pieces(1.0, 1.0, 4)
    with pytest.raises(ValueError, match="inner nodes"):
        square_pieces(4, without=4)
    with pytest.raises(ValueError, match="pieces is 0"):
        square_pieces(0)
    with pytest.raises(TypeError, match="pieces"):
        square_pieces(2.5)


@pytest.mark.parametrize("layout", ["constant", "positional", "universal", "paper"])
def test_the_relu_encoder_stays_within_its_bound(layout):
    shape = (2, 1, 2)
    made = relu_encoder(build(*shape, layout=layout), 0.5, 32)
    kinds = {o.kind for b in made.encoder.machine.blocks for stage in b.stages for o in stage}
    assert kinds == {"relu"}
    assert scores_read_positions_only(made.encoder.machine)
    rng = np.random.default_rng(5)
    errors = []
    for i in range(4):
        x, a, v = (rng.uniform(-0.5, 0.5, size) for size in ((2, 1), (1, 1), (1, 2)))
        if i % 2:
            x, a, v = (0.5 * np.sign(m) for m in (x, a, v))
        errors.append(np.max(np.abs(made.encoder.run(x, [(a, v)]) - attention(x, [(a, v)]))))
    # The bound of `paper` is the coarsest: its channels serve many roles, and the worst of them counts.
    assert 0 < max(errors) <= made.error < (1 if layout == "paper" else 0.02)


def test_the_bound_falls_with_the_square_of_the_pieces_and_not_where_exp_stays_coarse():
    plain = build(2, 1, 1, layout="constant")
    coarse, fine = (relu_encoder(plain, 0.5, count).error for count in (16, 64))
    assert 12 < coarse / fine < 20
    finest, stuck = (relu_encoder(plain, 0.5, 256, exp_pieces=k).error for k in (256, 4))
    assert stuck > fine > 4 * finest


def test_the_bound_is_broken_outside_the_box():
    made = relu_encoder(build(2, 1, 1, layout="constant"), 0.5, 16)
    x, a, v = np.full((2, 1), 2.0), np.full((1, 1), 2.0), np.full((1, 1), 2.0)
    x[1] = -2
    assert np.max(np.abs(made.encoder.run(x, [(a, v)]) - attention(x, [(a, v)]))) > made.error


def test_the_planned_run_and_the_dense_run_agree():
    from attention_companion.simulator.arithmetic import Rational
    from attention_companion.simulator.dense import run_densely
    from attention_companion.simulator.execute import run

    machine = relu_encoder(build(1, 1, 1, layout="constant"), 0.5, 4).encoder.machine
    kind = Rational()
    inputs = kind.array([F(1, 3), F(-1, 4), F(2, 5)])
    made = relu_encoder(build(1, 1, 1, layout="constant"), 0.5, 4).encoder
    assert list(run(made.plan, inputs, kind)) == list(run_densely(machine, inputs, kind))


def test_what_the_relu_encoder_refuses():
    plain = build(2, 1, 1, layout="constant")
    for box in (0, -1, 1e3, float("nan")):
        with pytest.raises(ValueError, match="box is"):
            relu_encoder(plain, box, 4)
    with pytest.raises(ValueError, match="holds 'relu'"):
        relu_encoder(relu_encoder(plain, 0.5, 4).encoder, 0.5, 4)
    with pytest.raises(ValueError, match="exp's range"):
        relu_encoder(plain, 30, 4)
