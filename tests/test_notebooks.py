"""What the notebooks repeat from elsewhere must agree with it."""

import re
from pathlib import Path

import pytest

from attention_companion.ledger.claims import load_claims

pytestmark = pytest.mark.torch_free
ROOT = Path(__file__).resolve().parents[1]


def test_the_quoted_condition_numbers_are_those_of_the_claims():
    """They are literals in the notebook because claim files are not part of a result's key."""
    text = (ROOT / "notebooks" / "32_gram_cube.md").read_text(encoding="utf-8")
    (found,) = re.findall(r'^printed = \{"mnist": (\S+), "cifar10": (\S+)\}', text, flags=re.MULTILINE)
    claims = load_claims(ROOT)
    quoted = [float(claims[tag].printed_number("kappa").value) for tag in ("NTK-KAPPA-MNIST", "NTK-KAPPA-CIFAR")]
    assert [float(value) for value in found] == quoted


def test_every_label_stands_once_in_the_whole_book():
    """With two equations of one label a reference would lead into another chapter, and no reader could tell."""
    pages = sorted([*(ROOT / "notebooks").glob("*.md"), *(ROOT / "book").rglob("*.md")])
    homes: dict[str, list[str]] = {}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for label in re.findall(r"^\s*:label: *(\S+)|^\((\S+)\)=$", text, flags=re.MULTILINE):
            homes.setdefault("".join(label), []).append(page.name)
    assert "eq-xor-rate" in homes, "the pattern finds labels"
    assert {label: names for label, names in homes.items() if len(names) > 1} == {}
