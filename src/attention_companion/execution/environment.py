"""The environment a guarded kernel runs in: what is handed down, what is cleared, what is set.

This file, kernel_hooks.py and guard_site/sitecustomize.py are the harness. Its digest is part of every result's key,
because a change here may change every result; the rest of the runner may change freely.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
GUARD_SITE = HERE / "guard_site"
HOOKS = HERE / "kernel_hooks.py"
HARNESS_FILES = (
    Path(__file__).resolve(),
    HOOKS,
    GUARD_SITE / "sitecustomize.py",
    GUARD_SITE / "matplotlibrc",
)

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "VECLIB_NUM_THREADS",
)

# Inherited settings that could change numbers, figures, the code loaded or the kernel chosen.
CLEARED_PREFIXES = (
    "ATEN_", "ATTENTION_COMPANION_", "BLIS_", "GOTO_", "IPYTHON", "IPY_", "JPY_", "JUPYTER_", "KMP_", "MATPLOTLIB",
    "MKL_", "MPL", "NPY_", "NUMEXPR_", "NUMPY_", "OMP_", "OPENBLAS_", "PAPERMILL_", "PYDEVD_", "PYTHON", "PYTORCH_",
    "TORCH", "VECLIB_",
)  # fmt: skip
KEPT = frozenset({"ATTENTION_COMPANION_CACHE"})
FIXED = {
    "ATTENTION_COMPANION_NO_NETWORK": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "TZ": "UTC",
    "MATPLOTLIBRC": str(GUARD_SITE / "matplotlibrc"),
}


def kernel_environment(
    inherited: Mapping[str, str],
    *,
    root: Path,
    run_dir: Path,
    scratch: Path,
    notebook: str,
    profile: str,
    threads: int = 1,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of one kernel.

    ``inherited`` without what could change a result; then the fixed values, ``threads`` for every library, the
    project's src/ behind the guard on PYTHONPATH, this run's own variables; last ``extra`` (drift tests).
    """
    env = {
        name: value
        for name, value in inherited.items()
        if name in KEPT or not name.upper().startswith(CLEARED_PREFIXES)
    }
    env.update(FIXED)
    env.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    env["PYTHONPATH"] = os.pathsep.join([str(GUARD_SITE), str(root / "src")])
    # A person's IPython start-up files and Jupyter settings stay out; so do their kernels.
    env["IPYTHONDIR"] = str(scratch / "ipython")
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        env[name] = str(scratch / "jupyter")
    env["JUPYTER_PATH"] = ""
    env["ATTENTION_COMPANION_KERNEL_PARENT"] = str(os.getpid())
    env["ATTENTION_COMPANION_RUN_DIR"] = str(run_dir)
    env["ATTENTION_COMPANION_NOTEBOOK"] = notebook
    env["ATTENTION_COMPANION_PROFILE"] = profile
    env["ATTENTION_COMPANION_ROOT"] = str(root)
    env.update(extra or {})
    return env


def hook_line() -> str:
    """The line that the kernel runs at start-up: load kernel_hooks.py by path and install it."""
    return (
        "import importlib.util as _u; "
        f"_s = _u.spec_from_file_location('companion_kernel_hooks', {str(HOOKS)!r}); "
        "_m = _u.module_from_spec(_s); _s.loader.exec_module(_m); _m.install(get_ipython()); del _u, _s, _m"
    )


def harness_digest() -> str:
    """SHA-256 over the harness files (name and content)."""
    digest = hashlib.sha256()
    for path in HARNESS_FILES:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
