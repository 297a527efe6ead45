"""Lay out everything one build of the book needs in a folder of its own.

The stage holds copies only, so a build never writes beside the sources and a killed build leaves nothing
but a folder that the next one removes:

    <stage>/_config.yml           the book's settings plus the paths of this build
    <stage>/_toc.yml
    <stage>/build.json            what the pages say about the runs (profile, commit, seconds, ...)
    <stage>/ledger.json
    <stage>/book/                 the prose, the executed notebooks, the figures
    <stage>/book/_extra/downloads/<name>/   what a reader can take away, copied as it stands
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import yaml

from attention_companion.execution.render_errors import RenderError
from attention_companion.execution.render_figures import write_verdict_figure

REPOSITORY_VARIABLE = "ATTENTION_COMPANION_REPOSITORY"

# Claim files and baselines are data of the ledger; a page that wants them reads the ledger.
#: What plots.show() displays under the runner.
_FIGURE = re.compile(
    r"```\{figure\} /figures/[^/]+/(?P<name>[a-z0-9-]+)\.svg\n:name: .*\n:alt: (?P<alt>.*)\n(?::.*\n)*\n"
    r"(?P<caption>.*?) \{download\}"
)
NOT_STAGED = ("claims", "baseline", "__pycache__", "_build", ".ipynb_checkpoints")


def stage_book(root: Path, profile: str, results: Mapping[str, Path], ledger_path: Path, stage: Path) -> Path:
    """Fill the empty folder `stage` and return the folder to hand to Jupyter Book.

    `root` is the project's root, `results` maps a notebook's name to the folder of its whole run.
    Raises `RenderError` when a needed file is missing, naming the file and what makes it.
    """
    book = stage / "book"
    shutil.copytree(
        _needed(root / "book", "a checkout of the project"), book, ignore=shutil.ignore_patterns(*NOT_STAGED)
    )
    shutil.copyfile(_needed(root / "_toc.yml", "a checkout of the project"), stage / "_toc.yml")
    ledger = _read_json(_needed(ledger_path, "the ledger step of `make book`"))
    _write_json(stage / "ledger.json", ledger)

    config = yaml.safe_load(_needed(root / "_config.yml", "a checkout of the project").read_text("utf-8"))
    repository = repository_url(config)
    for page in book.rglob("*.md"):
        # The one placeholder: pages that show the address carry the same text as _config.yml.
        page.write_text(page.read_text("utf-8").replace(config["repository"]["url"], repository), "utf-8")
    runs = {name: _stage_notebook(root, name, folder, book) for name, folder in sorted(results.items())}
    figure = write_verdict_figure(ledger, book / "figures")
    _write_json(
        stage / "build.json",
        {
            "profile": profile,
            "verdict_figure": figure,
            "generated": ledger.get("generated"),
            "repository": repository,
            "branch": config["repository"]["branch"],
            "runs": runs,
        },
    )
    config["sphinx"]["config"]["html_theme_options"]["extra_footer"] = edition(
        profile, ledger.get("generated"), runs
    )
    _write_config(config, repository, stage)
    return book


def made_from(run: Mapping[str, Any]) -> str:
    """Commit of a run (result.json), saying so when files were changed beside it."""
    provenance = run["provenance"]
    commit = (provenance.get("commit") or "no commit")[:12]
    return f"{commit} with uncommitted changes" if provenance.get("dirty") else commit


def when(moment: str | None) -> str:
    """An ISO time to the minute, as people write it; what is not one is returned as it stands."""
    try:
        parsed = datetime.fromisoformat(moment or "")
    except ValueError:
        return moment or "an unknown date"
    zone = "" if parsed.tzinfo is None or len(moment or "") <= 10 else " UTC"
    parsed = parsed if parsed.tzinfo is None else parsed.astimezone(UTC)
    return f"{parsed:%Y-%m-%d}" if len(moment or "") <= 10 else f"{parsed:%Y-%m-%d %H:%M}{zone}"


def edition(profile: str, generated: str | None, runs: Mapping[str, Mapping[str, Any]]) -> str:
    """The sentence at the foot of every page, as HTML: profile, date and commit of its numbers."""
    commits = ", ".join(sorted({made_from(run) for run in runs.values()})) or "no commit"
    return escape(f"Numbers of this book: profile {profile}, runs up to {when(generated)}, commit {commits}.")


def repository_url(config: Mapping[str, Any]) -> str:
    """The repository's address: the environment's if set, else the one placeholder in _config.yml."""
    url = os.environ.get(REPOSITORY_VARIABLE) or config["repository"]["url"]
    if not url.startswith("https://") or url.rstrip("/").count("/") < 4:
        raise RenderError(
            f"the repository's address is {url!r}; expected https://HOST/OWNER/NAME. "
            f"Mend {REPOSITORY_VARIABLE} or `repository: url:` in _config.yml."
        )
    return url.rstrip("/")


def _stage_notebook(root: Path, name: str, folder: Path, book: Path) -> dict[str, Any]:
    """Copy one run into the stage; return what the chapter's foot says about it (result.json)."""
    executed = _read_json(_needed(folder / "executed.ipynb", f"a whole run of {name}"))
    result = _read_json(_needed(folder / "result.json", f"a whole run of {name}"))
    _strip_run_traces(executed)
    page = book / "notebooks" / f"{name}.ipynb"
    page.parent.mkdir(exist_ok=True)
    _write_json(page, executed)

    takeaway = book / "_extra" / "downloads" / name
    takeaway.mkdir(parents=True)
    for suffix in (".ipynb", ".md"):
        source = _needed(root / "notebooks" / f"{name}{suffix}", "a checkout of the project")
        shutil.copyfile(source, takeaway / source.name)
    figures = folder / "figures"
    _write_json(takeaway / f"{name}-executed.ipynb", with_pictures(executed, figures))

    if figures.is_dir():
        shutil.copytree(figures, book / "figures" / name)
        result["figures"] = sorted({p.stem for p in figures.iterdir()})
    return result


def with_pictures(notebook: dict[str, Any], figures: Path) -> dict[str, Any]:
    """A copy of an executed notebook in which figures are pictures; on the page they are directives and files."""
    copy = json.loads(json.dumps(notebook))
    for output in (o for cell in copy["cells"] for o in cell.get("outputs", ())):
        data = output.get("data", {})
        found = _FIGURE.match("".join(data.get("text/markdown", ())))
        picture = figures / f"{found['name']}.png" if found else None
        if found and picture is not None and picture.is_file():
            data["image/png"] = base64.b64encode(picture.read_bytes()).decode("ascii")
            data["text/plain"] = f"{found['alt']} ({found['caption'].strip()})"
            del data["text/markdown"]
    return copy


def _strip_run_traces(notebook: dict[str, Any]) -> None:
    """Remove what papermill notes about the machine (absolute paths, clock times) from a notebook."""
    notebook["metadata"].pop("papermill", None)
    for cell in notebook["cells"]:
        for key in ("papermill", "execution"):
            cell["metadata"].pop(key, None)


def _write_config(config: dict[str, Any], repository: str, stage: Path) -> None:
    config["repository"]["url"] = repository
    settings = config["sphinx"]["config"]
    settings["ledger_path"] = str(stage / "ledger.json")
    settings["companion_build"] = str(stage / "build.json")
    if (stage / "book" / "_extra").is_dir():
        settings["html_extra_path"] = ["_extra"]
    (stage / "_config.yml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")


def _needed(path: Path, maker: str) -> Path:
    if not path.exists():
        raise RenderError(f"{path} is missing; {maker} holds it.")
    return path


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise RenderError(
            f"{path} is not JSON ({error}); remove its folder and run `make book` again."
        ) from error


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
