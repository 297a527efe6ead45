"""The way from whole runs to pages, on the stub project: what arrives, what is refused, what stays."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from book_stub import FIGURE, NAME, StubProject, html_output, make_stub, markdown_output

from attention_companion.execution import render as render_module
from attention_companion.execution.render import main, render
from attention_companion.execution.render_errors import RenderError
from attention_companion.execution.render_stage import REPOSITORY_VARIABLE, repository_url


def pages(folder: Path) -> dict[str, bytes]:
    """Every file of a book that is not the theme's, by its place."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and "_static" not in p.relative_to(folder).parts
    }


def text(book: Path, page: str) -> str:
    """A page's HTML without its tags, blanks collapsed."""
    return re.sub(r"[ \n]+", " ", re.sub(r"<[^>]+>", " ", (book / page).read_text("utf-8")))


def planted(tmp_path: Path, *outputs: dict[str, object], kind: str = "full") -> StubProject:
    """A stub project whose run carries extra outputs, with an older book in place."""
    project = make_stub(tmp_path / "p", kind)
    project.write_run(list(outputs))
    out = project.root / "_build" / "html"
    out.mkdir(parents=True)
    (out / "index.html").write_text("the old book", "utf-8")
    return project


def go(project: StubProject, key: str | None = None) -> Path:
    """Render a stub project's book."""
    return render(
        project, "quick", {NAME: project.run}, project.ledger, project.root / "_build" / "html", key
    )


def test_whole_book_arrives(stub_book: Path) -> None:
    assert {"index.html", "search.html", "genindex.html", f"notebooks/{NAME}.html", ".key-k1"} <= set(
        pages(stub_book)
    )
    assert not list(stub_book.parent.glob(".stage-*"))


def test_figures_equations_theorems_and_citations_are_numbered(stub_book: Path) -> None:
    chapter, front = text(stub_book, f"notebooks/{NAME}.html"), text(stub_book, "index.html")
    assert "Fig. 1.1" in chapter
    assert "Theorem 1.1" in chapter
    assert "(1.1)" in chapter
    assert "Fig. 1.1" in front
    assert "Theorem 1.1" in front
    assert re.search(r"\[ ?1 ?\]", front)


def test_tables_made_by_code_are_tables(stub_book: Path) -> None:
    html = (stub_book / "notebooks" / f"{NAME}.html").read_text("utf-8")
    assert re.search(r"<th[^>]*><p>column number 7</p></th>", html)
    assert "| column number" not in html


def test_foot_says_how_the_page_was_made(stub_book: Path) -> None:
    chapter = text(stub_book, f"notebooks/{NAME}.html")
    for fact in (
        "quick",
        "0123456789ab",
        "2025-01-02 03:04 UTC",
        "n = 3",
        "1.2\u00a0s",
        "123\u00a0MB",
        f"companion run {NAME} --profile quick --out DIR",
        "DIR/figures/line.svg",
        "mnist (full)",
    ):
        assert fact in chapter
    for page in ("to-come.html", "search.html", "genindex.html"):
        assert "profile quick, runs up to 2025-01-02, commit 0123456789ab." in text(stub_book, page)


def test_downloads_are_there_clean_and_executed(stub_book: Path, stub: StubProject) -> None:
    folder = stub_book / "downloads" / NAME
    assert (folder / f"{NAME}.md").read_bytes() == (stub.root / "notebooks" / f"{NAME}.md").read_bytes()
    assert json.loads((folder / f"{NAME}.ipynb").read_text("utf-8"))["cells"] == []
    executed = (folder / f"{NAME}-executed.ipynb").read_text("utf-8")
    assert json.loads(executed)["cells"][1]["execution_count"] == 1
    # What papermill noted about the machine does not leave it.
    assert "/somewhere" not in executed
    csv = [p for name, p in pages(stub_book).items() if name.endswith("line.csv")]
    assert csv == [b"x,y\n0,0\n1,1\n"]


def test_no_page_names_a_path_of_this_machine(stub_book: Path, stub: StubProject) -> None:
    for name, content in pages(stub_book).items():
        assert str(stub.root.parent).encode() not in content, name


def test_nothing_of_thebe_or_tippy_is_shipped(stub_book: Path) -> None:
    names = [p.name.lower() for p in stub_book.rglob("*")]
    assert not [name for name in names if "thebe" in name or "tippy" in name]
    for name, content in pages(stub_book).items():
        assert b"thebe" not in content.lower(), name
        assert b"tippy" not in content.lower(), name


def test_claims_to_come_are_listed_with_their_reason(stub_book: Path) -> None:
    assert "chapter to come" in text(stub_book, "to-come.html")


def test_same_inputs_same_pages_and_stale_ones_go(stub: StubProject, stub_book: Path, tmp_path: Path) -> None:
    out = tmp_path / "html"
    out.mkdir()
    (out / "deleted.html").write_text("an old page", "utf-8")
    render(stub, "quick", {NAME: stub.run}, stub.ledger, out, "k1")
    assert pages(out) == pages(stub_book)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (html_output("<script>alert(1)</script>"), "scripts that are not the theme's"),
        (html_output('<p><img src="gone.png" alt="A line."></p>'), "missing asset: gone.png"),
        (
            markdown_output(FIGURE.replace("line.svg", "gone.svg").replace("fig-12-line", "other")),
            "not readable",
        ),
        (markdown_output("{ref}`no-such-label`"), "undefined label"),
    ],
)
def test_faulty_output_is_refused_and_the_old_book_stays(
    tmp_path: Path, output: dict[str, object], said: str
) -> None:
    project = planted(tmp_path, output)
    with pytest.raises(RenderError, match=re.escape(said)):
        go(project)
    build = project.root / "_build"
    assert (build / "html" / "index.html").read_text("utf-8") == "the old book"
    assert sorted(p.name for p in build.iterdir()) == ["html", "render.log"]


def test_sample_data_is_announced_on_its_pages_only(tmp_path: Path) -> None:
    out = go(planted(tmp_path, kind="sample"))
    assert "bundled sample of mnist" in text(out, f"notebooks/{NAME}.html")
    assert "bundled sample" not in text(out, "index.html")


def test_repository_of_the_environment_is_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPOSITORY_VARIABLE, "https://github.com/somebody/fork")
    project = planted(tmp_path)
    project.page("to-come", "# To come\n\nClone `https://github.com/OWNER/attention-companion`.\n")
    out = go(project)
    everything = b"".join(pages(out).values())
    assert b"OWNER" not in everything
    assert b"https://mybinder.org/v2/gh/somebody/fork/main" in everything
    assert b"https://github.com/somebody/fork/blob/main/book/index.md" in everything


def test_repository_must_be_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPOSITORY_VARIABLE, "somebody/fork")
    with pytest.raises(RenderError, match=REPOSITORY_VARIABLE):
        repository_url({"repository": {"url": "https://github.com/a/b"}})


def test_notebook_without_a_run_is_named(tmp_path: Path) -> None:
    project = make_stub(tmp_path / "p")
    with pytest.raises(RenderError, match=NAME):
        render(project, "quick", {}, project.ledger, tmp_path / "html")


@pytest.mark.parametrize("gone", ["executed.ipynb", "result.json"])
def test_incomplete_run_is_named(tmp_path: Path, gone: str) -> None:
    project = make_stub(tmp_path / "p")
    (project.run / gone).unlink()
    with pytest.raises(RenderError, match=gone):
        go(project)


def test_command_line(
    stub: StubProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "p"
    shutil.copytree(stub.root, root, ignore=shutil.ignore_patterns("_build"))
    (root / "notebooks" / "notebooks.yml").write_text(
        f"notebooks:\n  - {{name: {NAME}, part: 1, data: [], profiles: {{quick: {{}}}}}}\n", "utf-8"
    )
    seen: dict[str, object] = {}

    def caught(
        project: object, profile: str, results: object, ledger: Path, out: Path, key: str | None
    ) -> Path:
        seen.update(results=results, profile=profile, key=key)
        return out

    monkeypatch.setattr(render_module, "render", caught)
    call = ["--profile", "quick", "--ledger", "l.json", "--out", str(tmp_path / "o"), "--root", str(root)]
    assert main([*call, "--result", f"{NAME}=a dir", "--key", "k"]) == 0
    assert seen == {"results": {NAME: Path("a dir")}, "profile": "quick", "key": "k"}
    assert "index.html" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*call, "--result", NAME])


def test_the_executed_download_carries_its_figures_as_pictures(tmp_path, monkeypatch):
    """On the page a figure is a directive and a file; in a notebook taken away the directive would be bare text."""
    from attention_companion import plots
    from attention_companion.execution.render_stage import with_pictures

    monkeypatch.setenv("ATTENTION_COMPANION_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("ATTENTION_COMPANION_NOTEBOOK", "12_one_step")
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    import matplotlib.pyplot as plt

    plots.show(
        plt.figure(), "rise", alt="The line rises from one to four.", caption="A line that rises: a test.", n="n = 3",
        data={"x": [1]},
    )
    output = {"output_type": "display_data", "data": {"text/markdown": shown[0].data, "text/plain": "<Markdown>"}}
    other = {"output_type": "display_data", "data": {"text/markdown": "plain *words*"}}
    notebook = {"cells": [{"cell_type": "markdown"}, {"cell_type": "code", "outputs": [output, other]}]}
    taken = with_pictures(notebook, tmp_path / "figures")["cells"][1]["outputs"]
    assert set(taken[0]["data"]) == {"image/png", "text/plain"}
    assert taken[0]["data"]["text/plain"] == "The line rises from one to four. (A line that rises: a test.)"
    assert taken[1] == other
    assert "image/png" not in output["data"], "the page's own copy must keep the directive"
