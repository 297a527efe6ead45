"""The workflow and .ci/run call the commands that a reader calls, with no more rights than they need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "book.yml"
CI_RUN = ROOT / ".ci" / "run"

pytestmark = pytest.mark.torch_free


def loaded() -> dict[str, Any]:
    return yaml.safe_load(WORKFLOW.read_text())


def steps(job: str) -> list[dict[str, Any]]:
    return loaded()["jobs"][job]["steps"]


def position(job: str, fragment: str) -> int:
    """Index of the one step of ``job`` that runs or uses ``fragment``."""
    (index,) = [i for i, step in enumerate(steps(job)) if fragment in step.get("run", "") + step.get("uses", "")]
    return index


def validate(path: Path, schema: str) -> subprocess.CompletedProcess[str]:
    """check-jsonschema against a schema that it carries; proxies that lead nowhere show that it asks no network."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | nowhere)


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "custom.github-workflows-require-timeout"])
def test_the_workflow_is_valid(schema: str) -> None:
    done = validate(WORKFLOW, schema)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_invalid_workflow_is_seen(tmp_path: Path) -> None:
    broken = tmp_path / "book.yml"
    broken.write_text(WORKFLOW.read_text().replace("runs-on:", "run-on:"))
    assert validate(broken, "vendor.github-workflows").returncode == 1


def test_the_citation_file_is_valid() -> None:
    done = validate(ROOT / "CITATION.cff", "vendor.citation-file-format")
    assert done.returncode == 0, done.stdout + done.stderr


def test_permissions_are_read_only_but_for_publishing() -> None:
    workflow = loaded()
    assert workflow["permissions"] == {"contents": "read"}
    granted = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert granted == {"publish": {"pages": "write", "id-token": "write"}}


def test_publishing_waits_for_every_other_job_and_for_main() -> None:
    jobs = loaded()["jobs"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert "refs/heads/main" in jobs["publish"]["if"]


def test_steps_come_in_an_order_that_shows_the_drift_and_keeps_only_tested_pages() -> None:
    order = ["actions/cache@", "actions/cache/restore@", 'make "$TARGET"', "companion check", "actions/cache/save@"]
    order += ["make figures", "upload-artifact@", "make test", "upload-pages-artifact@"]
    found = [position("book", fragment) for fragment in order]
    assert found == sorted(found)


def test_drift_reaches_the_job_summary_even_after_a_failed_build_and_gates() -> None:
    step = steps("book")[position("book", "companion check")]
    assert "--markdown" in step["run"]
    assert "$GITHUB_STEP_SUMMARY" in step["run"]
    assert step["if"].startswith("${{ !cancelled()")
    # A pipe's status is tee's unless pipefail is set, which GitHub does for an explicit bash only.
    assert step["shell"] == "bash"
    assert not any("continue-on-error" in step for step in steps("book"))


def test_caches_are_keyed_by_what_their_content_depends_on() -> None:
    data = steps("book")[position("book", "actions/cache@")]["with"]["key"]
    assert "src/attention_companion/datasets/**" in data
    for action in ("actions/cache/restore@", "actions/cache/save@"):
        key = steps("book")[position("book", action)]["with"]["key"]
        for source in ("constraints.txt", "src/**", "notebooks/*.md", "notebooks/notebooks.yml"):
            assert f"'{source}'" in key, f"{action} key lacks {source}"
        assert "PROFILE" in key, "quick and full never share a result"


def test_no_input_is_pasted_into_a_shell_line() -> None:
    # A ${{ }} inside run: is replaced before the shell reads the line, so that a chosen string becomes code.
    for job in loaded()["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), step


@pytest.mark.parametrize("path", [WORKFLOW, CI_RUN], ids=["workflow", "ci"])
def test_every_make_target_that_is_called_exists(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    called = set(re.findall(r"^\s*(?:run: )?make ([\w-]+)(?: PROFILE=\S+)?\s*$", path.read_text(), flags=re.MULTILINE))
    if path == WORKFLOW:
        called |= {"book", "full"}  # The two values of $TARGET.
    assert {"book", "test"} <= called
    for target in called:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), f"{path.name} calls `make {target}`"


def test_ci_run_is_an_executable_bash_script_that_stops_at_the_first_failure() -> None:
    assert os.access(CI_RUN, os.X_OK)
    text = CI_RUN.read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "\nset -euo pipefail\n" in text
    assert subprocess.run(["bash", "-n", str(CI_RUN)]).returncode == 0
    # What a reader of the log needs, the closing lines of the tests among it, is not thrown away.
    for line in re.findall(r"^make .*$", text, flags=re.MULTILINE):
        assert re.fullmatch(r"make [\w-]+", line), f"{line!r} hides output or status"


def test_ci_run_stops_when_the_book_fails_and_runs_both_commands_when_it_does_not(tmp_path: Path) -> None:
    """The script itself, in a folder with a space, with stand-ins for make and the browser that log their call."""
    clone = tmp_path / "a clone"
    (clone / ".ci").mkdir(parents=True)
    script = clone / ".ci" / "run"
    script.write_bytes(CI_RUN.read_bytes())
    tools = tmp_path / "bin"
    tools.mkdir()
    log = tmp_path / "log"
    for name, body in {
        "make": f'echo "$PWD make $* CI=$CI" >> "{log}"\n[ "$1" != "$FAILING" ]',
        "chromium": "echo Chromium 1",
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)

    def call(failing: str) -> tuple[int, list[str]]:
        log.write_text("")
        env = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "FAILING": failing}
        done = subprocess.run(["bash", str(script)], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=30)
        return done.returncode, log.read_text().splitlines()

    book, test = (f"{clone} make {target} CI=true" for target in ("book", "test"))
    assert call("nothing") == (0, [book, test])
    status, calls = call("book")
    assert status != 0
    assert calls == [book]
    status, calls = call("test")
    assert status != 0
    assert calls == [book, test]


@pytest.mark.parametrize(("user", "prefix"), [("0", ""), ("1000", "sudo --non-interactive ")])
def test_ci_run_installs_a_browser_where_there_is_none(tmp_path: Path, user: str, prefix: str) -> None:
    """On a PATH that holds stand-ins only, so that no browser of this machine is found."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_bytes(CI_RUN.read_bytes())
    tools = tmp_path / "bin"
    tools.mkdir()
    log = tmp_path / "log"
    for name, body in {
        "id": f"echo {user}",
        "make": f'echo "make $*" >> "{log}"',
        "apt-get": f'echo "${{SUDO:-}}apt-get $*" >> "{log}"',
        "sudo": 'export SUDO="sudo $1 "; shift; exec "$@"',
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    for name in ("bash", "sh", "env", "dirname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [str(shutil.which("bash")), str(tmp_path / ".ci" / "run")], env={"PATH": str(tools)}, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0
    update, install, *rest = log.read_text().splitlines()
    assert update == f"{prefix}apt-get update"
    assert install.startswith(f"{prefix}apt-get install -y --no-install-recommends chromium")
    assert rest == ["make book", "make test"]
