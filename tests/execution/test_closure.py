"""The closure of a notebook's imports, by file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from attention_companion.execution.closure import ClosureError, computed_imports, source_closure
from attention_companion.execution.project import Project

REPOSITORY = Path(__file__).resolve().parents[2]


def names(mini, notebook):
    project = mini.project
    base = project.source_root / "attention_companion"
    return {p.relative_to(base).as_posix() for p in source_closure(project, project.notebook(notebook).source)}


def test_packages_on_the_way_and_imports_inside_functions_count(mini_project):
    assert names(mini_project, "11_sum") == {"__init__.py", "sums/__init__.py", "sums/core.py"}
    assert names(mini_project, "12_product") == {"__init__.py", "products.py", "steps.py"}


@pytest.mark.parametrize(
    "code",
    [
        "import attention_companion.target.leaf",
        "import attention_companion.target.leaf as leaf",
        "from attention_companion.target import leaf",
        "from attention_companion.target.leaf import value",
        "from attention_companion.target.leaf import *",
        "def f():\n    from attention_companion.target import leaf",
        "class A:\n    import attention_companion.target.leaf",
        "if False:\n    import attention_companion.target.leaf",
        "try:\n    import attention_companion.target.leaf\nexcept ImportError:\n    raise",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from attention_companion.target import leaf",
        "import importlib\nimportlib.import_module('attention_companion.target.leaf')",
        "from importlib import import_module\nimport_module('attention_companion.target.leaf')",
        "__import__('attention_companion.target.leaf')",
        "%matplotlib inline\nimport attention_companion.target.leaf",
        "!echo hello\nimport attention_companion.target.leaf",
    ],
)
def test_every_way_of_importing_reaches_the_file(mini_project, code):
    mini_project.write("src/attention_companion/target/__init__.py", "")
    mini_project.write("src/attention_companion/target/leaf.py", "value = 1\n")
    mini_project.notebook("13_ways", code)
    assert names(mini_project, "13_ways") == {"__init__.py", "target/__init__.py", "target/leaf.py"}


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("target/entry.py", "from . import leaf"),
        ("target/entry.py", "from .leaf import value"),
        ("target/entry.py", "from .. import target\nfrom ..target import leaf"),
        ("target/entry.py", "import importlib\nimportlib.import_module('.leaf', __package__)"),
        ("target/entry.py", "from . import *"),
    ],
)
def test_relative_and_starred_imports_in_files(mini_project, file, code):
    mini_project.write("src/attention_companion/target/__init__.py", "__all__ = ['leaf']\n")
    mini_project.write("src/attention_companion/target/leaf.py", "value = 1\n")
    mini_project.write(f"src/attention_companion/{file}", code)
    mini_project.notebook("13_ways", "from attention_companion.target import entry")
    assert "target/leaf.py" in names(mini_project, "13_ways")


def test_a_package_that_lists_a_submodule_does_not_drag_it_in_unasked(mini_project):
    mini_project.write("src/attention_companion/target/__init__.py", "__all__ = ['leaf']\n")
    mini_project.write("src/attention_companion/target/leaf.py", "value = 1\n")
    mini_project.notebook("13_ways", "import attention_companion.target")
    assert names(mini_project, "13_ways") == {"__init__.py", "target/__init__.py"}


def test_a_cycle_ends(mini_project):
    mini_project.write("src/attention_companion/a.py", "from attention_companion import b")
    mini_project.write("src/attention_companion/b.py", "from attention_companion import a")
    mini_project.notebook("13_cycle", "from attention_companion import a")
    assert names(mini_project, "13_cycle") == {"__init__.py", "a.py", "b.py"}


def test_a_missing_module_and_broken_code_name_the_place(mini_project):
    mini_project.notebook("13_bad", "import attention_companion.absent")
    with pytest.raises(ClosureError, match=r"cell 2 imports attention_companion\.absent"):
        names(mini_project, "13_bad")
    mini_project.notebook("13_bad", "from attention_companion import products")
    mini_project.write("src/attention_companion/steps.py", "def (")
    with pytest.raises(ClosureError, match=r"steps\.py is not Python"):
        names(mini_project, "13_bad")


def test_cell_magics_are_refused_because_they_hide_imports(mini_project):
    mini_project.notebook("13_magic", "%%time\nimport attention_companion.steps")
    with pytest.raises(ValueError, match="cell magic '%%time'"):
        names(mini_project, "13_magic")


def test_computed_imports_are_listed(mini_project):
    mini_project.write("src/attention_companion/lazy.py", "from importlib import import_module as i\nimport importlib\n"
                       "def get(name):\n    return importlib.import_module(f'attention_companion.{name}')\n")
    mini_project.notebook("13_lazy", "from attention_companion import lazy\n__import__('atten' + 'tion')")
    listed = computed_imports(mini_project.project, mini_project.project.notebook("13_lazy").source)
    assert listed == (
        "13_lazy.md, cell 2: __import__('atten' + 'tion')",
        "src/attention_companion/lazy.py: importlib.import_module(f'attention_companion.{name}')",
    )


def test_machinery_is_in_no_notebooks_closure():
    """An edit of the engine, the graph, the renderer or the command line re-executes nothing."""
    project = Project.at(REPOSITORY)
    machinery = [project.source_root / "attention_companion" / part for part in ("execution", "cli")]
    for spec in project.notebooks:
        closure = source_closure(project, spec.source)
        assert closure, spec.name
        assert not [path for path in closure if any(path.is_relative_to(folder) for folder in machinery)]


def test_the_runner_and_the_keys_load_no_numerics():
    """A package whose __init__ imports torch costs every job 2 s; the check below would see it (second half)."""
    code = (
        "import sys\n"
        "import attention_companion.execution.runner, attention_companion.execution.results\n"
        "from attention_companion.execution.project import Project\n"
        "from attention_companion.execution.closure import source_closure\n"
        "p = Project.find(sys.argv[1])\n"
        "[source_closure(p, spec.source) for spec in p.notebooks]\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'matplotlib', 'papermill', 'flint'} & set(sys.modules)))\n"
    )

    def loaded(prelude=""):
        return subprocess.run(
            [sys.executable, "-c", prelude + code, str(REPOSITORY)], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert loaded() == "[]"
    assert loaded("import numpy\n") == "['numpy']"
