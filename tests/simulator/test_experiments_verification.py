"""Certificates in the hands of the stand-alone script, and the one that the page offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_companion.simulator.experiments import verification

STATIC = Path(__file__).parents[2] / "book" / "_static"
SCRIPT = STATIC / "verify_certificate.py"

pytestmark = pytest.mark.torch_free


def test_the_script_accepts_what_is_right_and_rejects_every_change(tmp_path):
    given = verification.certificate_of("positional", (2, 1, 1, 1), 0)
    assert verification.accepted(SCRIPT, given, tmp_path)
    for change in verification.CHANGES:
        other = verification.tampered(given, change)
        assert other != given
        assert not verification.accepted(SCRIPT, other, tmp_path), change
    with pytest.raises(ValueError, match="choose one of X, A, weight, bound"):
        verification.tampered(given, "V")


def test_a_script_that_does_neither_is_an_error(tmp_path):
    silent = tmp_path / "silent.py"
    silent.write_text("")
    with pytest.raises(RuntimeError, match="ended with 0"):
        verification.accepted(silent, {}, tmp_path)


def test_the_certificate_on_the_page_is_the_one_that_is_written_today(tmp_path):
    path = tmp_path / "example.json"
    verification.write_example(path)
    assert path.read_text() == (STATIC / "certificate_example.json").read_text()
