"""What ``companion doctor`` looks at on the machine: interpreter, packages, threads, disk, browser, kernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from attention_companion.cli.console import size
from attention_companion.cli.findings import Finding, broken, note, ok

if TYPE_CHECKING:
    from attention_companion.execution.project import Project

INSTALL = "`make book` from the project's folder, or: pip install -c constraints.txt -e '.[test]'"
DISTRIBUTION = "attention-companion"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A whole environment with the CPU build of torch takes about 2 GB, the data and results less than 1 GB.
COMFORTABLE_BYTES = 5e9
NEEDED_BYTES = 5e8
KERNEL_SECONDS = 60


def python(project: Project) -> Sequence[Finding]:
    """Whether this interpreter is one that the project allows, in an environment of its own."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        mend = "make .venv with another: python3.11 -m venv .venv"
        return [broken("python", f"{version} is not between 3.11 and 3.13", mend)]
    if sys.version_info[:2] != (3, 11):
        return [note("python", f"{version} ({sys.executable}); only 3.11 was built whole")]
    return [ok("python", f"{version} ({sys.executable})")]


def versions(project: Project) -> Sequence[Finding]:
    """Every package that the project needs against its pin in constraints.txt."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    try:
        needed = [Requirement(line) for line in metadata.requires(DISTRIBUTION) or ()]
    except metadata.PackageNotFoundError:
        return [broken("versions", f"{DISTRIBUTION} is not installed in {sys.prefix}", INSTALL)]
    # Extras are conveniences: pytest missing does not break a build of the book.
    plain = [r for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    names: set[str] = {canonicalize_name(r.name) for r in plain}
    installed: dict[str, str] = {canonicalize_name(d.name): d.version for d in metadata.distributions()}
    constraints = (project.root / "constraints.txt").read_text(encoding="utf-8")
    return compare_versions(names, installed, pinned_versions(constraints))


def pinned_versions(constraints: str) -> dict[str, str]:
    """Name -> version for the lines of constraints.txt whose marker holds for this interpreter and platform."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    pins: dict[str, str] = {}
    for line in constraints.splitlines():
        if line.strip() and not line.startswith("#"):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate():
                (specifier,) = requirement.specifier
                pins[canonicalize_name(requirement.name)] = specifier.version
    return pins


def compare_versions(needed: set[str], installed: Mapping[str, str], pins: Mapping[str, str]) -> list[Finding]:
    """A missing package is broken, another than the pinned version worth knowing. ``+cpu`` and the like are equal."""
    missing = sorted(name for name in needed if name not in installed)
    other = sorted(
        f"{name} {installed[name]} (pinned {pins[name]})"
        for name in set(installed) & set(pins) - {"pip", "setuptools", "wheel"}
        if installed[name].split("+")[0] != pins[name]
    )
    findings = []
    if missing:
        findings.append(broken("versions", f"missing: {', '.join(missing)}", INSTALL))
    if other:
        text = f"not as pinned, so numbers may drift: {', '.join(other)}"
        findings.append(note("versions", text, INSTALL))
    return findings or [ok("versions", f"the {len(needed)} packages needed are here, as pinned")]


def threads(project: Project) -> Sequence[Finding]:
    """How many cores there are, and that notebooks do not depend on it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ}
    said = f"; {', '.join(f'{name}={value}' for name, value in asked.items())} in this shell" if asked else ""
    return [ok("threads", f"{cores} cores: as many notebooks at once, one thread each, whatever the shell says{said}")]


def disk(project: Project) -> Sequence[Finding]:
    """Free space where results and pages are written."""
    free = shutil.disk_usage(project.root).free
    if free < NEEDED_BYTES:
        mend = "free some: `make clean` removes what can be made again"
        return [broken("disk", f"{size(free)} free at {project.root}", mend)]
    if free < COMFORTABLE_BYTES:
        return [note("disk", f"{size(free)} free at {project.root}; a new environment needs about 2 GB")]
    return [ok("disk", f"{size(free)} free")]


def find_browser() -> str | None:
    """Path of a Chromium for the browser tests, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def browser(project: Project) -> Sequence[Finding]:
    """A Chromium, which `make test` needs and `make book` does not."""
    path = find_browser()
    if path is None:
        mend = "install chromium with your system's package manager (Debian: apt-get install chromium)"
        seen = "no Chromium found: `make test` cannot drive the pages, `make book` is not affected"
        return [note("browser", seen, mend)]
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
    version = re.search(r"[\d.]+\d", done.stdout)
    if done.returncode != 0 or version is None:
        return [note("browser", f"{path} does not start: {done.stderr.strip()[:200]}", "reinstall it")]
    return [ok("browser", f"Chromium {version.group()} ({path})")]


def kernel(project: Project) -> Sequence[Finding]:
    """Whether a kernel of this environment starts and answers, with no other environment's kernel in its place."""
    reply = ask_kernel("import sys; print(sys.prefix)")
    if Path(reply).resolve() != Path(sys.prefix).resolve():
        return [broken("kernel", f"the kernel that started belongs to {reply}, not to {sys.prefix}", INSTALL)]
    return [ok("kernel", "starts and answers")]


def ask_kernel(code: str) -> str:
    """What ``code`` prints in a fresh kernel of this interpreter.

    Raises
    ------
    RuntimeError
        If the kernel does not start or does not answer within KERNEL_SECONDS.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    # A kernel spec of our own: JUPYTER_PATH and a person's own specs may lead to another environment.
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=argv, language="python", display_name="python3")
    said: list[str] = []

    def collect(message: Mapping[str, object]) -> None:
        content = message["content"]
        if message["msg_type"] == "stream" and isinstance(content, dict):
            said.append(str(content["text"]))

    with tempfile.TemporaryFile("w+") as complaints:
        manager.start_kernel(stdout=complaints, stderr=complaints)
        client = manager.client()
        try:
            client.start_channels()
            client.wait_for_ready(timeout=KERNEL_SECONDS)
            client.execute_interactive(code, timeout=KERNEL_SECONDS, output_hook=collect)
        except (RuntimeError, TimeoutError) as error:
            complaints.seek(0)
            last = complaints.read().strip().splitlines()[-1:]
            raise RuntimeError(f"{error}; it last said: {last[0] if last else 'nothing'}") from error
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()
    return "".join(said).strip()
