"""Numbers survive the ledger's JSON exactly, and what is no number is refused."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_companion.ledger.numbers import (
    NumberError,
    as_float,
    decode,
    encode,
    is_exact,
    normalise,
    parse_decimal,
)

pytestmark = pytest.mark.torch_free

NUMBERS = st.one_of(
    st.booleans(), st.integers(), st.fractions(), st.floats(allow_nan=False, allow_infinity=True)
)


@settings(deadline=None)  # shared machines pause
@given(NUMBERS)
def test_encoding_loses_nothing(x: bool | int | Fraction | float) -> None:
    stored = json.loads(json.dumps(encode(x), allow_nan=False))
    back = decode(stored)
    assert back == x
    assert isinstance(back, bool) == isinstance(x, bool)
    assert is_exact(back) == is_exact(x)


@pytest.mark.parametrize(
    ("given_", "expected", "kind"),
    [
        (np.float64(0.25), 0.25, float),
        (np.float32(0.5), 0.5, float),
        (np.int64(7), 7, int),
        (np.bool_(True), True, bool),
        (np.array(3), 3, int),
        (flint.fmpz(10**30), 10**30, int),
        (flint.fmpq(2, 6), Fraction(1, 3), Fraction),
        (math.inf, math.inf, float),
    ],
)
def test_scalars_of_other_libraries_are_taken(given_: Any, expected: Any, kind: type) -> None:
    got = normalise(given_, "x")
    assert got == expected
    assert type(got) is kind


@pytest.mark.parametrize("bad", [None, "0.5", [1], np.ones(2), 1 + 2j, object(), np.ones((1, 1))])
def test_what_is_no_number_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(NumberError, match=r"the share is .* expected one number"):
        normalise(bad, "the share")


@pytest.mark.parametrize("nan", [math.nan, np.float64("nan"), np.array(np.nan)])
def test_nan_is_refused(nan: Any) -> None:
    with pytest.raises(NumberError, match="the share is NaN"):
        normalise(nan, "the share")


@pytest.mark.parametrize("bad", [None, [1], {}, "x/y", "1/0", "nan"])
def test_foreign_stored_forms_are_refused(bad: Any) -> None:
    with pytest.raises(NumberError):
        decode(bad)


def test_a_number_beyond_doubles_is_refused_with_advice() -> None:
    with pytest.raises(NumberError, match="record its logarithm"):
        as_float(10**400, "kappa")


@pytest.mark.parametrize(
    ("text", "value"),
    [(0.05, Fraction(1, 20)), ("1.2e3", 1200), (3, 3), ("1/3", Fraction(1, 3)), (1e-12, Fraction(1, 10**12))],
)
def test_typed_numbers_are_read_as_decimals(text: Any, value: Any) -> None:
    assert parse_decimal(text) == value


@pytest.mark.parametrize("bad", [True, "many", "1/0", math.inf, math.nan, "inf", None])
def test_typed_numbers_must_be_finite(bad: Any) -> None:
    with pytest.raises(NumberError):
        parse_decimal(bad)
