"""Certificates handed to a program that knows nothing of this package, and certificates with one number changed."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..certificate import certificate, write_certificate
from ..prove import random_layer
from ..shape import Shape
from .universal import build_for

#: Of a certificate, what a changed number may be: an entry of X, of A, a weight of the encoder, or a bound.
CHANGES = ("X", "A", "weight", "bound")


def accepted(script: Path, given: dict[str, Any], folder: Path) -> bool:
    """Whether the script, run by a Python without this package (``-I -S``), accepts the certificate.

    Raises RuntimeError when it neither accepts nor rejects.
    """
    path = folder / "certificate.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-I", "-S", str(script), str(path)], capture_output=True, text=True, check=False
    )
    if run.returncode == 0 and ": accepted" in run.stdout:
        return True
    if run.returncode == 1 and ": REJECTED" in run.stdout:
        return False
    raise RuntimeError(f"{script.name} ended with {run.returncode}: {run.stdout}{run.stderr}")


def certificate_of(layout: str, sizes: tuple[int, ...], seed: int) -> dict[str, Any]:
    """The certificate of a layout's encoder at one random rational layer of shape (n, d, d_v, h[, output_dim])."""
    shape = Shape.read(*sizes)
    layer = random_layer(shape, np.random.default_rng([seed, *sizes]))
    return certificate(build_for(shape, layout), *layer)


def tampered(given: dict[str, Any], change: str) -> dict[str, Any]:
    """The certificate with one number changed; ``change`` is one of ``CHANGES``."""
    if change not in CHANGES:
        raise ValueError(f"change is {change!r}; choose one of {', '.join(CHANGES)}")
    other = copy.deepcopy(given)
    if change == "X":
        other["X"][0][0] = str(Fraction(other["X"][0][0]) + 1)
    elif change == "A":
        other["heads"][0]["A"][0][0] = str(Fraction(other["heads"][0]["A"][0][0]) + 1)
    elif change == "weight":
        entry = other["blocks"][0]["heads"][0]["value"][0]
        entry[-1] = str(2 * Fraction(entry[-1]))
    else:
        low, high = other["bounds"][0][0]
        other["bounds"][0][0] = [high, str(Fraction(high) + Fraction(high) - Fraction(low))]
    return other


def write_example(path: Path) -> None:
    """The certificate that the page offers: `positional` at the worked example of the chapter on the simulator."""
    x = [[Fraction(1, 2), -1], [Fraction(2, 3), 3], [0, Fraction(-5, 4)]]
    a = [[1, 2], [Fraction(-1, 2), Fraction(1, 3)]]
    v = [[2, Fraction(-1, 3)], [Fraction(1, 7), 4]]
    write_certificate(path, build_for(Shape.read(3, 2, 2), "positional"), x, [(a, v)])
