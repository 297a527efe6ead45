"""The cube identity, its negative control, and 64-bit integers that confirm it with wrong numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from attention_companion.ntk import cube_identity, gram

from .strategies import fraction_rows, integer_rows, law

pytestmark = pytest.mark.torch_free


def pixels(n=40, d=784, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, d), dtype=np.uint8)


def test_holds_in_unbounded_integers():
    found = cube_identity(pixels())
    assert found
    assert (found.holds, found.differing, found.largest_difference) == (True, 0, 0)
    G = gram(pixels())
    assert found.largest_entry == max(G.dot(G).dot(G).ravel())
    assert found.largest_entry > 2**63


def test_one_pixel_on_one_side_breaks_it():
    X = pixels()
    Y = X.copy()
    Y[7, 300] ^= 1
    found = cube_identity(X, Y)
    assert not found
    assert found.differing > 0
    assert found.largest_difference > 0


def test_the_same_change_on_both_sides_does_not():
    Y = pixels()
    Y[7, 300] ^= 1
    assert cube_identity(Y, Y)


def test_wrapping_integers_confirm_it_with_wrong_numbers():
    """The trap: both sides wrap alike, so the comparison holds although no large entry is right."""
    X = pixels()
    wrapped = cube_identity(X, arithmetic="int64")
    true = cube_identity(X)
    assert wrapped.holds
    assert wrapped.largest_entry < 2**63 < true.largest_entry
    assert wrapped.largest_entry != true.largest_entry


def test_wrapping_can_confirm_a_false_identity():
    """Worse: a real difference that is a multiple of 2^64 is invisible to 64-bit integers."""
    X, Y = [[2**11]], [[2**12]]
    assert not cube_identity(X, Y)
    assert cube_identity(X, Y, arithmetic="int64").holds


def test_wrapping_agrees_while_everything_fits():
    X = [[3, 1], [2, 5]]
    assert cube_identity(X, arithmetic="int64").largest_entry == cube_identity(X).largest_entry


@law
@given(integer_rows())
def test_holds_for_all_integers(rows):
    assert cube_identity(rows)
    assert cube_identity(rows, arithmetic="int64")


@law
@given(fraction_rows())
def test_holds_for_fractions(rows):
    assert cube_identity(rows)


@law
@given(integer_rows(bound=3))
def test_a_changed_row_is_noticed_unless_its_gram_is_unchanged(rows):
    other = [[entry + 1 for entry in rows[0]], *rows[1:]]
    # Cubing is injective on positive semi-definite matrices, so the identity holds iff the Gram matrices agree.
    assert cube_identity(rows, other).holds == (gram(rows).tolist() == gram(other).tolist())


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        (([[1.5]],), {}, TypeError, "X holds float64"),
        (([[1]], [[1.5]]), {}, TypeError, "right holds float64"),
        (([[1]], [[1], [2]]), {}, ValueError, "X has 1 rows, right has 2"),
        (([[1]],), {"arithmetic": "int32"}, ValueError, "'int32'"),
        (([[2**63]],), {"arithmetic": "int64"}, ValueError, str(2**63)),
        (([[Fraction(1, 2)]],), {"arithmetic": "int64"}, TypeError, r"Fraction\(1, 2\)"),
    ],
)
def test_refused_input(arguments, options, error, says):
    with pytest.raises(error, match=says):
        cube_identity(*arguments, **options)
