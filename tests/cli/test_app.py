"""The command as a whole: it answers at once, explains itself, and words its errors in one line."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from attention_companion.cli import app, console
from attention_companion.cli.errors import UsageError, one_line

if TYPE_CHECKING:
    from tests.cli.conftest import Mini

pytestmark = pytest.mark.torch_free

COMMANDS = [
    ("list",), ("run",), ("check",), ("accept",), ("claim",), ("simulate",), ("data",), ("data", "fetch"),
    ("data", "verify"), ("doctor",),
]  # fmt: skip
HELP_SECONDS = 0.5


def test_help_answers_within_half_a_second() -> None:
    """Processor seconds: on an idle machine they are what a person waits, on a busy one they do not grow with it."""
    script = Path(sys.executable).with_name("companion")

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = spent()
    done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60)
    taken = spent() - before
    assert done.returncode == 0
    assert "doctor" in done.stdout
    assert 0 < taken < HELP_SECONDS, f"companion --help took {taken:.2f} s"


def test_importing_the_command_imports_no_machinery() -> None:
    code = (
        "import sys, attention_companion.cli; "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in "
        "('numpy', 'torch', 'papermill', 'pydantic', 'yaml', 'snakemake', 'jupyter_client') "
        "or m.startswith('attention_companion.') and not m.startswith('attention_companion.cli')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_every_command_of_the_application_is_in_the_list_of_this_test() -> None:
    group = typer.main.get_command(app)
    names = {(name,) for name in group.commands} | {("data", name) for name in group.commands["data"].commands}
    assert names == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_with_an_example(command: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"])
    assert shown.exit_code == 0
    assert "Example" in shown.stdout
    assert f"companion {' '.join(command)}" in shown.stdout


def outcome_of(error: BaseException) -> tuple[int, str]:
    """Exit status and output of a command that raises ``error``."""
    failing = typer.Typer(pretty_exceptions_enable=False)

    @failing.command()
    @one_line
    def command() -> None:
        raise error

    done = CliRunner().invoke(failing, [])
    return done.exit_code, done.output


def test_errors_of_a_question_and_of_an_answer_differ_in_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTENTION_COMPANION_TRACEBACK", raising=False)
    assert outcome_of(UsageError("no such thing")) == (2, "error: no such thing\n")
    status, said = outcome_of(OSError("disk full"))
    assert status == 1
    assert said.startswith("error: OSError: disk full")
    assert "Traceback" not in said
    assert outcome_of(KeyboardInterrupt()) == (130, "interrupted\n")


def test_a_keyerrors_message_is_shown_without_quotes() -> None:
    from attention_companion.execution.project import UnknownNotebook

    assert outcome_of(UnknownNotebook("no notebook is called 'x'")) == (2, "error: no notebook is called 'x'\n")


def test_the_traceback_is_there_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_COMPANION_TRACEBACK", "1")
    failing = typer.Typer(pretty_exceptions_enable=False)

    @failing.command()
    @one_line
    def command() -> None:
        raise OSError("disk full")

    assert isinstance(CliRunner().invoke(failing, []).exception, OSError)


def test_outside_a_project_it_says_where_it_looked(mini: Mini, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTENTION_COMPANION_ROOT", str(tmp_path))
    refused = mini.invoke("list")
    assert refused.exit_code == 1
    assert str(tmp_path) in refused.stderr


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.04, "0.0 s"), (99.94, "99.9 s"), (99.96, "1 min 40 s"), (125, "2 min 05 s")]
)
def test_seconds(value: float | None, shown: str) -> None:
    assert console.seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (999, "999 B"), (1500, "1.5 kB"), (383.1e6, "383.1 MB"), (2.7e9, "2.7 GB")]
)
def test_sizes(value: float | None, shown: str) -> None:
    assert console.size(value) == shown
