"""``companion doctor``: each thing it looks at, well and broken."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from attention_companion.cli import doctor, doctor_machine, doctor_project
from attention_companion.cli.findings import Finding, broken, note, ok

if TYPE_CHECKING:
    from tests.cli.conftest import Mini

pytestmark = pytest.mark.torch_free


def states(findings: Sequence[Finding]) -> list[str]:
    return [finding.state for finding in findings]


def with_examinations(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    monkeypatch.setattr(doctor, "examinations", lambda: {"one": lambda project: findings})


def test_broken_things_set_the_status_and_are_said_how_to_mend(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    with_examinations(monkeypatch, ok("a", "fine"), note("b", "odd", "look"), broken("c", "gone", "bring it back"))
    examined = mini.invoke("doctor")
    assert examined.exit_code == 1
    assert "BROKEN  c: gone" in examined.stdout
    assert "mend: bring it back" in examined.stdout
    assert "1 broken, 1 worth knowing, 1 well" in examined.stdout


def test_notes_alone_do_not(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    with_examinations(monkeypatch, note("b", "odd"))
    assert mini.invoke("doctor").exit_code == 0


def test_an_examination_that_fails_is_a_finding_and_the_others_go_on(mini: Mini) -> None:
    def fails(project: object) -> Sequence[Finding]:
        raise OSError("the disk is on fire")

    (finding,) = doctor.carefully("disk", fails, mini.project)
    assert finding.state == "broken"
    assert "the disk is on fire" in finding.seen


def test_the_kernel_of_this_environment_answers(mini: Mini, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    # Another environment's kernel in front of ours, as JUPYTER_PATH can put it, must not be the one that answers.
    decoy = tmp_path / "jupyter" / "kernels" / "python3"
    decoy.mkdir(parents=True)
    (decoy / "kernel.json").write_text('{"argv": ["/bin/false"], "display_name": "decoy", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    assert states(doctor_machine.kernel(mini.project)) == ["ok"]


def test_a_kernel_that_dies_is_broken_with_its_last_words(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_machine, "sys", SimpleNamespace(executable="/bin/false", prefix=sys.prefix))
    (finding,) = doctor.carefully("kernel", doctor_machine.kernel, mini.project)
    assert finding.state == "broken"
    assert "ernel died" in finding.seen


def test_a_foreign_kernel_is_broken(mini: Mini, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(doctor_machine, "ask_kernel", lambda code: str(tmp_path))
    assert states(doctor_machine.kernel(mini.project)) == ["broken"]


def test_versions() -> None:
    pins = {"a": "1.0", "torch": "2.13.0", "pip": "9"}
    well = doctor_machine.compare_versions({"a", "torch"}, {"a": "1.0", "torch": "2.13.0+cpu", "pip": "26"}, pins)
    assert states(well) == ["ok"]
    (missing, other) = doctor_machine.compare_versions({"a", "torch"}, {"a": "1.1"}, pins)
    assert (missing.state, other.state) == ("broken", "note")
    assert "torch" in missing.seen
    assert "a 1.1 (pinned 1.0)" in other.seen


def test_pins_are_those_of_this_interpreter() -> None:
    pins = doctor_machine.pinned_versions(
        "# a comment\nhere==1\nelsewhere==2 ; sys_platform == 'amiga'\nBoth_Ways==3 ; python_full_version >= '3'\n"
    )
    assert pins == {"here": "1", "both-ways": "3"}


@pytest.mark.parametrize(("free", "state"), [(1e11, "ok"), (2e9, "note"), (1e8, "broken")])
def test_disk(mini: Mini, monkeypatch: pytest.MonkeyPatch, free: float, state: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert states(doctor_machine.disk(mini.project)) == [state]


def test_no_browser_is_worth_knowing_and_one_that_does_not_start_too(
    mini: Mini, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert states(doctor_machine.browser(mini.project)) == ["note"]
    chromium = tmp_path / "chromium"
    chromium.write_text("#!/bin/sh\necho cannot open display >&2\nexit 1\n")
    chromium.chmod(0o755)
    (finding,) = doctor_machine.browser(mini.project)
    assert finding.state == "note"
    assert "cannot open display" in finding.seen
    chromium.write_text("#!/bin/sh\necho Chromium 156.0.1\n")
    assert states(doctor_machine.browser(mini.project)) == ["ok"]


def test_a_folder_that_is_no_clone_is_worth_knowing(mini: Mini) -> None:
    assert states(doctor_project.git(mini.project)) == ["note"]


def test_a_notebook_whose_parameters_cannot_be_read_is_broken(mini: Mini) -> None:
    assert states(doctor_project.notebooks(mini.project)) == ["ok"]
    mini.edit("notebooks/11_sum.md", "[parameters]", "[parameter]")
    (finding,) = doctor_project.notebooks(mini.project)
    assert finding.state == "broken"
    assert "11_sum.md" in finding.seen


def test_a_pair_out_of_step_is_worth_knowing(mini: Mini) -> None:
    from attention_companion.execution.pairing import write_pairs

    assert "note" in states(doctor_project.pairs(mini.project))
    write_pairs(mini.project)
    assert states(doctor_project.pairs(mini.project)) == ["ok"]


def test_data_that_is_not_here_names_who_needs_it(mini: Mini) -> None:
    (finding,) = doctor_project.data(mini.project)
    assert finding.state == "note"
    assert "12_images" in finding.seen
    assert finding.mend == "companion data fetch mnist"


def test_results_that_the_next_build_makes_again_are_listed_with_the_reason(built: Mini) -> None:
    assert "11_sum" not in " ".join(finding.seen for finding in doctor_project.results(built.project))
    built.edit("src/attention_companion/sums.py", "n + 1", "1 + n")
    seen = [finding.seen for finding in doctor_project.results(built.project)]
    assert "the next quick build runs 11_sum: source file src/attention_companion/sums.py changed" in seen
