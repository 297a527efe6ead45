"""Runs inside the kernel: after each cell, writes down what this process is and what it has used.

The runner loads this file by its path (not as part of the package), so that hooking a kernel loads no module of the
project into it. ``$ATTENTION_COMPANION_RUN_DIR/kernel.json`` is replaced after every cell; after the last one it
holds::

    {"pid", "executable", "python", "peak_memory_bytes", "modules": {name: file}, "threads": {...}, "blas", "cells"}
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

PACKAGE = "attention_companion"
_state: dict[str, Any] = {"cells": 0, "modules": {}, "torch_threads": 0}


def peak_memory_bytes() -> int:
    """Largest resident size so far, in bytes, of this process or of one of its ended children.

    Linux: the high-water mark of this program's own memory (VmHWM). ``ru_maxrss`` would be wrong there: it survives
    fork and exec, so that a kernel started by a large process seems large itself. Elsewhere ``ru_maxrss``, in bytes on
    macOS and kibibytes on other systems.
    """
    children = _maxrss(resource.RUSAGE_CHILDREN)
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            own = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        own = _maxrss(resource.RUSAGE_SELF)
    return max(own, children)


def _maxrss(who: int) -> int:
    return resource.getrusage(who).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def loaded_modules() -> dict[str, str]:
    """Module name -> file of everything of this project's package that is loaded."""
    return {
        name: os.path.realpath(getattr(module, "__file__", None) or "")
        for name, module in list(sys.modules.items())
        if (name == PACKAGE or name.startswith(f"{PACKAGE}.")) and module is not None
    }


def blas() -> str:
    """The linear algebra libraries of the numerics already loaded; loads nothing itself."""
    found = []
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        built = numpy.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
        found.append(f"numpy: {built.get('name', 'unknown')} {built.get('version', '')}".strip())
    torch = sys.modules.get("torch")
    if torch is not None:
        library = "MKL" if torch.backends.mkl.is_available() else "no MKL"
        found.append(f"torch: {library}, {torch.backends.cpu.get_cpu_capability()}")
    return "; ".join(found)


def thread_pools() -> list[dict[str, Any]]:
    """What threadpoolctl reports of the pools loaded, without machine paths; empty where it is not installed."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    return [
        {key: pool.get(key) for key in ("user_api", "internal_api", "version", "num_threads")}
        for pool in threadpool_info()
    ]


def report() -> dict[str, Any]:
    """The content of kernel.json, as of now."""
    _state["modules"].update(loaded_modules())
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        # The largest seen: a cell may raise the number and a later one lower it again.
        _state["torch_threads"] = max(_state["torch_threads"], torch.get_num_threads())
    return {
        "pid": os.getpid(),
        "executable": sys.executable,
        "python": sys.version.split()[0],
        "peak_memory_bytes": peak_memory_bytes(),
        "modules": dict(sorted(_state["modules"].items())),
        "threads": {"torch": _state["torch_threads"], "pools": thread_pools()},
        "blas": blas(),
        "cells": _state["cells"],
    }


def write_report(_result: Any = None) -> None:
    """Replace kernel.json by the report of now (the signature is that of IPython's post_run_cell event)."""
    _state["cells"] += 1
    target = os.path.join(os.environ["ATTENTION_COMPANION_RUN_DIR"], "kernel.json")
    with open(f"{target}.new", "w", encoding="utf-8") as file:
        json.dump(report(), file)
    os.replace(f"{target}.new", target)


def install(shell: Any) -> None:
    """Register the hook with an IPython shell."""
    shell.events.register("post_run_cell", write_report)
