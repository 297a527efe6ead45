"""`check_browser.py COMMAND...`: run the browser tests' command if there is a browser to run them in.

With CI=true a missing browser is a failure: nothing is skipped there. Elsewhere it is a notice that says how to get
one, so that `make test` serves someone who changes a kernel on a machine without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
HOW = (
    "Chromium is missing: the rendered pages cannot be tested in a browser.\n"
    "Install it (Debian, Ubuntu: apt install chromium; Fedora: dnf install chromium; macOS: brew install chromium)\n"
    "and run this again."
)


def find() -> str | None:
    """Path of a browser that the tests can drive, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def main(command: list[str]) -> int:
    """The command's exit status; without a browser 1 when CI=true, else 0 after a notice."""
    if find():
        return subprocess.run(command, check=False).returncode
    print(HOW, file=sys.stderr)
    if os.environ.get("CI", "").lower() in {"true", "1"}:
        return 1
    print("The browser tests did NOT run. Everything before them passed.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
