"""The oracles and controls behind the chapter on one step: each must be able to fail."""

import math
from fractions import Fraction

import numpy as np
import pytest

from attention_companion.sparse_xor import checks, population_loss

HALF = Fraction(1, 2)


@pytest.mark.torch_free
def test_inputs_are_all_sign_strings():
    x = checks.inputs(5)
    assert x.shape == (32, 5)
    assert set(x.ravel().tolist()) == {-1, 1}
    assert len({tuple(row) for row in x.tolist()}) == 32


@pytest.mark.torch_free
def test_the_grid_proves_the_loss_and_notices_biased_bits():
    assert checks.prove_loss_on_grid(pairs=[(2, 0)]) == checks.GridProof(evaluations=6561, mismatches=0)
    assert checks.prove_loss_on_grid(ones=Fraction(3, 5), pairs=[(2, 0)]).mismatches > 6000


@pytest.mark.torch_free
def test_the_grid_notices_a_formula_that_lacks_a_term(monkeypatch):
    def without_fourth_moment(a, b, pair):
        return population_loss(a, b, pair) + 2 * sum(x * x * y * y for x, y in zip(a, b, strict=True))

    monkeypatch.setattr(checks, "population_loss", without_fourth_moment)
    assert checks.prove_loss_on_grid(pairs=[(0, 1)]).mismatches > 1000


def test_autograd_agrees_with_the_gradient_and_notices_exchanged_queries():
    assert checks.gradient_disagreement(cases=10, seed=5) < 1e-12
    assert checks.gradient_disagreement(cases=10, seed=5, mirrored=False) > 0.1


@pytest.mark.torch_free
def test_both_enumerations_agree_with_a_direct_walk():
    a, b = [Fraction(k, 10) for k in (1, 2, 3, 4)], [Fraction(k, 25) for k in (12, 6, 4, 3)]
    x = checks.inputs(4)
    direct = max(
        abs(
            -sum(u * int(s) for u, s in zip(a, row, strict=True))
            * sum(v * int(s) for v, s in zip(b, row, strict=True))
            + int(row[0] * row[3])
        )
        for row in x
    )
    assert direct == Fraction(144, 125)
    assert checks.enumerated_worst_case_exact(a, b, (0, 3)) == direct
    floats = (np.array([float(w) for w in head]) for head in (a, b))
    assert checks.enumerated_worst_case(*floats, (0, 3)) == pytest.approx(144 / 125, abs=1e-15)


@pytest.mark.torch_free
def test_partition_formula_holds_and_its_control_does_not():
    gap, control = checks.partition_gap(cases=5, parts=6, seed=3)
    assert gap == 0
    assert control > Fraction(1, 10)


@pytest.mark.torch_free
def test_worst_case_report_meets_open_brackets_and_notices_a_moved_pair():
    report = checks.check_worst_case([17], cases=9, seed=2)
    assert report.cases == 9
    assert report.outside < 1e-12
    assert report.exact < report.cases, "no bracket was open: the check would not see a wrong one"
    assert report.widest > 0
    assert checks.check_worst_case([17], cases=3, seed=2, shift=1).outside > 0.1


@pytest.mark.torch_free
def test_the_epsilon_bound_is_attained_and_fails_for_a_collapsed_pair():
    assert checks.epsilon_excess([20], cases=60, seed=1) <= 0
    assert checks.epsilon_excess([20], cases=5, seed=1, same_target=True) > 1
    with pytest.raises(ValueError, match="no case was drawn"):
        checks.epsilon_excess([], cases=5, seed=1)


@pytest.mark.torch_free
def test_more_starts_extend_fewer_and_the_controls_fail():
    few, many = (checks.step_outcomes(32, 24, n, 1e8, seed=4) for n in (30, 60))
    assert few.specialised <= many.specialised <= few.specialised + 30
    for seen in (few, many):
        assert seen.specialised + seen.collapsed + seen.distracted <= seen.starts
        assert seen.specialised <= seen.settled
    assert checks.step_outcomes(32, 24, 30, 1e8, seed=4, mirrored=False).specialised == 0
    centred = checks.step_outcomes(16, 24, 100, 1e8, seed=4, centred=True)
    assert centred.collapsed < checks.step_outcomes(16, 24, 100, 1e8, seed=4).collapsed


@pytest.mark.torch_free
@pytest.mark.parametrize(("d", "law"), [(1, 0.5), (3, 1 / 3), (256, 0.03973704861108168)])
def test_collapse_law_values(d, law):
    assert checks.collapse_law(d) == pytest.approx(law, rel=1e-12)


@pytest.mark.torch_free
def test_collapse_law_is_the_share_of_one_normal_above_another():
    """Monte Carlo for P(|C| > |S|) with sd(C) = sd(S)/sqrt(d): four standard errors of 200,000 draws."""
    rng = np.random.default_rng(0)
    s, c = rng.normal(size=(2, 200_000))
    share = np.mean(np.abs(c) / math.sqrt(20) > np.abs(s))
    assert share == pytest.approx(checks.collapse_law(20), abs=4 * math.sqrt(0.14 * 0.86 / 200_000))
