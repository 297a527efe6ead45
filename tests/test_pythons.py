"""Python 3.12 and 3.13: the constraints resolve there, and the tests that need no torch pass.

The book is built whole on 3.11 only; this is all that is shown of the others. Unlike every other test, these use the
network, as installing packages does: run by hand or by the workflow's job of its own (`pytest -m slow
tests/test_pythons.py`). Resolving goes through uv, which reads metadata alone (about 70 MB of index pages); pip would
fetch the wheels, torch's CUDA libraries among them (1.4 GB), to find out the same.

An interpreter that is not on the machine cannot be tried. With CI=true that is a failure; on a laptop it is reported
as "not run", which the summary of pytest shows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.12", "3.13")
TORCH = "torch"
MARKER = "torch" + "_free"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def candidates(version: str) -> list[Path]:
    """Where an interpreter of ``version`` may be: on the PATH, or installed by pyenv without being on it."""
    found = [Path(path)] if (path := shutil.which(f"python{version}")) else []
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return found + sorted((pyenv / "versions").glob(f"{version}.*/bin/python"), reverse=True)


def interpreter(version: str) -> Path:
    """A working interpreter of ``version`` (pyenv's stubs exist without working)."""
    for path in candidates(version):
        asked = [path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() == version:
            return path
    message = f"not run: interpreter missing (python{version} is not on this machine)"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(message)
    # Nothing can be shown without the interpreter, and a laptop need not have three of them.
    pytest.skip(message)


def environment() -> dict[str, str]:
    """This environment's variables, less those that would lead the other interpreter back to this one's packages."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "PYTEST"))}


def call(*command: str | Path) -> str:
    """Run a command in the project's folder and return its output; fail with the output's end."""
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}"
    return done.stdout


def requirements() -> list[str]:
    """Every requirement of the project with its test extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["test"]]


def torch_free_files() -> list[str]:
    """Test files that hold tests which need no torch. The others may import it when they are collected."""
    files = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if MARKER in path.read_text(encoding="utf-8"))
    return [str(path.relative_to(ROOT)) for path in files if path.name != Path(__file__).name]


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an empty virtual environment of one version, with uv beside it."""
    base = interpreter(request.param)
    folder = tmp_path_factory.mktemp(f"python{request.param}") / "venv"
    call(base, "-m", "venv", folder)
    call(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "uv")
    return folder / "bin" / "python"


def uv(python: Path, *arguments: str | Path) -> str:
    return call(python.with_name("uv"), *arguments)


def test_constraints_resolve(python: Path, tmp_path: Path) -> None:
    resolved = tmp_path / "resolved.txt"
    uv(
        python, "pip", "compile", "--python", python, "--constraints", "constraints.txt", "--extra", "test",
        "--no-annotate", "--no-header", "--no-emit-index-url", "--output-file", resolved, "pyproject.toml",
    )  # fmt: skip
    names = {Requirement(line).name for line in resolved.read_text().splitlines() if line and line[0].isalnum()}
    wanted = {Requirement(line).name for line in requirements()}
    assert {name.lower() for name in wanted} <= {name.lower() for name in names}


def test_constraints_that_cannot_be_met_are_seen(python: Path, tmp_path: Path) -> None:
    impossible = tmp_path / "constraints.txt"
    impossible.write_text("numpy==1.0\n")
    command = ["pip", "compile", "--python", str(python), "--constraints", str(impossible), "pyproject.toml"]
    done = subprocess.run([python.with_name("uv"), *command], cwd=ROOT, env=environment(), capture_output=True)
    assert done.returncode != 0


def test_torch_free_tests_pass(python: Path, tmp_path: Path) -> None:
    without = [line for line in requirements() if Requirement(line).name != TORCH]
    assert len(without) == len(requirements()) - 1
    files = torch_free_files()
    assert files
    uv(python, "pip", "install", "--quiet", "--python", python, "--constraints", "constraints.txt", *without)
    uv(python, "pip", "install", "--quiet", "--python", python, "--no-deps", "--editable", ".")
    absent = call(python, "-c", "import importlib.util as u; print(u.find_spec('torch'))")
    assert absent.strip() == "None", "torch came along with something else: the tests below would show nothing"
    said = call(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", tmp_path / "tests",
        "-m", f"{MARKER} and not slow and not browser", *files,
    )  # fmt: skip
    version = call(python, "-c", "import sys; print(sys.version.split()[0])").strip()
    sys.stdout.write(f"Python {version}: {said.strip().splitlines()[-1]}\n")
    assert " passed" in said
