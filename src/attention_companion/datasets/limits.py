"""How long a route may keep us waiting. One definition, passed down as a parameter so that tests can shrink it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .errors import RouteFailed


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes.

    ``first_byte``: from the start of a request (name look-up, connection, redirects) to the first byte of content.
    ``minimum_rate``: bytes a second that every ``window`` seconds must carry after that.
    ``client_start``: the same as ``first_byte`` for a package client, which first starts an interpreter and asks
    where the package lies; ``client_window`` the same as ``window``, longer because the client also checks and writes
    what it received.
    ``maximum_bytes``: no file here is larger; a server that never stops is cut off.
    """

    first_byte: float = 5.0
    minimum_rate: float = 32 * 1024
    window: float = 10.0
    client_start: float = 20.0
    client_window: float = 30.0
    maximum_bytes: int = 512 * 2**20


class Pace:
    """Watches a growing byte count: raises RouteFailed when nothing comes, or too little in a whole window."""

    def __init__(self, limits: Limits, first_byte: float, window: float) -> None:
        self._limits, self._first_byte, self._window = limits, first_byte, window
        self._started = time.monotonic()
        self._mark: tuple[float, int] | None = None

    def check(self, received: int) -> None:
        now = time.monotonic()
        if received <= 0:
            if now - self._started > self._first_byte:
                raise RouteFailed(f"nothing arrived within {self._first_byte:g} s")
            return
        if received > self._limits.maximum_bytes:
            raise RouteFailed(f"it sent more than {self._limits.maximum_bytes} bytes")
        if self._mark is None:
            self._mark = (now, received)
            return
        since, before = self._mark
        if now - since < self._window:
            return
        rate = (received - before) / (now - since)
        if rate < self._limits.minimum_rate:
            raise RouteFailed(
                f"it sends {rate / 1024:.1f} KiB/s, less than {self._limits.minimum_rate / 1024:g} KiB/s "
                f"over {self._window:g} s"
            )
        self._mark = (now, received)
