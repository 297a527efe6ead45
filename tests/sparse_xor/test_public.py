"""The package's public face: names, signatures, and what importing it brings along."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from attention_companion import sparse_xor

pytestmark = pytest.mark.torch_free


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("population_loss", ["gamma", "gamma_tilde", "pair"]),
        ("worst_case_error", ["gamma", "gamma_tilde", "pair"]),
        ("population_gradient", ["embeddings", "theta", "theta_tilde", "pair"]),
        ("one_step_from_samples", ["embeddings", "theta", "x", "y", "learning_rate", "pair", "chunk"]),
        ("one_step", ["embeddings", "theta", "pair", "learning_rate", "attention"]),
    ],
)
def test_signatures(name, parameters):
    assert list(inspect.signature(getattr(sparse_xor, name)).parameters) == parameters


def test_every_public_name_exists_and_says_what_it_is():
    for name in sparse_xor.__all__:
        value = getattr(sparse_xor, name)
        if callable(value):
            assert value.__doc__


def test_importing_it_brings_neither_torch_nor_other_parts():
    code = (
        "import sys, attention_companion.sparse_xor;"
        "print(*sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'scipy', 'matplotlib')"
        " or name.startswith(('attention_companion.ledger', 'attention_companion.execution',"
        " 'attention_companion.datasets', 'attention_companion.ntk', 'attention_companion.plots'))))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
