"""A split as two arrays, and the one digest that identifies it whatever road it came by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Split:
    """Pixels uint8 of shape (n, 28, 28) or (n, 32, 32, 3) and labels uint8 of shape (n,), canonical order."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.uint8]

    def __post_init__(self) -> None:
        for what, array in (("pixels", self.pixels), ("labels", self.labels)):
            if array.dtype != np.uint8:
                raise TypeError(f"{what} have dtype {array.dtype}; the sets are stored as uint8")
        if self.pixels.ndim not in (3, 4) or self.labels.shape != self.pixels.shape[:1]:
            raise ValueError(
                f"pixels {self.pixels.shape} and labels {self.labels.shape} are not one image set"
            )

    def head(self, n: int) -> Split:
        """The first ``n`` images in canonical order, as a copy."""
        return Split(self.pixels[:n].copy(), self.labels[:n].copy())


def split_digest(split: Split) -> str:
    """SHA-256 (hex) over dtype, shape and bytes of the pixels, then of the labels.

    The shape goes in because the same bytes reshaped (rows taken for columns) are another data set.
    """
    digest = hashlib.sha256()
    for array in (split.pixels, split.labels):
        shape = ",".join(str(side) for side in array.shape)
        digest.update(f"{array.dtype.name}[{shape}]\n".encode())
        # A memory-mapped array is hashed in place: no copy of 150 MB.
        digest.update(np.ascontiguousarray(array).reshape(-1).data)
    return digest.hexdigest()
