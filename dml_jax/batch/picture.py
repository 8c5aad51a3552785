"""`Picture`: a picture file as an array of one row, by Pillow."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..regular_files import open_regular
from .errors import BatchError
from .stored_array import CHANGED, StoredArray, needed, told

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF")  # for others Pillow may start programs


class Picture(StoredArray):
    """A picture [1, H, W] or [1, H, W, channels], as `numpy.asarray` makes it of Pillow's. Only its header is read.

    Raises:
      BatchError: it cannot be opened, or Pillow is missing.
    """

    def __init__(self, path: str):
        self._image = needed("PIL.Image", path)
        self.path = self.file = str(Path(path).resolve())
        with warnings.catch_warnings(), self._opened() as image:
            pixel = np.asarray(self._image.new(image.mode, (1, 1)))
            self.shape = (1, image.height, image.width, *pixel.shape[2:])
        self._empty = np.zeros((0, *self.shape[1:]), pixel.dtype)
        self._seen = self.state()

    def __getitem__(self, rows: slice) -> np.ndarray:
        if not range(1)[rows]:
            return self._empty
        if self.state() != self._seen:
            raise BatchError(f"{self.path}: {CHANGED}")
        with self._opened() as image:
            return np.asarray(image)[None]

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with told(self.path):
            file = os.fdopen(open_regular(Path(self.path)), "rb")
        with file:
            try:
                with self._image.open(file, formats=FORMATS) as image:
                    yield image
            except Exception as error:  # damaged pictures fail in many ways
                raise BatchError(f"{self.path}: an input is not a readable picture: {error}") from None
