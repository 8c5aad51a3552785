"""`NpyFile`: a .npy file as an input of a batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.supports_dtype import SupportsDType
from ..errors import ConstraintError, DataTypeError
from ..npy_format import NpyHeader, load_npy, read_header
from .errors import BatchError


@dataclass(frozen=True)
class NpyFile:
    """A .npy file as an input.

    Args:
      path: the file.
      dtype: of its elements, for a file that does not name it: `numpy.save` keeps of bfloat16 and float8 only their
        size, as '<V2' and '<V1'. None is what the file says.

    Raises:
      DataTypeError: `dtype` is no type.
    """

    path: str | os.PathLike[str]
    dtype: np.dtype[Any] | type[Any] | SupportsDType | str | None = None

    def __post_init__(self) -> None:
        try:
            np.dtype(self.dtype)
        except (TypeError, ValueError, SyntaxError):  # of a text such as "f4,,"
            wanted = "a type that NumPy or ml_dtypes has, such as jnp.bfloat16 or 'float8_e4m3fn'"
            raise DataTypeError(f"NpyFile({self.path}): dtype must be {wanted}, but it is {self.dtype!r}") from None


def streamed_header(file: BinaryIO, path: Path, dtype: Any = None) -> NpyHeader:
    """Reads and checks the header of an open file that is to be streamed.

    Raises:
      BatchError: it is no .npy file, shorter than its header says, in Fortran order, of Python objects, without a
        leading dimension, or its elements have no type of that size.
      DataTypeError: it holds something else than numbers.
    """
    with _named_in_errors(path):
        header = read_header(file)
    if len(header.shape) == 0:
        raise BatchError(f"{path}: an input must have a leading dimension, the batch, but its shape is ()")
    if header.is_fortran and len(header.shape) > 1:
        what = "save numpy.ascontiguousarray of it"
        raise BatchError(f"{path}: an input must be in C order, but it is in Fortran order; {what}")
    return replace(header, dtype=_named(path, header.dtype, dtype))


@contextmanager
def _named_in_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except DataTypeError as error:
        raise DataTypeError(f"{path}: an input {error}") from None
    except ConstraintError as error:
        raise BatchError(f"{path}: an input {error}") from None


def _named(path: Path, stored: np.dtype, asked: Any) -> np.dtype:
    """Returns the type of the elements: the one that the file names, or `asked` if it names none."""
    if stored.kind != "V":
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


def load_whole(given: NpyFile) -> np.ndarray:
    """Reads a .npy file as an array of any rank.

    Raises:
      BatchError: it cannot be read, is no .npy file, or its elements have no type of that size.
      DataTypeError: it holds something else than numbers.
    """
    path = Path(given.path)
    with _named_in_errors(path):
        array = load_npy(path)
    return array.view(_named(path, array.dtype, given.dtype))
