"""The exact argmax sets against comparing every query with every key in Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attention_companion.simulator.selection import FEW, LARGEST_KEY, Keys, select


def brute(queries, keys):
    """For each query the ascending list of keys with the largest product, in unbounded integers."""
    chosen = []
    for query in queries.tolist():
        scores = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys.tolist()]
        chosen.append([k for k, score in enumerate(scores) if score == max(scores)])
    return chosen


def ours(queries, keys):
    selection = select(queries, Keys(keys))
    return [selection.members_of(q).tolist() for q in range(len(queries))]


def integers(rows, columns, size):
    entry = st.integers(-size, size)
    return st.lists(st.lists(entry, min_size=columns, max_size=columns), min_size=1, max_size=rows).map(
        lambda listed: np.array(listed, dtype=np.int64).reshape(len(listed), columns)
    )


@st.composite
def problems(draw):
    rank = draw(st.integers(0, 3))
    size = draw(st.sampled_from([1, 3, 50, 10**8]))
    return draw(integers(6, rank, size)), draw(integers(14, rank, size))


@settings(max_examples=300, deadline=None)
@given(problems())
def test_sets_are_those_of_brute_force(problem):
    queries, keys = problem
    assert ours(queries, keys) == brute(queries, keys)


@st.composite
def planes(draw):
    """Two moving columns and a positive second query entry: the case solved on the hull; few values, many ties."""
    size = draw(st.sampled_from([2, 4, 30, 10**7]))
    keys = draw(integers(30, 2, size))
    queries = draw(integers(8, 2, size))
    queries[:, 1] = np.abs(queries[:, 1]) + 1
    return queries, keys


@settings(max_examples=300, deadline=None)
@given(planes())
@example((np.array([[0, 1], [1, 1]]), np.array([[i, -i] for i in range(20)])))  # every key ties for (1, 1)
@example((np.array([[3, 1]]), np.array([[i, 0] for i in range(20)])))  # level hull
def test_the_hull_finds_all_ties(problem):
    queries, keys = problem
    assert ours(queries, keys) == brute(queries, keys)


def test_addresses_select_themselves_and_misses_the_nearest():
    addresses = np.arange(40)
    keys = np.stack([2 * addresses, -(addresses**2)], axis=1)
    wanted = np.array([0, 7, 39, -100, 55])
    queries = np.stack([wanted, np.ones(5, dtype=np.int64)], axis=1)
    assert len(keys) > FEW
    assert ours(queries, keys) == [[0], [7], [39], [0], [39]]


def test_scores_beyond_float64_are_told_apart():
    # The first two products differ by 1 at 2^60, where float64 steps by 128; the third key is far away.
    keys = np.array([[2**30, 1], [2**30, 2], *([-(2**30), i] for i in range(10))])
    assert ours(np.array([[2**30, 1]]), keys) == [[1]]
    assert float(2**60 + 1) == float(2**60 + 2)


@pytest.mark.parametrize("keys", [[[2**40]], [[-(2**40)], [0]]])
def test_a_score_that_leaves_int64_is_refused(keys):
    with pytest.raises(OverflowError, match="use a shorter sequence"):
        select(np.array([[2**40]]), Keys(np.array(keys)))


def test_a_key_beyond_2_to_61_is_refused():
    Keys(np.array([[LARGEST_KEY]]))
    with pytest.raises(OverflowError, match="2\\^61"):
        Keys(np.array([[-(2**63)]]))


def test_no_keys_are_refused():
    with pytest.raises(ValueError, match="at least one token"):
        Keys(np.zeros((0, 2), dtype=np.int64))


def test_a_part_holds_only_the_sets_its_queries_select():
    keys = np.stack([2 * np.arange(12), -(np.arange(12) ** 2)], axis=1)
    queries = np.stack([np.array([3, 5, 5, 9]), np.ones(4, dtype=np.int64)], axis=1)
    part = select(queries, Keys(keys)).part(1, 3)
    assert [part.members_of(q).tolist() for q in range(2)] == [[5], [5]]
    assert set(part.members.tolist()) == {5}


def test_a_part_of_sets_of_several():
    keys = np.array([[0], [1], [1], [0]])
    part = select(np.array([[1], [-1], [0], [-1]]), Keys(keys)).part(1, 3)
    assert [part.members_of(q).tolist() for q in range(2)] == [[0, 3], [0, 1, 2, 3]]
