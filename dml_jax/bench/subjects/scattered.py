"""What the cases of both scatters share: an eighth of the rows of a table, each written once."""

from typing import NamedTuple

import numpy as np

from ..case import Arrays, data

__all__ = ["Table"]


class Table(NamedTuple):
    """Rows of `width` elements, of which `few` are written."""

    rows: int
    width: int
    few: int
    itemsize: int

    @classmethod
    def of(cls, size: int, itemsize: int) -> "Table":
        """One of about so many bytes."""
        width = max(1, min(256, size // 64) // itemsize)
        rows = max(4, size // itemsize // width)
        return cls(rows, width, max(1, rows // 8), itemsize)

    @property
    def moved(self) -> int:
        """Bytes of data."""
        return (2 * self.rows + self.few) * self.width * self.itemsize

    def permuted(self) -> np.ndarray:
        """The rows that are written."""
        return np.random.default_rng(1).permutation(self.rows)[: self.few].astype(np.int32)

    def make(self, indices: np.ndarray) -> Arrays:
        """The table, the indices and updates."""
        updates = data((self.few, self.width), self.itemsize)[::-1]
        return data((self.rows, self.width), self.itemsize), indices, updates
