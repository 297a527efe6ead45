"""tools/setup.py: which environment, made when, made again when. Offline: the stand-in project builds itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "attention-companion"
version = "0.1.0"
"""

# A build backend small enough to need nothing from an index: it writes an editable wheel by hand.
BACKEND = '''\
import zipfile
from pathlib import Path

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    if Path("fail").exists():
        raise RuntimeError("planted failure of the build")
    name = "attention_companion-0.1.0-py3-none-any.whl"
    info = "attention_companion-0.1.0.dist-info"
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as wheel:
        wheel.writestr("_companion.pth", str(Path("src").resolve()))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: attention-companion\\nVersion: 0.1.0\\n"
                                           "Provides-Extra: test\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\n"
                                        "Tag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
'''


def _project(root: Path) -> Path:
    (root / "tools").mkdir(parents=True)
    (root / "src").mkdir()
    shutil.copy(REPOSITORY / "tools" / "setup.py", root / "tools" / "setup.py")
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "constraints.txt").write_text("numpy==2.0\n")
    (root / "backend.py").write_text(BACKEND)
    return root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An uninstalled project in a folder with a space."""
    return _project(tmp_path / "my project")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose .venv has been made for the book."""
    root = _project(tmp_path_factory.mktemp("installed") / "my project")
    done = _setup(root)
    assert done.returncode == 0, done.stderr
    return root


def _setup(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items()
            if name not in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME")}
    kept |= {"PIP_NO_INDEX": "1", **environment}
    return subprocess.run([sys.executable, str(root / "tools" / "setup.py"), *arguments], cwd=root.parent, env=kept,
                          text=True, capture_output=True, timeout=120)


def test_it_makes_the_environment_and_prints_only_its_python(installed):
    done = _setup(installed)
    python = Path(done.stdout.strip())
    assert python == installed / ".venv" / "bin" / "python"
    assert subprocess.run([python, "-m", "pip", "--version"], check=False, capture_output=True).returncode == 0
    assert (installed / ".venv" / "setup.log").read_text()


def test_an_environment_in_order_costs_nothing(installed):
    began = time.process_time(), time.monotonic()
    done = _setup(installed)
    assert done.stderr == ""
    stamp = installed / ".venv" / ".companion-stamp"
    assert json.loads(stamp.read_text())["extras"] == []
    # An interpreter's start and three small digests; generous, for other tests run beside.
    assert time.monotonic() - began[1] < 2.0


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_other_requirements_install_again_but_a_touch_does_not(installed, name):
    path = installed / name
    os.utime(path)
    assert _setup(installed).stderr == ""
    path.write_text(path.read_text() + "\n# changed\n")
    assert "setup: installing" in _setup(installed).stderr
    assert _setup(installed).stderr == ""


def test_the_tests_extra_is_added_once_and_kept(installed):
    assert "installing .[test]" in _setup(installed, "test").stderr
    assert _setup(installed, "book").stderr == ""
    (installed / "constraints.txt").write_text("numpy==2.1\n")
    assert "installing .[test]" in _setup(installed, "book").stderr


def test_the_optional_extra_is_tried_once_and_its_failure_fails_nothing(project):
    """The stand-in's own wheel asks for a package that no index here has, but only with the optional extra."""
    backend = project / "backend.py"
    asks = '"Provides-Extra: test\\nProvides-Extra: models\\nRequires-Dist: no-such-package; extra == \'models\'\\n"'
    backend.write_text(backend.read_text().replace('"Provides-Extra: test\\n"', asks))
    done = _setup(project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("python")
    assert ".[models] could not be installed" in done.stderr
    stamp = project / ".venv" / ".companion-stamp"
    assert json.loads(stamp.read_text())["optional"] is False
    assert _setup(project).stderr == ""  # not tried at every build
    assert "could not be installed" in _setup(project, "models").stderr
    backend.write_text(backend.read_text().replace("Requires-Dist: no-such-package; extra == 'models'\\n", ""))
    assert "could not" not in _setup(project, "models").stderr
    assert json.loads(stamp.read_text()) | {"digest": ""} == {"digest": "", "extras": [], "optional": True}
    assert _setup(project, "models").stderr == ""


def test_an_interrupted_installation_is_done_over(installed):
    (installed / ".venv" / ".companion-stamp").unlink()
    (installed / ".venv" / ".companion-started").touch()
    (installed / ".venv" / "half-written").touch()
    done = _setup(installed)
    assert "interrupted; starting over" in done.stderr
    assert done.returncode == 0
    assert not (installed / ".venv" / "half-written").exists()


def test_a_failed_installation_shows_the_log_and_leaves_no_stamp(project):
    (project / "fail").touch()
    done = _setup(project)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "planted failure of the build" in done.stderr
    assert not (project / ".venv" / ".companion-stamp").exists()
    (project / "fail").unlink()
    assert _setup(project).returncode == 0


def _foreign(prefix: Path, project: Path, *distributions: str) -> Path:
    packages = prefix / "lib" / "python3.11" / "site-packages"
    for name in distributions:
        (packages / f"{name}-1.0.dist-info").mkdir(parents=True)
    ours = packages / "attention_companion-1.0.dist-info"
    if ours.exists():
        (ours / "direct_url.json").write_text(json.dumps({"url": project.as_uri()}))
    return prefix


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_an_active_environment_that_holds_this_project_is_used(project, tmp_path, variable):
    prefix = _foreign(tmp_path / "env", project, "attention_companion", "pytest")
    for purpose in ("book", "test"):
        assert _setup(project, purpose, **{variable: str(prefix)}).stdout.strip() == str(prefix / "bin" / "python")
    assert not (project / ".venv").exists()


def test_an_active_environment_without_the_tests_extra_is_refused_for_tests(project, tmp_path):
    prefix = _foreign(tmp_path / "env", project, "attention_companion")
    done = _setup(project, "test", CONDA_PREFIX=str(prefix))
    assert done.returncode == 1
    assert ".[test]" in done.stderr


def test_an_active_environment_of_something_else_is_left_alone(installed, tmp_path):
    elsewhere = _foreign(tmp_path / "copy", tmp_path / "other clone", "attention_companion", "pytest")
    nothing = _foreign(tmp_path / "none", installed, "pytest")
    for prefix in (elsewhere, nothing):
        assert _setup(installed, VIRTUAL_ENV=str(prefix)).stdout.strip().startswith(str(installed))


def test_an_unsupported_python_without_another_is_a_clear_error(project):
    script = (
        "import runpy, sys; sys.version_info = (3, 9, 0, 'final', 0); sys.argv = ['setup.py']; "
        f"sys.exit(runpy.run_path({str(project / 'tools' / 'setup.py')!r}, run_name='__main__'))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    done = subprocess.run([sys.executable, "-c", script], cwd=project, text=True, capture_output=True, timeout=60,
                          env={**environment, "PATH": str(project)})
    assert done.returncode == 1
    assert "needs Python 3.11 to 3.13; python3 is 3.9" in done.stderr


def test_an_unknown_purpose_is_refused(project):
    assert _setup(project, "everything").returncode == 2
