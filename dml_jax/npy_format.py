"""Reader of .npy files: the header is checked, also against the size of the file, before anything is mapped or made."""

import os
import re
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from .errors import ConstraintError, DataTypeError, describe
from .regular_files import open_regular

__all__ = ["NpyHeader", "load_npy", "map_npy", "read_array", "read_header"]

MAGIC = b"\x93NUMPY"
LENGTHS = {b"\1\0": struct.Struct("<H"), b"\2\0": struct.Struct("<I"), b"\3\0": struct.Struct("<I")}  # by version
LONGEST_HEADER = 2**16  # bytes; version 1.0 has none that is longer
MOST_DIMENSIONS = 64  # of NumPy's arrays
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

    Not by NumPy, which evaluates the header as a literal of Python's: that fails in many ways on other texts, and lets
    sizes be negative and types have no bytes.

    Raises:
      ConstraintError: it is no .npy file, holds Python objects, or is shorter than its header says.
      DataTypeError: it holds something else than numbers.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    text = _text(file)
    entries = _DICTIONARY.fullmatch(text)
    if entries is None or None in entries.groups():
        if _RECORDS.search(text):
            _refuse("it holds records", DataTypeError)
        _refuse(f"its header is wrong: {text!r:.200}")
    dtype = _dtype(entries["descr"])
    shape = _shape(entries["shape"], dtype.itemsize)
    header = NpyHeader(dtype, shape, entries["fortran_order"] == "True", file.tell())
    if size < header.offset + header.nbytes:
        needed = header.offset + header.nbytes
        _refuse(f"it has {size} bytes and its header says {needed}; it was cut off")
    return header


# The dictionary that a header is, with its entries in any order and one blank at most between two tokens.
_SIZE = r"-?(?:0|[1-9][0-9]{0,19})L?"  # Python 2 wrote the L
_ENTRIES = (
    r"""['"]descr['"] ?: ?['"](?P<descr>[^'"]*)['"]""",
    r"""['"]fortran_order['"] ?: ?(?P<fortran_order>True|False)""",
    rf"""['"]shape['"] ?: ?\( ?(?P<shape>(?:{_SIZE} ?, ?)+(?:{_SIZE})?|) ?\)""",
)
_DICTIONARY = re.compile(rf"\{{ ?(?:(?:{'|'.join(_ENTRIES)}) ?(?:, ?|(?=\}}))){{3}}\}} ?")
_RECORDS = re.compile(r"""['"]descr['"] ?: ?[\[(]""")
_TYPE = re.compile(r"[<>=|]?[A-Za-z?]\w*(?:\[\w+\])?", re.ASCII)


def _text(file: BinaryIO) -> str:
    """Returns the dictionary, which stands behind the magic string, the version and its own length."""
    start = file.read(len(MAGIC) + 2)
    if start.startswith(b"PK\x03\x04"):
        _refuse("it is an archive of several; unpack it")
    length = LENGTHS.get(start.removeprefix(MAGIC))
    if length is None:
        _refuse(f"its header is wrong: it begins with {start!r}")
    field = file.read(length.size)
    claimed = length.unpack(field)[0] if len(field) == length.size else 0
    if claimed > LONGEST_HEADER:
        _refuse(f"its header is wrong: it claims {claimed} bytes, and {LONGEST_HEADER} are the most")
    text = file.read(claimed)
    if len(text) < claimed or not text:
        _refuse("its header is wrong: it was cut off")
    return re.sub(rb"[ \t\r\n\f]+", b" ", text).strip(b" ").decode("latin-1")


def _dtype(name: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(name) if _TYPE.fullmatch(name) else None
    except Exception:  # NumPy parses strings, and fails in many ways
        dtype = None
    if dtype is None:
        _refuse(f"its header is wrong: NumPy has no type {name!r:.60}")
    if dtype.hasobject:
        _refuse("it holds Python objects; convert and save it again")
    if dtype.kind not in NUMBERS or dtype.itemsize == 0:
        _refuse(f"it holds elements of {dtype}", DataTypeError)
    return dtype


def _shape(text: str, itemsize: int) -> tuple[int, ...]:
    shape = tuple(int(size.strip(" L")) for size in text.split(",") if size.strip())
    bytes_but_for_zeros = itemsize * prod(max(n, 1) for n in shape)  # which NumPy limits also where some size is 0
    if len(shape) > MOST_DIMENSIONS or min(shape, default=0) < 0 or bytes_but_for_zeros >= 2**63:
        _refuse(f"its header is wrong: no array has the shape {describe(shape)}")
    return shape


def _refuse(fact: str, error: type[ConstraintError] = ConstraintError) -> NoReturn:
    raise error(f"must be a .npy file of numbers, but {fact}")
