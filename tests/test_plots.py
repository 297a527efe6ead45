"""Figures: one style, deterministic files, alternative text and numbers beside each."""

import csv

import matplotlib as mpl
import pytest

mpl.use("agg")
import matplotlib.pyplot as plt

from attention_companion import plots

pytestmark = pytest.mark.torch_free
WORDS = {
    "alt": "The line rises from one to four.",
    "caption": "A line that rises, for a test.",
    "n": "n = 3 points",
}


def draw():
    with plots.style():
        fig, ax = plt.subplots()
        ax.plot([1, 2, 3], [1, 2, 4])
    return fig


@pytest.fixture
def shown(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTENTION_COMPANION_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("ATTENTION_COMPANION_NOTEBOOK", "12_one_step")
    outputs = []
    monkeypatch.setattr("IPython.display.display", outputs.append)
    return tmp_path / "figures", outputs


def test_writes_picture_numbers_and_a_directive_with_alt_text(shown):
    folder, outputs = shown
    plots.show(draw(), "rise", data={"x": [1, 2, 3], "y": [1.0, 2.0, 1 / 3]}, **WORDS)
    assert {p.suffix for p in folder.iterdir()} == {".svg", ".png", ".csv"}
    assert list(csv.reader((folder / "rise.csv").read_text().splitlines()))[3] == ["3", "0.3333333333"]
    text = outputs[0].data
    assert "{figure} /figures/12_one_step/rise.svg" in text
    assert ":name: fig-12-rise" in text
    assert f":alt: {WORDS['alt']}" in text
    assert "{download}`Numbers behind the figure (CSV) </figures/12_one_step/rise.csv>`" in text


def test_the_same_figure_gives_the_same_svg_and_default_settings_do_not(shown, monkeypatch):
    folder, _ = shown
    for name in ("one", "two"):
        plots.show(draw(), name, data={"x": [1]}, **WORDS)
    assert (folder / "one.svg").read_bytes() == (folder / "two.svg").read_bytes()
    monkeypatch.setitem(plots._RC, "svg.hashsalt", None)
    plots.show(draw(), "three", data={"x": [1]}, **WORDS)
    assert (folder / "three.svg").read_bytes() != (folder / "one.svg").read_bytes()


def test_style_leaves_matplotlib_as_it_was():
    before = mpl.rcParams["font.size"]
    with plots.style():
        assert mpl.rcParams["font.size"] == 11
    assert mpl.rcParams["font.size"] == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Bad Name"}, "lower-case words"),
        ({"data": {}}, "data is empty"),
        ({"data": {"x": [1], "y": [1, 2]}}, "of one length"),
        ({"alt": "short"}, "alt must be a sentence"),
        ({"n": " "}, "n is empty"),
    ],
)
def test_refuses_what_would_make_a_bare_figure(shown, change, message):
    folder, outputs = shown
    arguments = {"name": "rise", "data": {"x": [1]}, **WORDS, **change}
    with pytest.raises(ValueError, match=message):
        plots.show(draw(), **arguments)
    assert not outputs
    assert not folder.exists()


def test_a_name_is_used_once(shown):
    plots.show(draw(), "rise", data={"x": [1]}, **WORDS)
    with pytest.raises(ValueError, match="already shows a figure named 'rise'"):
        plots.show(draw(), "rise", data={"x": [1]}, **WORDS)


def test_without_the_runner_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTENTION_COMPANION_RUN_DIR", raising=False)
    outputs = []
    monkeypatch.setattr("IPython.display.display", outputs.append)
    plots.show(draw(), "rise", data={"x": [1]}, **WORDS)
    assert len(outputs) == 2
    assert not list(tmp_path.iterdir())
