"""The mutation control: the prover's verdict never contradicts an evaluation that knows nothing of it."""

from __future__ import annotations

import numpy as np
import pytest

from attention_companion.simulator import Proof, build
from attention_companion.simulator import mutation as mutating
from attention_companion.simulator.mutation import (
    CHANGES,
    KINDS,
    difference,
    judge,
    kind_of,
    mutate,
    random_layer,
    study,
    with_vanishing_divisors,
)

from .layers import LAYOUTS

SHAPES = [(2, 1, 2, 1), (2, 2, 1, 1), (3, 1, 1, 1), (1, 2, 2, 2)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_verdicts_and_evaluation_agree(layout):
    tally = study(layout, SHAPES, 20, seed=1, inputs=3)
    assert tally.contradictions == []
    assert tally.mutants == 20
    caught = sum(row[1] for row in tally.table())
    assert caught >= 10, "most changed weights matter"


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_hundred_mutants(layout):
    tally = study(layout, SHAPES, 200, seed=0)
    print(layout, tally.table(), tally.undecided_but_different)
    assert tally.contradictions == []
    assert tally.mutants == 200
    assert all(sum(row[1:]) == 40 for row in tally.table())
    assert all(row[1] > 20 for row in tally.table())


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutant_differs_in_the_weight_it_names(kind):
    machine = build(2, 2, 1).machine
    before = dict(machine.weights())
    seen = set()
    for seed in range(40):
        mutant = mutate(machine, np.random.default_rng(seed), kind)
        after = dict(mutant.machine.weights())
        assert kind_of(mutant.address) == mutant.kind == kind
        assert after[mutant.address] != before[mutant.address]
        differing = {a for a in before.keys() | after.keys() if before.get(a) != after.get(a)}
        assert len(differing) == (2 if mutant.change == "move" else 1)
        assert mutant.address in differing
        seen.add(mutant.change)
    assert seen == set(CHANGES)


def test_a_kind_that_is_missing_is_refused():
    with pytest.raises(ValueError, match="no weight of kind 'sideways'"):
        mutate(build(1, 1, 1).machine, np.random.default_rng(0), "sideways")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_vanishing_divisors_are_seen_by_the_evaluation(layout):
    encoder = build(2, 1, 1, layout=layout)
    layer = random_layer(encoder.shape, np.random.default_rng(0))
    assert difference(encoder.machine, layer) == ""
    assert "divisor" in difference(with_vanishing_divisors(encoder.machine), layer)


def test_a_false_proof_and_a_false_refutation_are_contradictions(monkeypatch):
    encoder = build(2, 1, 1)
    rng = np.random.default_rng(0)
    mutant = mutate(encoder.machine, rng, "value")
    assert judge(encoder, mutant, rng, 3).verdict == "caught"
    monkeypatch.setattr(mutating, "prove", lambda encoder: Proof(True, 0.0, 0, None))
    assert "U gives" in judge(encoder, mutant, rng, 3).contradiction

    from attention_companion.simulator import Counterexample

    layer = random_layer(encoder.shape, rng)
    monkeypatch.setattr(
        mutating, "prove", lambda encoder: Proof(False, 0.0, 0, Counterexample(*layer, "made up"))
    )
    right = mutating.Mutant(encoder.machine, "value", "change", mutant.address)
    assert "does not confirm" in judge(encoder, right, rng, 1).contradiction
