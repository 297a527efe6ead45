"""The chapters refuse parameters that do not fit each other before they compute anything with them."""

from __future__ import annotations

import ast
from pathlib import Path

import jupytext
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CASES = [
    (
        "13_how_wide",
        {"dimensions": [16, 64], "starts": [5], "phase_starts": [4, 4]},
        "give one number of starts",
    ),
    ("15_softmax_linear_erf", {"dimensions": [16, 64], "widths": [4], "confirm": [1, 0]}, "give one width"),
    ("16_finite_samples", {"landing_dimensions": [16, 32]}, "keep 64 among them"),
    (
        "19_try_it",
        {"dimensions": [3], "widths": [1], "map_dimension": 16, "map_width": 48},
        "choose them among dimensions",
    ),
]


@pytest.mark.parametrize(("name", "parameters", "message"), CASES)
def test_parameters_that_do_not_fit_are_named(name, parameters, message):
    notebook = jupytext.read(NOTEBOOKS / f"{name}.md")
    cells = [ast.parse(cell.source) for cell in notebook.cells if cell.cell_type == "code"]
    guards = [
        node
        for cell in cells
        for node in cell.body
        if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise)
    ]
    with pytest.raises(ValueError, match=message):
        exec(compile(ast.Module(guards, []), name, "exec"), dict(parameters))
    defaults = next(
        cell
        for cell in cells
        if any(isinstance(n, ast.AnnAssign) and n.target.id == "seed" for n in cell.body)
    )
    exec(compile(ast.Module([*defaults.body, *guards], []), name, "exec"), {})
