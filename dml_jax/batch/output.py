"""`Partial`: an output that is being written under a temporary name; it is renamed when it is complete."""

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BatchError
from .fsync import begin_writing_back, sync_data, sync_folder, write_at
from .npy import header_bytes

__all__ = ["Partial", "create", "is_output", "job_of", "partial_path", "token_of"]

_MARK, _HEX = b"dml_jax partial ", 16
_TOKEN = slice(len(_MARK), len(_MARK) + 2 * _HEX)


def partial_path(output: Path) -> Path:
    """Returns the name under which an output is written until it is complete."""
    return output.with_name(f"{output.name}.partial")


def create(output: Path, job: str) -> str:
    """Makes an empty partial output with a new token, in place of any other, and returns the token.

    Raises:
      BatchError: the folder cannot be written.
    """
    path, token = partial_path(output), job + secrets.token_hex(_HEX // 2)
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.write_bytes(_MARK + token.encode())
        os.replace(fresh, path)
        sync_folder(path.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise BatchError(f"{path}: the output cannot be written: {error.strerror}") from None
    return token


def job_of(facts: Mapping[str, Any]) -> str:
    """Returns a short name for a job; the tokens of its partial outputs begin with it."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:_HEX]


def token_of(output: Path) -> str | None:
    """Returns the token of the partial output that is there; "" if the file has none, None if there is no file."""
    try:
        with open(partial_path(output), "rb") as file:
            start = file.read(_TOKEN.stop)
    except FileNotFoundError:
        return None
    return start[_TOKEN].decode("latin-1") if start.startswith(_MARK) else ""


def is_output(output: Path, known: list[int] | None) -> bool:
    """Whether the file of that name is the one that a run has completed, which `known_by` identified."""
    try:
        status = os.stat(output)
    except FileNotFoundError:
        return False
    return known == [status.st_ino, status.st_size]


class Partial:
    """A partial output, opened for writing.

    Until it is complete it begins with a token instead of a header: nothing takes it for a .npy file, and progress
    files say by the token which partial output they are about.

    Args:
      output: the name that it will get.
      dtype: of the output.
      item: the shape of a row.
      rows: how many there will be; None where the end will tell.
    """

    def __init__(self, output: Path, dtype: np.dtype, item: tuple[int, ...], rows: int | None):
        self.output: Path = output
        self.path: Path = partial_path(output)
        self._dtype, self._item, self._rows = dtype, item, rows
        self._row_bytes = dtype.itemsize * prod(item)
        self._data = len(self._header(0))
        self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)

    def reserve(self, missing: int) -> None:
        """Gives the file its size, and checks that the disk has room for the rows that are missing.

        Raises:
          BatchError: the disk has too little room.
        """
        if self._rows is not None:
            os.ftruncate(self._file, self._data + self._rows * self._row_bytes)
        disk, needed = os.fstatvfs(self._file), missing * self._row_bytes
        if needed > disk.f_bavail * disk.f_frsize:
            raise self._full(needed)

    def write(self, start: int, parts: list[np.ndarray]) -> int:
        """Writes rows from `start` on and returns how many bytes they have.

        Raises:
          BatchError: the disk is full.
        """
        first = offset = self._data + start * self._row_bytes
        rows = None if self._rows is None else self._rows - start
        with self._disk_full_told(sum(part.nbytes for part in parts) if rows is None else rows * self._row_bytes):
            for part in parts:
                content = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
                write_at(self._file, content, offset)
                offset += len(content)
        begin_writing_back(self._file, first, offset - first)
        return offset - first

    def sync(self) -> None:
        """Returns when all that was written is on the disk.

        Raises:
          BatchError: the disk is full, or the file has lost its name, so that what is on the disk is of no use.
        """
        with self._disk_full_told(0):
            sync_data(self._file)
        try:
            if os.path.samestat(os.fstat(self._file), os.stat(self.path)):
                return
        except FileNotFoundError:
            pass
        raise BatchError(f"{self.path}: the file was deleted or replaced while it was written; run the same again")

    def is_complete(self) -> bool:
        """Whether it has its header: all rows were written before that, by every process."""
        header = self._header(self._rows or 0)
        return os.pread(self._file, len(header), 0) == header

    def complete(self, rows: int) -> list[int]:
        """Writes the header, waits until it is on the disk, and returns `known_by()`."""
        self._rows = rows
        if not self.is_complete():
            os.ftruncate(self._file, self._data + rows * self._row_bytes)
            os.pwrite(self._file, self._header(rows), 0)
        os.fsync(self._file)
        return self.known_by()

    def rename(self) -> None:
        """Gives the file its name; another process may have been faster."""
        try:
            os.replace(self.path, self.output)
        except FileNotFoundError:
            if not is_output(self.output, self.known_by()):
                raise
        sync_folder(self.output.parent)

    def known_by(self) -> list[int]:
        """Returns what identifies the file under any name: its inode and its size."""
        status = os.fstat(self._file)
        return [status.st_ino, status.st_size]

    def close(self) -> None:
        """Closes the file, complete or not."""
        os.close(self._file)

    def _header(self, rows: int) -> bytes:
        return header_bytes(self._dtype, (rows, *self._item))

    @contextmanager
    def _disk_full_told(self, needed: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._full(needed) from None
            raise

    def _full(self, needed: int) -> BatchError:
        disk = os.fstatvfs(self._file)
        free = disk.f_bavail * disk.f_frsize
        what = f"{needed} bytes are still to be written and {free} are free"
        kept = "what was written is kept: free some more and run the same again"
        return BatchError(f"{self.path}: the disk is full: {what}; {kept}")
