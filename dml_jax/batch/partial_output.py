"""`PartialOutput`: an unfinished output under a temporary name, renamed once complete; of any format."""

import errno
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BatchError, os_errors_told
from .fsync import sync_folder

HEX = 16  # digits of the name of a job, and of the number behind it in a token
NOT_WRITTEN = "the output cannot be written"
KEPT = "what was written is kept: change this and run the same again"


def partial_path(output: Path | str) -> Any:
    """Returns the name of an output until it is complete: in a bucket, which renames nothing, the same."""
    return output if isinstance(output, str) else output.with_name(f"{output.name}.partial")


class PartialOutput(ABC):
    """A partial output. Nothing takes it for a whole one until it is complete.

    Rows are written one after the other, from the one that `open` names.

    Args:
      output: the path that it will get; a text for one in a bucket.
      dtype: of the output.
      item: the shape of a row.
      rows: how many there will be; None where the end will tell.
    """

    can_be_shared: bool  # by processes that write different rows
    can_replace = True  # another of its name

    def __init__(self, output: Any, dtype: np.dtype, item: tuple[int, ...], rows: int | None):
        self.output: Any = output
        self.path: Any = partial_path(output)
        self.dtype, self.item, self.rows = dtype, item, rows
        self.row_bytes: int = dtype.itemsize * prod(item)

    def exists(self) -> bool:
        """Whether there is an output of its name."""
        return os.path.exists(self.output)

    @abstractmethod
    def token(self) -> str | None:
        """Returns the token of the partial output that is there; None if there is none that can be continued.

        Raises:
          BatchError: it cannot be read.
        """

    @abstractmethod
    def create(self, token: str) -> None:
        """Makes an empty partial output in place of any other.

        Raises:
          BatchError: the folder cannot be written, or something else has the name.
        """

    @abstractmethod
    def open(self, start: int, alone: bool = True) -> None:
        """Opens it to write rows from `start` on.

        Args:
          start: the first row.
          alone: whether no other process writes it: some file systems would write whole pages of a map, with old rows
            of the other one.

        Raises:
          BatchError: it cannot be opened.
        """

    @abstractmethod
    def write(self, count: int, parts: list[np.ndarray]) -> None:
        """Writes the next rows, of all parts together; some may wait for others.

        Raises:
          BatchError: the disk is full, or the output may not have that size, or has lost it.
        """

    def flush(self) -> None:  # noqa: B027 # an output may have no such rows
        """Writes rows that wait for others.

        Raises:
          BatchError: as by `write`.
        """

    @abstractmethod
    def sync(self) -> int:
        """Waits until written rows are on the disk, and returns the row before which all are there.

        Raises:
          BatchError: the disk is full; or the output has lost its name or its size, so that what is on the disk is of
            no use.
        """

    @abstractmethod
    def complete(self, rows: int) -> None:
        """Makes it a whole output of so many rows, on the disk; it may be that already."""

    @abstractmethod
    def known_by(self, rows: int) -> list[int]:
        """Returns numbers by which it is known under any name, once it is complete."""

    @abstractmethod
    def is_known(self, path: Path, known: list[int]) -> bool:
        """Whether the output of that name is known by this.

        Raises:
          BatchError: the folder cannot be read.
        """

    @abstractmethod
    def close(self) -> None:
        """Closes it, complete or not."""

    def rename(self, known: list[int]) -> None:
        """Renames it to its final name; another process may have done so before."""
        with os_errors_told(self.output, NOT_WRITTEN, KEPT):
            try:
                self._replace()
            except FileNotFoundError:
                if not self.is_known(self.output, known):
                    raise
            sync_folder(self.output.parent)

    def _replace(self) -> None:
        os.replace(self.path, self.output)

    def check_room(self, missing: int) -> None:
        """Checks that the disk has room for the rows that are missing.

        Raises:
          BatchError: it has too little.
        """
        needed = missing * self.row_bytes
        with self.told(needed):
            if needed > shutil.disk_usage(self.path.parent).free:
                raise self._full(needed)

    @contextmanager
    def told(self, needed: int) -> Iterator[None]:
        """Context manager that turns an OSError of writing so many bytes into a BatchError."""
        with os_errors_told(self.path, NOT_WRITTEN, KEPT):
            try:
                yield
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise self._full(needed) from None
                raise

    def _full(self, needed: int) -> BatchError:
        free = shutil.disk_usage(self.path.parent).free
        what = f"{needed} bytes are still to be written and {free} are free"
        kept = "what was written is kept: free some more and run the same again"
        return BatchError(f"{self.path}: the disk is full: {what}; {kept}")


def lost(path: Path) -> BatchError:
    """Returns the error of a partial output that is gone."""
    return BatchError(f"{path}: the file was deleted or replaced while it was written; run the same again")
