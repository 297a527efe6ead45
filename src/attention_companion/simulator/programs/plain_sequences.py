"""Sequences of plain numbers, as the public functions take them: read exactly, handed back in the type they came in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from numbers import Rational as RationalNumber
from typing import Any

import flint
import numpy as np


def read_sequence(values: Any, name: str) -> list[Fraction]:
    """At least one finite real number, each as the Fraction it is (a float is a rational number too).

    Raises TypeError for what is no sequence of real numbers, ValueError where it is empty, nested or not finite.
    """
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ValueError(f"{name} has shape {values.shape}; expected one dimension")
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{name} is {values!r}; give a list of numbers")
    if not len(values):
        raise ValueError(f"{name} is empty; give at least one number")
    return [_exact(value, f"{name}[{i}]") for i, value in enumerate(values)]


def read_integers(values: Any, name: str) -> list[int]:
    """At least one whole number; TypeError for anything else, 1.0 and True included."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{name} is {values!r}; give a list of whole numbers")
    if not len(values):
        raise ValueError(f"{name} is empty; give at least one whole number")
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{name}[{i}] is {value!r}; give a whole number")
    return [int(value) for value in values]


def _exact(value: Any, name: str) -> Fraction:
    if isinstance(value, flint.fmpq):
        return Fraction(int(value.p), int(value.q))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, RationalNumber | float):
        raise TypeError(f"{name} is {value!r}; give a real number")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}; every number must be finite")
    return Fraction(value)


def in_type_of(originals: Any, results: Sequence[Any]) -> list[Any]:
    """Exact results (``fmpq``) as floats if any original was one, as ints if all were, as Fractions otherwise."""
    exact = [Fraction(int(value.p), int(value.q)) for value in results]
    if any(isinstance(value, float | np.floating) for value in originals):
        return [float(value) for value in exact]
    if all(isinstance(value, Integral) for value in originals):
        return [int(value) for value in exact]
    return exact
