"""What :func:`attention_companion.datasets.load` returns, and which images a request selects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import SPLITS


@dataclass(frozen=True)
class Images:
    """Some images of one split.

    pixels: uint8, (n, 28, 28) or (n, 32, 32, 3), 0 to 255, rows from the top; a private copy, free to change.
    labels: int64, (n,), the class of each image; ``classes[label]`` is its name.
    indices: int64, (n,), the place of each image in the split's canonical (published) order.
    kind: ``full``, or ``sample`` when the images come from the small bundled excerpt: then say so where you show
    a number computed from them.
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    name: str
    split: str
    kind: str
    indices: NDArray[np.int64]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Images({self.name} {self.split}, n={len(self)}, pixels {self.pixels.shape} uint8, kind={self.kind!r})"


def check_split(split: object) -> str:
    """The split's name; ValueError that lists the two."""
    if not isinstance(split, str) or split not in SPLITS:
        raise ValueError(f"there is no split {split!r}: it is 'train' or 'test'")
    return split


def _whole(value: object, what: str) -> int:
    # bool is an int to Python; load(..., n=True) is a mistake, not one image.
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{what} is a whole number or None, got {type(value).__name__} {value!r}")
    return int(value)


def check_request(n: object, seed: object) -> tuple[int | None, int | None]:
    """``n`` and ``seed`` as given, or TypeError/ValueError naming the value."""
    count = None if n is None else _whole(n, "n")
    if count is not None and count < 1:
        raise ValueError(f"n counts images and is at least 1, got {count}")
    start = None if seed is None else _whole(seed, "seed")
    if start is not None and start < 0:
        raise ValueError(f"seed is at least 0 (numpy's generators take no negative seed), got {start}")
    return count, start


def select(total: int, n: int | None, seed: int | None) -> NDArray[np.int64]:
    """Places of the images chosen out of ``total``.

    No seed: the first ``n``. A seed: ``numpy.random.default_rng(seed).choice(total, n, replace=False)``, in the order
    drawn. ``n`` None means all of them (with a seed: all, shuffled).
    """
    count = total if n is None else n
    if seed is None:
        return np.arange(count, dtype=np.int64)
    return np.random.default_rng(seed).choice(total, count, replace=False).astype(np.int64)
