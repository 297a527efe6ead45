"""Claim files: errors that name file, tag and field; the project's own claims; the committed schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from attention_companion.ledger.claims import ClaimError, find_root, load_claims, read_file
from attention_companion.ledger.models import Claim
from attention_companion.ledger.numbers import parse_decimal
from attention_companion.ledger.schema import main, schema_text

pytestmark = pytest.mark.torch_free

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tag": "xor-toy"}, "xor-toy: tag: String should match pattern"),
        ({"tag": "SIM-TOY"}, "SIM-TOY: the claim as a whole: .*does not begin with XOR-"),
        ({"paper": "other"}, "XOR-TOY: paper: Input should be 'sparse_xor'"),
        ({"statement": " "}, "XOR-TOY: statement: String should have at least 1 character"),
        ({"statement": None}, "XOR-TOY: statement: Field required"),
        ({"verdict": "confirmed"}, "XOR-TOY: verdict: Extra inputs are not permitted"),
        ({"source": "memory"}, "XOR-TOY: source: Input should be"),
        ({"mark": "B"}, "XOR-TOY: mark: Input should be 'F' or 'A'"),
        ({"checked_by": None}, "exactly one of checked_by"),
        ({"not_checked": "later"}, "exactly one of checked_by"),
        ({"drift": None}, "drift is missing"),
        (
            {"drift": {"abs": -1, "reason": "x"}},
            "XOR-TOY: drift.abs: Input should be greater than or equal to 0",
        ),
        ({"drift": {"abs": float("nan"), "reason": "x"}}, "XOR-TOY: drift.abs: Input should be"),
        (
            {"expectation": {"operator": "near", "value": 1, "reason": "x"}},
            "XOR-TOY: expectation.operator: Input",
        ),
        ({"expectation": {"operator": "ge", "reason": "x"}}, "'ge' needs one number"),
        ({"expectation": {"operator": "ge", "value": [1, 2], "reason": "x"}}, "'ge' needs one number"),
        ({"expectation": {"operator": "between", "value": 1, "reason": "x"}}, "'between' needs two numbers"),
        ({"expectation": {"operator": "between", "value": [2, 1], "reason": "x"}}, "needs ascending numbers"),
        (
            {"expectation": {"operator": "true", "value": 1, "reason": "x"}},
            "takes neither value nor tolerance",
        ),
        (
            {"expectation": {"operator": "ge", "value": "many", "reason": "x"}},
            "'many' is not a finite number",
        ),
        ({"expectation": {"operator": "ge", "value": True, "reason": "x"}}, "True is not a number"),
        (
            {"expectation": {"operator": "ge", "value": 1, "tolerance": -1, "reason": "x"}},
            "expected a number >= 0",
        ),
        ({"expectation": {"operator": "ge", "value": 1}}, "XOR-TOY: expectation.reason: Field required"),
        ({"printed": [{"label": "a", "text": "1", "source": "ours"}]}, "was never printed"),
        ({"printed": [{"label": "a", "text": "1", "source": "summary"}] * 2}, "printed labels repeat"),
        (
            {"source": "ours", "printed": [{"label": "a", "text": "1", "source": "summary"}]},
            "a claim of ours has no printed numbers",
        ),
        (
            {"tolerance_history": [{"date": "May", "before": "a", "after": "b", "reason": "c"}]},
            "tolerance_history.0.date",
        ),
    ],
)
def test_a_malformed_claim_is_refused_with_file_tag_and_field(
    root: Path,
    fields: Callable[..., dict[str, Any]],
    put_claims: Callable[..., None],
    changes: dict[str, Any],
    message: str,
) -> None:
    put_claims(fields(**changes))
    with pytest.raises(ClaimError, match=message) as caught:
        load_claims(root)
    assert "toy.yml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("claims: [", "toy.yml: not valid YAML"),
        ("[]", "expected one key 'claims' holding a list, got list"),
        ("claims: []\nmore: 1", "with keys \\['claims', 'more'\\]"),
        ("claims: {a: 1}", "expected one key 'claims' holding a list"),
        ("claims: [3]", "entry 1 is int; expected a mapping"),
        ("claims: [{paper: ntk}]", "entry 1 \\(no tag\\): tag: Field required"),
        ("claims:\n- tag: XOR-A\n  tag: XOR-B\n", "key 'tag' is written twice \\(line 3\\)"),
        ("claims: [!!python/object/apply:os.getcwd []]", "not valid YAML"),
    ],
)
def test_a_malformed_file_is_refused(root: Path, text: str, message: str) -> None:
    path = root / "book" / "claims" / "toy.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ClaimError, match=message):
        read_file(path)


def test_a_tag_is_used_once_across_files(
    root: Path, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    put_claims(fields())
    other = root / "book" / "claims" / "more.yml"
    other.write_text(yaml.safe_dump({"claims": [fields()]}), encoding="utf-8")
    with pytest.raises(ClaimError, match=r"toy.yml: tag XOR-TOY is already used in more.yml"):
        load_claims(root)


def test_an_edited_file_is_read_again(
    root: Path, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    assert load_claims(root)["XOR-TOY"].place == "Theorem 0"
    put_claims(fields(place="Theorem 123"))
    assert load_claims(root)["XOR-TOY"].place == "Theorem 123"


def test_no_claims_at_all_is_an_error(root: Path) -> None:
    (root / "book" / "claims" / "toy.yml").unlink()
    with pytest.raises(ClaimError, match=r"holds no \.yml file"):
        load_claims(root)


def test_the_root_is_found_from_inside_and_a_wrong_one_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_root() == root
    monkeypatch.setenv("ATTENTION_COMPANION_ROOT", str(root / "book"))
    with pytest.raises(ClaimError, match="holds no book/claims"):
        find_root()
    monkeypatch.delenv("ATTENTION_COMPANION_ROOT")
    assert find_root(root / "notebooks") == root.resolve()
    assert find_root(Path("/")) == PROJECT, "outside any project the package's own is used"


def test_the_committed_schema_is_the_models(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    committed = (PROJECT / "book" / "claims" / "schema.json").read_text(encoding="utf-8")
    assert committed == schema_text(), "run: python -m attention_companion.ledger.schema"
    main(root)
    assert (root / "book" / "claims" / "schema.json").read_text(encoding="utf-8") == committed
    assert "1 claims are well formed" in capsys.readouterr().out


def test_the_schema_accepts_the_claims_and_refuses_an_extra_field() -> None:
    import jsonschema

    validator = jsonschema.Draft202012Validator(json.loads(schema_text()))
    for path in sorted((PROJECT / "book" / "claims").glob("*.yml")):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["claims"]:
            validator.validate(entry)
    assert not validator.is_valid({**entry, "verdict": "confirmed"})


@pytest.fixture(scope="module")
def claims() -> dict[str, Claim]:
    return load_claims(PROJECT)


class TestOurClaims:
    """The project's own claim files."""

    def test_the_named_claims_are_entered(self, claims: dict[str, Claim]) -> None:
        text = """
            XOR-T2 XOR-C3 XOR-PARAMS XOR-FFNN-LOWER XOR-SOFTMAX-NEEDED XOR-ONE-TO-ONE XOR-GRAD-ALIGN XOR-EQUIV
            XOR-EMBED XOR-FIXED-FEATURES XOR-LOSS XOR-GRAD XOR-WORST XOR-WORST-PART XOR-EPS XOR-CEILING SIM-P2 SIM-L3
            SIM-L4 SIM-L5 SIM-L7 SIM-T6 SIM-T9 SIM-DEPTH SIM-HEADS SIM-MATCH2 SIM-PARITY SIM-HARD-SOFT SIM-TABLE1
            SIM-LIPSCHITZ SIM-HOELDER SIM-INVERSE NTK-CUBE NTK-KAPPA-CUBE NTK-KAPPA-MNIST NTK-KAPPA-CIFAR NTK-ROWNORM
            NTK-GOLDEN-KERNEL NTK-THRESH-V1 NTK-THRESH-MNIST NTK-THRESH-CIFAR NTK-D-MNIST-RELU NTK-D-MNIST-ATTN
            NTK-D-CIFAR-RELU NTK-D-CIFAR-ATTN NTK-FLIP-6-9 NTK-FLIP-2-9 NTK-FLAT NTK-ALIGN NTK-V2-TITLE
            NTK-A-MNIST-RELU NTK-A-CIFAR-ATTN
        """
        named = set(text.split())
        assert named <= set(claims), named - set(claims)
        assert len(claims) >= 40

    def test_papers_stand_in_reading_order(self, claims: dict[str, Claim]) -> None:
        papers = [c.paper for c in claims.values()]
        assert papers == sorted(papers, key=["sparse_xor", "simulator", "ntk"].index)

    def test_checked_claims_name_notebooks_of_the_list(self, claims: dict[str, Claim]) -> None:
        listed = yaml.safe_load((PROJECT / "notebooks" / "notebooks.yml").read_text(encoding="utf-8"))[
            "notebooks"
        ]
        names = {n["name"] for n in listed}
        assert {c.checked_by for c in claims.values() if c.checked_by} <= names

    def test_printed_texts_and_values_agree(self, claims: dict[str, Claim]) -> None:
        """A value typed beside its text must be the number in the text."""
        for claim in claims.values():
            for item in claim.printed:
                plain = item.text.rstrip("%")
                if item.value is not None and plain.replace(".", "").replace("e", "").isdigit():
                    assert parse_decimal(plain) == parse_decimal(item.value), (claim.tag, item)

    def test_paper_claims_say_how_we_know_them(self, claims: dict[str, Claim]) -> None:
        for claim in claims.values():
            assert (claim.source == "ours") <= (claim.mark == "A"), claim.tag
            if claim.source == "quoted_table":
                assert claim.printed, claim.tag
            if claim.source == "released_code":
                assert claim.released, claim.tag
