"""The graph's names: which file stands for which whole piece of work, computed from contents alone.

    data set      results/data/<name>.json                            a stamp: the digest of the decoded images
    notebook run  results/<profile>/<notebook>/<key>/result.json
    ledger        results/<profile>/ledger-<key>.json
    check         results/<profile>/check-<key>.json                  written only when the ledger agrees
    book          _build/html/.key-<key>       (profile full: _build/full/html)
    figures       _build/figures-<profile>/.key-<key>

Each key digests everything the piece is made from, so a piece that exists under its key need not be made
again and a piece whose ingredients changed has another name. No modification time is read. The Snakefile
asks this module for names and adds the order and the commands; `freshness` removes pieces that are not whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attention_companion.execution.project import Project

KEY_LENGTH = 20
MARKER = ".key-"
# Left by editors and interpreters in any folder; never part of what a page says.
IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints", "_build", ".DS_Store"})
# The address under which readers find the sources; it stands in every page's launch link.
PAGE_ENVIRONMENT = ("ATTENTION_COMPANION_REPOSITORY",)


class Graph:
    """Paths of every piece of work of one project, relative to its root (as Snakemake wants them).

    Keys are computed once per instance: make a new one after a source or a stamp has changed.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.root = Path(project.root)
        self._cache: dict[tuple[str, ...], str] = {}

    # -- what there is ---------------------------------------------------------------------------------

    def notebooks(self) -> tuple[str, ...]:
        """Names of the notebooks, in the order of notebooks.yml."""
        return tuple(spec.name for spec in self.project.notebooks)

    def profiles(self) -> tuple[str, ...]:
        """Names of the profiles that notebooks.yml speaks of, in order of first mention."""
        return tuple(dict.fromkeys(name for spec in self.project.notebooks for name in spec.profiles))

    def data(self, notebook: str | None = None) -> tuple[str, ...]:
        """Names of the data sets that one notebook (or, without a name, any notebook) loads."""
        specs = self.project.notebooks if notebook is None else (self.project.notebook(notebook),)
        return tuple(dict.fromkeys(name for spec in specs for name in spec.data))

    # -- names of pieces -------------------------------------------------------------------------------

    def stamp(self, data: str) -> Path:
        """Path of the stamp of a data set."""
        return Path("results", "data", f"{data}.json")

    def key(self, profile: str, notebook: str) -> str:
        """Key of a notebook's run; every stamp the notebook needs must exist."""
        return self._once(("run", profile, notebook), lambda: self._run_key(profile, notebook))

    def result(self, profile: str, notebook: str) -> Path:
        """Path of the result.json of a notebook's run."""
        return Path("results", profile, notebook, self.key(profile, notebook), "result.json")

    def results(self, profile: str) -> dict[str, Path]:
        """Paths of all result.json files of a profile, by notebook."""
        return {name: self.result(profile, name) for name in self.notebooks()}

    def ledger(self, profile: str) -> Path:
        """Path of the ledger made from the runs of a profile."""
        return Path("results", profile, f"ledger-{self.ledger_key(profile)}.json")

    def check(self, profile: str) -> Path:
        """Path of the note that the ledger of a profile agrees with its baseline."""
        return Path("results", profile, f"check-{self.check_key(profile)}.json")

    def book_folder(self, profile: str) -> Path:
        """Folder of the rendered pages; quick and full never share one."""
        return Path("_build", "html") if profile == "quick" else Path("_build", profile, "html")

    def book(self, profile: str) -> Path:
        """Path of the marker inside the rendered book."""
        return self.book_folder(profile) / f"{MARKER}{self.book_key(profile)}"

    def figures_folder(self, profile: str) -> Path:
        """Folder of the exported figures; a zip of the same name stands beside it."""
        return Path("_build", f"figures-{profile}")

    def figures(self, profile: str) -> Path:
        """Path of the marker inside the exported figures."""
        return self.figures_folder(profile) / f"{MARKER}{self.figures_key(profile)}"

    # -- keys ------------------------------------------------------------------------------------------

    def ledger_key(self, profile: str) -> str:
        """Digest of the runs, the claims, the accepted baseline and the code that turns records into verdicts."""
        return self._once(("ledger", profile), lambda: key_of({
            "profile": profile,
            "runs": {name: self.key(profile, name) for name in self.notebooks()},
            "notebooks.yml": file_digest(self.root / "notebooks" / "notebooks.yml"),
            "claims": self._tree("book/claims"),
            "baseline": self._tree("book/baseline"),
            "code": self._tree("src/attention_companion/ledger", suffix=".py"),
        }))

    def check_key(self, profile: str) -> str:
        """Digest of the ledger and of how strict the check is: CI asks for more, so its checks are its own."""
        return self._once(("check", profile), lambda: key_of({
            "ledger": self.ledger_key(profile), "ci": in_ci(),
        }))

    def book_key(self, profile: str) -> str:
        """Digest of the ledger, the prose, the notebooks as they lie and the code that renders."""
        execution = Path("src", "attention_companion", "execution")
        renderers = [*sorted((self.root / execution).glob("render*.py")), self.root / execution / "csp.py"]
        return self._once(("book", profile), lambda: key_of({
            "ledger": self.ledger_key(profile),
            "pages": self._tree("book"),
            "notebooks": self._tree("notebooks"),
            "settings": [optional_digest(self.root / name) for name in ("_config.yml", "_toc.yml")],
            "versions": optional_digest(self.root / "constraints.txt"),
            "code": {path.name: optional_digest(path) for path in renderers},
            "environment": {name: os.environ.get(name) for name in PAGE_ENVIRONMENT},
        }))

    def figures_key(self, profile: str) -> str:
        """Digest of the ledger and the code that exports."""
        return self._once(("figures", profile), lambda: key_of({
            "ledger": self.ledger_key(profile), "code": file_digest(Path(__file__).with_name("export.py")),
        }))

    # -- inside ----------------------------------------------------------------------------------------

    def _run_key(self, profile: str, notebook: str) -> str:
        from attention_companion.execution.keys import compute_key

        return str(compute_key(self.project, notebook, profile).key)

    def _tree(self, folder: str, suffix: str = "") -> dict[str, str]:
        return tree_digests(self.root / folder, suffix)

    def _once(self, name: tuple[str, ...], compute: Any) -> str:
        if name not in self._cache:
            self._cache[name] = compute()
        return self._cache[name]


# What a target consists of besides the runs themselves; the Snakefile's targets and the engine both read it here.
PIECES: dict[str, tuple[Callable[[Graph, str], Path], ...]] = {
    "book": (Graph.book, Graph.check),
    "figures": (Graph.figures,),
    "results": (),
}


def is_current(graph: Graph, target: str, profile: str) -> bool:
    """Whether every piece of a target exists under its name, so that there is nothing for Snakemake to do.

    Raises what computing a key raises, except that a missing stamp simply means no.
    """
    if not all((graph.root / graph.stamp(name)).exists() for name in graph.data()):
        return False
    wanted = [*graph.results(profile).values(), *(path(graph, profile) for path in PIECES[target])]
    return all((graph.root / path).exists() for path in wanted)


def in_ci() -> bool:
    """Whether the environment says CI=true (nothing is skipped, "not compared" is an error)."""
    return os.environ.get("CI", "").lower() in {"true", "1"}


def key_of(ingredients: Mapping[str, Any]) -> str:
    """First 20 hexadecimal digits of the sha256 of a canonical JSON text."""
    text = json.dumps(ingredients, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes, hexadecimal. Raises FileNotFoundError."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def optional_digest(path: Path) -> str | None:
    """`file_digest`, or None when there is no such file."""
    return file_digest(path) if path.is_file() else None


def tree_digests(folder: Path, suffix: str = "") -> dict[str, str]:
    """sha256 of every file below `folder` by its path relative to it; {} when there is no folder."""
    return {path.relative_to(folder).as_posix(): file_digest(path)
            for path in sorted(_files(folder)) if path.name.endswith(suffix)}


def _files(folder: Path) -> Iterable[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in IGNORED]
        yield from (Path(parent, name) for name in files if name not in IGNORED)
