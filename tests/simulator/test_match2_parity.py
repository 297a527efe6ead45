"""Match2 and k-PARITY: every sequence over small alphabets, through U as well, and what is refused."""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.simulator import attention, build, match2, parity, simulate
from attention_companion.simulator.arithmetic import Rational
from attention_companion.simulator.match2 import match2_program, match2_run
from attention_companion.simulator.parity import PARITY_BASIS, parity_program
from attention_companion.simulator.rasp import Rasp
from attention_companion.simulator.through import match2_through, parity_through


def match2_by_definition(sequence, modulus):
    return [int(any((x + y) % modulus == 0 for y in sequence)) for x in sequence]


def program(X, heads, **options):
    return simulate(X, heads, **options).result


@pytest.mark.parametrize("modulus", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_match2_on_every_sequence(modulus, length):
    # From below 0 to above M: residues have to be taken, not only compared.
    letters = range(-1, modulus + 1)
    for sequence in itertools.product(letters, repeat=length):
        assert match2(list(sequence), modulus) == match2_by_definition(sequence, modulus)


def test_match2_golden():
    assert match2([63, 70, 77, 94, 67, 39], 19) == [1, 1, 1, 1, 0, 1]
    # Partners of residue 0, and partners whose mean is 0: what the released program loses.
    assert match2([19, 5], 19) == [1, 0]
    assert match2([1, -1, 7], 19) == [1, 1, 0]
    # Its own partner: 2 x = 0.
    assert match2([2], 4) == [1]
    assert match2([1], 4) == [0]
    assert match2(np.array([3, 10**12]), 5) == [0, 1]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(-(10**30), 10**30), min_size=1, max_size=12), st.integers(1, 40), st.randoms())
def test_match2_follows_permutations_and_multiples(sequence, modulus, random):
    answers = match2(sequence, modulus)
    assert answers == match2_by_definition(sequence, modulus)
    order = random.sample(range(len(sequence)), len(sequence))
    assert match2([sequence[i] for i in order], modulus) == [answers[i] for i in order]
    assert match2([x + modulus * 7 for x in sequence], modulus) == answers


def test_match2_is_one_layer_with_one_head_and_a_table():
    for tokens in ([1], [1, 2, 3], list(range(9))):
        run = match2_run(tokens)
        match2_program(run, 5, set(tokens))
        assert (run.layers, run.heads_per_layer, run.maps_used) == (1, (1,), {"table"})
        assert run.heads[0][0].reads_data


@pytest.mark.parametrize(
    ("sequence", "modulus", "alphabet", "error", "match"),
    [
        ([], 3, None, ValueError, "sequence is empty"),
        ([1, 2.0], 3, None, TypeError, r"sequence\[1\] is 2.0; give a whole number"),
        ([True], 3, None, TypeError, r"sequence\[0\] is True"),
        ([[1]], 3, None, TypeError, r"sequence\[0\] is \[1\]"),
        ("12", 3, None, TypeError, "give a list of whole numbers"),
        (5, 3, None, TypeError, "give a list of whole numbers"),
        ([1], 0, None, ValueError, "modulus is 0"),
        ([1], -3, None, ValueError, "modulus is -3"),
        ([1], 2.0, None, TypeError, "modulus is 2.0"),
        ([1], True, None, TypeError, "modulus is True"),
        ([1, 4], 3, [0, 1, 2], ValueError, "token 1 is 4, which is not in the table's alphabet of 3 values"),
    ],
)
def test_match2_refuses(sequence, modulus, alphabet, error, match):
    with pytest.raises(error, match=match):
        match2(sequence, modulus, alphabet)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_parity_of_every_string_and_subset(length):
    places = range(length)
    subsets = [s for k in range(length + 1) for s in itertools.combinations(places, k)]
    for bits in itertools.product((0, 1), repeat=length):
        for subset in subsets:
            assert parity(list(bits), list(subset)) == sum(bits[i] for i in subset) % 2


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=40), st.data())
def test_parity_flips_with_a_bit_inside_and_only_there(bits, data):
    subset = data.draw(st.sets(st.integers(0, len(bits) - 1)))
    place = data.draw(st.integers(0, len(bits) - 1))
    flipped = [bit ^ (i == place) for i, bit in enumerate(bits)]
    assert parity(flipped, subset) == parity(bits, subset) ^ (place in subset)


def test_parity_is_one_layer_with_one_uniform_head():
    kind = Rational()
    for length in (1, 4, 9):
        run = Rasp(kind, kind.array([1] * length), basis=PARITY_BASIS)
        answers = parity_program(run, range(length))
        assert set(answers.values) == {length % 2}
        assert (run.layers, run.heads_per_layer, run.maps_used) == (1, (1,), {"product", "table"})
        assert run.heads[0][0].matrix.all()
        assert not run.heads[0][0].reads_data


def test_parity_reads_its_subset_alone():
    # The control of the claim: with one more member the answers must differ somewhere.
    strings = list(itertools.product((0, 1), repeat=4))
    assert any(parity(bits, [0, 2]) != parity(bits, [0, 2, 3]) for bits in strings)


@pytest.mark.parametrize(
    ("bits", "subset", "error", "match"),
    [
        ([], [], ValueError, "bits is empty"),
        ([0, 2], [0], ValueError, r"bits\[1\] is 2; every bit is 0 or 1"),
        ([0, -1], [0], ValueError, r"bits\[1\] is -1"),
        ([0, 1.0], [0], TypeError, r"bits\[1\] is 1.0"),
        ([0, True], [0], TypeError, r"bits\[1\] is True"),
        ("01", [0], TypeError, "give a list of whole numbers"),
        ([0, 1], [2], ValueError, r"place 2; places of 2 bits are 0\.\.1"),
        ([0, 1], [-1], ValueError, "place -1"),
        ([0, 1], [1, 1], ValueError, "place 1 twice"),
        ([0, 1], [0.0], TypeError, r"subset\[0\] is 0.0"),
        ([0, 1], 1, TypeError, "subset is 1"),
    ],
)
def test_parity_refuses(bits, subset, error, match):
    with pytest.raises(error, match=match):
        parity(bits, subset)


@pytest.mark.parametrize("attend", [attention, program], ids=["target", "program"])
def test_both_tasks_through_attention(attend):
    for sequence in itertools.product(range(3), repeat=3):
        assert match2_through(attend, list(sequence), 3) == match2_by_definition(sequence, 3)
    for bits in itertools.product((0, 1), repeat=3):
        assert parity_through(attend, list(bits), [0, 2]) == (bits[0] + bits[2]) % 2


def test_both_tasks_through_the_compiled_simulator():
    encoder = build(3, 3, 3)
    for sequence in itertools.product(range(3), repeat=3):
        assert match2_through(encoder.run, list(sequence), 3) == match2_by_definition(sequence, 3)
    encoder = build(3, 1, 1)
    for bits in itertools.product((0, 1), repeat=3):
        assert parity_through(encoder.run, list(bits), [0, 2]) == (bits[0] + bits[2]) % 2


def test_a_wrong_share_is_no_answer():
    # Nothing is rounded to the nearest letter: a share outside the finite alphabet raises.
    with pytest.raises(KeyError):
        match2_through(lambda X, heads, **options: [[F(1, 7)] * 3] * 2, [1, 2], 3)
