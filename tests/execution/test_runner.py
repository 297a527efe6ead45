"""Whole runs in real kernels; traps 3, 4, 7, 9 and 19 show the raw tools first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest

from attention_companion.execution.finish import ChangedInputs
from attention_companion.execution.guards import BrokenRun, check_executed
from attention_companion.execution.kernel import KernelDied
from attention_companion.execution.keys import compute_key
from attention_companion.execution.results import find_valid
from attention_companion.execution.runner import OutputRefused, run

FAILING = ["def f(x):\n    return 1 / x\nprint('before')", "f(0)", "print('after')"]
DYING = ["print('before')", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "print('after')"]


@pytest.fixture(scope="module")
def done(make_mini_project):
    """(project, result, cells seen): one good run shared by the tests that only look."""
    mini = make_mini_project()
    seen: list[tuple[int, int]] = []
    result = run(mini.project, "11_sum", "full", progress=lambda cell, total: seen.append((cell, total)))
    return mini, result, seen


def executed(result):
    return nbformat.read(result.executed, as_version=4)


def leftovers(project):
    """Every file and folder under results/ that is neither a result nor a kept failure."""
    return [
        path
        for path in project.results_root.rglob("*")
        if path.name.startswith(".partial") or (path.parent.name == ".jobs")
    ]


def test_a_result_holds_what_it_must(done):
    mini, result, _ = done
    assert result.path == mini.project.results("full") / "11_sum" / result.key
    assert {p.relative_to(result.path).as_posix() for p in result.path.rglob("*") if p.is_file()} == {
        "executed.ipynb",
        "records.json",
        "figures/sum.csv",
        "result.json",
    }
    assert result.records == [{"tag": "MINI-SUM", "measured": 55}]
    assert result.parameters == {"n": 10}
    assert (result.path / "figures" / "sum.csv").read_text() == "n,total\n10,55\n"
    assert leftovers(mini.project) == []


def test_progress_counts_the_code_cells(done):
    assert done[2] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_executed_notebook_shows_the_parameters_and_no_machine(done):
    mini, result, _ = done
    notebook = executed(result)
    check_executed(notebook)
    assert [c.source for c in notebook.cells if "injected-parameters" in c.metadata.get("tags", [])] == [
        "# Parameters of this run\nn: int = 10"
    ]
    text = result.executed.read_text(encoding="utf-8")
    assert str(mini.root) not in text
    assert "start_time" not in text


def test_provenance_is_complete(done):
    about = done[1].provenance
    assert about["threads"] == 1
    assert about["seconds"] > 0
    assert 10e6 < about["peak_memory_bytes"] < 10e9
    assert about["cpu"]
    assert about["python"] == sys.version.split()[0]
    assert about["packages"]["numpy"] not in ("", "not installed")
    assert about["commit"] is None  # the mini project is no repository
    assert "extra_env" not in about


def test_a_second_run_executes_nothing(done, monkeypatch):
    mini, result, _ = done
    monkeypatch.setattr("attention_companion.execution.runner.execute", lambda *_: pytest.fail("executed again"))
    assert run(mini.project, "11_sum", "full").path == result.path


def test_a_damaged_result_is_made_anew(make_mini_project):
    mini = make_mini_project()
    first = run(mini.project, "12_product", "quick")
    first.executed.write_text("{}", encoding="utf-8")
    assert find_valid(mini.project, "12_product", "quick", first.key) is None
    second = run(mini.project, "12_product", "quick", expected_key=first.key)
    assert second.path == first.path
    check_executed(executed(second))


def test_another_key_than_the_one_asked_for_is_refused(mini_project):
    with pytest.raises(ChangedInputs, match="Build again"):
        run(mini_project.project, "11_sum", "quick", expected_key="0" * 20)


def test_inputs_edited_during_the_run_break_it(mini_project):
    core = mini_project.root / "src" / "attention_companion" / "sums" / "core.py"
    mini_project.notebook(
        "13_edit",
        f"from attention_companion.sums import total\nopen({str(core)!r}, 'a').write('# edited')",
    )
    with pytest.raises(ChangedInputs, match="source changed during the run"):
        run(mini_project.project, "13_edit", "quick")
    assert not list(mini_project.project.results("quick").rglob("result.json"))
    assert leftovers(mini_project.project) == []


def test_a_failed_run_leaves_no_notebook_where_results_are(mini_project, tmp_path):
    import papermill
    from papermill.exceptions import PapermillExecutionError

    path = mini_project.notebook("13_fails", *FAILING)
    raw = tmp_path / "out.ipynb"
    with pytest.raises(PapermillExecutionError):
        papermill.execute_notebook(jupytext.read(path), str(raw), kernel_name="python3", progress_bar=False)
    assert raw.exists()  # the fault: half a notebook under the name of a whole one

    with pytest.raises(BrokenRun) as caught:
        run(mini_project.project, "13_fails", "quick")
    message = str(caught.value)
    assert "notebook 13_fails (quick)" in message
    assert "ZeroDivisionError: division by zero" in message
    assert "The cell:\n    f(0)\n" in message
    assert "----> 2     return 1 / x" in message
    assert "\x1b" not in message
    assert len(message.split("traceback:\n")[1].split("\nThe partial run")[0].splitlines()) <= 20
    kept = Path(message.rpartition("is kept in ")[2])
    assert kept.parent == mini_project.project.results_root / "failed"
    assert "before" in (kept / "executed.ipynb").read_text(encoding="utf-8")
    assert not list(mini_project.project.results("quick").rglob("*.ipynb"))
    assert leftovers(mini_project.project) == []


def test_a_killed_kernel_is_reported_as_dead(mini_project, tmp_path):
    import papermill
    from nbclient.exceptions import DeadKernelError

    path = mini_project.notebook("13_dies", *DYING)
    raw = tmp_path / "out.ipynb"
    with pytest.raises(DeadKernelError):
        papermill.execute_notebook(jupytext.read(path), str(raw), kernel_name="python3", progress_bar=False)
    states = [c.metadata.papermill.status for c in nbformat.read(raw, as_version=4).cells]
    assert "failed" not in states  # the fault: the cell that died reads "completed"
    assert states[3] == "completed"
    assert nbformat.read(raw, as_version=4).cells[3].metadata.papermill.exception in (None, False)
    with pytest.raises(BrokenRun, match="execution count None"):
        check_executed(nbformat.read(raw, as_version=4))

    with pytest.raises(KernelDied) as caught:
        run(mini_project.project, "13_dies", "quick")
    message = str(caught.value)
    assert "the kernel died (probably out of memory)" in message
    assert "while running code cell 3:\n    import os, signal" in message
    kept = Path(message.rpartition("is kept in ")[2])
    assert "before" in (kept / "executed.ipynb").read_text(encoding="utf-8")
    assert not list(mini_project.project.results("quick").rglob("*.ipynb"))


def test_a_kernel_that_leaves_by_itself_is_not_called_out_of_memory(mini_project):
    mini_project.notebook("13_exits", "import os\nos._exit(3)")
    with pytest.raises(KernelDied, match="ended itself with exit status 3"):
        run(mini_project.project, "13_exits", "quick")


@pytest.fixture
def foreign_kernel(tmp_path):
    """A folder for JUPYTER_PATH whose "python3" is another environment's (here: marked by a variable)."""
    spec = tmp_path / "foreign" / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    description = {"argv": argv, "display_name": "foreign", "language": "python", "env": {"FOREIGN": "1"}}
    (spec / "kernel.json").write_text(json.dumps(description), encoding="utf-8")
    return spec.parents[1]


def test_another_environments_kernel_cannot_slip_in(mini_project, foreign_kernel, monkeypatch):
    import papermill
    from jupyter_client.kernelspec import NoSuchKernel

    monkeypatch.setenv("JUPYTER_PATH", str(foreign_kernel))
    path = mini_project.notebook(
        "13_where", "import os, sys\nprint(os.environ.get('FOREIGN'), os.environ['JUPYTER_PATH'] or 'cleared')"
    )
    raw = papermill.execute_notebook(jupytext.read(path), None, kernel_name="python3", progress_bar=False)
    assert raw.cells[-1].outputs[0].text.startswith("1 ")  # the fault: the foreign kernel ran
    with pytest.raises(NoSuchKernel):
        papermill.execute_notebook(jupytext.read(path), None, kernel_name="my-env", progress_bar=False)

    path.write_text(path.read_text(encoding="utf-8").replace("name: python3", "name: my-env"), encoding="utf-8")
    result = run(mini_project.project, "13_where", "quick")
    assert executed(result).cells[-1].outputs[0].text == "None cleared\n"


def test_a_kernel_of_another_interpreter_would_be_noticed(mini_project, monkeypatch, tmp_path):
    """The check after the run, seen failing: the kernel reports an executable that is not ours."""
    import attention_companion.execution.finish as finish

    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    real = finish._kernel_report
    monkeypatch.setattr(finish, "_kernel_report", lambda *a: {**real(*a), "executable": str(link)})
    with pytest.raises(BrokenRun, match="not in this environment's"):
        run(mini_project.project, "11_sum", "quick")


@pytest.fixture
def taken_ports(monkeypatch):
    """jupyter_client picks ports before the kernel binds them; ``taken_ports(n)`` lets others be faster n times."""
    import socket

    from jupyter_client import connect

    occupied = socket.socket()
    occupied.bind(("127.0.0.1", 0))
    occupied.listen()
    left = {"times": 0}
    real = connect.write_connection_file

    def write_connection_file(*args, **kwargs):
        if left["times"] > 0:
            left["times"] -= 1
            kwargs["shell_port"] = occupied.getsockname()[1]
        return real(*args, **kwargs)

    monkeypatch.setattr(connect, "write_connection_file", write_connection_file)
    yield lambda times: left.update(times=times)
    occupied.close()


def test_a_port_taken_meanwhile_is_retried_once(mini_project, taken_ports):
    import papermill

    path = mini_project.root / "notebooks" / "11_sum.md"
    taken_ports(1)
    with pytest.raises(RuntimeError, match="Kernel died before replying"):  # the fault
        papermill.execute_notebook(jupytext.read(path), None, kernel_name="python3", progress_bar=False)

    taken_ports(1)
    assert run(mini_project.project, "12_product", "quick").records == []


def test_two_taken_ports_in_a_row_are_an_error(mini_project, taken_ports):
    taken_ports(2)
    with pytest.raises(KernelDied, match=r"(?s)did not start.*Address already in use"):
        run(mini_project.project, "12_product", "quick")


def test_only_a_taken_port_is_retried(mini_project, monkeypatch):
    tries = []
    monkeypatch.setattr(
        "attention_companion.execution.runner.execute",
        lambda *_: tries.append(1) or (_ for _ in ()).throw(KernelDied("the kernel died")),
    )
    with pytest.raises(KernelDied):
        run(mini_project.project, "11_sum", "quick")
    assert len(tries) == 1


def test_code_that_the_key_does_not_cover_is_refused(mini_project):
    mini_project.notebook(
        "13_hidden", "import importlib\nname = 'attention_companion.' + 'steps'\nimportlib.import_module(name)"
    )
    with pytest.raises(BrokenRun) as caught:
        run(mini_project.project, "13_hidden", "quick")
    message = str(caught.value)
    assert "attention_companion.steps" in message
    assert "import with a computed name: 13_hidden.md, cell 2: importlib.import_module(name)" in message
    assert "Import them by an import statement" in message


def test_the_same_code_from_another_place_is_refused(mini_project, tmp_path):
    other = tmp_path / "other" / "attention_companion"
    (other / "sums").mkdir(parents=True)
    (other / "__init__.py").write_text("")
    (other / "sums" / "__init__.py").write_text("def total(n):\n    return 0\n")
    mini_project.notebook(
        "13_path", f"import sys\nsys.path.insert(0, {str(other.parent)!r})\nfrom attention_companion.sums import total"
    )
    with pytest.raises(BrokenRun, match="its key does not cover"):
        run(mini_project.project, "13_path", "quick")


def test_active_output_breaks_the_run(mini_project):
    mini_project.notebook("13_script", "from IPython.display import HTML\nHTML('<script>1</script>')")
    with pytest.raises(BrokenRun, match=r"13_script \(quick\).*a <script> element"):
        run(mini_project.project, "13_script", "quick")


def test_records_that_are_not_json_break_the_run(mini_project):
    mini_project.notebook(
        "13_records", "import os\nopen(os.environ['ATTENTION_COMPANION_RUN_DIR'] + '/records.jsonl', 'w').write('{')"
    )
    with pytest.raises(BrokenRun, match="line 1 of its records"):
        run(mini_project.project, "13_records", "quick")


def test_torch_on_more_threads_than_allowed_breaks_the_run(mini_project):
    """Two threads thrash and change last bits; the environment gives one, and a cell may not take more."""
    mini_project.notebook("13_threads", "import torch\nassert torch.get_num_threads() == 1\ntorch.set_num_threads(2)")
    with pytest.raises(BrokenRun, match="torch used 2 threads, allowed are 1"):
        run(mini_project.project, "13_threads", "quick")


def test_own_parameters_threads_and_environment_go_to_a_folder_of_their_own(mini_project, tmp_path):
    project, out = mini_project.project, tmp_path / "out"
    for wrong in ({"parameters": {"n": 4}}, {"threads": 2}, {"extra_env": {"A": "1"}}):
        with pytest.raises(ValueError, match="give it an output folder"):
            run(project, "11_sum", "quick", **wrong)
    mini_project.notebook(
        "11_sum",
        "import os\n[os.environ[v] for v in ('OMP_NUM_THREADS', 'ATEN_CPU_CAPABILITY', 'ATTENTION_COMPANION_PROFILE')]",
        profiles={"quick": {}, "full": {"n": 10}},
    )
    result = run(project, "11_sum", "full", {"n": 4}, out, threads=2, extra_env={"ATEN_CPU_CAPABILITY": "default"})
    assert (result.path, result.profile, result.parameters) == (out, "custom", {"n": 4})
    assert result.provenance["threads"] == 2
    assert result.provenance["extra_env"] == {"ATEN_CPU_CAPABILITY": "default"}
    assert (result.provenance["base_profile"], result.provenance["changed_parameters"]) == ("full", ["n"])
    assert executed(result).cells[-1].outputs[0].data["text/plain"] == "['2', 'default', 'custom']"
    assert not project.results("full").exists()
    assert not project.results("custom").exists()
    assert leftovers(project) == []
    # Threads and environment do not enter the key.
    assert result.key == compute_key(project, "11_sum", "custom", {"n": 4}).key


def test_an_output_folder_may_only_be_new_or_an_earlier_run(mini_project, tmp_path):
    project, out = mini_project.project, tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("precious")
    with pytest.raises(OutputRefused, match="not empty and no earlier run"):
        run(project, "12_product", "quick", out=out)
    with pytest.raises(OutputRefused, match="is a file"):
        run(project, "12_product", "quick", out=out / "thesis.txt")
    assert (out / "thesis.txt").read_text() == "precious"
    (out / "thesis.txt").unlink()
    first = run(project, "12_product", "quick", out=out)
    assert first.profile == "quick"
    assert run(project, "12_product", "quick", {"n": 4}, out=out).profile == "custom"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".partial")) == []


def test_command_line(mini_project):
    def call(*arguments):
        command = [sys.executable, "-m", "attention_companion.execution.runner"]
        return subprocess.run(
            [*command, *arguments, "--root", str(mini_project.root)],
            capture_output=True,
            text=True,
            check=False,
        )

    key = compute_key(mini_project.project, "11_sum", "quick").key
    done = call("11_sum", "--profile", "quick", "--key", key)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "11_sum (quick) cell 1/3"
    assert key in done.stdout.splitlines()[-1]
    assert done.stderr == ""
    for arguments, code, message in [
        (("11_sum", "--profile", "quick", "--key", "0" * 20), 3, "Build again"),
        (("11_sun", "--profile", "quick"), 2, "no notebook is called '11_sun'"),
        (("11_sum", "--profile", "slow"), 2, "no profile 'slow'; it has: quick, full"),
    ]:
        failed = call(*arguments)
        assert (failed.returncode, failed.stderr.splitlines()[0].startswith("error: ")) == (code, True)
        assert message in failed.stderr
        assert "Traceback" not in failed.stderr


def test_a_failed_run_prints_no_python_of_ours(mini_project):
    mini_project.notebook("13_fails", *FAILING)
    failed = subprocess.run(
        [sys.executable, "-m", "attention_companion.execution.runner", "13_fails", "--profile", "quick"],
        cwd=mini_project.root,
        env={**os.environ, "ATTENTION_COMPANION_ROOT": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: notebook 13_fails (quick): cell [3] raised ZeroDivisionError")
    assert "Traceback (most recent call last)" in failed.stderr
    assert "papermill" not in failed.stderr.split("The partial run")[0]
