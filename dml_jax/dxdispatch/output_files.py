"""The output files of a run, all inside of one folder."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path

import numpy as np

from ..core.tensors.data_type import DataType
from ..core.tensors.int4_packing import as_elements
from ..errors import ConstraintError
from ..npy_format import npy_pieces
from .nchw_images import ENCODING_BYTES, PICTURES, encode_picture, picture_shape
from .resources import Buffer


class Targets:
    """The files that a model writes into one folder, checked before any of them is.

    Args:
      folder: where they go; it may not exist yet.
      protected: files that must not be written over; None among them is passed over.
    """

    def __init__(self, folder: Path, protected: Iterable[Path | None] = ()):
        self.folder = folder
        self.protected = {path.resolve() for path in protected if path}
        self.files: set[Path] = set()

    def add(self, target: str) -> None:
        """Adds a file.

        Raises:
          ConstraintError: it lies outside, cannot be a file there, or is a protected one.
        """
        path = resolve_target(target, self.folder)
        shown = f"'targetPath' {target!r}"
        if path in self.protected:
            raise ConstraintError(f"{shown} would overwrite a file that the model is read from")
        parents = [parent for parent in path.parents if parent.exists()]
        if path.is_dir() or any(path in file.parents for file in self.files):
            raise ConstraintError(f"{shown} is a folder")
        if not parents[0].is_dir() or self.files.intersection(path.parents):
            raise ConstraintError(f"{shown} lies below a file that is not a folder")
        if not os.access(parents[0], os.W_OK):
            raise ConstraintError(f"{shown} cannot be written: no permission in {str(parents[0])!r}")
        self.files.add(path)


def resolve_target(target: str, folder: Path) -> Path:
    """Returns the file that `target` names inside of `folder`.

    Raises:
      ConstraintError: it lies outside, or no file can have that name.
    """
    try:
        root = folder.resolve()
        path = (root / target).resolve()
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
    except (OSError, ValueError, RuntimeError) as error:  # too long, NUL, surrogates, a loop of links
        raise ConstraintError(f"'targetPath' {target!r:.60} in {str(folder)!r:.60} names no file: {error}") from None
    if not path.is_relative_to(root) or path == root:
        where = f"lies outside {str(folder)!r}; --output-dir chooses another folder"
        raise ConstraintError(f"'targetPath' {target!r} {where}")
    return path


def encode(buffer: Buffer, data: np.ndarray, target: str, dimensions: Sequence[int]) -> tuple[bytes | memoryview, ...]:
    """Returns the content of a file that a buffer is written to, in pieces; its suffix decides the format.

    Args:
      buffer: which.
      data: its bytes.
      target: the file's name.
      dimensions: the shape to write as .npy or a picture; empty for the initial range. Other files get all bytes.
    """
    suffix, data_type = Path(target).suffix.lower(), buffer.data_type or DataType.UINT8
    elements = as_elements(data, data_type, 8 * data.size // data_type.bits)[: prod(dimensions)]
    if suffix in PICTURES:
        return (encode_picture(elements.reshape(picture_shape(dimensions, buffer.data_type)), PICTURES[suffix]),)
    if suffix == ".npy":
        return npy_pieces(elements.reshape(dimensions) if dimensions else buffer.initial_range(data))
    return (data.data,)


def encoding_bytes(target: str, dimensions: Sequence[int]) -> int:
    """Returns the bytes that `encode` takes: only a picture is not written from its buffer as it lies there."""
    return ENCODING_BYTES * prod(dimensions) if Path(target).suffix.lower() in PICTURES else 0
