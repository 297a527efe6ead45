"""Surveys, enclosures and sequences count what is wrong, and a broken program is counted."""

from __future__ import annotations

import math
from fractions import Fraction as F

import pytest

from attention_companion.simulator.experiments import primitives

pytestmark = pytest.mark.torch_free


def test_a_survey_counts_shapes_and_a_control_is_refuted():
    right = primitives.survey("transpose", (3, 3))
    assert (right.shapes, right.failed, right.refuted, right.layers) == (9, 0, 0, 1)
    assert right.terms == sum(r * c for r in (1, 2, 3) for c in (1, 2, 3))
    broken = primitives.survey("transpose", (3, 3), lambda s: {"stride": s[1] + 1})
    # One row has no stride.
    assert broken.failed == broken.refuted == 6


def test_a_survey_with_several_depths_has_no_depth():
    mixed = primitives.Survey(
        [primitives.prove_program("transpose", 1, 1), primitives.prove_program("product", 1, 1, 1)]
    )
    with pytest.raises(ValueError, match="depths"):
        _ = mixed.layers


def test_the_decimal_reference_is_a_softmax():
    row = primitives.softmax_reference([F(1, 2), F(-3), F(0)])
    assert abs(sum(row) - 1) < F(1, 10**79)
    assert float(row[0]) == pytest.approx(math.exp(0.5) / (math.exp(0.5) + math.exp(-3) + 1), rel=1e-15)


def test_enclosures_hold_the_reference_and_those_of_a_wrong_factor_do_not():
    right = primitives.softmax_enclosures([(2, 3), (1, 1)], cases=2, seed=3)
    assert (right.entries, right.missed) == (14, 0)
    assert 0 < right.radius < 1e-55
    wrong = primitives.softmax_enclosures([(2, 3)], cases=2, seed=3, factor=lambda s: {"factor": s[1] + 1})
    assert wrong.missed == wrong.entries == 12


def test_pairs_and_relus_are_right_and_controls_are_not():
    sequences = primitives.random_sequences(5, 6, seed=2)
    assert [len(s) for s in sequences[::6]] == [1, 2, 3, 4, 5]
    assert primitives.wrong_pairs(sequences) == 0
    assert primitives.wrong_pairs([[F(-5), F(3), F(0), F(0)]], distance=2) == 1
    slopes = [F(1, 10), F(-2)]
    assert primitives.wrong_relus(sequences, slopes) == 0
    assert primitives.wrong_relus([[F(3)]], slopes, read=1) == 3
