"""The worst case contains number partitioning: the instance, checked by enumeration in rationals."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.sparse_xor import (
    PARTITION_PAIR,
    partition_heads,
    partition_worst_case,
    worst_case_error,
)

pytestmark = pytest.mark.torch_free


def least_difference(numbers):
    all_signs = product((1, -1), repeat=len(numbers))
    return min(abs(sum(k * n for k, n in zip(signs, numbers, strict=True))) for signs in all_signs)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_sup_is_the_partition_formula(oracle, numbers):
    a, b = partition_heads(numbers)
    assert sum(a) == sum(b) == 1
    formula = partition_worst_case(numbers, least_difference(numbers))
    assert oracle.sup(a, b, PARTITION_PAIR) == formula


@given(st.lists(st.integers(1, 10**6), min_size=7, max_size=11))
@settings(max_examples=20, deadline=None)
def test_the_kernel_solves_partitioning_where_it_enumerates(numbers):
    bound = worst_case_error(*partition_heads(numbers), PARTITION_PAIR)
    assert bound.exact
    assert bound.upper == partition_worst_case(numbers, least_difference(numbers))


@pytest.mark.parametrize(
    ("numbers", "difference", "sup"),
    [
        ([1], 1, Fraction(330, 250)),
        ([1, 1], 0, Fraction(331, 250)),
        ([3, 1, 1, 2, 2, 1], 0, Fraction(331, 250)),
        ([2, 2, 3], 1, 1 + (81 - Fraction(1, 49)) / 250),
        ([5, 1, 1], 3, 1 + (81 - Fraction(9, 49)) / 250),
    ],
)
def test_literal_instances(numbers, difference, sup):
    assert least_difference(numbers) == difference
    assert partition_worst_case(numbers, difference) == sup
    assert worst_case_error(*partition_heads(numbers), PARTITION_PAIR).upper == sup


def test_a_perfect_partition_is_recognised_by_the_sup_alone():
    threshold = Fraction(331, 250)
    assert worst_case_error(*partition_heads([8, 7, 6, 5, 4]), PARTITION_PAIR).upper == threshold
    assert worst_case_error(*partition_heads([8, 7, 6, 5, 5]), PARTITION_PAIR).upper < threshold


@given(st.lists(st.integers(0, 30), min_size=2, max_size=7).filter(any))
@settings(max_examples=60, deadline=None)
def test_equal_heads_do_not_show_it(oracle, counts):
    """With a = b the easy part dominates: the sup is 1 + (the largest |a_p - a_q + u|)^2, no search needed."""
    a = oracle.normalised(counts)
    rest = 1 - a[0] - a[1]
    easy = 1 + (abs(a[0] - a[1]) + rest) ** 2
    assert oracle.sup(a, a, (0, 1)) == easy
    bound = worst_case_error(a, a, (0, 1))
    assert bound.exact
    assert bound.upper == easy


def test_equal_heads_meet_their_bounds_at_large_d_where_the_instance_leaves_a_gap():
    numbers = list(
        range(1, 121)
    )  # 1 + ... + 120 = 7260 divides evenly, but no run from 1 upward sums to 3630
    a, b = partition_heads(numbers)
    assert worst_case_error(a, a, PARTITION_PAIR).exact
    assert worst_case_error(b, b, PARTITION_PAIR).exact
    bound = worst_case_error(a, b, PARTITION_PAIR)
    assert not bound.exact
    assert bound.lower < partition_worst_case(numbers, 0) <= bound.upper


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ([], ValueError, "numbers is empty"),
        ([3, 0], ValueError, r"numbers\[1\] is 0; give positive integers"),
        ([3, -4], ValueError, r"numbers\[1\] is -4"),
        ([1.5], TypeError, r"numbers\[0\] is 1.5"),
        ([True], TypeError, r"numbers\[0\] is True"),
    ],
)
def test_refusals(numbers, error, message):
    with pytest.raises(error, match=message):
        partition_heads(numbers)
    with pytest.raises(error, match=message):
        partition_worst_case(numbers, 0)
