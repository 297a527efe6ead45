"""What a kernel inherits, what is cleared, what its report says."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import types
from pathlib import Path

import pytest

from attention_companion.execution.environment import (
    GUARD_SITE,
    HOOKS,
    THREAD_VARIABLES,
    kernel_environment,
)
from attention_companion.execution.runner import run


def environment(inherited=None, **options):
    arguments = {"root": Path("/p"), "run_dir": Path("/p/r"), "scratch": Path("/p/s"), "notebook": "n", "profile": "q"}
    return kernel_environment(inherited or {}, **{**arguments, **options})


def test_one_thread_for_every_library_unless_told_otherwise():
    assert {environment()[name] for name in THREAD_VARIABLES} == {"1"}
    assert {environment({"OMP_NUM_THREADS": "8"}, threads=2)[name] for name in THREAD_VARIABLES} == {"2"}


@pytest.mark.parametrize(
    "name",
    [
        "ATEN_CPU_CAPABILITY", "OPENBLAS_CORETYPE", "MKL_CBWR", "KMP_AFFINITY", "NPY_DISABLE_CPU_FEATURES",
        "MPLBACKEND", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONOPTIMIZE",
        "JUPYTER_PREFER_ENV_PATH", "JPY_PARENT_PID", "MPLCONFIGDIR", "ATTENTION_COMPANION_PROFILE_X",
    ],
)  # fmt: skip
def test_settings_that_could_change_a_result_are_cleared(name):
    assert name not in environment({name: "x"})


def test_the_rest_is_handed_down_and_extra_wins():
    env = environment({"HOME": "/h", "ATTENTION_COMPANION_CACHE": "/c"}, extra={"ATEN_CPU_CAPABILITY": "default"})
    assert (env["HOME"], env["ATTENTION_COMPANION_CACHE"], env["ATEN_CPU_CAPABILITY"]) == ("/h", "/c", "default")


def test_the_code_hashed_is_first_on_the_path_after_the_guard():
    assert environment({"PYTHONPATH": "/elsewhere"})["PYTHONPATH"] == os.pathsep.join([str(GUARD_SITE), "/p/src"])


def test_private_startup_files_and_settings_stay_out(mini_project, tmp_path, monkeypatch):
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-mine.py").write_text("leaked_by_ipython = 1\n")
    (tmp_path / "start.py").write_text("leaked_by_python = 1\n")
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 77\n")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "start.py"))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    mini_project.notebook(
        "13_private",
        "import matplotlib, os\n"
        "assert matplotlib.rcParams['lines.linewidth'] == 1.5\n"
        "assert 'inline' in matplotlib.get_backend()\n"
        "assert not [name for name in globals() if name.startswith('leaked')]\n"
        "[os.environ[v] for v in ('PYTHONHASHSEED', 'ATTENTION_COMPANION_NOTEBOOK', 'ATTENTION_COMPANION_PROFILE')]",
    )
    result = run(mini_project.project, "13_private", "quick")
    assert "['0', '13_private', 'quick']" in result.executed.read_text(encoding="utf-8")


@pytest.fixture
def hooks():
    """kernel_hooks.py loaded by its path, as a kernel loads it."""
    spec = importlib.util.spec_from_file_location("hooks_under_test", HOOKS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_peak_memory_is_in_bytes_where_there_is_no_proc(hooks, monkeypatch, platform, unit):
    def missing(*_args, **_options):
        raise FileNotFoundError("/proc/self/status")

    monkeypatch.setattr(hooks, "open", missing, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(resource, "getrusage", lambda who: types.SimpleNamespace(ru_maxrss=5 if who else 7))
    assert hooks.peak_memory_bytes() == 7 * unit


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux keeps a high-water mark per program")
def test_peak_memory_forgets_the_process_that_started_this_one():
    """The fault: after fork and exec ru_maxrss still counts the parent's memory. A 300 MB parent must not show."""
    child = f"""
import importlib.util, resource
spec = importlib.util.spec_from_file_location("hooks", {str(HOOKS)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, module.peak_memory_bytes())
"""
    parent = f"""
import os, sys
block = b"x" * 300_000_000
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, "-c", {child!r}])
os.wait()
"""
    said = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True).stdout.split()
    assert int(said[0]) > 300e6, "ru_maxrss no longer remembers the parent: the guard may be dropped"
    assert int(said[1]) < 100e6


def test_peak_memory_sees_a_large_block(mini_project):
    code = "block = bytearray(200_000_000)\nblock[::4096] = b'x' * len(block[::4096])\ndel block"
    mini_project.notebook("13_large", code)
    assert 200e6 < run(mini_project.project, "13_large", "quick").provenance["peak_memory_bytes"] < 400e6


def test_report_lists_loaded_modules_and_keeps_the_largest_thread_count(hooks, monkeypatch, tmp_path):
    monkeypatch.setenv("ATTENTION_COMPANION_RUN_DIR", str(tmp_path))
    package = types.ModuleType("attention_companion.fake")
    package.__file__ = str(tmp_path / "fake.py")
    monkeypatch.setitem(sys.modules, "attention_companion.fake", package)
    torch = types.SimpleNamespace(
        get_num_threads=lambda: 4,
        backends=types.SimpleNamespace(
            mkl=types.SimpleNamespace(is_available=lambda: False),
            cpu=types.SimpleNamespace(get_cpu_capability=lambda: "NONE"),
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    hooks.write_report()
    torch.get_num_threads = lambda: 1
    hooks.write_report()
    report = json.loads((tmp_path / "kernel.json").read_text())
    assert report["modules"]["attention_companion.fake"] == os.path.realpath(tmp_path / "fake.py")
    assert report["threads"]["torch"] == 4
    assert report["cells"] == 2
    assert report["executable"] == sys.executable
    assert "torch: no MKL, NONE" in report["blas"]


def test_hooks_load_nothing_of_the_project(hooks):
    source = HOOKS.read_text(encoding="utf-8")
    assert "from attention_companion" not in source
    assert "import attention_companion" not in source
