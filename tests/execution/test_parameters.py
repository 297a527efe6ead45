"""Parameters: the agreed form, types, and what papermill does without them (it only warns and runs the defaults)."""

from __future__ import annotations

import logging

import jupytext
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attention_companion.execution.parameters import (
    Parameter,
    ParameterError,
    inject,
    parse_assignment,
    read_parameters,
    resolve,
    validate_source,
)
from attention_companion.execution.runner import run
from attention_companion.execution.text import parse_notebook

ALL_TYPES = """\
n: int = 3  # how many (it's a count)
rate: float = 0.5
name: str = "a # b"  # which
on: bool = True
sizes: list[int] = [1, 2]  # several
rates: list[float] = [0.5, 1.0]
names: list[str] = ["a", "b"]
"""


@pytest.fixture
def parameters(mini_project):
    return read_parameters(mini_project.notebook("p", "n", parameters=ALL_TYPES))


def test_reads_name_type_default_and_help(parameters):
    assert parameters[0] == Parameter("n", "int", 3, "how many (it's a count)")
    assert parameters[2] == Parameter("name", "str", "a # b", "which")
    assert [p.default for p in parameters] == [3, 0.5, "a # b", True, [1, 2], [0.5, 1.0], ["a", "b"]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n = 3", "every line reads"),
        ("n: int", "every line reads"),
        ("print(3)", "every line reads"),
        ("n: int = 3; m: int = 4", "every line reads"),
        ("n: Int = 3", "none of int"),
        ("n: dict = {}", "none of int"),
        ("n: int = 3.0", "expected int, got 3.0"),
        ("n: int = True", "expected int, got True"),
        ("rate: float = 1", r"write it as 1\.0"),
        ("rates: list[float] = [1]", r"write it as \[1\.0\]"),
        ("n: int = len('abc')", "must be a literal"),
        ("n: int = 3\nn: int = 4", "defined twice"),
        ("x: list[int] = [\n 1]", "every line reads"),
        ("x: float = 1e999", "finite"),
        ("_x: int = 1", "cannot name"),
        ("x: int = (", "not Python"),
    ],
)
def test_other_forms_are_refused(mini_project, line, message):
    path = mini_project.notebook("p", "n", parameters=line)
    with pytest.raises(ParameterError, match=message):
        read_parameters(path)


def test_exactly_one_cell_with_the_tag(mini_project):
    path = mini_project.notebook("p", "n")
    path.write_text(mini_project.text("n").replace("[parameters]", "[hide-input]"), encoding="utf-8")
    with pytest.raises(ParameterError, match=r"exactly one code cell .* found 0"):
        validate_source(path)
    path.write_text(mini_project.text("n") + mini_project.cell("m: int = 1", "parameters"), encoding="utf-8")
    with pytest.raises(ParameterError, match="found 2"):
        validate_source(path)


@pytest.mark.parametrize("tag", ["parameter", "Parameters", "params"])
def test_a_misspelt_tag_is_named(mini_project, tag):
    path = mini_project.notebook("p", "n")
    path.write_text(mini_project.text("n").replace("[parameters]", f"[{tag}]"), encoding="utf-8")
    with pytest.raises(ParameterError, match=f"'{tag}'.*misspelling"):
        validate_source(path)


def test_leftovers_of_a_run_are_refused(mini_project):
    path = mini_project.notebook("p", "n")
    path.write_text(mini_project.text("n") + mini_project.cell("n = 4", "injected-parameters"), encoding="utf-8")
    with pytest.raises(ParameterError, match="leftover"):
        validate_source(path)


def test_resolve_checks_names_and_types_and_lists_the_valid_ones(parameters):
    assert resolve(parameters, {"n": 5, "rate": 2})["rate"] == 2.0
    assert isinstance(resolve(parameters, {"rate": 2})["rate"], float)
    with pytest.raises(ParameterError, match=r"(?s)unknown parameter 'm'.*n: int = 3.*names: list"):
        resolve(parameters, {"m": 5})
    for name, value in [("n", 2.0), ("n", "2"), ("on", 1), ("sizes", [1, 2.5]), ("name", 3), ("rate", float("nan"))]:
        with pytest.raises(ParameterError, match=f"(?s)parameter '{name}'.*Valid parameters"):
            resolve(parameters, {name: value})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n=5", 5),
        ("n = -5", -5),
        ("rate=2", 2.0),
        ("rate=1e-3", 0.001),
        ("name=x=y", "x=y"),
        ("name=", ""),
        ("on=false", False),
        ("sizes=1,2,3", [1, 2, 3]),
        ("sizes=[1, 2]", [1, 2]),
        ("sizes=[]", []),
        ("rates=1,2.5", [1.0, 2.5]),
        ("names=a,b", ["a", "b"]),
        ("names=['a, b', 'c']", ["a, b", "c"]),
    ],
)
def test_assignments_from_a_command_line(parameters, text, expected):
    assert parse_assignment(text, parameters)[1] == expected


@pytest.mark.parametrize("text", ["n", "=3", "m=3", "n=3.5", "n=x", "on=1", "rate=inf", "sizes=1,x", "names=['a"])
def test_bad_assignments_list_the_valid_parameters(parameters, text):
    with pytest.raises(ParameterError, match=r"Valid parameters:\n  n: int = 3"):
        parse_assignment(text, parameters)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(
    number=st.floats(allow_nan=False, allow_infinity=False),
    text=st.text(st.characters(exclude_categories=["Cs"])),
    integers=st.lists(st.integers()),
)
def test_injected_values_are_the_values(mini_project, parameters, number, text, integers):
    notebook = parse_notebook(mini_project.text("n", parameters=ALL_TYPES))
    values = resolve(parameters, {"rate": number, "name": text, "sizes": integers})
    scope: dict[str, object] = {}
    exec(notebook.cells[1].source, scope)
    if inject(notebook, parameters, values):
        assert notebook.cells[2].metadata["tags"] == ["injected-parameters"]
        exec(notebook.cells[2].source, scope)
    assert {name: scope[name] for name in values} == values
    assert repr(scope["rate"]) == repr(number) or number == 0.5 or number == 0


def test_papermill_runs_the_defaults_with_a_warning_only(mini_project, tmp_path, caplog):
    """The fault, raw: misspelt tag and unknown parameter; the notebook runs with n = 3 as if nothing had been asked."""
    import papermill

    text = mini_project.text("print(n)").replace("[parameters]", "[parameter]")
    with caplog.at_level(logging.WARNING, "papermill"):
        executed = papermill.execute_notebook(
            jupytext.reads(text, fmt="md:myst"),
            None,
            parameters={"m": 10},
            kernel_name="python3",
            progress_bar=False,
        )
    printed = [output.text for c in executed.cells for output in c.get("outputs", []) if "text" in output]
    assert printed == ["3\n"]
    assert "Passed unknown parameter: m" in caplog.text

    # Ours: both are refused before a kernel starts.
    path = mini_project.notebook("p", "print(n)")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParameterError, match="misspelling"):
        run(mini_project.project, "p", "quick")
    with pytest.raises(ParameterError, match="unknown parameter 'm'"):
        run(mini_project.project, "11_sum", "quick", {"m": 10}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not mini_project.project.results("quick").exists()


def test_papermill_sees_no_type_where_none_is_annotated(mini_project):

    from papermill.translators import PythonTranslator

    assert PythonTranslator.inspect(nbformat_cell("n = 3"))[0].inferred_type_name == "None"
    with pytest.raises(ParameterError, match="every line reads"):
        read_parameters(mini_project.notebook("p", "n", parameters="n = 3"))


def nbformat_cell(source: str):
    import nbformat

    return nbformat.v4.new_code_cell(source)


def test_a_negative_seed_is_refused_by_name():
    seeds = [Parameter("seed", "int", 7, ""), Parameter("shift", "int", 0, "")]
    assert resolve(seeds, {"seed": 0, "shift": -1}) == {"seed": 0, "shift": -1}
    with pytest.raises(ParameterError, match=r"parameter 'seed': -1 is negative; give a whole number of at least 0"):
        resolve(seeds, {"seed": -1})
