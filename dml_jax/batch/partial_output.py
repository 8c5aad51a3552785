"""`Partial`: an unfinished output under a temporary name, renamed once complete."""

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..npy_format import header_bytes
from ..regular_files import open_regular
from .errors import BatchError, os_errors_told
from .fsync import append, begin_writing_back, sync_data, sync_folder, write_at

_MARK, _HEX = b"dml_jax partial ", 16
_TOKEN = slice(len(_MARK), len(_MARK) + 2 * _HEX)


def partial_path(output: Path) -> Path:
    """Returns the name under which an output is written until it is complete."""
    return output.with_name(f"{output.name}.partial")


def file_size(dtype: np.dtype, item: tuple[int, ...], rows: int | None) -> int | None:
    """Returns the size of an output in bytes, complete or not; None until an iterator ends."""
    if rows is None:
        return None
    size = len(header_bytes(dtype, (rows, *item))) + rows * dtype.itemsize * prod(item)
    return min(size, 2**63 - 1)  # the most that a file can have: if this is less, the disk is full


def create(output: Path, job: str, size: int | None) -> str:
    """Makes an empty partial output with a new token, in place of any other, and returns the token.

    It has its size from the start: one of another size has been cut off.

    Raises:
      BatchError: the folder cannot be written, or something else than a file has the name.
    """
    path, token = partial_path(output), job + secrets.token_hex(_HEX // 2)
    fresh = path.with_name(f"{path.name}.new")
    file = _new(fresh)
    try:
        with os_errors_told(path, _NOT_WRITTEN):
            append(file, _MARK + token.encode())
            os.ftruncate(file, _TOKEN.stop if size is None else size)
            os.replace(fresh, path)
            sync_folder(path.parent)
    except BatchError:
        with suppress(OSError):
            fresh.unlink()
        raise
    finally:
        os.close(file)
    return token


def _new(path: Path) -> int:
    """Opens a new file; replaces only a file of the kind that a crash leaves behind."""
    with os_errors_told(path, _NOT_WRITTEN):
        with suppress(FileNotFoundError):
            os.close(open_regular(path, os.O_RDONLY | os.O_NOFOLLOW))
            path.unlink()
        return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)


_NOT_WRITTEN = "the output cannot be written"
_KEPT = "what was written is kept: change this and run the same again"


def job_of(facts: Mapping[str, Any]) -> str:
    """Returns a short name for a job; the tokens of its partial outputs begin with it."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:_HEX]


def token_of(output: Path, size: int | None) -> str | None:
    """Returns the token of the partial output that is there.

    Returns:
      "" if the file has none; None if there is no file, or none of that size.

    Raises:
      BatchError: it cannot be read.
    """
    path = partial_path(output)
    with os_errors_told(path, "the partial output cannot be read"), suppress(FileNotFoundError):
        file = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            start, actual_size = os.pread(file, _TOKEN.stop, 0), os.fstat(file).st_size
        finally:
            os.close(file)
        if size in (actual_size, None):
            return start[_TOKEN].decode("latin-1") if start.startswith(_MARK) else ""
    return None


def is_output(output: Path, known: list[int] | None) -> bool:
    """Whether the file of that name is the one that a run completed and identified by `known_by`.

    Raises:
      BatchError: the folder cannot be read.
    """
    with os_errors_told(output, "the output cannot be read"), suppress(FileNotFoundError):
        status = os.stat(output)
        return known == [status.st_ino, status.st_size]
    return False


class Partial:
    """A partial output, opened for writing.

    Until it is complete it begins with a token instead of a header: nothing takes it for a .npy file, and progress
    files say by the token which partial output they are about.

    Args:
      output: the name that it will get.
      dtype: of the output.
      item: the shape of a row.
      rows: how many there will be; None where the end will tell.

    Raises:
      BatchError: it cannot be opened.
    """

    def __init__(self, output: Path, dtype: np.dtype, item: tuple[int, ...], rows: int | None):
        self.output: Path = output
        self.path: Path = partial_path(output)
        self._dtype, self._item, self._rows = dtype, item, rows
        self.row_bytes: int = dtype.itemsize * prod(item)
        self._data = len(self._header(0))
        self._size = file_size(dtype, item, rows)
        with os_errors_told(self.path, _NOT_WRITTEN):
            self._file = open_regular(self.path, os.O_RDWR | os.O_NOFOLLOW)

    def check_room(self, missing: int) -> None:
        """Checks that the disk has room for the rows that are missing.

        Raises:
          BatchError: it has too little.
        """
        needed = missing * self.row_bytes
        with self._told(needed):
            disk = os.fstatvfs(self._file)
            if needed > disk.f_bavail * disk.f_frsize:
                raise self._full(needed)

    def write(self, start: int, parts: list[np.ndarray]) -> int:
        """Writes rows from `start` on and returns how many bytes they have.

        Raises:
          BatchError: the disk is full, the file may not have that size, or has lost it.
        """
        first = offset = self._data + start * self.row_bytes
        rows = None if self._rows is None else self._rows - start
        with self._told(sum(part.nbytes for part in parts) if rows is None else rows * self.row_bytes):
            self._check_size()  # now: the last rows would give a file its size again that has lost others
            for part in parts:
                content = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
                write_at(self._file, content, offset)
                offset += len(content)
            begin_writing_back(self._file, first, offset - first)
        return offset - first

    def sync(self) -> None:
        """Waits until all written rows are on the disk.

        Raises:
          BatchError: the disk is full; or the file has lost its name or its size, so that what is on the disk is of
            no use.
        """
        with self._told(0), suppress(FileNotFoundError):
            sync_data(self._file)
            self._check_size()
            if os.path.samestat(os.fstat(self._file), os.stat(self.path)):
                return
        raise BatchError(f"{self.path}: the file was deleted or replaced while it was written; run the same again")

    def _check_size(self) -> None:
        if self._size not in (os.fstat(self._file).st_size, None):
            raise BatchError(f"{self.path}: the file was cut off while it was written; run the same again")

    def is_complete(self) -> bool:
        """Whether the file has its header, which is written after all rows of every process."""
        header = self._header(self._rows or 0)
        with self._told(0):
            return os.pread(self._file, len(header), 0) == header

    def complete(self, rows: int) -> list[int]:
        """Writes the header, waits until it is on the disk, and returns `known_by()`."""
        self._rows = rows
        with self._told(0):
            if self._size is None:
                os.ftruncate(self._file, self._data + rows * self.row_bytes)
            if not self.is_complete():
                write_at(self._file, memoryview(self._header(rows)), 0)
            os.fsync(self._file)
        return self.known_by()

    def rename(self) -> None:
        """Renames the file to its final name; another process may have done so before."""
        with os_errors_told(self.output, _NOT_WRITTEN, _KEPT):
            try:
                os.replace(self.path, self.output)
            except FileNotFoundError:
                if not is_output(self.output, self.known_by()):
                    raise
            sync_folder(self.output.parent)

    def known_by(self) -> list[int]:
        """Returns the identity of the file under any name: its inode and its size."""
        with self._told(0):
            status = os.fstat(self._file)
        return [status.st_ino, status.st_size]

    def close(self) -> None:
        """Closes the file, complete or not."""
        os.close(self._file)

    def _header(self, rows: int) -> bytes:
        return header_bytes(self._dtype, (rows, *self._item))

    @contextmanager
    def _told(self, needed: int) -> Iterator[None]:
        with os_errors_told(self.path, _NOT_WRITTEN, _KEPT):
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
