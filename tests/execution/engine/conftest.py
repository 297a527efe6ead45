"""A small project around the real Snakefile: two short notebooks, one data set, stand-ins for pages and images.

The graph, the keys, the runner, the sweep and the ledger are the real code, copied so that tests may edit it. What
would cost minutes is replaced in the copy: rendering writes one page, and the data set is a small file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]

NOTEBOOK = """\
---
jupytext:
  formats: md:myst,ipynb
  text_representation: {{extension: .md, format_name: myst}}
kernelspec: {{display_name: Python 3, language: python, name: python3}}
---

# {name}

```{{code-cell}} ipython3
:tags: [parameters]

pause: float = 0.0  # seconds to sleep
```

```{{code-cell}} ipython3
import time
from pathlib import Path
from attention_companion.{module} import answer

with Path("../executions.log").open("a") as log:
    log.write("{name}\\n")
time.sleep(pause)
answer()
```
"""

SOURCES = {
    "tiny_common.py": "VALUE = 20\n",
    "tiny_a.py": "from attention_companion.tiny_common import VALUE\n\n\ndef answer():\n    return VALUE + 1\n",
    "tiny_b.py": (
        "def answer():\n"
        "    from attention_companion.tiny_far import VALUE  # reached only from inside a function\n\n"
        "    return VALUE + 2\n"
    ),
    "tiny_far.py": "VALUE = 40\n",
    "tiny_unused.py": "VALUE = 0\n",
}

# The interface of the real package: status(name).kind and .trusted, and the entry that the Snakefile calls.
DATASETS = '''\
import hashlib, json, os, sys
from pathlib import Path
from types import SimpleNamespace

CACHE = Path(os.environ["ATTENTION_COMPANION_CACHE"])

def status(name):
    kind = "full" if (CACHE / name).exists() else "unavailable"
    return SimpleNamespace(name=name, kind=kind, trusted=not (CACHE / (name + ".touched")).exists())

def stamp(name):
    digest = hashlib.sha256((CACHE / name).read_bytes()).hexdigest()
    return {"name": name, "kind": "full", "digest": {"train": digest}}

def fetch(name, target):
    with (CACHE / "fetches.log").open("a") as log:
        log.write(name + "\\n")
    (CACHE / (name + ".touched")).unlink(missing_ok=True)
    if not (CACHE / name).exists():
        (CACHE / name).write_text((CACHE / (name + ".remote")).read_text())
    text = json.dumps(stamp(name))
    fresh = target.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, target)
'''
DATASETS_MAIN = '''\
import sys
from pathlib import Path
from attention_companion.datasets import fetch

action, name, flag, path = sys.argv[1:]
assert (action, flag) == ("fetch", "--stamp")
fetch(name, Path(path))
'''
RENDER = '''\
import os, shutil, tempfile
from pathlib import Path

def render(project, profile, results, ledger_path, out):
    """One page that names the runs; refuses when the prose says so."""
    if "broken" in (project.root / "book" / "index.md").read_text():
        raise RuntimeError("the prose is broken")
    out.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=".stage-", dir=out.parent))
    page = (project.root / "book" / "index.md").read_text() + "".join(p.name for p in results.values())
    (stage / "index.html").write_text(page)
    if out.exists():
        shutil.rmtree(out)
    os.rename(stage, out)
    with (project.root / "renders.log").open("a") as log:
        log.write(profile + "\\n")
'''

# The real ledger wants at least one claim; this one waits for a check.
CLAIM = {
    "tag": "NTK-TINY", "paper": "ntk", "place": "nowhere", "source": "ours", "mark": "A", "kind": "observation",
    "statement": "The answer is 21.", "quantifies": "one number", "expectation":
    {"operator": "eq", "value": 21, "reason": "20 + 1"}, "control": "another number", "refuted_by": "another number",
    "stops_holding": "elsewhere", "not_checked": "a stand-in",
}


@dataclass
class Mini:
    """The small project; `root` holds a space on purpose."""

    root: Path
    cache: Path

    def environment(self, **changes: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("ATTENTION_COMPANION_", "SNAKEMAKE", "PYTEST"))}
        kept.pop("CI", None)
        return {**kept, "PYTHONPATH": str(self.root / "src"), "ATTENTION_COMPANION_CACHE": str(self.cache),
                "PYTHONDONTWRITEBYTECODE": "1", **changes}

    def command(self, target: str, *options: str) -> list[str]:
        return [sys.executable, "-m", "attention_companion.execution.engine", target, "--cores", "2", *options]

    def build(self, target: str = "book", *options: str, ok: bool = True, **changes: str) -> str:
        """Run the engine to its end; what it printed. Fails when its exit code is not as expected."""
        done = subprocess.run(self.command(target, *options), cwd=self.root, env=self.environment(**changes),
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180)
        assert (done.returncode == 0) == ok, f"exit {done.returncode}\n{done.stdout}\n{self.log()}"
        return done.stdout

    def snakemake(self, *arguments: str, ok: bool = True, **changes: str) -> str:
        """Run Snakemake bare, as on a cluster's login node."""
        done = subprocess.run([sys.executable, "-m", "snakemake", *arguments], cwd=self.root, text=True,
                              env=self.environment(**changes), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=180)
        assert (done.returncode == 0) == ok, f"exit {done.returncode}\n{done.stdout}"
        return done.stdout

    def start(self, target: str = "book", *options: str) -> subprocess.Popen[str]:
        """Start the engine in a process group of its own."""
        return subprocess.Popen(self.command(target, *options), cwd=self.root, env=self.environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def executed(self) -> list[str]:
        """Names of the notebooks executed since the last call, sorted."""
        return self._taken(self.root / "executions.log")

    def rendered(self) -> list[str]:
        return self._taken(self.root / "renders.log")

    def fetched(self) -> list[str]:
        return self._taken(self.cache / "fetches.log")

    def forget(self) -> None:
        """Start counting anew."""
        for taken in (self.executed, self.rendered, self.fetched):
            taken()

    def log(self) -> str:
        path = self.root / "results" / ".logs" / "snakemake.log"
        return path.read_text() if path.exists() else "(no log)"

    def results(self, notebook: str, profile: str = "quick") -> list[Path]:
        return sorted((self.root / "results" / profile / notebook).glob("*/result.json"))

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def source(self, name: str) -> str:
        return f"src/attention_companion/{name}"

    def wait_for(self, condition: str, seconds: float = 60.0) -> Path:
        """Wait until a path matching the glob `condition` exists below the root; return it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = sorted(self.root.glob(condition))
            if found:
                return found[0]
            time.sleep(0.02)
        raise AssertionError(f"no {condition} within {seconds} s\n{self.log()}")

    def _taken(self, log: Path) -> list[str]:
        lines = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return sorted(lines)


def make_mini(root: Path, cache: Path, pause: float = 0.0) -> Mini:
    """Lay out the small project in the new folder `root`."""
    package = root / "src" / "attention_companion"
    hidden = shutil.ignore_patterns("__pycache__", "sample", "sources.yml")
    shutil.copytree(REPOSITORY / "src" / "attention_companion", package, ignore=hidden)
    shutil.rmtree(package / "datasets")
    (package / "datasets").mkdir()
    (package / "datasets" / "__init__.py").write_text(DATASETS)
    (package / "datasets" / "__main__.py").write_text(DATASETS_MAIN)
    for path in (package / "execution").glob("render*.py"):
        path.unlink()
    (package / "execution" / "render.py").write_text(RENDER)
    for name, text in SOURCES.items():
        (package / name).write_text(text)
    for name in ("Snakefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, root / name)
    shutil.copytree(REPOSITORY / "profiles", root / "profiles")
    shutil.copytree(REPOSITORY / "tools", root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("claims", "baseline"):
        (root / "book" / name).mkdir(parents=True)
    (root / "book" / "claims" / "tiny.yml").write_text(json.dumps({"claims": [CLAIM]}))
    (root / "book" / "index.md").write_text("# Small\n")
    (root / "notebooks").mkdir()
    listed = []
    for name, module, data in (("alpha", "tiny_a", []), ("beta", "tiny_b", ["mnist"])):
        (root / "notebooks" / f"{name}.md").write_text(NOTEBOOK.format(name=name, module=module))
        profiles = {"quick": {"pause": pause}, "full": {"pause": pause + 0.01}}
        listed.append({"name": name, "part": 1, "data": data, "profiles": profiles})
    (root / "notebooks" / "notebooks.yml").write_text(json.dumps({"notebooks": listed}, indent=1))
    cache.mkdir()
    (cache / "mnist.remote").write_text("images")
    return Mini(root, cache)


@pytest.fixture
def mini(tmp_path: Path) -> Mini:
    """A small project that nothing has been built in."""
    return make_mini(tmp_path / "small project", tmp_path / "cache")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Mini:
    """One small project for a module, built once; tests leave it built."""
    folder = tmp_path_factory.mktemp("shared")
    built = make_mini(folder / "small project", folder / "cache")
    built.build()
    return built


@pytest.fixture
def built(shared: Mini) -> Mini:
    """The shared project, with nothing executed, rendered or fetched since."""
    shared.forget()
    return shared
