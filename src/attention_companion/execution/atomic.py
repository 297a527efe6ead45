"""Write a small file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to `path` in one step: temporary file beside it, fsync, rename.

    Readers see the old content or the new one, also after a kill or a power cut. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)  # mkstemp makes it private; results are read by others (CI, cluster users)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
