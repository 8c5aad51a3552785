"""`StoredArray`: an array in files or in a bucket, which is read by slices of rows."""

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..regular_files import open_regular
from .errors import BatchError, os_errors_told

CHANGED = "the input was changed while it was read; start over with restart"


class StoredArray(ABC):
    """An array in files.

    Attributes:
      path: where it is: absolute, or a URL.
      file: that has it, if one has.
      shape: of all of it.
    """

    path: str
    file: str
    shape: tuple[int, ...]

    @abstractmethod
    def __getitem__(self, rows: slice) -> np.ndarray:
        """Reads rows; `[:0]` is an array of its type."""

    def state(self) -> dict[str, Any]:
        """Returns facts that change with it, without reading it: JSON types, such as sizes and times.

        Raises:
          BatchError: it is not there, or no regular file.
        """
        with told(self.file), os.fdopen(open_regular(Path(self.file)), "rb") as file:
            return open_file_state(file)


def told(path: str) -> AbstractContextManager[None]:
    """Context manager that turns an OSError into a BatchError."""
    return os_errors_told(Path(path), "an input cannot be read")


def open_file_state(file: BinaryIO) -> dict[str, Any]:
    """Returns the size and the time of a file that is open."""
    status = os.fstat(file.fileno())
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}


def band_bytes(shape: Sequence[int], chunk: Sequence[int], itemsize: int) -> int:
    """Returns the bytes of a cache for all chunks that have a row, so that none is decoded for two batches in turn.

    Chunks at the edges are as large as others, and libraries count some bytes beside them.
    """
    items = (-(-size // length) * length for size, length in zip(shape[1:], chunk[1:], strict=True))
    return prod((chunk[0], *items, itemsize)) * 9 // 8 + 2**16


def needed(module: str, path: str) -> Any:
    """Imports a library that an extra has.

    Raises:
      BatchError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        fix = "pip install '.[arrays]' in a clone installs it"
        raise BatchError(f"{path}: this needs {error.name or module}; {fix}") from None
