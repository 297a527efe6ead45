"""Where a result came from: the commit, the machine, the versions, the cost."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "numpy", "scipy", "torch", "python-flint", "matplotlib", "ipykernel", "nbclient", "jupytext", "papermill",
)  # fmt: skip


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """(commit, dirty) of the repository at ``root``; (None, None) where it is none or git is missing."""
    commit = _output(["git", "-C", str(root), "rev-parse", "HEAD"])
    if commit is None:
        return None, None
    status = _output(["git", "-C", str(root), "status", "--porcelain"])
    return commit, None if status is None else bool(status)


def cpu_model() -> str:
    """The processor's name: /proc/cpuinfo on Linux, sysctl on macOS, else what Python knows."""
    if sys.platform.startswith("linux"):
        fields: dict[str, str] = {}
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
        for name in ("model name", "Model", "Hardware", "cpu"):
            if fields.get(name):
                return fields[name]
    if sys.platform == "darwin":
        brand = _output(["sysctl", "-n", "machdep.cpu.brand_string"])
        if brand:
            return brand
    return platform.processor() or platform.machine()


def package_versions() -> dict[str, str]:
    """Versions of the packages that make numbers or run notebooks, those that are installed."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def collect(root: Path, kernel: dict[str, Any], *, started: str, seconds: float, threads: int) -> dict[str, Any]:
    """The provenance block of result.json.

    ``kernel`` is kernel.json as kernel_hooks.py wrote it; ``started`` an ISO 8601 time in UTC; ``seconds`` the wall
    time of the run from kernel start to shutdown. Memory is in bytes.
    """
    commit, dirty = git_state(root)
    return {
        "commit": commit,
        "dirty": dirty,
        "started": started,
        "seconds": round(seconds, 3),
        "peak_memory_bytes": kernel["peak_memory_bytes"],
        "cpu": cpu_model(),
        "blas": kernel["blas"],
        "threads": threads,
        "thread_pools": kernel["threads"]["pools"],
        "python": kernel["python"],
        "platform": platform.platform(),
        "packages": package_versions(),
    }


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
