"""environment.yml, pyproject.toml, constraints.txt and the running interpreter tell the same story about versions."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVIRONMENT: dict[str, Any] = yaml.safe_load((ROOT / "environment.yml").read_text())
PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = (("linux", "Linux"), ("darwin", "Darwin"))

pytestmark = pytest.mark.torch_free


def wanted() -> list[Requirement]:
    """Every requirement that pyproject names, extras included."""
    lines = list(PROJECT["dependencies"])
    for extra in PROJECT["optional-dependencies"].values():
        lines += extra
    return [Requirement(line) for line in lines]


def constraint_lines() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def environment_of(python: str, platform: tuple[str, str]) -> dict[str, str]:
    """The marker variables of a CPython ``python`` on ``platform``, the rest as here."""
    here = {key: str(value) for key, value in default_environment().items()}
    return here | {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": platform[0],
        "platform_system": platform[1],
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def pins(python: str, platform: tuple[str, str]) -> dict[str, list[Version]]:
    """Name -> the exact versions that the constraints give one interpreter on one platform (one each, if sound)."""
    found: dict[str, list[Version]] = {}
    for line in constraint_lines():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(environment_of(python, platform)):
            (specifier,) = requirement.specifier
            found.setdefault(canonicalize_name(requirement.name), []).append(Version(specifier.version))
    return found


def problems_of(requirements: list[Requirement], pinned: dict[str, list[Version]]) -> list[str]:
    """What keeps ``pinned`` from being one exact version inside the range of each requirement."""
    problems = []
    for requirement in requirements:
        versions = pinned.get(canonicalize_name(requirement.name), [])
        if len(versions) != 1:
            problems.append(f"{requirement.name}: {len(versions)} pins where one is wanted")
        elif not requirement.specifier.contains(versions[0], prereleases=True):
            problems.append(f"{requirement.name}: pinned at {versions[0]}, outside {requirement.specifier}")
    return problems


@pytest.mark.parametrize("platform", PLATFORMS, ids=[name for name, _ in PLATFORMS])
@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_has_one_pin_inside_its_range(python: str, platform: tuple[str, str]) -> None:
    assert problems_of(wanted(), pins(python, platform)) == []


def test_the_pin_check_sees_a_missing_a_doubled_and_an_outlying_pin() -> None:
    requirements = [Requirement("a>=2"), Requirement("b>=2"), Requirement("c>=2")]
    pinned = {"b": [Version("2"), Version("3")], "c": [Version("1.9")]}
    assert [line.split(":")[0] for line in problems_of(requirements, pinned)] == ["a", "b", "c"]


def test_constraints_are_exact_and_name_no_place() -> None:
    for line in constraint_lines():
        assert "://" not in line, f"constraints.txt: {line!r} names a place"
        assert "@" not in line, f"constraints.txt: {line!r} names a place"
        assert not line.startswith("-"), f"constraints.txt: {line!r} is an option; only pins belong there"
        operators = [specifier.operator for specifier in Requirement(line).specifier]
        assert operators == ["=="], f"constraints.txt: {line!r} is not one exact version"


def test_jupyter_book_is_held_from_both_ends() -> None:
    (book,) = [requirement for requirement in wanted() if requirement.name == "jupyter-book"]
    assert not book.specifier.contains(Version("1.0.3")), "an older jupyter-book has another theme"
    assert not book.specifier.contains(Version("2.0.0")), "jupyter-book 2 is another program"
    assert book.specifier.contains(Version("1.0.4.post1"))


def test_conda_environment_hands_everything_but_the_interpreter_to_pip() -> None:
    assert ENVIRONMENT["channels"] == ["conda-forge"]
    conda = [entry for entry in ENVIRONMENT["dependencies"] if isinstance(entry, str)]
    (pip_section,) = [entry for entry in ENVIRONMENT["dependencies"] if isinstance(entry, dict)]
    # Anything else named here would be a second definition of a version.
    assert [re.split(r"[=<>]", entry)[0] for entry in conda] == ["python", "pip"]
    assert pip_section == {"pip": ["-c constraints.txt", "-e .[test]"]}
    assert "test" in PROJECT["optional-dependencies"]


def test_conda_environment_has_the_projects_name_and_a_python_inside_its_range() -> None:
    assert ENVIRONMENT["name"] == PROJECT["name"]
    (python,) = [entry for entry in ENVIRONMENT["dependencies"] if str(entry).startswith("python")]
    version = python.split("=")[1]
    allowed = Requirement(f"python{PROJECT['requires-python']}").specifier
    assert allowed.contains(Version(f"{version}.0"))
    assert [f"3.{minor}" for minor in range(9, 16) if allowed.contains(Version(f"3.{minor}.0"))] == list(PYTHONS)


def disagreements(installed: dict[str, Version], pinned: dict[str, list[Version]]) -> list[str]:
    """Packages whose installed version is not the pinned one; a local part such as ``+cpu`` does not count."""
    return [
        f"{name}: installed {version}, pinned {pinned[name][0]}"
        for name, version in sorted(installed.items())
        if name in pinned and Version(version.public) != pinned[name][0]
    ]


def test_the_running_environment_has_the_pinned_versions() -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    (platform,) = [entry for entry in PLATFORMS if sys.platform.startswith(entry[0])]
    installed = {
        canonicalize_name(distribution.name): Version(distribution.version)
        for distribution in metadata.distributions()
    }
    # What pyproject names must be there at all (excepted: torch, for the torch-free tests run without it, and the
    # optional model, without which everything else goes on) ...
    optional = {canonicalize_name(Requirement(line).name) for line in PROJECT["optional-dependencies"]["models"]}
    needed = {canonicalize_name(requirement.name) for requirement in wanted()} - {"torch"} - optional
    assert needed - set(installed) == set(), "run `make book`, or pip install -c constraints.txt -e '.[test]'"
    # ... and whatever the constraints name must be at their version. pip and its tools are not in the constraints'
    # sense part of the environment: each virtual environment brings its own.
    tools = {"pip", "setuptools", "wheel"}
    compared = {name: version for name, version in installed.items() if name not in tools}
    assert disagreements(compared, pins(here, platform)) == []


def test_a_wrong_installed_version_is_seen() -> None:
    pinned = {"a": [Version("1.0")], "torch": [Version("2.13.0")]}
    assert disagreements({"a": Version("1.1"), "torch": Version("2.13.0+cpu")}, pinned) == [
        "a: installed 1.1, pinned 1.0"
    ]


def test_the_package_says_the_version_that_pyproject_and_the_citation_say() -> None:
    import attention_companion

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert attention_companion.__version__ == PROJECT["version"] == citation["version"]
