"""Initial values of a buffer from another file: .npy, raw bytes, pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.json_fields import shown
from ..core.tensors.data_type import DataType
from ..core.tensors.int4_packing import as_elements
from ..errors import ConstraintError, DataTypeError
from ..npy_format import map_npy
from .initial_values import Initial, from_array
from .json_fields import get, only
from .nchw_images import PICTURES, read_picture


def from_file(data_type: DataType | None, json: Mapping[str, Any], options: Mapping[str, Any], folder: Path) -> Initial:
    """`{"sourcePath": "file"}`, relative to the model file or the current folder."""
    only(json, ("sourcePath",))
    path = find_file(get(json, "sourcePath", str), folder)
    suffix = path.suffix.lower()
    if suffix in PICTURES:
        return read_picture(path, data_type, options)
    if options:
        raise ConstraintError(f"{min(options)!r} is for pictures only")
    if suffix == ".npy":
        return _from_npy(path, data_type)
    return _from_raw(path, data_type)


def find_file(name: str, folder: Path) -> Path:
    """The file that a model names: beside the model file, or in the current folder.

    Raises:
      ConstraintError: there is none.
    """
    for path in (folder / name, Path(name)):
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):  # a name that no file can have
            break
    raise ConstraintError(f"no file {shown(name)} in the model's folder or the current one")


def _from_npy(path: Path, declared: DataType | None) -> Initial:
    try:
        array = map_npy(path)
    except ConstraintError as error:
        raise ConstraintError(f"{path.name!r} {error}") from None
    if array.size == 0:
        raise ConstraintError(f"{path.name!r} is empty: its shape is {array.shape}")
    try:
        data_type = DataType.of(array.dtype)
    except DataTypeError as error:
        raise ConstraintError(f"{path.name!r} holds {array.dtype}: {error}") from None
    if declared not in (None, data_type):
        raise ConstraintError(f"{path.name!r} holds {data_type.name}, but 'initialValuesDataType' is {declared.name}")
    return from_array(array, data_type, path)


def _from_raw(path: Path, data_type: DataType | None) -> Initial:
    if data_type is None:
        raise ConstraintError(f"raw bytes, {path.name!r}, need 'initialValuesDataType'")
    size = path.stat().st_size
    if size == 0 or size % data_type.itemsize:
        raise ConstraintError(f"{path.name!r} must hold whole elements of {data_type.name}, but it has {size} bytes")
    count = 8 * size // data_type.bits
    return from_array(as_elements(np.memmap(path, np.uint8, mode="r"), data_type, count), data_type, path)
