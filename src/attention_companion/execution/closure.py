"""Which source files a notebook's result depends on: the transitive closure of its imports, by file.

Every import statement counts, wherever it stands: at the top, inside a function, under ``if TYPE_CHECKING``.
Importing ``a.b.c`` runs ``a/__init__.py`` and ``a/b/__init__.py`` too, so these belong to the closure. Only this
project's own package is followed; other packages are covered by the digest of constraints.txt. An import whose name
is computed cannot be followed: after a run the modules really loaded are compared with the closure.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attention_companion.execution.project import Project
from attention_companion.execution.text import NotebookError, code_of, read_notebook

PACKAGE = "attention_companion"
_IMPORTERS = {"import_module", "__import__"}


class ClosureError(ValueError):
    """An import of this project's own package leads to no file, or a source file is not Python."""


@dataclass(frozen=True)
class Imports:
    """What one piece of code imports. ``modules`` must exist; ``attributes`` (from-imports) may be mere names."""

    modules: tuple[str, ...]
    attributes: tuple[str, ...]
    computed: tuple[str, ...]
    """Source of the import calls whose module name is computed, for messages."""


def source_closure(project: Project, notebook_path: str | Path) -> tuple[Path, ...]:
    """Absolute paths, sorted, of the files under src/ that the notebook at ``notebook_path`` can import.

    Raises
    ------
    ClosureError
        If an imported module of this package has no file, or a file or cell cannot be parsed.
    NotebookError
        If the notebook's text cannot be read.
    """
    return tuple(sorted(_walk(project, Path(notebook_path))))


def computed_imports(project: Project, notebook_path: str | Path) -> tuple[str, ...]:
    """``place: call`` for each import, in the notebook or its closure, whose name is computed and was not followed."""
    notebook = Path(notebook_path)
    cells = [
        f"{notebook.name}, cell {index}: {call}"
        for index, code in code_of(read_notebook(notebook))
        for call in _imports(code, "", False, f"{notebook}: cell {index}").computed
    ]
    files = [
        f"{path.relative_to(project.root).as_posix()}: {call}"
        for path, imports in sorted(_walk(project, notebook).items())
        for call in imports.computed
    ]
    return (*cells, *files)


def _walk(project: Project, notebook: Path) -> dict[Path, Imports]:
    found: dict[Path, Imports] = {}
    pending: list[tuple[str, bool, str]] = []
    for index, code in code_of(read_notebook(notebook)):
        place = f"{notebook}: cell {index}"
        pending += _wanted(_imports(code, "", False, place), place)
    seen: set[str] = set()
    while pending:
        module, required, place = pending.pop()
        if module in seen or module.split(".")[0] != PACKAGE:
            continue
        if module.endswith(".*"):
            pending += [(name, False, place) for name in _starred(project.source_root, module[:-2])]
            continue
        path = _file_of(project.source_root, module)
        if path is None:
            if required:
                raise ClosureError(
                    f"{place} imports {module}, but there is no such file under {project.source_root}"
                )
            continue  # a name inside a module, not a module: do not mark it seen, another place may require it
        seen.add(module)
        parent = module.rpartition(".")[0]
        if parent:
            pending.append((parent, True, place))
        if path not in found:
            inside = str(path)
            code = path.read_text(encoding="utf-8")
            found[path] = _imports(code, module, path.name == "__init__.py", inside)
            pending += _wanted(found[path], inside)
    return found


def _wanted(imports: Imports, place: str) -> list[tuple[str, bool, str]]:
    return [(name, True, place) for name in imports.modules] + [
        (name, False, place) for name in imports.attributes
    ]


def _file_of(source_root: Path, module: str) -> Path | None:
    stem = source_root.joinpath(*module.split("."))
    for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        if path.is_file():
            return path
    return None


def _imports(code: str, module: str, is_package: bool, place: str) -> Imports:
    try:
        return _parse(code, module, is_package)
    except SyntaxError as error:
        raise ClosureError(f"{place} is not Python ({error.msg}, line {error.lineno})") from error


@lru_cache(maxsize=512)
def _parse(code: str, module: str, is_package: bool) -> Imports:
    """Cached by content: one build asks for the same files once a notebook and profile."""
    modules: set[str] = set()
    attributes: set[str] = set()
    computed: list[str] = []
    package = module if is_package else module.rpartition(".")[0]
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node.module or "", node.level, package)
            if base is None:
                continue
            modules.add(base)
            attributes.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in _IMPORTERS:
            name = _literal_name(node, package)
            if name is None:
                computed.append(ast.unparse(node))
            else:
                modules.add(name)
    return Imports(tuple(sorted(modules)), tuple(sorted(attributes)), tuple(computed))


def _absolute(name: str, level: int, package: str) -> str | None:
    if level == 0:
        return name
    parts = package.split(".") if package else []
    if level - 1 > len(parts) or not parts:
        return None  # Python itself refuses this import when it is reached
    return ".".join([*parts[: len(parts) - (level - 1)], *([name] if name else [])])


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _literal_name(node: ast.Call, package: str) -> str | None:
    if not node.args or not isinstance(node.args[0], ast.Constant) or not isinstance(node.args[0].value, str):
        return None
    name = node.args[0].value
    level = len(name) - len(name.lstrip("."))
    return _absolute(name[level:], level, package)


def _starred(source_root: Path, module: str) -> list[str]:
    """``from package import *`` imports the submodules that the package's literal __all__ names."""
    path = _file_of(source_root, module)
    if path is None:
        return []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            try:
                return [f"{module}.{name}" for name in ast.literal_eval(node.value)]
            except ValueError:
                return []
    return []


def digest_bytes(content: bytes) -> str:
    """Hexadecimal SHA-256 of ``content``."""
    return hashlib.sha256(content).hexdigest()


__all__ = ["ClosureError", "NotebookError", "computed_imports", "digest_bytes", "source_closure"]
