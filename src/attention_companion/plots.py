"""One house style for every figure, and the one way a figure reaches a page.

A figure is shown with :func:`show`. Under the runner it is written beside the run as SVG (what the page shows), PNG
(what the figures archive carries) and CSV (the numbers behind it), and the cell's output is a MyST figure directive,
so that figures are numbered, carry the alternative text we wrote, and can be cited from any page. In JupyterLab the
same call simply displays the figure.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

#: Okabe and Ito's palette: told apart under the common forms of colour blindness, black first for single series.
COLOURS = {
    "black": "#000000",
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
}
#: Marker shapes go with the colours, so that no series is known by its colour alone.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

#: A page column is about 350 px wide on a phone (390 px screen) and a figure 4.8 in (461 px) wide is scaled to fit
#: it: 11 pt text then stands 11 px high, which is still legible.
WIDTH_INCHES = 4.8
_RC: Any = {
    "figure.figsize": (WIDTH_INCHES, 3.3),
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "legend.fontsize": 10,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "axes.prop_cycle": cycler(color=list(COLOURS.values())) + cycler(marker=list(MARKERS)),
    # Without a fixed salt and date the same figure gives another file at every run.
    "svg.hashsalt": "attention-companion",
    "svg.fonttype": "path",
}

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


@contextmanager
def style() -> Iterator[None]:
    """Use the house style inside the ``with`` block and leave matplotlib's global settings as they were."""
    with mpl.rc_context(_RC):
        yield


def _table(data: Mapping[str, Sequence[Any]]) -> str:
    """The columns of ``data`` as CSV text; floats are written with 10 significant digits.

    Ten digits are enough to redraw the figure and few enough that the last bits, which differ between processors,
    do not show.
    """
    if not data:
        raise ValueError("data is empty: give the columns that were drawn, as {column name: sequence}")
    lengths = {name: len(column) for name, column in data.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"columns of data must be of one length, got {lengths}")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(data)
    for row in zip(*data.values(), strict=True):
        writer.writerow([f"{x:.10g}" if isinstance(x, float) else x for x in row])
    return out.getvalue()


def _one_line(text: str, what: str) -> str:
    line = " ".join(text.split())
    if len(line) < 20:
        raise ValueError(f"{what} must be a sentence of at least 20 characters, got {text!r}")
    return line


def show(
    fig: Figure,
    name: str,
    *,
    alt: str,
    caption: str,
    n: str,
    data: Mapping[str, Sequence[Any]],
) -> None:
    """Write a figure beside the run and display it, numbered and citable as ``fig-<notebook number>-<name>``.

    Parameters
    ----------
    fig
        A figure drawn inside :func:`style`.
    name
        Lower-case words joined by hyphens, unique in the notebook.
    alt
        Alternative text: the finding, in a sentence, for a reader who does not see the picture.
    caption
        The caption (MyST).
    n
        How many of what each mark stands for, e.g. ``"n = 400 starts a point"``; drawn into the figure's corner.
    data
        The drawn numbers, as columns of one length; downloadable from the page as CSV.

    Raises
    ------
    ValueError
        A name of another form, an empty or ragged table, or an alternative text or caption that is not a sentence.
    """
    from IPython.display import Markdown, display

    if not _NAME.match(name):
        raise ValueError(f"figure name must be lower-case words joined by hyphens, got {name!r}")
    alt, caption = _one_line(alt, "alt"), _one_line(caption, "caption")
    table = _table(data)
    if not n.strip():
        raise ValueError(
            "n is empty: say how many of what each mark stands for, e.g. 'n = 400 starts a point'"
        )
    # A figure-level label keeps clear of the axes; constrained layout makes room for it.
    fig.supxlabel(n, fontsize=9, color="#444444", x=0.99, ha="right")
    run_dir, notebook = (os.environ.get(f"ATTENTION_COMPANION_{key}") for key in ("RUN_DIR", "NOTEBOOK"))
    if not run_dir or not notebook:
        display(fig)
        display(Markdown(f"*{caption}*"))
        _close(fig)
        return
    folder = Path(run_dir) / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / f"{name}.svg").exists():
        raise ValueError(
            f"this notebook already shows a figure named {name!r}: give each figure its own name"
        )
    with style():
        fig.savefig(folder / f"{name}.svg", metadata={"Date": None})
        fig.savefig(folder / f"{name}.png", dpi=200, metadata={"Software": None})
    (folder / f"{name}.csv").write_text(table, encoding="utf-8")
    _close(fig)
    display(Markdown(_directive(notebook, name, alt, caption)))


def _close(fig: Figure) -> None:
    """Forget the figure, so that the inline backend does not show it a second time."""
    import matplotlib.pyplot as plt

    plt.close(fig)


def _directive(notebook: str, name: str, alt: str, caption: str) -> str:
    label = f"fig-{notebook.split('_', 1)[0]}-{name}"
    base = f"/figures/{notebook}/{name}"
    return (
        f"```{{figure}} {base}.svg\n:name: {label}\n:alt: {alt}\n:width: 100%\n\n"
        f"{caption} {{download}}`Numbers behind the figure (CSV) <{base}.csv>`\n```\n"
    )
