"""The execution guards, on notebooks made by hand; traps 2 and 6 show what the tools let pass."""

from __future__ import annotations

import nbformat
import pytest

from attention_companion.execution.guards import BrokenRun, check_executed

v4 = nbformat.v4


def whole(*outputs):
    """A whole executed notebook; the second code cell has ``outputs``."""
    first, second = v4.new_code_cell("a = 1", execution_count=1), v4.new_code_cell("a", execution_count=2)
    second.outputs = list(outputs)
    return v4.new_notebook(cells=[v4.new_markdown_cell("# T"), first, second, v4.new_code_cell("  \n")])


def display(**data):
    """A display with the types given as keywords: text__html stands for text/html."""
    return v4.new_output("display_data", {mime.replace("__", "/"): text for mime, text in data.items()})


def test_a_whole_run_passes():
    check_executed(
        whole(
            v4.new_output("stream", name="stdout", text="<script> is text in a stream\n"),
            v4.new_output("execute_result", {"text/plain": "1", "text/html": "<b>1</b>"}, execution_count=2),
            display(image__png="AAAA", text__plain="<Figure size 640x480 with 1 Axes>"),
            display(text__markdown="on time=5", text__latex="$x$"),
            v4.new_output("display_data", {"image/svg+xml": "<svg/>"}),
        )
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda nb: nb.cells[2].update(execution_count=None), "execution count None, expected 2"),
        (lambda nb: nb.cells[2].update(execution_count=3), "execution count 3, expected 2"),
        (lambda nb: nb.cells[1].update(execution_count=0), "execution count 0, expected 1"),
        (lambda nb: nb.cells[1].update(execution_count=True), "execution count True"),
        (lambda nb: nb.cells[2].pop("outputs"), "no list of outputs"),
        (lambda nb: nb.cells[3].update(execution_count=None, outputs=[v4.new_output("stream")]), "empty but"),
        (lambda nb: nb.cells.clear(), "no code cell"),
        (lambda nb: nb.metadata.update(widgets={"x": 1}), "widget state"),
        (lambda nb: nb.cells[2].outputs.append(v4.new_output("error", ename="E", evalue="v")), "ended in E: v"),
        (lambda nb: nb.cells[2].outputs.append(nbformat.from_dict({"output_type": "odd"})), "unknown kind 'odd'"),
        (lambda nb: nb.cells[2].outputs.append(v4.new_output("display_data", {})), "without content"),
    ],
)
def test_a_run_that_is_not_whole_is_refused(change, message):
    notebook = whole()
    check_executed(notebook)
    change(notebook)
    with pytest.raises(BrokenRun, match=message):
        check_executed(notebook)


@pytest.mark.parametrize(
    ("mime", "text"),
    [
        ("text/html", "<script>1</script>"),
        ("text/html", ["<img src=x ", "onerror=1>"]),
        ("image/svg+xml", "<svg onload=1>"),
        ("text/markdown", "[x](javascript:1)"),
        ("text/markdown", "<script>1</script>"),
        ("text/latex", "$\\href{javascript:1}{x}$"),
        ("application/javascript", "1"),
        ("application/vnd.jupyter.widget-view+json", {"model_id": "x"}),
        ("application/vnd.plotly.v1+json", {}),
        ("text/x-unheard-of", ""),
    ],
)
def test_active_outputs_are_refused_with_their_place(mime, text):
    with pytest.raises(BrokenRun, match=r"cell 2 \('a'\)"):
        check_executed(whole(v4.new_output("display_data", {mime: text, "text/plain": "x"})))


def test_a_figure_that_left_only_its_name_is_refused():
    with pytest.raises(BrokenRun, match="instead of a picture"):
        check_executed(whole(display(text__plain="<Figure size 640x480 with 1 Axes>")))


def test_a_strict_build_renders_broken_notebooks(tmp_path):
    """The fault, raw: errors stored, outputs gone, a figure's bare name; sphinx -W -n says nothing. Ours refuses."""
    from sphinx.cmd.build import build_main

    broken = whole(v4.new_output("error", ename="ValueError", evalue="no", traceback=["no"]))
    hollow = whole()
    hollow.cells[2].execution_count = None
    nameless = whole(display(text__plain="<Figure size 640x480 with 1 Axes>"))
    source = tmp_path / "source"
    source.mkdir()
    for name, notebook in {"broken": broken, "hollow": hollow, "nameless": nameless}.items():
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "python"}
        (source / f"{name}.ipynb").write_text(nbformat.writes(notebook, version=4), encoding="utf-8")
    (source / "index.md").write_text("# B\n\n```{toctree}\nbroken\nhollow\nnameless\n```\n", encoding="utf-8")
    (source / "conf.py").write_text("extensions = ['myst_nb']\nnb_execution_mode = 'off'\n", encoding="utf-8")
    out = tmp_path / "out"
    assert build_main(["-W", "-n", "-q", "-b", "html", str(source), str(out)]) == 0
    assert (out / "broken.html").exists()
    assert (out / "hollow.html").exists()
    assert "Figure size" in (out / "nameless.html").read_text(encoding="utf-8")
    for notebook in (broken, hollow, nameless):
        with pytest.raises(BrokenRun):
            check_executed(notebook)
