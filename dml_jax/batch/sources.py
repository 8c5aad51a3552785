"""`Source`: an input of `map_batches` that is read by rows: an array anywhere, shards of one, or an iterator."""

import hashlib
import itertools
import json
import operator
import os
import zlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from ..core.arguments.arrays import as_data
from ..errors import ConstraintError, DataTypeError, describe
from .array_files import opened, parts_of
from .errors import BatchError
from .npy_file import NpyFile
from .stored_array import CHANGED, StoredArray


class Slices(Protocol):
    """An array of any library."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


class Source(ABC):
    """An operand that is read by rows.

    Attributes:
      name: for messages.
      dtype: in native byte order.
      item: the shape of a row.
      rows: how many there are; None for an iterator, until it ends.
    """

    name: str
    dtype: np.dtype
    item: tuple[int, ...]
    rows: int | None

    @property
    def kind(self) -> str:
        """Its type and shape, such as "float32[any,3]"."""
        return kind_of(self.dtype, self.item)

    @abstractmethod
    def read(self, start: int, count: int) -> np.ndarray:
        """Returns rows from `start` on, in C order; fewer than `count` only where the operand ends."""

    def identity(self) -> dict[str, Any] | None:
        """Returns a fingerprint by which a resumed run recognizes the operand; None if it cannot be read again."""
        return None

    def check(self) -> None:  # noqa: B027 # an iterator does not change
        """Raises BatchError where the operand has changed since it was opened."""


class ArraySource(Source):
    """An object with a shape, a type and slices: in files, in the caller's memory, or of another library."""

    def __init__(self, name: str, array: Any):
        self.name = f"{name} ({array.path})" if isinstance(array, StoredArray) else name
        self._array = array
        try:
            shape = tuple(map(operator.index, array.shape))
        except TypeError:  # NaN, for what dask does not know
            fact = f"but its shape is {array.shape}; compute it first"
            raise ConstraintError(f"map_batches: {name} must have sizes that are known, {fact}") from None
        if not shape:
            raise ConstraintError(f"map_batches: {name} must have a leading dimension, the batch, but its shape is ()")
        check_unmasked(f"map_batches: {name}", array)
        with self._told("its type"):
            stored = np.asarray(array[:0]).dtype  # other libraries have types of their own
        self.dtype = as_data_type(self.name, stored, shape)
        self.rows = shape[0]
        self.item = shape[1:]
        self._shape = shape
        self._seen = array.state() if isinstance(array, StoredArray) else None

    def read(self, start: int, count: int) -> np.ndarray:
        stop = min(start + count, self._shape[0])
        with self._told(f"rows {start} to {stop}"):
            rows = np.ascontiguousarray(self._array[start:stop], self.dtype)
            if rows.shape != (stop - start, *self.item):
                raise ValueError(f"they are {describe(rows)}")
        return rows

    def identity(self) -> dict[str, Any]:
        kind = {"dtype": str(self.dtype), "shape": list(self._shape)}
        if self._seen is not None:
            return {"path": self._array.path, **self._seen, **kind}
        # Read once for its sum, a window at a time: nothing else tells that an array is the same in another process.
        row_bytes = self.dtype.itemsize * int(np.prod(self.item, dtype=object))
        step, total = max(1, 2**22 // max(1, row_bytes)), 0
        for start in range(0, self._shape[0], step) if row_bytes else ():
            total = zlib.crc32(self.read(start, step).reshape(-1).view(np.uint8).data, total)
        return {"crc32": total, **kind}

    def check(self) -> None:
        if self._seen is not None and self._array.state() != self._seen:
            raise BatchError(f"{self._array.path}: {CHANGED}")

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            raise
        except BatchError as error:
            raise BatchError(f"{error} ({what})") from None
        except Exception as error:  # every library has its own
            raise BatchError(f"{self.name}: {what} cannot be read: {error}") from error


class ShardSource(Source):
    """Arrays one after the other, which are read in several threads."""

    def __init__(self, name: str, shards: Sequence[Source]):
        first = shards[0]
        self.name, self.dtype, self.item = name, first.dtype, first.item
        for shard in shards:
            if shard.kind != first.kind:
                wanted = f"{first.kind}, as {first.name} is, but it is {shard.kind}"
                raise ConstraintError(f"map_batches: {shard.name} must be {wanted}")
        self._shards = shards
        self._ends = [*itertools.accumulate(shard.rows or 0 for shard in shards)]
        self.rows = self._ends[-1]
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None)

    def read(self, start: int, count: int) -> np.ndarray:
        stop = min(start + count, self._ends[-1])
        shards = range(bisect_right(self._ends, start), bisect_right(self._ends, max(start, stop - 1)) + 1)
        if len(shards) == 1:
            return self._read(shards[0], start, stop)  # nothing is copied
        batch = np.empty((stop - start, *self.item), self.dtype)

        def fill(shard: int) -> None:
            rows = self._read(shard, start, stop)
            first = max(start, self._ends[shard - 1] if shard else 0) - start
            batch[first : first + len(rows)] = rows

        list(self._pool.map(fill, shards))
        return batch

    def _read(self, shard: int, start: int, stop: int) -> np.ndarray:
        """Returns the rows that one shard has."""
        before = self._ends[shard - 1] if shard else 0
        first = max(start, before)
        return self._shards[shard].read(first - before, min(stop, self._ends[shard]) - first)

    def identity(self) -> dict[str, Any]:
        known = [shard.identity() for shard in self._shards]
        checksum = hashlib.sha256(json.dumps(without_paths(known)).encode()).hexdigest()
        return {"count": len(known), "shards": known[:SHOWN], "sum": checksum[:32]}

    def check(self) -> None:
        for shard in self._shards:
            shard.check()


class IteratorSource(Source):
    """An iterator of arrays of any leading size; they are split and joined into batches."""

    def __init__(self, name: str, arrays: Iterable[Any]):
        self.name = name
        self.rows = None
        self._arrays: Iterator[Any] = iter(arrays)
        self._count = itertools.count()
        self._left: np.ndarray | None = self._next()
        if self._left is None:
            raise ConstraintError(f"map_batches: {name} must give at least one array, but it gives none")
        if self._left.ndim == 0:
            raise ConstraintError(f"map_batches: {name} must give arrays with a leading dimension, but one has none")
        self.dtype = as_data_type(name, self._left.dtype, self._left.shape)
        self.item = self._left.shape[1:]
        self._check(self._left)

    def read(self, start: int, count: int) -> np.ndarray:
        # Copied at once: an iterator may give the same memory again and again.
        batch, filled = np.empty((count, *self.item), self.dtype), 0
        while self._left is not None and filled < count:
            part, self._left = self._left[: count - filled], self._left[count - filled :]
            batch[filled : filled + len(part)] = part
            filled += len(part)
            if len(self._left) == 0 and filled < count:
                self._left = self._next()
                self._check(self._left)
        return batch[:filled]

    def _next(self) -> np.ndarray | None:
        given = next(self._arrays, None)
        check_unmasked(f"map_batches: {self.name}", given)
        return None if given is None else np.asarray(given)

    def _check(self, array: np.ndarray | None) -> None:
        if array is None:
            return
        which = f"array {next(self._count)} of {self.name}"
        if array.ndim == 0 or array.shape[1:] != self.item or _native(array.dtype) != self.dtype:
            wanted = f"{self.kind}, as the first is"
            raise ConstraintError(f"map_batches: {which} must be {wanted}, but it is {describe(array)}")


SHOWN = 20  # shards that are recorded one by one


def as_source(name: str, given: Any) -> Source:
    """Returns the source for an input that a caller gives.

    Raises:
      BatchError: a file that cannot be streamed.
      ConstraintError: nothing that has rows, or shards of several kinds.
      DataTypeError: a type that JAX lacks, or a 64-bit one while x64 is off.
    """
    if isinstance(given, str | os.PathLike) and (parts := parts_of(os.fspath(given))) is not None:
        given = parts
    if isinstance(given, str | os.PathLike | NpyFile):
        return ArraySource(name, opened(given))
    if isinstance(given, list | tuple) and given:
        shards = [as_source(f"{name}[{i}]", part) for i, part in enumerate(given)]
        if any(shard.rows is None for shard in shards):
            raise ConstraintError(f"map_batches: {name} must be a list of paths or arrays, but it has an iterator")
        return ShardSource(name, shards)
    if all(hasattr(given, part) for part in ("shape", "dtype", "__getitem__")):
        return ArraySource(name, given)
    if isinstance(given, Iterable) and not isinstance(given, Mapping | Sequence):
        return IteratorSource(name, given)
    rule = f"map_batches: {name} must be a path, an array, a list of them or an iterator of arrays"
    raise DataTypeError(f"{rule}, but it is {type(given).__name__}; numpy.asarray makes an array")


def without_paths(identity: Any) -> Any:
    """Returns an identity as it is for every process, wherever it has mounted the files."""
    if isinstance(identity, dict):
        return {key: without_paths(value) for key, value in identity.items() if key != "path"}
    return [*map(without_paths, identity)] if isinstance(identity, list) else identity


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


def kind_of(dtype: np.dtype, item: tuple[int, ...]) -> str:
    """Returns the type and the shape of any number of rows, such as "float32[any,3]"."""
    return f"{dtype}[{','.join(map(str, ('any', *item)))}]"
