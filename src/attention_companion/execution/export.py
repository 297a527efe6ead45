"""Export what a reader wants to take away: every figure, its numbers, and the ledger, without the pages.

`python -m attention_companion.execution.export --profile quick` is `make figures` by another name: it runs what
is missing and exports, through the same graph.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SUFFIXES = (".svg", ".png", ".csv")
# The zip holds no clock time: the same contents give the same bytes. 1980 is the format's first year.
ZIP_DATE = (1980, 1, 1, 0, 0, 0)


def export(results: Mapping[str, Path], ledger: Path, out: Path) -> Path:
    """Lay `<notebook>/<figure>.{svg,png,csv}` and ledger.json in the folder `out` and in `out`.zip.

    `results` maps a notebook's name to the folder of its whole run. Both appear by rename when they are
    complete. Returns the zip's path. Raises FileNotFoundError when the ledger is missing.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        laid = stage / out.name
        laid.mkdir()
        shutil.copyfile(ledger, laid / "ledger.json")
        for name, folder in sorted(results.items()):
            _copy_figures(folder / "figures", laid / name)
        archive = out.with_name(f"{out.name}.zip")
        packed = stage / archive.name
        pack(laid, packed)
        if out.exists():
            os.rename(out, stage / "before")
        os.rename(laid, out)
        os.replace(packed, archive)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return archive


def pack(folder: Path, archive: Path) -> None:
    """Zip every file of `folder` under the folder's own name, sorted, without times or modes of this machine."""
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(folder.parent).as_posix(), ZIP_DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                packed.writestr(entry, path.read_bytes())


def _copy_figures(figures: Path, target: Path) -> None:
    for path in sorted(figures.glob("*")):
        if path.suffix in SUFFIXES:
            target.mkdir(exist_ok=True)
            shutil.copyfile(path, target / path.name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask the engine for the target `figures` with the same arguments."""
    from attention_companion.execution import engine

    return engine.main(["figures", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
