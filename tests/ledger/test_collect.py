"""Collecting: verdicts from records and claim files, every fault by name, exit status and files of the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from attention_companion import ledger as notebook_api
from attention_companion.ledger.baseline import accept
from attention_companion.ledger.collect import CollectError, Ledger, collect, faults, main, recollect
from attention_companion.ledger.verdicts import VERDICTS

pytestmark = pytest.mark.torch_free

NOTEBOOK = "10_toy"
Toy = Callable[..., Ledger]


def kinds(found: Ledger) -> list[str]:
    return [p["kind"] for p in found.problems]


def test_a_met_claim_is_confirmed_on_range_with_all_its_fields(toy: Toy) -> None:
    found = toy(0.75, data={"mnist": {"digest": "d", "kind": "full"}})
    (claim,) = found.claims
    assert claim["verdict"] == "confirmed on range"
    assert claim["why"] == "met in the range checked"
    assert claim["expected"] == "at least 0.5"
    assert claim["depends_on"]["notebook"] == NOTEBOOK
    assert claim["depends_on"]["parameters"] == {"n": 3}
    assert claim["depends_on"]["source"] == {"src/a.py": "0" * 64}
    assert claim["depends_on"]["data"] == {"mnist": {"digest": "d", "kind": "full"}}
    assert claim["regimes"][0]["outcome_at_run"] == "met"
    assert not found.problems
    assert found.counts["sparse_xor"]["confirmed on range"] == 1
    assert set(found.counts) == {"sparse_xor", "simulator", "ntk", "all"}
    assert set(found.counts["all"]) == set(VERDICTS)
    assert found.generated == "2025-01-02T03:04:05Z"
    assert found.notebooks[NOTEBOOK]["folder"].startswith("results/quick/10_toy/")


def test_collecting_twice_gives_the_same_text(root: Path, toy: Toy) -> None:
    found = toy(0.75)
    again = collect(root, "quick", {NOTEBOOK: root / found.notebooks[NOTEBOOK]["folder"]})
    assert found.to_json() == again.to_json()


def test_the_claim_as_it_reads_now_decides(
    root: Path, toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    """Editing an expectation needs no new run: the recorded outcome stays visible, the verdict follows the file."""
    folder = root / toy(0.75).notebooks[NOTEBOOK]["folder"]
    put_claims(
        fields(expectation={"operator": "ge", "value": 0.9, "reason": "stricter"}, under_specified="much")
    )
    (claim,) = collect(root, "quick", {NOTEBOOK: folder}).claims
    assert claim["verdict"] == "not reproduced: recipe under-specified"
    assert claim["regimes"][0]["outcome"] == "unmet"
    assert claim["regimes"][0]["outcome_at_run"] == "met"


def test_the_typed_outcome_in_a_record_is_never_believed(root: Path, toy: Toy) -> None:
    folder = root / toy(0.75).notebooks[NOTEBOOK]["folder"]
    records = json.loads((folder / "records.json").read_text())
    records[0]["outcome"] = "unmet"
    records[0]["control"]["outcome"] = "met"
    (folder / "records.json").write_text(json.dumps(records))
    found = collect(root, "quick", {NOTEBOOK: folder})
    assert found.claims[0]["verdict"] == "confirmed on range"
    assert not found.problems


def test_exact_numbers_are_judged_exactly(toy: Toy) -> None:
    """A hair below one half, which no double can tell from it."""
    hair = Fraction(1, 2) - Fraction(1, 10**30)
    planted = notebook_api.Control("a true toy", 1)
    found = toy(hair, method="exact", planted=planted)
    assert found.claims[0]["verdict"] == "contradicted"
    assert found.claims[0]["regimes"][0]["measured"] == 0.5


def test_a_contradiction_with_a_planted_case_is_no_problem(toy: Toy) -> None:
    found = toy(0.2, planted=notebook_api.Control("a true toy", 0.9))
    assert found.claims[0]["verdict"] == "contradicted"
    assert not found.problems


@pytest.mark.parametrize(
    ("measured", "arguments", "kind", "text"),
    [
        (
            0.75,
            {"control": notebook_api.Control("not broken", 0.9)},
            "control passes",
            "control passes (not broken)",
        ),
        (
            0.75,
            {"control": notebook_api.Control("hardly", 0.5, (0.4, 0.6))},
            "control undecided",
            "the control is undecided (hardly)",
        ),
        (0.2, {}, "contradicted without a planted case", "no planted true case"),
        (
            0.2,
            {"planted": notebook_api.Control("not true", 0.3)},
            "planted case fails",
            "the planted true case is unmet (not true)",
        ),
        (
            0.75,
            {"control": None, "planted": notebook_api.Control("a true toy", 0.9)},
            "no control",
            "met, but recorded without a control",
        ),
        (0.75, {"figure": "toys"}, "missing figure", "names figure 'toys', which 10_toy did not make"),
    ],
)
def test_a_check_that_proves_nothing_is_a_problem(
    toy: Toy, measured: float, arguments: dict[str, Any], kind: str, text: str
) -> None:
    found = toy(measured, **arguments)
    assert kind in kinds(found)
    (problem,) = [p for p in found.problems if p["kind"] == kind]
    assert text in problem["text"]
    assert problem["text"].startswith("XOR-TOY")


def test_a_claim_of_ours_must_hold(
    toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    put_claims(fields(source="ours", mark="A"))
    found = toy(0.2, planted=notebook_api.Control("a true toy", 0.9))
    assert kinds(found) == ["a claim of ours does not hold"]
    assert "measured 0.2, expected at least 0.5; this is a bug of ours" in found.problems[0]["text"]


def test_a_claim_without_a_check_and_a_check_without_a_claim(
    root: Path,
    run: Callable[..., Path],
    fields: Callable[..., dict[str, Any]],
    put_claims: Callable[..., None],
) -> None:
    put_claims(fields(), fields(tag="XOR-OTHER"))

    def cells() -> None:
        control = notebook_api.Control("a broken toy", 0.1)
        notebook_api.record("XOR-OTHER", 0.75, method="float", checked_range="x", control=control)

    folder = run(cells)
    put_claims(fields())
    found = collect(root, "quick", {NOTEBOOK: folder})
    assert sorted(kinds(found)) == ["check without a claim", "claim without a check"]
    texts = " ".join(p["text"] for p in found.problems)
    assert "XOR-OTHER: checked by 10_toy, but book/claims has no such claim" in texts
    assert "XOR-TOY: 10_toy should check it, but recorded nothing" in texts


def test_a_check_by_the_wrong_notebook_or_of_an_unchecked_claim(
    root: Path, toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    folder = root / toy(0.75).notebooks[NOTEBOOK]["folder"]
    put_claims(fields(checked_by=None, not_checked="later", drift=None))
    found = collect(root, "quick", {NOTEBOOK: folder})
    assert kinds(found) == ["check by another notebook"]
    assert "the claim says not_checked (later)" in found.problems[0]["text"]


def test_an_argument_must_exist(
    root: Path, toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    put_claims(fields(argument="proofs#toy"))
    assert kinds(toy(1, method="proof")) == ["argument missing"]
    (root / "book" / "proofs.md").write_text("# Proofs\n")
    assert kinds(toy(1, method="proof")) == ["argument missing"]
    (root / "book" / "proofs.md").write_text("# Proofs\n\n(toy)=\n## Toy\n")
    found = toy(1, method="proof")
    assert not found.problems
    assert found.claims[0]["verdict"] == "confirmed"
    assert toy(1, method="float").claims[0]["verdict"] == "confirmed on range"


def test_a_record_that_lacks_a_field_or_does_not_fit_is_a_problem(
    root: Path, toy: Toy, fields: Callable[..., dict[str, Any]], put_claims: Callable[..., None]
) -> None:
    folder = root / toy(0.75).notebooks[NOTEBOOK]["folder"]
    records = json.loads((folder / "records.json").read_text())
    (folder / "records.json").write_text(
        json.dumps([{k: v for k, v in records[0].items() if k != "control"}])
    )
    found = collect(root, "quick", {NOTEBOOK: folder})
    assert "malformed record" in kinds(found)
    assert "lacks control" in found.problems[0]["text"]
    (folder / "records.json").write_text(json.dumps(records))
    put_claims(fields(expectation={"operator": "true", "reason": "now a yes-or-no claim"}))
    found = collect(root, "quick", {NOTEBOOK: folder})
    assert "does not fit the claim" in found.problems[0]["text"]


def test_one_regime_twice_is_a_problem(root: Path, toy: Toy) -> None:
    folder = root / toy(0.75).notebooks[NOTEBOOK]["folder"]
    records = json.loads((folder / "records.json").read_text())
    (folder / "records.json").write_text(json.dumps(records * 2))
    assert kinds(collect(root, "quick", {NOTEBOOK: folder})) == ["regime twice"]


def test_results_that_cannot_be_read_are_named(root: Path, toy: Toy) -> None:
    folder = root / toy(0.75).notebooks[NOTEBOOK]["folder"]
    with pytest.raises(CollectError, match="holds the result of notebook '10_toy', not of '11_other'"):
        collect(root, "quick", {"11_other": folder})
    (folder / "records.json").write_text("[")
    with pytest.raises(CollectError, match=r"10_toy: a file in .* is not valid JSON"):
        collect(root, "quick", {NOTEBOOK: folder})
    (folder / "records.json").unlink()
    with pytest.raises(CollectError, match=r"records\.json is missing; run the notebook again"):
        collect(root, "quick", {NOTEBOOK: folder})


def test_unavailable_data_is_listed_and_fails_only_in_ci(root: Path, run: Callable[..., Path]) -> None:
    folder = run(lambda: notebook_api.unavailable("XOR-TOY", "only the sample of toys is here"))
    found = collect(root, "quick", {NOTEBOOK: folder})
    assert found.claims[0]["verdict"] == "not checked"
    assert found.claims[0]["why"] == "only the sample of toys is here"
    assert not found.problems
    assert list(faults(found, ci=False)) == []
    (line,) = faults(found, ci=True)
    assert line == "drift: XOR-TOY: not compared: not checked in this run: only the sample of toys is here"


def test_a_regime_left_out_is_named_and_the_claim_is_not_compared(root: Path, run: Callable[..., Path]) -> None:
    def notebook() -> None:
        notebook_api.record(
            "XOR-TOY",
            0.75,
            method="float",
            checked_range="toys",
            regime="small",
            control=notebook_api.Control("none", 0.1),
        )
        notebook_api.unavailable("XOR-TOY", "no large toys here", regime="large")

    found = collect(root, "quick", {NOTEBOOK: run(notebook)})
    (claim,) = [c for c in found.claims if c["tag"] == "XOR-TOY"]
    assert [r["regime"] for r in claim["regimes"]] == ["small"]
    assert claim["missing"] == [{"regime": "large", "reason": "no large toys here"}]
    assert "not checked in this run: large (no large toys here)" in claim["why"]
    assert list(faults(found, ci=False)) == []
    (line,) = faults(found, ci=True)
    assert line.endswith("not checked in this run: large: no large toys here")


class TestCommand:
    """`python -m attention_companion.ledger.collect`."""

    @pytest.fixture
    def arguments(self, root: Path, toy: Toy) -> list[str]:
        found = toy(0.75)
        folder = root / found.notebooks[NOTEBOOK]["folder"]
        accept(root, "quick", "XOR-TOY", "first run", ledger=found)
        out = str(root / "out.json")
        return [
            "--project",
            str(root),
            "--profile",
            "quick",
            "--results",
            f"{NOTEBOOK}={folder}",
            "--out",
            out,
        ]

    def test_agreement_exits_0(
        self, root: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(arguments) == 0
        assert capsys.readouterr().out == "ledger: 1 claims, 1 checked, agrees with the quick baseline\n"
        data = json.loads((root / "out.json").read_text())
        assert data["schema"] == 1
        assert data["baseline"]["XOR-TOY"]["reason"] == "first run"
        assert (root / "results/quick/ledger.json").read_text() == (root / "out.json").read_text()

    def test_drift_exits_1_and_is_written_to_the_job_summary(
        self,
        root: Path,
        arguments: list[str],
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        path = root / "book/baseline/quick.json"
        path.write_text(path.read_text().replace('"measured": 0.75', '"measured": 0.8'))
        summary = root / "summary.md"
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
        assert main(arguments) == 1
        err = capsys.readouterr().err
        assert "drift: XOR-TOY: measured was 0.8 and is now 0.75 (allowed: ±0.001 (0.001))" in err
        assert "1 faults" in err
        assert "| `XOR-TOY` |  | measured | 0.8 | 0.75 | ±0.001 (0.001) |" in summary.read_text()
        assert (root / "out.json").exists(), "a drifted ledger is written too: it is what one reads"

    def test_a_problem_exits_1(
        self, arguments: list[str], put_claims: Callable[..., None], fields: Callable[..., dict[str, Any]]
    ) -> None:
        put_claims(fields(), fields(tag="XOR-MORE"))
        assert main(arguments) == 1

    def test_an_unreadable_input_exits_1_with_one_line(
        self, root: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        (root / "book/claims/toy.yml").write_text("claims: 3")
        assert main(arguments) == 1
        assert capsys.readouterr().err.startswith("ledger: toy.yml: expected one key 'claims'")

    def test_not_compared_is_printed_and_fails_in_ci(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = Path(arguments[5].split("=", 1)[1])
        result = json.loads((folder / "result.json").read_text())
        result["digests"]["data"] = {"mnist": {"digest": "x", "kind": "sample"}}
        (folder / "result.json").write_text(json.dumps(result))
        assert main(arguments) == 0
        line = "XOR-TOY: not compared: data set mnist is used now but not by the baseline"
        assert line in capsys.readouterr().out
        monkeypatch.setenv("CI", "true")
        assert main(arguments) == 1

    def test_recollecting_reads_the_results_of_the_last_ledger(
        self, root: Path, arguments: list[str]
    ) -> None:
        main(arguments)
        assert recollect(root, "quick").to_json() == (root / "out.json").read_text()
