"""The envelope program is held to its formula, its bound and its controls."""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import numpy as np
import pytest

from attention_companion.simulator.experiments import envelopes
from attention_companion.simulator.rasp import Rasp

pytestmark = pytest.mark.torch_free


@pytest.mark.parametrize("example", [envelopes.SINE, envelopes.ROOT, envelopes.JUMP])
def test_program_and_formula_agree(example):
    assert envelopes.program_difference(example, 8, np.linspace(0, 1, 11)) < 1e-14


def test_the_program_is_exact_on_rationals_and_its_depth_is_logarithmic():
    # Samples of 2 x with constant 2: on the line both envelopes are the line between the outer knots.
    at = envelopes.knots(4)
    answer, run = envelopes.through_program([2 * x for x in at], F(1, 3), 2)
    assert answer == F(2, 3)
    assert (run.layers, max(run.heads_per_layer), run.maps_used) == (11, 4, {"relu"})
    _, longer = envelopes.through_program([F(0)] * 8, F(0), 1)
    assert longer.layers == 14


def test_a_count_that_is_no_power_of_two_is_refused():
    with pytest.raises(ValueError, match="power of two"):
        envelopes.through_program([F(0)] * 3, F(0), 1)
    run = envelopes.Rational()
    with pytest.raises(ValueError, match="power of two"):
        envelopes.envelope_program(Rasp(run, run.array([0, 0, 0]), 5), 2, 1)


def test_the_zigzag_attains_the_bound_and_half_the_constant_breaks_it():
    assert envelopes.zigzag(4)(F(1, 4)) == F(1, 8)
    assert envelopes.largest_share_of_bound([2, 4], 2, 3, seed=1) == 1
    assert envelopes.largest_share_of_bound([4], 2, 3, seed=1, given=F(1, 2)) > 1


def test_random_functions_have_constant_one():
    f = envelopes.random_lipschitz(7, np.random.default_rng(5))
    values = [f(F(i, 70)) for i in range(71)]
    steps = [abs(b - a) * 70 for a, b in itertools.pairwise(values)]
    assert 0 < max(steps) <= 1


@pytest.mark.parametrize("example", [envelopes.SINE, envelopes.KINK, envelopes.ROOT])
def test_errors_stay_within_their_bounds(example):
    for count, error in zip([4, 16], envelopes.largest_errors(example, [4, 16], 16), strict=True):
        assert 0.1 * example.bound(count) < error <= example.bound(count) * (1 + 1e-12)


def test_the_error_at_a_jump_does_not_fall():
    assert min(envelopes.largest_errors(envelopes.JUMP, [4, 32], 16)) > 0.4
