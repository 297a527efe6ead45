"""Pairs of text and .ipynb; traps 8 and 19 show what jupytext does by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jupytext
import nbformat
import pytest

from attention_companion.execution.pairing import check_pairs, main, paired_text, write_pairs
from attention_companion.execution.text import read_notebook


@pytest.fixture
def paired(mini_project):
    write_pairs(mini_project.project)
    return mini_project


def edit(mini, name, change):
    path = mini.root / "notebooks" / name
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def test_written_pairs_agree_and_are_stable(paired):
    assert check_pairs(paired.project) == []
    assert write_pairs(paired.project) == []
    path = paired.root / "notebooks" / "11_sum.ipynb"
    assert path.read_text(encoding="utf-8") == paired_text(path.with_suffix(".md"))
    nbformat.validate(nbformat.read(path, as_version=4))


def test_missing_and_unlisted_files_are_named(paired):
    (paired.root / "notebooks" / "11_sum.ipynb").unlink()
    paired.write("notebooks/99_stray.md", "x")
    assert check_pairs(paired.project) == [
        "11_sum.ipynb is missing: run `make pair`",
        "99_stray.md belongs to no notebook of notebooks/notebooks.yml: list or remove it",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda nb: nb["cells"][2].update(source="print(7)"), "cell 2 differs from 11_sum.md in its source: "),
        (lambda nb: nb["cells"][1]["metadata"].update(tags=[]), "cell 1 differs from 11_sum.md in its metadata"),
        (lambda nb: nb["cells"][0].update(cell_type="raw"), "cell 0 differs from 11_sum.md in its kind"),
        (lambda nb: nb["cells"].pop(), "has 3 cells, 11_sum.md has 4"),
        (lambda nb: nb["cells"][2].update(outputs=[{"output_type": "stream"}]), "cell 2 holds outputs"),
        (lambda nb: nb["cells"][2].update(execution_count=3), "cell 2 holds outputs"),
        (lambda nb: nb.pop("cells"), "is not a notebook"),
    ],
)
def test_differences_are_told_with_how_to_mend_them(paired, change, message):
    edit(paired, "11_sum.ipynb", change)
    (problem,) = check_pairs(paired.project)
    assert message in problem
    assert "make pair" in problem
    assert write_pairs(paired.project)
    assert check_pairs(paired.project) == []


def test_ids_and_kernel_names_of_a_persons_jupyter_do_not_matter(paired):
    def as_saved_by_an_editor(notebook):
        for number, cell in enumerate(notebook["cells"]):
            cell["id"] = f"random-{number}"
        notebook["metadata"]["kernelspec"]["display_name"] = "my kernel"

    edit(paired, "11_sum.ipynb", as_saved_by_an_editor)
    assert check_pairs(paired.project) == []


def test_the_text_is_never_written(paired):
    texts = {path: path.read_bytes() for path in (paired.root / "notebooks").glob("*.md")}
    edit(paired, "11_sum.ipynb", lambda nb: nb["cells"][2].update(source="print(7)"))
    write_pairs(paired.project)
    assert {path: path.read_bytes() for path in texts} == texts


def test_command_line(mini_project, capsys):
    root = ["--root", str(mini_project.root)]
    assert main(root) == 1
    assert "11_sum.ipynb is missing" in capsys.readouterr().err
    assert main([*root, "--write"]) == 0
    assert "wrote notebooks/11_sum.ipynb" in capsys.readouterr().out
    assert main(root) == 0


def test_jupytext_draws_new_ids_each_time_ours_are_derived(mini_project):
    path = mini_project.root / "notebooks" / "11_sum.md"
    first, second = ([cell.id for cell in jupytext.read(path).cells] for _ in range(2))
    assert first != second
    ours = [cell.id for cell in read_notebook(path).cells]
    assert ours == [cell.id for cell in read_notebook(path).cells]
    # A cell keeps its id when another one is put before it, and equal cells get different ids.
    text = path.read_text(encoding="utf-8")
    twin = mini_project.cell("1 + 1")
    path.write_text(text.replace("# A question\n", f"# A question\n\n{twin}\n{twin}"), encoding="utf-8")
    longer = [cell.id for cell in read_notebook(path).cells]
    assert set(ours) <= set(longer)
    assert len(set(longer)) == len(longer) == len(ours) + 2


def test_jupytext_sync_overwrites_the_newer_text(mini_project):
    """The fault, raw: the text is edited, a stale .ipynb is touched (a checkout does that), --sync reverts the text."""
    text = mini_project.root / "notebooks" / "11_sum.md"
    source = text.read_text(encoding="utf-8").replace("jupytext:\n", "jupytext:\n  formats: md:myst,ipynb\n")
    text.write_text(source, encoding="utf-8")
    write_pairs(mini_project.project)
    edited = source.replace("# A question", "# A better question")
    text.write_text(edited, encoding="utf-8")
    later = text.stat().st_mtime + 10
    os.utime(text.with_suffix(".ipynb"), (later, later))

    # Ours first: the difference is reported, the text stays.
    (problem,) = [p for p in check_pairs(mini_project.project) if p.startswith("11_sum")]
    assert "A better question' in the text, '# A question' in the .ipynb" in problem
    assert text.read_text(encoding="utf-8") == edited

    subprocess.run([sys.executable, "-m", "jupytext", "--sync", str(text)], check=True, capture_output=True)
    assert "A better question" not in text.read_text(encoding="utf-8")
