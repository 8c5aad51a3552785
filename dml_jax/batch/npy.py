"""Headers of .npy files: those of inputs are read and checked, and those of outputs are made."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from .errors import BatchError

__all__ = ["Header", "NpyFile", "header_bytes", "load_whole", "read_header"]


@dataclass(frozen=True)
class NpyFile:
    """A .npy file as an input.

    Args:
      path: the file.
      dtype: of its elements, for a file that does not name it: `numpy.save` keeps of bfloat16 and float8 only their
        size, as '<V2' and '<V1'. None is what the file says.
    """

    path: str | os.PathLike[str]
    dtype: np.dtype[Any] | type[Any] | str | None = None


@dataclass(frozen=True)
class Header:
    """The header of an open .npy file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int  # of the first element

    @property
    def row_bytes(self) -> int:
        """Bytes of a row: from one item of the leading dimension to the next."""
        return self.dtype.itemsize * prod(self.shape[1:])


# By the version of the format.
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_header(file: BinaryIO, path: Path, dtype: Any = None) -> Header:
    """Reads and checks the header of a file that is to be streamed.

    Raises:
      BatchError: it is no .npy file, shorter than its header says, in Fortran order, of Python objects, without a
        leading dimension, or its elements have no type of that size.
    """
    try:
        version = npy.read_magic(file)
        shape, fortran, stored = _READERS[version](file)
    except (ValueError, KeyError) as error:
        raise BatchError(f"{path}: an input must be a .npy file, but its header is wrong: {error}") from None
    header = Header(_named(path, stored, dtype), shape, file.tell())
    if stored.hasobject:
        raise BatchError(f"{path}: an input must hold numbers, but it holds Python objects; convert and save it again")
    if len(shape) == 0:
        raise BatchError(f"{path}: an input must have a leading dimension, the batch, but its shape is ()")
    if fortran and len(shape) > 1:
        what = "save numpy.ascontiguousarray of it"
        raise BatchError(f"{path}: an input must be in C order, but it is in Fortran order; {what}")
    rows = shape[0]
    size, needed = os.fstat(file.fileno()).st_size, header.offset + header.row_bytes * rows
    if size < needed:
        raise BatchError(f"{path}: the file has {size} bytes, but its header says {needed}; it was cut off")
    return header


def _named(path: Path, stored: np.dtype, asked: Any) -> np.dtype:
    """Returns the type of the elements: the one that the file names, or `asked` if it names none."""
    if stored.kind != "V" or stored.names:
        if asked is not None and np.dtype(asked) != stored:
            raise BatchError(f"{path}: the file holds {stored}, not {np.dtype(asked)}; leave out dtype")
        return stored
    what = (
        f"{path}: the file holds elements of {stored.itemsize} bytes without a type, as bfloat16 and float8 are saved"
    )
    if asked is None:
        raise BatchError(f"{what}; say which type: NpyFile(path, dtype)")
    if np.dtype(asked).itemsize != stored.itemsize:
        raise BatchError(f"{what}, and {np.dtype(asked)} has {np.dtype(asked).itemsize}")
    return np.dtype(asked)


def header_bytes(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Returns the header of a .npy file as `numpy.save` writes it; every leading size gives the same length."""
    stream = io.BytesIO()
    # numpy.save has no name for the others, and for float8_e5m2 one that numpy.load does not know.
    descr = dtype.str if np.dtype(dtype.type).isbuiltin == 1 else f"<V{dtype.itemsize}"
    npy.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def load_whole(given: NpyFile) -> np.ndarray:
    """Reads a file as an array of any rank.

    Raises:
      BatchError: it cannot be read, or its elements have no type of that size.
    """
    path = Path(given.path)
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise BatchError(f"{path}: an input cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise BatchError(f"{path}: an input must be a .npy file of numbers, but {error}") from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise BatchError(f"{path}: an input must be a .npy file, but it is an archive of several; unpack it")
    return array.view(_named(path, array.dtype, given.dtype))
