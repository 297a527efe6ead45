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
    assert [checks.epsilon_excess([20, 40], cases=6, seed=seed) for seed in range(4)] == [0] * 4
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
@pytest.mark.parametrize(("d", "rho"), [(3, 6 / 13), (6, 24 / 64), (18, 144 / 628)])
def test_collapse_law_values(d, rho):
    assert math.tan(math.pi / 2 * checks.collapse_law(d)) == pytest.approx(rho, rel=1e-12)


@pytest.mark.torch_free
def test_collapse_law_tends_to_one_over_root_d():
    for d in (100, 10_000):
        plain = 2 / math.pi * math.atan(1 / math.sqrt(d))
        assert checks.collapse_law(d) == pytest.approx(plain, rel=1 / d)


@pytest.mark.torch_free
def test_collapse_law_holds_at_small_d_where_the_plain_law_does_not():
    """At d = 4 and m = 200 (far above d) the share of collapses tells 0.2613 from (2/pi) arctan(1/2) = 0.2952."""
    seen = checks.step_outcomes(4, 200, 6000, 1e14, seed=11)
    share, plain = seen.collapsed / seen.starts, 2 / math.pi * math.atan(1 / 2)
    error = math.sqrt(0.26 * 0.74 / 6000)
    assert abs(share - checks.collapse_law(4)) < 3 * error
    assert abs(share - plain) > 4 * error
