"""`NpyArray`: a .npy file, of which only the windows in use are mapped."""

import mmap
import os
from math import prod
from pathlib import Path

import numpy as np

from ..regular_files import open_regular
from .errors import BatchError
from .npy_file import NpyFile, streamed_header
from .stored_array import CHANGED, StoredArray, open_file_state, told

_POPULATE = getattr(mmap, "MAP_POPULATE", 0)  # Linux: one call instead of a fault per page


class NpyArray(StoredArray):
    """A .npy file.

    Raises:
      BatchError: it cannot be opened or streamed.
    """

    def __init__(self, given: NpyFile):
        self.file = str(Path(given.path))
        with told(self.file), os.fdopen(open_regular(Path(self.file)), "rb") as file:
            self._header = streamed_header(file, Path(self.file), given.dtype)
            self._seen = open_file_state(file)
            self.path = str(Path(self.file).resolve())
        self.shape = self._header.shape
        self._row_bytes = self._header.dtype.itemsize * prod(self.shape[1:])

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(self.shape[0])
        shape, size = (stop - start, *self.shape[1:]), (stop - start) * self._row_bytes
        first = self._header.offset + start * self._row_bytes
        page = first // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        flags = mmap.MAP_SHARED | _POPULATE
        with told(self.file), os.fdopen(open_regular(Path(self.file)), "rb") as file:
            if open_file_state(file) != self._seen:
                raise BatchError(f"{self.file}: {CHANGED}")
            if size == 0:
                return np.zeros(shape, self._header.dtype)
            window = mmap.mmap(file.fileno(), first - page + size, flags=flags, prot=mmap.PROT_READ, offset=page)
        # Unmapped with the last array over it.
        return np.frombuffer(window, np.uint8, size, first - page).view(self._header.dtype).reshape(shape)
