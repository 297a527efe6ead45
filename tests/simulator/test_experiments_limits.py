"""Match2 and parity by explicit weights, and the limits of ReLU: each count, and each control."""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import numpy as np
import pytest

from attention_companion.simulator.experiments import relu_limits as limits
from attention_companion.simulator.experiments import two_tasks as tasks

pytestmark = pytest.mark.torch_free


def times(x, y):
    return x * y


def plus(x, y):
    return x + y


def test_match2_by_weights_on_the_golden_sequence_and_whom_it_attends_to():
    sequence = [63, 70, 77, 94, 67, 39]
    answers, attended = tasks.match2_weights(sequence, 19).run(sequence)
    assert answers == [1, 1, 1, 1, 0, 1]
    # 94 = 18 (mod 19) needs 1: 77 and 39. 67 = 10 needs 9, which nobody has: BOS.
    assert attended[3] == [3, 6]
    assert attended[4] == [0]
    with pytest.raises(KeyError):
        tasks.match2_weights(sequence, 19).run([13])
    with pytest.raises(ValueError, match="modulus is 0"):
        tasks.match2_weights(sequence, 0)


def test_match2_layer_needs_bos_between_match_and_mismatch():
    layer = tasks.match2_weights(range(3), 3)
    layer.score[3, 4] = -1
    assert layer.run([1, 1])[0] != [0, 0]


def test_match2_counts_and_their_controls():
    assert tasks.count_match2(tasks.by_layer, [1, 2, 3], [1, 2, 3]) == tasks.Counted(278, 0)
    assert tasks.count_match2(tasks.by_layer, [2, 3], [1, 2], asked=1).wrong > 0
    solve = tasks.match2_by_encoder("constant")
    assert tasks.count_match2(solve, [1, 2], [1, 2]).wrong == 0
    assert tasks.count_match2(solve, [2], [1, 2], asked=1).wrong > 0


def test_parity_counts_and_their_control():
    assert tasks.count_parity(tasks.parity_by_layer, [1, 2, 3]) == tasks.Counted(4 + 16 + 64, 0)
    assert tasks.count_parity(tasks.parity_by_encoder("constant"), [1, 2]).wrong == 0
    more = tasks.count_parity(tasks.parity_by_layer, [1, 2, 3], one_more=True)
    # Wrong exactly where the further bit is 1: in half of the cases.
    assert 2 * more.wrong == more.cases > 0


def test_attention_is_solved_with_exp_and_not_without():
    assert tasks.attention_solved("constant")
    assert not tasks.attention_solved("constant", without_exp=True)


def brute_cover(points, functions):
    """Smallest number of the given affine functions (a, b, c) that meet all points."""
    met = {frozenset(p for p in points if a * p[0] + b * p[1] + c == p[2]) for a, b, c in functions}
    met.discard(frozenset())
    for count in range(1, len(points) + 1):
        for chosen in itertools.combinations(met, count):
            if frozenset().union(*chosen) == frozenset(points):
                return count
    raise AssertionError("the functions do not cover the points")


def test_the_smallest_cover_against_trying_all_small_functions():
    functions = list(itertools.product([F(k, 2) for k in range(-4, 5)], repeat=3))
    for function in (times, plus, lambda x, y: x * x, lambda x, y: abs(x - y), lambda x, y: max(x, y) % 2):
        points = limits.grid(range(3), range(2), function)
        assert limits.affine_cover(points) == brute_cover(points, functions)


def test_a_grid_needs_as_many_affine_functions_as_it_has_points_a_side():
    assert limits.grid_excess([2, 3], 2, 7, times) == 0
    assert limits.grid_excess([2, 3], 0, 7, plus) == 3
    # Not square: the shorter side counts.
    assert limits.affine_cover(limits.grid(range(2), range(4), times)) == 2
    # Convex on a line: two points a function.
    assert limits.affine_cover([(x, 2**x) for x in range(7)]) == 4
    with pytest.raises(ValueError, match="3 inputs"):
        limits.affine_cover([(0, 0, 0, 0)])


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_products_of_integers_are_exact_with_enough_pieces(bits):
    assert limits.bits_missed(bits, 2 ** (bits + 1)) == 0
    assert limits.bits_missed(bits, 2**bits) > 0


def test_error_curves_and_their_controls():
    assert limits.worst_share([4, 8]) == 1
    assert limits.worst_share([4, 8], without=True) == 4
    assert limits.product_errors([4, 16], 9) == pytest.approx([1 / 16, 1 / 256])
    assert all(0 < seen <= bound for seen, bound in limits.exp_errors(-1, 1, [4, 16], 101))
    coarse, fine = limits.division_errors([4, 16], 21, 1.0, 0.5, 2.0)
    assert coarse > 4 * fine > 0


def test_the_simulator_with_relu_alone_and_outside_its_box():
    inside = limits.simulate_with_relu((1, 1, 1), 0.5, [8], 4, 3)
    assert 0 < inside[0].error <= inside[0].bound
    outside = limits.simulate_with_relu((1, 1, 1), 0.5, [8], 4, 3, spread=4.0)
    assert outside[0].error > outside[0].bound
    assert limits.shapes_missed([(1, 1, 1), (2, 1, 1)], 8, 3) == 2


def test_the_escapes_and_what_closes_them():
    for m in (2, 4):
        assert limits.escape_bilinear(m) == limits.escape_alphabet(m) == limits.escape_length(m) == 0
        assert limits.escape_bilinear(m, linear=True) > 0
        assert limits.escape_alphabet(m, letters=m - 1) > 0
        assert limits.escape_length(m, tokens=m * m - 1) > 0


def test_hard_attention_takes_the_mean_over_all_of_the_largest():
    scores = np.array([[1, 3, 3], [0, 0, 0], [5, 1, 2]])
    assert tasks.hard_attention(scores, [6, 1, 4]) == [(F(5, 2), [1, 2]), (F(11, 3), [0, 1, 2]), (F(6), [0])]
