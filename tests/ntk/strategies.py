"""Small random matrices for the property tests of this folder."""

from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st

Rows = list[list[int]]

law = settings(max_examples=60, deadline=None)
"""For every property test here: a busy machine is no reason to fail, so there is no deadline."""


def integer_rows(
    max_rows: int = 5, max_columns: int = 4, bound: int = 255, min_rows: int = 1
) -> st.SearchStrategy[Rows]:
    """Nested lists of integers with rows of equal length."""
    return st.integers(1, max_columns).flatmap(
        lambda d: st.lists(
            st.lists(st.integers(-bound, bound), min_size=d, max_size=d), min_size=min_rows, max_size=max_rows
        )
    )


def fraction_rows(max_rows: int = 4, max_columns: int = 3) -> st.SearchStrategy[list[list[Fraction]]]:
    """The same with fractions."""
    entry = st.fractions(min_value=-20, max_value=20, max_denominator=12)
    return st.integers(1, max_columns).flatmap(
        lambda d: st.lists(st.lists(entry, min_size=d, max_size=d), min_size=1, max_size=max_rows)
    )
