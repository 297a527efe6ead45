"""A notebook's parameters: what they are, and the values of one run.

Exactly one code cell carries the tag ``parameters``. Each of its lines reads ``name: type = default  # help``.
papermill only warns about a missing cell or an unknown name and then runs the defaults; both are refused here.
"""

from __future__ import annotations

import ast
import io
import keyword
import math
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attention_companion.execution.text import NotebookError, read_notebook

TAG = "parameters"
INJECTED_TAG = "injected-parameters"
SCALARS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
TYPES = (*SCALARS, "list[int]", "list[float]", "list[str]")
_FORM = "name: type = default  # help"


class ParameterError(ValueError):
    """A parameter is unknown or ill-typed, or the parameters cell is not of the agreed form."""


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell; ``type`` is one of TYPES, ``default`` has that type."""

    name: str
    type: str
    default: Any
    help: str

    def describe(self) -> str:
        """One line for a list of valid parameters."""
        return f"{self.name}: {self.type} = {self.default!r}" + (f"  # {self.help}" if self.help else "")


def read_parameters(notebook_path: str | Path) -> list[Parameter]:
    """The parameters of the MyST notebook at ``notebook_path``, in the order written.

    Raises
    ------
    ParameterError
        If there is not exactly one ``parameters`` cell, or a line of it is not ``name: type = default  # help``.
    NotebookError
        If the text cannot be read.
    """
    path = Path(notebook_path)
    notebook = read_notebook(path)
    return _parse_cell(_parameters_cell(notebook, path), path)


def validate_source(path: str | Path) -> None:
    """Refuse a source whose parameters papermill would silently ignore, or that holds outputs or injected cells."""
    source = Path(path)
    read_parameters(source)
    for index, cell in enumerate(read_notebook(source).cells):
        if INJECTED_TAG in cell.metadata.get("tags", []):
            raise ParameterError(f"{source}: cell {index} is a leftover of a run (tag {INJECTED_TAG}); remove it")
        if cell.get("outputs"):
            raise ParameterError(f"{source}: cell {index} holds outputs; a source has none")


def resolve(parameters: Sequence[Parameter], *overrides: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a run: the defaults, then each mapping of ``overrides`` in turn, values checked by type.

    Raises
    ------
    ParameterError
        For an unknown name, a value of another type (the message lists the valid parameters), or a negative seed.
    """
    known = {parameter.name: parameter for parameter in parameters}
    values = {name: parameter.default for name, parameter in known.items()}
    for mapping in overrides:
        for name, value in mapping.items():
            if name not in known:
                raise ParameterError(f"unknown parameter {name!r}.{_listing(parameters)}")
            try:
                values[name] = coerce(value, known[name].type)
            except ParameterError as error:
                raise ParameterError(f"parameter {name!r}: {error}.{_listing(parameters)}") from error
    # Every notebook gives its seed to numpy, whose own message names neither the parameter nor the value.
    if isinstance(values.get("seed"), int) and values["seed"] < 0:
        raise ParameterError(f"parameter 'seed': {values['seed']} is negative; give a whole number of at least 0.")
    return values


def inject(notebook: Any, parameters: Sequence[Parameter], values: Mapping[str, Any]) -> bool:
    """Put ``values`` that differ from the defaults into ``notebook`` (changed in place), right after its defaults.

    The new cell carries papermill's tag. papermill's own injection is not used: it cannot parse a help text with an
    apostrophe, and then calls the parameter unknown. Returns whether a cell was added.
    """
    import nbformat

    changed = [parameter for parameter in parameters if values[parameter.name] != parameter.default]
    if not changed:
        return False
    lines = [f"{parameter.name}: {parameter.type} = {values[parameter.name]!r}" for parameter in changed]
    cell = nbformat.v4.new_code_cell("\n".join(["# Parameters of this run", *lines]))
    cell.metadata["tags"] = [INJECTED_TAG]
    place = next(
        index for index, cell in enumerate(notebook.cells) if TAG in cell.metadata.get("tags", [])
    )
    notebook.cells.insert(place + 1, cell)
    return True


def parse_assignment(text: str, parameters: Sequence[Parameter]) -> tuple[str, Any]:
    """``"name=value"`` from a command line as (name, typed value).

    A str is taken as written; bools are true/false; lists are written ``[1, 2]`` or ``1,2``.

    Raises
    ------
    ParameterError
        For a text without ``=``, an unknown name, or a value that its type cannot hold.
    """
    name, equals, written = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise ParameterError(f"expected name=value, got {text!r}.{_listing(parameters)}")
    for parameter in parameters:
        if parameter.name == name:
            try:
                return name, _parse_value(written.strip(), parameter.type)
            except ParameterError as error:
                raise ParameterError(f"parameter {name!r}: {error}.{_listing(parameters)}") from error
    raise ParameterError(f"unknown parameter {name!r}.{_listing(parameters)}")


def coerce(value: Any, type_name: str) -> Any:
    """``value`` as ``type_name``: an int serves as float, nothing else is converted; NaN and infinity are refused."""
    if type_name.startswith("list["):
        if not isinstance(value, list):
            raise ParameterError(f"expected {type_name}, got {value!r}")
        return [coerce(item, type_name[5:-1]) for item in value]
    kind = SCALARS[type_name]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise ParameterError(f"expected {type_name}, got {value!r} ({type(value).__name__})")
    if isinstance(value, float) and not math.isfinite(value):
        raise ParameterError(f"expected a finite float, got {value!r}")
    return value


def _listing(parameters: Iterable[Parameter]) -> str:
    lines = [parameter.describe() for parameter in parameters]
    return "\nValid parameters:\n  " + ("\n  ".join(lines) if lines else "(this notebook has none)")


def _parse_value(written: str, type_name: str) -> Any:
    if type_name.startswith("list["):
        inner = written[1:-1] if written.startswith("[") and written.endswith("]") else written
        if type_name == "list[str]" and any(quote in inner for quote in "'\""):
            return coerce(_literal(f"[{inner}]"), type_name)
        parts = [part.strip() for part in inner.split(",")] if inner.strip() else []
        return [_parse_value(part, type_name[5:-1]) for part in parts]
    if type_name == "str":
        return written
    if type_name == "bool":
        if written.lower() not in {"true", "false"}:
            raise ParameterError(f"expected true or false, got {written!r}")
        return written.lower() == "true"
    convert: Callable[[str], Any] = int if type_name == "int" else float
    try:
        return coerce(convert(written), type_name)
    except ValueError as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"expected {type_name}, got {written!r}") from error


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise ParameterError(f"cannot read {text!r} as a list") from error


def _parameters_cell(notebook: Any, path: Path) -> str:
    tagged = []
    near = []
    for index, cell in enumerate(notebook.cells):
        tags = [str(tag) for tag in cell.metadata.get("tags", [])]
        if TAG in tags:
            if cell.cell_type != "code":
                raise ParameterError(f"{path}: cell {index} has the tag {TAG!r} but is a {cell.cell_type} cell")
            tagged.append(index)
        near += [f"{tag!r} (cell {index})" for tag in tags if tag.lower().startswith("param") and tag != TAG]
    if near:
        raise ParameterError(f"{path}: tag {', '.join(near)} looks like a misspelling of {TAG!r}")
    if len(tagged) != 1:
        raise ParameterError(
            f"{path}: expected exactly one code cell with the tag {TAG!r}, found {len(tagged)}. "
            f"Without it the defaults would run whatever is asked for. Its lines read: {_FORM}"
        )
    return str(notebook.cells[tagged[0]].source)


def _parse_cell(source: str, path: Path) -> list[Parameter]:
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ParameterError(f"{path}: the parameters cell is not Python: {error}") from error
    helps = {
        token.start[0]: token.string.lstrip("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    parameters: list[Parameter] = []
    for node in tree.body:
        line = source.split("\n")[node.lineno - 1].strip()
        if (
            not isinstance(node, ast.AnnAssign)
            or not isinstance(node.target, ast.Name)
            or node.value is None
            or node.lineno != node.end_lineno
            or sum(other.lineno == node.lineno for other in tree.body) > 1
        ):
            raise ParameterError(f"{path}: in the parameters cell every line reads {_FORM!r}, got {line!r}")
        name, type_name = node.target.id, ast.unparse(node.annotation).replace(" ", "")
        if type_name not in TYPES:
            raise ParameterError(f"{path}: {line!r}: type {type_name!r} is none of {', '.join(TYPES)}")
        if name.startswith("_") or keyword.issoftkeyword(name):
            raise ParameterError(f"{path}: {line!r}: {name!r} cannot name a parameter")
        if name in {parameter.name for parameter in parameters}:
            raise ParameterError(f"{path}: parameter {name!r} is defined twice")
        try:
            written = ast.literal_eval(node.value)
            default = coerce(written, type_name)
            if repr(default) != repr(written):
                # In JupyterLab the cell runs as it stands, so there an int would be used where a run has a float.
                raise ParameterError(f"write it as {default!r}")
        except ValueError as error:
            raise ParameterError(f"{path}: {line!r}: the default must be a literal {type_name}: {error}") from error
        parameters.append(Parameter(name, type_name, default, helps.get(node.lineno, "")))
    return parameters


__all__ = [
    "NotebookError",
    "Parameter",
    "ParameterError",
    "coerce",
    "parse_assignment",
    "read_parameters",
    "resolve",
    "validate_source",
]
