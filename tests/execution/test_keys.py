"""The key: what changes it, what does not."""

from __future__ import annotations

import os
import shutil

import pytest

from attention_companion.execution import environment
from attention_companion.execution.keys import MissingStamp, canonical, compute_key, read_stamp

NOTEBOOKS = ("11_sum", "12_product")


def keys(mini):
    project = mini.project
    return {name: compute_key(project, name, "quick").key for name in NOTEBOOKS}


def changed(mini, before):
    return {name for name, key in keys(mini).items() if key != before[name]}


def test_form(mini_project):
    key = compute_key(mini_project.project, "11_sum", "full")
    assert len(key.key) == 20
    assert int(key.key, 16) >= 0
    assert key.parameters == {"n": 10}
    assert set(key.digests) == {"notebook", "source", "harness", "parameters", "constraints", "data"}
    assert list(key.digests["source"]) == [
        "src/attention_companion/__init__.py",
        "src/attention_companion/sums/__init__.py",
        "src/attention_companion/sums/core.py",
    ]


def test_touching_files_and_moving_the_clone_change_nothing(mini_project, tmp_path):
    before = keys(mini_project)
    for path in mini_project.root.rglob("*"):
        os.utime(path, (1, 1))
    assert changed(mini_project, before) == set()
    shutil.copytree(mini_project.root, tmp_path / "elsewhere")
    mini_project.root = tmp_path / "elsewhere"
    assert changed(mini_project, before) == set()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/attention_companion/sums/core.py", {"11_sum"}),
        ("src/attention_companion/sums/__init__.py", {"11_sum"}),
        ("src/attention_companion/steps.py", {"12_product"}),
        ("src/attention_companion/__init__.py", {"11_sum", "12_product"}),
        ("src/attention_companion/unused.py", set()),
        ("constraints.txt", {"11_sum", "12_product"}),
        ("notebooks/11_sum.md", {"11_sum"}),
    ],
)
def test_an_edit_changes_exactly_the_keys_that_it_reaches(mini_project, path, expected):
    before = keys(mini_project)
    with (mini_project.root / path).open("a", encoding="utf-8") as file:
        file.write("\n# edited\n")
    assert changed(mini_project, before) == expected


def test_prose_tags_and_kernel_belong_to_the_notebook_but_front_matter_noise_does_not(mini_project):
    before = keys(mini_project)
    path = mini_project.root / "notebooks" / "11_sum.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("format_name: myst", "format_name: myst\n    jupytext_version: 9.9.9"), "utf-8")
    assert changed(mini_project, before) == set()
    edits = {"# A question": "# Another", "[parameters]": "[parameters, hide-input]", "name: python3": "name: q"}
    for old, new in edits.items():
        path.write_text(text.replace(old, new), encoding="utf-8")
        assert changed(mini_project, before) == {"11_sum"}, old


def test_the_paired_ipynb_decides_nothing(mini_project):
    before = keys(mini_project)
    mini_project.write("notebooks/11_sum.ipynb", "not even JSON")
    assert changed(mini_project, before) == set()


def test_parameters_and_profile(mini_project):
    project = mini_project.project
    quick, full = (compute_key(project, "11_sum", profile).key for profile in ("quick", "full"))
    assert quick != full
    mini_project.notebook("11_sum", "n", profiles={"quick": {}, "full": {}})
    project = mini_project.project
    # Equal parameters, and still quick and full share no result.
    assert compute_key(project, "11_sum", "quick").key != compute_key(project, "11_sum", "full").key
    assert compute_key(project, "11_sum", "custom", {"n": 4}).key != compute_key(project, "11_sum", "custom").key


def test_a_float_parameter_is_keyed_by_its_exact_value(mini_project):
    mini_project.notebook("11_sum", "x", parameters="x: float = 0.1")
    project = mini_project.project

    def key(value):
        return compute_key(project, "11_sum", "custom", {"x": value}).key

    assert key(0.1) != key(0.1 + 2**-56)
    assert key(0.3) != key(0.1 + 0.2)
    assert key(2) == key(2.0)


def test_data_enters_by_its_stamp(mini_project):
    mini_project.notebook("11_sum", "n", data=("mnist",))
    with pytest.raises(MissingStamp, match=r"'mnist' has no stamp .*companion data fetch"):
        compute_key(mini_project.project, "11_sum", "quick")
    mini_project.stamp("mnist", "d1")
    first = keys(mini_project)
    stamp = mini_project.stamp("mnist", "d1")
    os.utime(stamp, (1, 1))
    assert changed(mini_project, first) == set()
    mini_project.stamp("mnist", "d2")
    assert changed(mini_project, first) == {"11_sum"}
    mini_project.stamp("mnist", "d1", kind="sample")
    assert changed(mini_project, first) == {"11_sum"}
    mini_project.stamp("cifar10", "d9")
    mini_project.stamp("mnist", "d1")
    assert changed(mini_project, first) == set()


def test_given_data_replaces_the_stamps(mini_project):
    mini_project.notebook("11_sum", "n", data=("mnist",))
    given = {"mnist": {"digest": {"train": "d1"}, "kind": "full"}}
    assert compute_key(mini_project.project, "11_sum", "quick", data=given).digests["data"] == given
    with pytest.raises(MissingStamp, match="mnist"):
        compute_key(mini_project.project, "11_sum", "quick", data={})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "full"}', '{"digest": 1, "kind": 3}'])
def test_a_damaged_stamp_says_how_to_mend_it(mini_project, text):
    mini_project.write("results/data/mnist.json", text)
    with pytest.raises(MissingStamp, match="delete it and run"):
        read_stamp(mini_project.project, "mnist")


@pytest.mark.parametrize("index", range(len(environment.HARNESS_FILES)))
def test_every_harness_file_is_in_every_key(mini_project, monkeypatch, tmp_path, index):
    before = keys(mini_project)
    files = list(environment.HARNESS_FILES)
    edited = tmp_path / files[index].name
    edited.write_bytes(files[index].read_bytes() + b"\n# edited\n")
    files[index] = edited
    monkeypatch.setattr(environment, "HARNESS_FILES", tuple(files))
    assert changed(mini_project, before) == set(NOTEBOOKS)


def test_the_harness_is_what_touches_numbers_and_nothing_else():
    assert {path.name for path in environment.HARNESS_FILES} == {
        "environment.py",
        "kernel_hooks.py",
        "sitecustomize.py",
        "matplotlibrc",
    }


def test_missing_constraints_are_named(mini_project):
    (mini_project.root / "constraints.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"constraints\.txt is missing"):
        keys(mini_project)


def test_canonical_form():
    assert canonical({"b": 1.0, "a": [0.1, 1e22, "ü"]}) == '{"a":[0.1,1e+22,"ü"],"b":1.0}'.encode()
    assert canonical({"a": 1}) != canonical({"a": 1.0})
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))


def test_the_cache_of_jupyter_book_serves_stale_results(mini_project, tmp_path):
    """The fault, raw: jupyter-cache (execute_notebooks: cache) keys code cells only, so an edit in src/ is missed."""
    import jupytext
    import nbformat
    from jupyter_cache import get_cache

    source = mini_project.root / "notebooks" / "11_sum.md"
    notebook = jupytext.read(source)
    for cell in notebook.cells:
        cell.pop("id", None)
    executed = tmp_path / "nb.ipynb"
    notebook["nbformat_minor"] = 4
    nbformat.write(notebook, executed)
    cache = get_cache(tmp_path / "cache")
    cache.cache_notebook_file(executed, check_validity=False)
    before = keys(mini_project)
    mini_project.write("src/attention_companion/sums/core.py", "def total(n):\n    return -1\n")
    assert cache.match_cache_file(executed).pk == 1  # served again, although total() now returns something else
    assert changed(mini_project, before) == {"11_sum"}
