"""`ZarrOutput`: an array of zarr 3 in a folder as an output, by TensorStore."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..regular_files import open_regular
from .errors import BatchError, os_errors_told
from .fsync import append, sync_folder
from .partial_output import KEPT, NOT_WRITTEN, PartialOutput, lost
from .stored_array import needed
from .zarr_array import PATIENCE, location, tensorstore_told

CHUNK_BYTES = 8 * 10**6  # or one row: a batch has a few, which are written at once
TOKEN = "dml_jax.partial"  # a file beside the metadata, until the array is complete
_ENDLESS = 2**40  # rows of an array whose end is not known


class ZarrOutput(PartialOutput):
    """A folder with an array of zarr 3: chunks of whole rows, not compressed.

    A chunk is written when all of its rows are there, as a file of its own, which is on the disk before it gets its
    name. So a chunk is whole or missing, and rows that wait for others are computed again after an interruption.

    Raises:
      BatchError: TensorStore is missing.
    """

    can_be_shared = False

    def __init__(self, output: Any, dtype: np.dtype, item: tuple[int, ...], rows: int | None):
        super().__init__(output, dtype, item, rows)
        self._tensorstore = needed("tensorstore", str(output))
        self._token: str | None = None

    def token(self) -> str | None:
        told, flags = os_errors_told(self.path, "the partial output cannot be read"), os.O_RDONLY | os.O_NOFOLLOW
        with told, suppress(FileNotFoundError), os.fdopen(open_regular(self.path / TOKEN, flags), "rb") as file:
            return file.read(1000).decode("latin-1")
        return None

    def create(self, token: str) -> None:
        with os_errors_told(self.path, NOT_WRITTEN):
            _discard(self.path)
            self.path.mkdir()
            with os.fdopen(open_regular(self.path / TOKEN, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb", 0) as file:
                append(file.fileno(), token.encode())
                os.fsync(file)
            sync_folder(self.path.parent)
        with self._told():
            self._open(str(self.path), create=True, **self._layout())

    def open(self, start: int, alone: bool = True) -> None:
        with self._told():
            self._store = self._writable()
        self._token, self._rows_per_chunk = self.token(), self._store.chunk_layout.write_chunk.shape[0]
        self._stored, self._waiting = start, np.empty((0, *self.item), self.dtype)

    def _writable(self) -> Any:
        return self._open(str(self.path), write=True)

    def _layout(self, rows: int | None = None) -> dict[str, Any]:
        """Returns the metadata of an array of so many rows; the chunks are the same for any number of rows."""
        most = _ENDLESS if self.rows is None else self.rows
        chunk = max(1, min(most, CHUNK_BYTES // max(1, self.row_bytes)))
        chunks = self._tensorstore.ChunkLayout(chunk_shape=[chunk, *(max(1, size) for size in self.item)])
        shape = (most if rows is None else rows, *self.item)
        return {"dtype": self._tensorstore.dtype(self.dtype), "shape": shape, "chunk_layout": chunks}

    def _open(self, path: str, **options: Any) -> Any:
        spec = {"driver": "zarr3", "kvstore": location(path)}
        context = self._tensorstore.Context(PATIENCE)
        return self._tensorstore.open(spec, open=not options.get("create"), context=context, **options).result()

    def write(self, count: int, parts: list[np.ndarray]) -> None:
        if self.row_bytes == 0:
            self._stored += count
            return
        rows = np.concatenate([self._waiting, *parts])
        end = self._stored + len(rows)
        whole = max(0, end - end % self._rows_per_chunk - self._stored)
        self._put(rows[:whole])
        self._waiting = rows[whole:].copy()  # not a view, which would keep all of them

    def flush(self) -> None:
        self._put(self._waiting)
        self._waiting = self._waiting[:0]

    def _put(self, rows: np.ndarray) -> None:
        if len(rows):
            with self._told():
                self._store[self._stored : self._stored + len(rows)].write(rows).result()
            self._stored += len(rows)

    def sync(self) -> int:
        stored = self._stored
        if self.token() != self._token:
            raise lost(self.path)
        return stored

    def complete(self, rows: int) -> None:
        with self._told():
            if self.rows is None:
                size = [rows, *self.item]
                self._store.resize(exclusive_max=size, resize_metadata_only=True).result()
        with os_errors_told(self.path, NOT_WRITTEN, KEPT):
            (self.path / TOKEN).unlink(missing_ok=True)
            sync_folder(self.path)

    def known_by(self, rows: int) -> list[int]:
        with os_errors_told(self.path, NOT_WRITTEN, KEPT):
            return [self.path.stat().st_ino]

    def is_known(self, path: Path, known: list[int]) -> bool:
        with os_errors_told(path, "the output cannot be read"), suppress(FileNotFoundError):
            return known == [os.lstat(path).st_ino]
        return False

    def rename(self, known: list[int]) -> None:
        super().rename(known)
        with os_errors_told(self._old, NOT_WRITTEN):
            self._clean_up()

    def _replace(self) -> None:
        if self.path.is_dir() and self.output.is_dir():  # of which `check_output` says that it is zarr
            self._clean_up()
            os.replace(self.output, self._old)
        super()._replace()

    @property
    def _old(self) -> Path:
        return self.path.with_name(f"{self.path.name}.old")  # no system replaces a folder at once

    def _clean_up(self) -> None:
        if self._old.exists():
            shutil.rmtree(self._old)

    def close(self) -> None:
        del self._store

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with tensorstore_told(self.path, NOT_WRITTEN, KEPT):
                yield
        except BatchError:
            if self._token not in (None, self.token()):
                raise lost(self.path) from None
            raise


def _discard(folder: Path) -> None:
    """Removes an empty folder, or a partial output: its token last, so that a crash leaves a partial output.

    Raises:
      OSError: it is something else.
    """
    if not os.path.lexists(folder):
        return
    if folder.is_symlink():
        raise OSError(None, "Is a symbolic link; remove it")
    names = os.listdir(folder)
    if names and TOKEN not in names:
        raise OSError(None, "Is no partial output; remove it")
    for name in names:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif name != TOKEN:
            path.unlink()
    (folder / TOKEN).unlink(missing_ok=True)
    folder.rmdir()
