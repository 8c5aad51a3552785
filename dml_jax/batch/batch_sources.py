"""`Source`: a stream of batches from a .npy file, an array, or an iterator of arrays."""

import itertools
import mmap
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..core.arguments.arrays import as_data
from ..errors import ConstraintError, DataTypeError, describe
from ..regular_files import open_regular
from .batches_in_flight import InFlight
from .errors import BatchError, os_errors_told
from .npy_file import NpyFile, streamed_header

_POPULATE = getattr(mmap, "MAP_POPULATE", 0)  # Linux: one call instead of a fault per page


class Source(Protocol):
    """An operand that is read by rows.

    Attributes:
      name: for messages.
      dtype: in native byte order.
      item: the shape of a row.
      rows: how many there are; None for an iterator, until it ends.
      in_flight: the memory of the batches that were read.
    """

    name: str
    dtype: np.dtype
    item: tuple[int, ...]
    rows: int | None
    in_flight: InFlight

    def read(self, start: int, count: int) -> np.ndarray:
        """Returns rows from `start` on; fewer than `count` only where an iterator ends."""
        ...

    def identity(self) -> dict[str, Any] | None:
        """Returns a fingerprint by which a resumed run recognizes the operand; None if it cannot be read again."""
        ...

    def check(self) -> None:
        """Raises BatchError where the operand has changed since it was opened."""
        ...

    def close(self) -> None:
        """Closes the file; arrays that were read stay valid."""
        ...


class FileSource:
    """A .npy file, of which only the windows in use are mapped.

    Raises:
      BatchError: it cannot be opened or streamed.
    """

    def __init__(self, name: str, given: NpyFile):
        self.path: Path = Path(given.path)
        self.in_flight: InFlight = InFlight()
        self.name: str = f"{name} ({self.path})"
        with self._told():
            self._file = os.fdopen(open_regular(self.path), "rb")
        try:
            with self._told():
                self._header = streamed_header(self._file, self.path, given.dtype)
            self.dtype: np.dtype[Any] = as_data_type(self.name, self._header.dtype, self._header.shape)
            self._seen = self._state()
        except BaseException:
            self.close()
            raise
        self.rows: int | None = self._header.shape[0]
        self.item: tuple[int, ...] = self._header.shape[1:]
        self._row_bytes = self.dtype.itemsize * prod(self.item)

    def read(self, start: int, count: int) -> np.ndarray:
        self.check()
        header, shape = self._header, (count, *self.item)
        size = count * self._row_bytes
        if size == 0:
            return np.zeros(shape, self.dtype)
        first = header.offset + start * self._row_bytes
        page = first // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        flags = mmap.MAP_SHARED | _POPULATE
        with self._told():
            window = mmap.mmap(
                self._file.fileno(), first - page + size, flags=flags, prot=mmap.PROT_READ, offset=page
            )  # unmapped with the last array over it
        self.in_flight.add(window)
        array = np.frombuffer(window, np.uint8, size, first - page).view(header.dtype).reshape(shape)
        return array.astype(self.dtype, copy=False)

    def identity(self) -> dict[str, Any]:
        size, mtime = self._seen
        known = {"path": str(self.path.resolve()), "size": size, "mtime_ns": mtime}
        return {**known, "dtype": str(self.dtype), "shape": [self.rows, *self.item]}

    def close(self) -> None:
        self._file.close()

    def check(self) -> None:
        if self._state() != self._seen:
            raise BatchError(f"{self.path}: the input was changed while it was read; start over with restart")

    def _state(self) -> tuple[int, int]:
        with self._told():
            status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

    def _told(self) -> AbstractContextManager[None]:
        return os_errors_told(self.path, "an input cannot be read")


class ArraySource:
    """A NumPy array, mapped from a file or not."""

    def __init__(self, name: str, array: np.ndarray):
        self.name: str = name
        self.in_flight: InFlight = InFlight()  # nothing: the memory is the caller's
        if array.ndim == 0:
            raise ConstraintError(f"map_batches: {name} must have a leading dimension, the batch, but its shape is ()")
        check_unmasked(f"map_batches: {name}", array)
        self.dtype: np.dtype[Any] = as_data_type(name, array.dtype, array.shape)
        self.rows: int | None = array.shape[0]
        self.item: tuple[int, ...] = array.shape[1:]
        self._array = array

    def read(self, start: int, count: int) -> np.ndarray:
        return np.ascontiguousarray(self._array[start : start + count], self.dtype)

    def identity(self) -> dict[str, Any]:
        # Read once for its sum, a window at a time: nothing else tells that an array is the same in another process.
        step, total = max(1, 2**22 // max(1, self._array[:1].nbytes)), 0
        for start in range(0, self._array.shape[0], step):
            total = zlib.crc32(self.read(start, step).reshape(-1).view(np.uint8).data, total)
        return {"crc32": total, "dtype": str(self.dtype), "shape": [self.rows, *self.item]}

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


class IteratorSource:
    """An iterator of arrays of any leading size; they are split and joined into batches."""

    def __init__(self, name: str, arrays: Iterable[Any]):
        self.name: str = name
        self.in_flight: InFlight = InFlight()
        self.rows: int | None = None
        self._arrays: Iterator[Any] = iter(arrays)
        self._count = itertools.count()
        self._left: np.ndarray | None = self._next()
        if self._left is None:
            raise ConstraintError(f"map_batches: {name} must give at least one array, but it gives none")
        if self._left.ndim == 0:
            raise ConstraintError(f"map_batches: {name} must give arrays with a leading dimension, but one has none")
        self.dtype: np.dtype[Any] = as_data_type(name, self._left.dtype, self._left.shape)
        self.item: tuple[int, ...] = self._left.shape[1:]
        self._check(self._left)

    def read(self, start: int, count: int) -> np.ndarray:
        # Copied at once: an iterator may give the same memory again and again.
        batch, filled = np.empty((count, *self.item), self.dtype), 0
        self.in_flight.add(batch)
        while self._left is not None and filled < count:
            part, self._left = self._left[: count - filled], self._left[count - filled :]
            batch[filled : filled + len(part)] = part
            filled += len(part)
            if len(self._left) == 0 and filled < count:
                self._left = self._next()
                self._check(self._left)
        return batch[:filled]

    def identity(self) -> None:
        return None

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _next(self) -> np.ndarray | None:
        given = next(self._arrays, None)
        check_unmasked(f"map_batches: {self.name}", given)
        return None if given is None else np.asarray(given)

    def _check(self, array: np.ndarray | None) -> None:
        if array is None:
            return
        which = f"array {next(self._count)} of {self.name}"
        if array.ndim == 0 or array.shape[1:] != self.item or _native(array.dtype) != self.dtype:
            wanted = f"{self.dtype}[{','.join(map(str, ('any', *self.item)))}], as the first is"
            raise ConstraintError(f"map_batches: {which} must be {wanted}, but it is {describe(array)}")


def as_source(name: str, given: Any) -> Source:
    """Returns the source for an input that a caller gives.

    Raises:
      BatchError: a file that cannot be streamed.
      ConstraintError: nothing that has rows.
      DataTypeError: a type that JAX lacks, or a 64-bit one while x64 is off.
    """
    if isinstance(given, str | os.PathLike):
        given = NpyFile(given)
    if isinstance(given, NpyFile):
        return FileSource(name, given)
    if isinstance(given, np.ndarray):
        return ArraySource(name, given)
    if isinstance(given, Sequence):
        is_iterable = bool(given) and all(isinstance(part, np.ndarray) for part in given)
    else:
        is_iterable = isinstance(given, Iterable) and not isinstance(given, Mapping) and not hasattr(given, "shape")
    if is_iterable:
        return IteratorSource(name, given)
    rule = f"map_batches: {name} must be a path of a .npy file, a NumPy array or an iterator of them"
    remedy = "several inputs are a tuple" if isinstance(given, list) else "numpy.asarray makes an array"
    raise DataTypeError(f"{rule}, but it is {type(given).__name__}; {remedy}")


def check_unmasked(name: str, array: Any) -> None:
    """Raises DataTypeError if an array has a mask, which NumPy and JAX would drop."""
    if isinstance(array, np.ma.MaskedArray):
        raise DataTypeError(f"{name} must be an array without a mask, but it is MaskedArray; its filled(value) is one")


def as_data_type(name: str, dtype: np.dtype, shape: tuple[int, ...], caller: str = "map_batches") -> np.dtype:
    """Returns the type in native byte order.

    Raises:
      DataTypeError: JAX lacks it, or it has 64 bits while x64 is off.
    """
    native = _native(dtype)
    as_data(caller, name, np.broadcast_to(np.zeros((), native), shape))  # no memory, whatever the shape
    return native


def _native(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.isnative else dtype.newbyteorder("=")  # which NumPy's StringDType lacks
