"""Reads and writes .npy files; checks the header, also against the size of the file, before data are mapped."""

import io
import os
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from .errors import ConstraintError, DataTypeError, describe
from .regular_files import open_regular

LONGEST_HEADER = 2**16  # bytes; version 1.0 has none that is longer
MOST_DIMENSIONS = 64  # of NumPy's arrays
# By version. The text of 3.0 differs from that of 2.0 in names of fields alone, which are refused.
READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,
}
NUMBERS = "biufcV"  # kinds of types; V is that of numbers whose type the file does not name, such as bfloat16


@dataclass(frozen=True)
class NpyHeader:
    """The header of a .npy file.

    Args:
      dtype: of the elements.
      shape: of the array.
      is_fortran: whether the first dimension varies fastest.
      offset: of the first element, in bytes.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """The size of all elements."""
        return self.dtype.itemsize * prod(self.shape)

    @property
    def order(self) -> Any:
        """NumPy's letter for the order of the elements."""
        return "F" if self.is_fortran else "C"


def load_npy(path: Path) -> np.ndarray:
    """Reads a .npy file.

    Raises:
      ConstraintError: it cannot be read, is no .npy file, holds Python objects, or is shorter than its header says.
      DataTypeError: it holds something else than numbers.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return read_array(file)
    except OSError as error:
        raise ConstraintError(f"cannot be read: {error.strerror or error}") from None


def map_npy(path: Path) -> np.ndarray:
    """Maps a .npy file into memory, read-only; raises the same errors as `load_npy`."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            header = read_header(file)
            if header.nbytes == 0:  # which no system maps
                return np.empty(header.shape, header.dtype)
            return np.memmap(file, header.dtype, "r", header.offset, header.shape, header.order)
    except OSError as error:
        raise ConstraintError(f"cannot be read: {error.strerror or error}") from None


def read_array(file: BinaryIO) -> np.ndarray:
    """Reads an open .npy file; raises the same errors as `load_npy`."""
    header = read_header(file)
    array = np.empty(header.shape, header.dtype, header.order)
    if file.readinto(array.reshape(-1, order="A").view(np.uint8)) != header.nbytes:  # type: ignore[attr-defined]
        _refuse("it was cut off while it was read")
    return array


def read_header(file: BinaryIO) -> NpyHeader:
    """Reads the header of an open .npy file, which then stands at the first element.

    Raises:
      ConstraintError: it is no .npy file, holds Python objects, or is shorter than its header says.
      DataTypeError: it holds something else than numbers.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = io.BytesIO(file.read(LONGEST_HEADER))  # a header that claims more bytes is read no further
    shape, is_fortran, dtype = _parsed(start)
    _check_type(dtype)
    _check_shape(shape, dtype.itemsize)
    header = NpyHeader(dtype, shape, is_fortran, start.tell())
    needed = header.offset + header.nbytes
    if size < needed:
        _refuse(f"it has {size} bytes and its header says {needed}; it was cut off")
    file.seek(header.offset)
    return header


def _parsed(start: BinaryIO) -> tuple[Any, bool, np.dtype[Any]]:
    """Returns NumPy's reading of a header; this is a literal of Python, which it fails to evaluate in many ways."""
    if start.read(4) == b"PK\x03\x04":
        _refuse("it is an archive of several; unpack it")
    start.seek(0)
    try:
        return READERS[np.lib.format.read_magic(start)](start, max_header_size=LONGEST_HEADER)
    except Exception as error:
        _refuse(f"its header is wrong: NumPy says {str(error)!r:.200}")


def _check_type(dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        _refuse("it holds Python objects; convert and save it again")
    if dtype.names is not None or dtype.subdtype is not None:
        _refuse("it holds records", DataTypeError)
    if dtype.kind not in NUMBERS or dtype.itemsize == 0:
        _refuse(f"it holds elements of {dtype}", DataTypeError)


def _check_shape(shape: Any, itemsize: int) -> None:
    """NumPy limits the bytes of an array even where some size is 0."""
    is_shape = len(shape) <= MOST_DIMENSIONS and all(type(n) is int and n >= 0 for n in shape)
    if not is_shape or itemsize * prod(max(n, 1) for n in shape) >= 2**63:
        _refuse(f"its header is wrong: no array has the shape {describe(shape)}")


def _refuse(fact: str, error: type[ConstraintError] = ConstraintError) -> NoReturn:
    raise error(f"must be a .npy file of numbers, but {fact}")


# Writing.


def header_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Returns the header of a .npy file as `numpy.save` writes it; every leading size gives the same length."""
    stream = io.BytesIO()
    # numpy.save has no name for the others, and for float8_e5m2 one that numpy.load does not know.
    descr = dtype.str if np.dtype(dtype.type).isbuiltin == 1 else f"<V{dtype.itemsize}"
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def npy_pieces(array: np.ndarray) -> tuple[bytes, memoryview]:
    """Returns the header and the elements as `numpy.save` writes them; those of a C-ordered array are no copy."""
    elements = np.asarray(array, order="C").reshape(-1).view(np.uint8)
    return header_bytes(array.dtype, array.shape), elements.data
