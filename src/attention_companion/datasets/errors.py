"""What can go wrong with the image sets, in words that say how to mend it."""

from __future__ import annotations


class DataUnavailable(RuntimeError):
    """The images asked for are not on this machine (nothing fetched, or only the small bundled sample is here).

    A notebook may catch it and report ``not checked: data unavailable``; nothing else should.
    """


class DataCorrupt(DataUnavailable):
    """Cached files do not match the digest pinned for them (altered, truncated, or half copied)."""


class RouteFailed(Exception):
    """One route to a data set failed; the message is one plain line and the next route is tried."""


class HostSilent(RouteFailed):
    """A host that gave no answer at all: other files on it need not be tried either."""
