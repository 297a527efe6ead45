"""Starting one kernel of this very environment and running a notebook in it.

Jupyter finds kernels by name through JUPYTER_PATH, the user's folders and the environment's; a foreign "python3"
found first would run the notebook with another environment's packages. Nothing is looked up here: the kernel's
command line is this interpreter's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attention_companion.execution.environment import hook_line
from attention_companion.execution.guards import BrokenRun
from attention_companion.execution.order import Progress

KERNEL_NAME = "python3"
START_TIMEOUT = 120
_PORT_TAKEN = "Address already in use"


@dataclass
class KernelRun:
    """One try: what to start and what became of it."""

    env: dict[str, str]
    scratch: Path
    log: Path
    on_start: Callable[[int], None]
    pid: int | None = None
    exit_status: int | None = None
    cells_started: int = field(default=0)

    def died_because(self) -> str:
        """In words why the kernel ended."""
        if self.exit_status == -9:
            return "the kernel died (probably out of memory): it was ended by SIGKILL"
        if self.exit_status is not None and self.exit_status < 0:
            return f"the kernel died: it was ended by signal {-self.exit_status}"
        if self.exit_status:
            return f"the kernel died: it ended itself with exit status {self.exit_status}"
        return "the kernel died (probably out of memory)"

    def log_tail(self, lines: int = 20) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def port_was_taken(self) -> bool:
        """Whether the kernel failed to start because another process took its port between choice and use."""
        return self.cells_started == 0 and _PORT_TAKEN in self.log_tail(200)


class KernelDied(BrokenRun):
    """The kernel ended before the notebook did."""


def execute(notebook: Any, output: Path, run: KernelRun, cwd: Path, progress: Progress) -> Any:
    """Run ``notebook`` (NotebookNode, parameters injected) through papermill.

    The executed copy is written to ``output`` as it grows and returned at the end.

    Raises
    ------
    KernelDied
        If the kernel ends early. papermill marks the cells of such a notebook "completed".
    papermill.exceptions.PapermillExecutionError
        If a cell raises.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    code_cells = sum(1 for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip())

    def count_cell(cell: Any, cell_index: int) -> None:
        if cell.cell_type == "code" and cell.source.strip():
            run.cells_started += 1
            progress(run.cells_started, code_cells)

    try:
        executed = papermill.execute_notebook(
            notebook,
            # papermill formats this path like a template
            str(output).replace("{", "{{").replace("}", "}}"),
            kernel_name=KERNEL_NAME,
            language="python",
            progress_bar=False,
            cwd=str(cwd),
            start_timeout=START_TIMEOUT,
            kernel_manager_class=_manager_class(run),
            extra_arguments=[f"--IPKernelApp.exec_lines={hook_line()}", "--IPKernelApp.log_level=ERROR"],
            on_cell_execute=count_cell,
            record_timing=False,
        )
    except DeadKernelError as error:
        raise KernelDied(run.died_because()) from error
    except RuntimeError as error:
        if run.exit_status is not None and run.cells_started == 0:
            raise KernelDied(f"the kernel did not start (exit status {run.exit_status})") from error
        raise
    if run.exit_status is not None:
        raise KernelDied(run.died_because())
    return executed


def _manager_class(run: KernelRun) -> type:
    """A kernel manager bound to ``run``: this interpreter, TCP on loopback, the run's environment and log."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    own_kernel = KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        display_name="Python 3 (this environment)",
        language="python",
    )

    # nbclient awaits these methods; the class's declared types are those of its blocking parent.
    base: Any = AsyncKernelManager

    class RunKernelManager(base):
        @property
        def kernel_spec(self) -> Any:
            return own_kernel

        async def start_kernel(self, **options: Any) -> None:
            # IPC would avoid taken ports but its socket paths overflow in deep folders: stay on TCP.
            self.transport, self.ip = "tcp", "127.0.0.1"
            self.connection_file = str(run.scratch / "connection.json")
            with run.log.open("ab") as log:
                await super().start_kernel(**{**options, "env": dict(run.env), "stdout": log, "stderr": log})
            run.pid = self.provisioner.pid
            run.on_start(self.provisioner.pid)

        async def is_alive(self) -> bool:
            # The one place that sees the exit status before the provisioner forgets it.
            if not self.has_kernel:
                return False
            status = await self.provisioner.poll()
            if status is not None:
                run.exit_status = status
            return status is None

    return RunKernelManager
