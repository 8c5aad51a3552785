"""Files that a run writes: inside one folder, whole or not at all."""

import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path

import numpy as np

from ..descriptors.fields import DataType
from ..errors import ConstraintError
from .pictures import encode_png, picture_shape

__all__ = ["encode", "resolve_target", "write_whole"]


def resolve_target(target: str, folder: Path, protected: Iterable[Path] = ()) -> Path:
    """The file that `target` means inside `folder`.

    Raises:
      ConstraintError: it lies outside, is a folder, or is one of the `protected` files.
    """
    root = folder.resolve()
    path = (root / target).resolve()
    if not path.is_relative_to(root):
        raise ConstraintError(
            f"'targetPath' {target!r} lies outside {str(folder)!r}; --output-dir chooses another folder"
        )
    if path.is_dir():
        raise ConstraintError(f"'targetPath' {target!r} is a folder")
    if any(path == source.resolve() for source in protected):
        raise ConstraintError(f"'targetPath' {target!r} would overwrite a file that the model is read from")
    return path


def encode(data: np.ndarray, data_type: DataType | None, target: str, dimensions: Sequence[int], count: int) -> bytes:
    """The bytes of the file that a buffer is written to, by the ending of its name.

    Args:
      data: the buffer's bytes.
      data_type: of its elements; None for bytes.
      target: the file's name.
      dimensions: the shape to write; empty for all of the buffer, as one row.
      count: how many elements one row of .npy has.
    """
    suffix = Path(target).suffix.lower()
    if data_type is None:
        return data[: prod(dimensions) if dimensions else None].tobytes()
    elements = data[: data.size // data_type.itemsize * data_type.itemsize].view(data_type.dtype)
    if suffix == ".png":
        shape = picture_shape(dimensions, data_type)
        return encode_png(elements[: prod(shape)].reshape(shape))
    if suffix == ".npy":
        shape = tuple(dimensions) or (count,)
        buffer = io.BytesIO()
        np.save(buffer, elements[: prod(shape)].reshape(shape), allow_pickle=False)
        return buffer.getvalue()
    return elements[: prod(dimensions)].tobytes() if dimensions else data.tobytes()


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file beside its name and renames it, so that the name never holds half of it.

    Raises:
      OSError: the folder cannot be written, or the disk is full; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
