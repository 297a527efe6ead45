"""The project folder and its list of notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_companion.execution.project import Project, ProjectError, UnknownNotebook, UnknownProfile

REPOSITORY = Path(__file__).resolve().parents[2]


def test_finds_the_root_from_any_folder_below(mini_project):
    below = mini_project.root / "src" / "attention_companion"
    assert Project.find(below).root == mini_project.root
    assert Project.find(mini_project.root / "notebooks" / "11_sum.md").root == mini_project.root


def test_environment_variable_wins_over_the_working_directory(mini_project, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert Project.find().root == REPOSITORY
    monkeypatch.setenv("ATTENTION_COMPANION_ROOT", str(mini_project.root))
    assert Project.find().root == mini_project.root


def test_outside_any_project_the_folder_looked_at_is_named(tmp_path, monkeypatch):
    with pytest.raises(ProjectError, match=r"no notebooks/notebooks\.yml at or above"):
        Project.find(tmp_path)
    with pytest.raises(ProjectError, match="not the root"):
        Project.at(tmp_path)


def test_falls_back_to_the_clone_the_package_lies_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTENTION_COMPANION_ROOT", raising=False)
    assert Project.find().root == REPOSITORY


def test_reads_name_part_data_and_profiles(mini_project):
    mini_project.notebook("13_data", "n", data=("mnist",), part=3, profiles={"quick": {}, "full": {"n": 7}})
    spec = mini_project.project.notebook("13_data")
    assert (spec.part, spec.data) == (3, ("mnist",))
    assert dict(spec.overrides("full")) == {"n": 7}
    assert spec.source == mini_project.root / "notebooks" / "13_data.md"
    assert spec.paired.name == "13_data.ipynb"


def test_unknown_names_list_the_valid_ones(mini_project):
    with pytest.raises(UnknownNotebook, match=r"(?s)11_summ.*11_sum\n.*12_product"):
        mini_project.project.notebook("11_summ")
    with pytest.raises(UnknownProfile, match="quick, full"):
        mini_project.project.notebook("11_sum").overrides("slow")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("notebooks: {}", "with the list"),
        ("notebooks: [", "not YAML"),
        ("notebooks: [3]", "mapping with a name"),
        ("notebooks: [{name: a/b, part: 1, profiles: {quick: {}}}]", "letters, digits"),
        ("notebooks: [{name: a, part: one, profiles: {quick: {}}}]", "part must be an integer"),
        ("notebooks: [{name: a, part: 1, profiles: {}}]", "at least one profile"),
        ("notebooks: [{name: a, part: 1, profiles: {custom: {}}}]", "cannot name a profile"),
        ("notebooks: [{name: a, part: 1, profiles: {quick: 3}}]", "map parameters to values"),
        ("notebooks: [{name: a, part: 1, data: mnist, profiles: {quick: {}}}]", "list of data set names"),
        ("notebooks: [{name: a, part: 1, profile: {quick: {}}}]", "unknown keys profile"),
        (
            "notebooks: [{name: a, part: 1, profiles: {quick: {}}}, {name: a, part: 1, profiles: {quick: {}}}]",
            "more than once",
        ),
    ],
)
def test_a_malformed_list_is_refused(mini_project, text, message):
    mini_project.write("notebooks/notebooks.yml", text)
    with pytest.raises(ProjectError, match=message):
        _ = mini_project.project
