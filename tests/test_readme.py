"""The README's and CONTRIBUTING's commands exist, its cheap ones run, and the files they speak of are there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attention_companion.cli import app

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
BIN = Path(sys.executable).parent
# Programs whose commands belong to others; what can be checked of them here is that nobody misspelt the program.
FOREIGN = {"uv", "mamba", "source", "git", "cd", "python"}
# Cheap and harmless: these really run.
RUN = {
    "companion list",
    ".venv/bin/snakemake --profile profiles/local-cluster --dry-run full",
}


def blocks(document: str, language: str) -> list[str]:
    """Contents of the fenced blocks of one language, indentation removed; longer fences may hold shorter ones."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = []
    for match in re.finditer(r"^( *)(`{3,})(\w+)\n(.*?)^\1\2 *$", text, flags=re.MULTILINE | re.DOTALL):
        indent, _, tag, body = match.groups()
        if tag == language:
            found.append("\n".join(line.removeprefix(indent) for line in body.splitlines()) + "\n")
    return found


def commands() -> list[tuple[str, str]]:
    """(document, command line) of every line in the bash blocks."""
    return [
        (document, line.strip())
        for document in DOCUMENTS
        for block in blocks(document, "bash")
        for line in block.splitlines()
        if line.strip() and not line.strip().startswith("#")
    ]


def spoken_of() -> list[tuple[str, str]]:
    """(document, words) of every `make ...` and `companion ...` between backticks in running text."""
    found = []
    for document in DOCUMENTS:
        text = re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
        found += [(document, words) for words in re.findall(r"`((?:make|companion) [^`]+)`", text)]
    return found


def complaint(line: str) -> str | None:
    """What is wrong with a command line, or None."""
    words = shlex.split(line)
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        makefile = (ROOT / "Makefile").read_text()
        missing = [name for name in targets if not re.search(rf"^{re.escape(name)}:", makefile, flags=re.MULTILINE)]
        return f"make has no target {missing}" if missing else None
    if words[0] == "companion":
        return companion_complaint(words[1:])
    if words[0].startswith(".venv/bin/"):
        return None if (BIN / Path(words[0]).name).exists() else f"{words[0]} is not installed"
    return None if words[0] in FOREIGN else f"unknown program {words[0]}"


def companion_complaint(words: list[str]) -> str | None:
    """Whether the subcommand and each option stand in the command's own help."""
    subcommand = words[:2] if words[:1] == ["data"] and len(words) > 1 else words[:1]
    shown = CliRunner().invoke(app, [*subcommand, "--help"])
    if shown.exit_code != 0:
        return f"companion has no command {' '.join(subcommand)}"
    options = [word.split("=")[0] for word in words if word.startswith("-")]
    unknown = [option for option in options if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", shown.stdout)]
    return f"companion {' '.join(subcommand)} has no option {unknown}" if unknown else None


@pytest.mark.parametrize(("document", "line"), commands())
def test_every_command_in_a_block_exists(document: str, line: str) -> None:
    assert complaint(line) is None, f"{document}: {line}"


@pytest.mark.parametrize(("document", "words"), spoken_of())
def test_every_command_in_running_text_exists(document: str, words: str) -> None:
    assert complaint(words) is None, f"{document}: {words}"


def test_the_two_commands_are_there() -> None:
    assert blocks("README.md", "bash")[0] == "make book\nmake test\n"


@pytest.mark.parametrize(
    "line",
    ["make boook", "companion lst", "companion run 12 --perhaps", "companion data fetsh", "mak book", ".venv/bin/sn"],
)
def test_a_command_that_does_not_exist_is_seen(line: str) -> None:
    assert complaint(line) is not None


@pytest.mark.parametrize("line", sorted(RUN))
def test_the_cheap_ones_run(line: str) -> None:
    assert line in [command for _, command in commands()], "no longer in a document: take it from this list"
    # The environment of this test, whichever it is, stands for .venv.
    words = [str(BIN / Path(word).name) if word.startswith(".venv/bin/") else word for word in shlex.split(line)]
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(words, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def paths_named(document: str) -> set[str]:
    """What stands between backticks, or in a link, and looks like a file or folder of the project."""
    text = (ROOT / document).read_text(encoding="utf-8")
    text = re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", text, flags=re.MULTILINE | re.DOTALL)
    ticked = re.findall(r"`([\w./-]+)`", text) + re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    roots = {path.name for path in ROOT.iterdir()}
    return {name for name in ticked if name.split("/")[0] in roots and ("/" in name or "." in name)}


# Made by a build or by a worked example.
NOT_TRACKED = {
    "_build/html/index.html", "_build/", "results/", "notebooks/33_my_question.md", "notebooks/13_balance.md",
    "src/attention_companion/sparse_xor/balance.py", "tests/sparse_xor/test_balance.py",
}  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_spoken_of_exists(document: str) -> None:
    named = paths_named(document) - NOT_TRACKED
    assert len(named) > 8, "the pattern finds nothing any more"
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_headings_that_messages_point_to_exist() -> None:
    """The command and the workflow send people to sections by name."""
    headings = re.findall(r"^## (.+)$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert "When CI says drift" in headings
    assert "CPU-only torch on Linux" in headings


def test_the_python_example_runs(capsys):
    [example] = blocks("README.md", "python")
    scope: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), scope)
    first, second = capsys.readouterr().out.strip().splitlines()
    assert first.startswith(("True WorstCase(", "False WorstCase("))
    assert sum(int(count) for count in second.strip("[]").split()) == 64 * 63 // 2
    assert tuple(scope["layer"](np.ones((5, 64))).shape) == (5,)
