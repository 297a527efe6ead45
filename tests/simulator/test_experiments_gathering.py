"""The vacuous construction and the address score, each with what breaks it."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from attention_companion.simulator import attention
from attention_companion.simulator.experiments import addresses, gathering

pytestmark = pytest.mark.torch_free


def surrogate(x):
    return 1 + x + x * x


def test_one_layer_holds_every_number_at_every_token_and_one_head_fewer_does_not():
    assert gathering.lengths_not_gathered(6) == 0
    assert gathering.lengths_not_gathered(6, missing=1) == 6


def test_the_gathering_layer_and_a_map_compute_attention_and_anything_else():
    x, a, v = [[F(1, 2), F(-1)], [F(2, 3), F(3)]], [[F(1), F(2)], [F(-1, 2), F(1, 3)]], [[F(2)], [F(1, 7)]]
    tokens = [e for rows in (x, a, v) for row in rows for e in row]

    def target(t):
        rows = [t[0:2], t[2:4]], [t[4:6], t[6:8]], [t[8:9], t[9:10]]
        result = attention(rows[0], [(rows[1], rows[2])], arithmetic="rational", exp=surrogate)
        return [e for row in result for e in row]

    got = gathering.by_gathering(tokens, target)
    assert got == target(tokens) + [F(0)] * 8
    assert gathering.by_gathering(tokens, target, missing=1) != got
    assert gathering.by_gathering([F(5), F(-1), F(3)], gathering.median)[0] == 3
    assert gathering.by_gathering([F(5), F(-1), F(3)], gathering.is_prime)[0] == 1
    assert gathering.by_gathering([F(5), F(-1), F(4)], gathering.is_prime)[0] == 0
    assert gathering.by_gathering([F(5), F(-1), F(7, 2)], gathering.is_prime)[0] == 0


def test_one_mean_holds_all_naturals_below_the_base_only():
    assert gathering.by_one_head([3, 0, 9, 9], base=10) == [3, 0, 9, 9]
    assert gathering.by_one_head([3, 0, 9, 10], base=9) != [3, 0, 9, 10]
    assert gathering.one_head_failures([2, 4], 5, 20, seed=1) == 0
    assert gathering.one_head_failures([2, 4], 5, 20, seed=1, base=5) > 0


@pytest.mark.parametrize("length", [1, 2, 3, 17, 300])
def test_every_address_is_selected_alone_in_integers(length):
    assert addresses.wrong_addresses(length) == 0
    assert addresses.wrong_addresses(length, last=1) == 0


def test_single_precision_loses_addresses_of_long_sequences():
    first = addresses.first_wrong_power(np.float32, 14, last=8)
    assert first is not None
    assert addresses.wrong_addresses(first, np.float32, last=8) > 0
    assert addresses.wrong_addresses(first // 2, np.float32, last=8) == 0
    assert addresses.first_wrong_power(np.float64, 10) is None


def test_no_address_and_no_sequence_is_an_error():
    with pytest.raises(ValueError, match="length is 0"):
        addresses.wrong_addresses(0)


def test_the_score_is_a_square_up_to_the_query():
    assert addresses.identity_terms() == 0
    assert addresses.identity_terms(with_square=False) > 0
