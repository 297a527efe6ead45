"""``python -m attention_companion.datasets fetch|verify|status NAME [--stamp PATH]``: for the build and for machines.

``fetch`` exits with 0 also when only the sample, or nothing, could be had: the stamp says which, and what needs the
data reports that it could not be checked. ``verify`` exits with 1 when something is absent or damaged.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from . import NAMES, fetch, stamp, status, verify
from .cache import write_atomically


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m attention_companion.datasets", description=__doc__)
    parser.add_argument("action", choices=["fetch", "verify", "status"])
    parser.add_argument("name", choices=NAMES)
    parser.add_argument(
        "--stamp", type=Path, help="write which images are here to this JSON file, if it changed"
    )
    chosen = parser.parse_args(arguments)
    failed = False
    try:
        if chosen.action == "verify":
            outcome = verify(chosen.name)
            failed = not outcome.ok
            print(outcome)
        else:
            print(fetch(chosen.name) if chosen.action == "fetch" else status(chosen.name))
        if chosen.stamp is not None:
            text = json.dumps(stamp(chosen.name), indent=1, sort_keys=True) + "\n"
            changed = write_atomically(chosen.stamp, text)
            print(f"{chosen.name}: {chosen.stamp} {'written' if changed else 'unchanged'}")
    except (ValueError, RuntimeError, OSError) as error:
        print(f"{chosen.name}: {error}", file=sys.stderr)
        return 1
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
