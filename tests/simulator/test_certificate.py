"""Certificates are accepted by the stand-alone script, and rejected once anything in them has been tampered with."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import subprocess
import sys
from fractions import Fraction as F
from pathlib import Path

import mpmath
import numpy as np
import pytest

from attention_companion.simulator import Encoder, Shape, build
from attention_companion.simulator.certificate import certificate, write_certificate
from attention_companion.simulator.mutation import with_weight

from .layers import LAYOUTS, rational_layer

SCRIPT = Path(__file__).parents[2] / "book" / "_static" / "verify_certificate.py"


@pytest.fixture(scope="module")
def verifier():
    spec = importlib.util.spec_from_file_location("verify_certificate", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def layer_of(*sizes):
    return rational_layer(Shape.read(*sizes), np.random.default_rng(0), top=4)


@pytest.fixture(scope="module")
def small():
    return certificate(build(2, 1, 1), *layer_of(2, 1, 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_script_accepts_a_certificate_of_each_layout(layout, tmp_path):
    path = tmp_path / "certificate.json"
    write_certificate(path, build(2, 2, 2, layout=layout), *layer_of(2, 2, 2))
    result = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), str(path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "accepted" in result.stdout
    assert layout in result.stdout


def test_the_script_rejects_and_says_why(small, tmp_path):
    tampered = copy.deepcopy(small)
    tampered["bounds"][0][0] = ["0", "0"]
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(tampered))
    result = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), str(path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "REJECTED: entry 0 of U" in result.stdout


@pytest.mark.parametrize("sizes", [(2, 1, 1, 2, 2), (1, 1, 1, 1, 1), (2, 1, 2, 1, None)])
def test_heads_and_output_matrices(verifier, sizes):
    layer = layer_of(*sizes)
    for guarded in (False, True):
        found = certificate(build(*sizes[:4], "constant", sizes[4], guarded), *layer)
        assert verifier.verify(found) <= 1e-38


def test_the_script_stands_alone():
    tree = ast.parse(SCRIPT.read_text())
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert names == {"json", "sys", "fractions"}


def change(found, *path, by):
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = by(place[path[-1]])


TAMPERINGS = {
    "a value weight": lambda c: change(c, "blocks", 0, "heads", 1, "value", 0, 2, by=lambda w: str(F(w) * 2)),
    "a key weight": lambda c: change(c, "blocks", 0, "heads", 0, "key", 0, 2, by=lambda w: str(-F(w))),
    "a form's weight": lambda c: change(
        c, "blocks", 2, "stages", 1, 0, "right", 0, 1, by=lambda w: str(F(w) * 2)
    ),
    "a position": lambda c: change(c, "positions", 1, 1, by=lambda p: p + 1),
    "an input": lambda c: change(c, "X", 0, 0, by=lambda x: str(F(x) + F(1, 10**20))),
    "a bound moved away": lambda c: change(c, "bounds", 0, 0, 0, by=lambda b: str(F(b) + F(1, 10**20))),
    "a bound moved wide": lambda c: change(c, "bounds", 0, 0, 1, by=lambda b: str(F(b) + F(1, 10**20))),
    "a missing bound": lambda c: change(c, "bounds", by=lambda rows: rows[:-1]),
    "a missing block": lambda c: change(c, "blocks", by=lambda blocks: blocks[:-1]),
    "a wrong count": lambda c: change(c, "nonzero_weights", by=lambda count: count - 1),
    "another operation": lambda c: change(
        c, "blocks", 1, "stages", 0, 0, "kind", by=lambda kind: "attention"
    ),
    "swapped outputs": lambda c: change(c, "output_tokens", by=lambda tokens: tokens[::-1]),
    "a doubled input token": lambda c: change(c, "input_tokens", 1, by=lambda token: 1),
    "a vanishing divisor": lambda c: change(c, "blocks", 2, "stages", 1, 0, "right", by=lambda form: []),
    "a score of data": lambda c: change(
        c, "blocks", 2, "heads", 0, "key", 0, 1, by=lambda channel: c["output_channel"] - 1
    ),
    "another format": lambda c: change(c, "format", by=lambda name: name + "x"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_tampered_certificate_is_rejected(verifier, small, name):
    assert verifier.verify(small) < 1e-38
    tampered = copy.deepcopy(small)
    TAMPERINGS[name](tampered)
    assert tampered != small
    with pytest.raises(verifier.Rejected):
        verifier.verify(tampered)


@pytest.mark.parametrize("x", [F(0), F(1), F(-1, 3), F(25, 2), F(-31, 7), F(1, 10**12), F(-40)])
def test_its_exponential_holds_the_true_one(verifier, x):
    low, high = verifier.exp_of(x)
    with mpmath.workdps(110):
        true = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator <= true * (1 + mpmath.mpf(10) ** -100)
        assert true * (1 - mpmath.mpf(10) ** -100) <= mpmath.mpf(high.numerator) / high.denominator
    assert low <= high <= low + F(1, 10**70) * (1 + high)


def test_an_encoder_that_differs_gets_no_certificate():
    encoder = build(2, 1, 1)
    address = next(a for a, _ in encoder.machine.weights() if a[3] == "value")
    broken = Encoder(with_weight(encoder.machine, address, F(3)), encoder.shape, "changed")
    with pytest.raises(ValueError, match="U and T differ at row 0"):
        certificate(broken, *layer_of(2, 1, 1))


def test_floats_are_refused():
    with pytest.raises(TypeError, match=r"the float 0\.5"):
        certificate(build(1, 1, 1), [[0.5]], [([[1]], [[1]])])
