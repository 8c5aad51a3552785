"""`NpyOutput`: a .npy file as an output, with a token instead of its header until it is complete."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..npy_format import header_bytes
from ..regular_files import open_regular
from .errors import BatchError, os_errors_told
from .fsync import append, begin_writing_back, sync_data, sync_folder, write_at
from .mapped_write import write_mapped, writers
from .partial_output import HEX, NOT_WRITTEN, PartialOutput, lost

_MARK = b"dml_jax partial "
_TOKEN = slice(len(_MARK), len(_MARK) + 2 * HEX)


class NpyOutput(PartialOutput):
    """A .npy file. It has its size from the start, unless an iterator tells it: one of another size was cut off."""

    can_be_shared = True

    def __init__(self, output: Any, dtype: np.dtype, item: tuple[int, ...], rows: int | None):
        super().__init__(output, dtype, item, rows)
        self._data = len(self._header(0))
        self._size = None if rows is None else self._size_of(rows)

    def token(self) -> str | None:
        with os_errors_told(self.path, "the partial output cannot be read"), suppress(FileNotFoundError):
            with os.fdopen(open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                start, actual_size = file.read(_TOKEN.stop), os.fstat(file.fileno()).st_size
            if self._size in (actual_size, None) and start.startswith(_MARK):
                return start[_TOKEN].decode("latin-1")
        return None

    def create(self, token: str) -> None:
        with os_errors_told(self.path, NOT_WRITTEN):
            self.path.unlink(missing_ok=True)  # not overwritten: a process that still writes it is to lose it
            file = open_regular(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                append(file, _MARK + token.encode())
                if self._size is not None:  # last: no other process takes the token before it is whole
                    os.ftruncate(file, self._size)
            finally:
                os.close(file)
            sync_folder(self.path.parent)

    def open(self, start: int, alone: bool = True) -> None:
        with os_errors_told(self.path, NOT_WRITTEN):
            self._file = open_regular(self.path, os.O_RDWR | os.O_NOFOLLOW)
        self._end = start
        self._pool = writers(self._file) if alone else None

    def write(self, count: int, parts: list[np.ndarray]) -> None:
        first = offset = self._data + self._end * self.row_bytes
        rows = None if self.rows is None else self.rows - self._end
        with self.told(sum(part.nbytes for part in parts) if rows is None else rows * self.row_bytes):
            self._check_size()  # now: the last rows would give a file its size again that has lost others
            contents = [np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts]
            size = sum(map(len, contents))
            if self._pool:
                write_mapped(self._file, contents, offset, self._pool)
            else:
                for content in contents:
                    write_at(self._file, content.data, offset)
                    offset += len(content)
            begin_writing_back(self._file, first, size)
        self._end += count

    def sync(self) -> int:
        end = self._end
        with self.told(0), suppress(FileNotFoundError):
            sync_data(self._file)
            self._check_size()
            if os.path.samestat(os.fstat(self._file), os.stat(self.path)):
                return end
        raise lost(self.path)

    def _check_size(self) -> None:
        if self._size not in (os.fstat(self._file).st_size, None):
            raise BatchError(f"{self.path}: the file was cut off while it was written; run the same again")

    def complete(self, rows: int) -> None:
        header = self._header(rows)
        with self.told(0):
            if self._size is None:
                os.ftruncate(self._file, self._size_of(rows))
            if os.pread(self._file, len(header), 0) != header:
                write_at(self._file, memoryview(header), 0)
            os.fsync(self._file)

    def known_by(self, rows: int) -> list[int]:
        with self.told(0):
            return [os.fstat(self._file).st_ino, self._size_of(rows)]

    def is_known(self, path: Path, known: list[int]) -> bool:
        with os_errors_told(path, "the output cannot be read"), suppress(FileNotFoundError):
            status = os.lstat(path)
            return known == [status.st_ino, status.st_size]
        return False

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown()
        os.close(self._file)

    def _header(self, rows: int) -> bytes:
        return header_bytes(self.dtype, (rows, *self.item))

    def _size_of(self, rows: int) -> int:
        return min(self._data + rows * self.row_bytes, 2**63 - 1)  # the most: if this is less, the disk is full
