"""Write constraints.txt anew: exact versions for every platform and Python 3.11-3.13, without a host's name.

Needs uv on PATH, which resolves for all platforms at once. Versions that tools/pins.txt names stay.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = (
    "# Exact versions for every platform and Python 3.11-3.13. Use with -c (pip install -c constraints.txt -e .), "
    "never with -r:\n"
    "# the list also names packages that only some platforms take. Regenerate with `make constraints`.\n"
)


def main() -> int:
    """0 when constraints.txt was replaced; it is as it was otherwise."""
    uv = shutil.which("uv")
    if uv is None:
        print("`make constraints` needs uv on PATH (see its own documentation for how to install it).", file=sys.stderr)
        return 1
    command = [
        uv, "pip", "compile", "--universal", "--python-version", "3.11", "--quiet", "--no-header", "--no-annotate",
        # Which index answered is this machine's business; the file is for every machine.
        "--no-emit-index-url", "--no-emit-find-links", "--no-emit-build-options",
        "--extra", "test", "--extra", "models", "--constraints", "tools/pins.txt", "pyproject.toml",
    ]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return done.returncode
    if "://" in done.stdout:
        print("uv's answer holds an address; constraints.txt was left as it was.", file=sys.stderr)
        return 1
    target = ROOT / "constraints.txt"
    temporary = target.with_suffix(".tmp")
    temporary.write_text(HEADER + done.stdout, "utf-8")
    os.replace(temporary, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
