"""What a run may not leave behind: "unavailable" under a key with whole data, processes, lines that are no records."""

from __future__ import annotations

import os

import psutil
import pytest
import yaml

from attention_companion.execution.guards import BrokenRun
from attention_companion.execution.keys import compute_key
from attention_companion.execution.results import sweep
from attention_companion.execution.runner import run

RECORD = """
import json, os, pathlib
line = json.dumps({"tag": "XOR-TOY", "outcome": "unavailable", "checked_range": "data unavailable"})
(pathlib.Path(os.environ["ATTENTION_COMPANION_RUN_DIR"]) / "records.jsonl").write_text(line)
"""


def test_unavailable_is_refused_where_the_key_says_that_the_data_are_whole(mini_project):
    mini_project.notebook("13_data", RECORD, data=("mnist",))
    mini_project.stamp("mnist", kind="full")
    with pytest.raises(BrokenRun, match=r"XOR-TOY could not be checked .* although mnist is here in full"):
        run(mini_project.project, "13_data", "quick")
    mini_project.stamp("mnist", digest="d2", kind="unavailable")
    assert run(mini_project.project, "13_data", "quick").records[0]["outcome"] == "unavailable"


def test_unavailable_stands_where_a_package_that_may_be_missing_is_missing(mini_project):
    mini_project.notebook("13_model", RECORD)
    listing = mini_project.root / "notebooks" / "notebooks.yml"

    def may_miss(package: str) -> None:
        listed = yaml.safe_load(listing.read_text())
        listed["notebooks"][-1]["packages"] = [package]
        listing.write_text(yaml.safe_dump(listed))

    may_miss("no-such-package")
    result = run(mini_project.project, "13_model", "quick")
    assert result.records[0]["outcome"] == "unavailable"
    assert compute_key(mini_project.project, "13_model", "quick").digests["packages"] == {"no-such-package": None}
    may_miss("numpy")  # with it here, the same notebook has another key, and no excuse
    with pytest.raises(BrokenRun, match="although numpy is here in full"):
        run(mini_project.project, "13_model", "quick")


def test_a_line_that_is_json_but_no_record_is_refused(mini_project):
    mini_project.notebook("13_line", RECORD.replace("write_text(line)", "write_text('[1]')"))
    with pytest.raises(BrokenRun, match="line 1 of its records is no record"):
        run(mini_project.project, "13_line", "quick")


@pytest.mark.parametrize("last", ["", "1 / 0"])
def test_a_process_in_a_session_of_its_own_ends_with_the_run(mini_project, tmp_path, last):
    pid_file = tmp_path / "pid"
    mini_project.notebook(
        "13_stray",
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '7777'], start_new_session=True)\n"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid))",
        *([last] if last else []),
    )
    if last:
        with pytest.raises(BrokenRun):
            run(mini_project.project, "13_stray", "quick")
    else:
        run(mini_project.project, "13_stray", "quick")
    pid = int(pid_file.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_links_under_a_results_name_are_unlinked_and_what_they_lead_to_stays(mini_project, tmp_path):
    result = run(mini_project.project, "11_sum", "quick")
    elsewhere = tmp_path / "elsewhere"
    os.rename(result.path, elsewhere)
    result.path.symlink_to(elsewhere)
    partial = result.path.with_name(".partial-1-x")
    partial.symlink_to(elsewhere)
    sweep(mini_project.project)
    assert not result.path.is_symlink()
    assert not partial.is_symlink()
    assert (elsewhere / "result.json").exists()
