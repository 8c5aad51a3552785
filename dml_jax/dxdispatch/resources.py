"""Reads the resources of a model file: buffers, whose sizes are checked before their contents are made."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.json_fields import as_object, shown
from ..core.tensors.data_type import DataType
from ..core.tensors.int4_packing import as_bytes, as_elements
from ..errors import ConstraintError, Faults
from .initial_value_files import from_file
from .initial_values import Initial, constant, from_array, from_list, from_mixed_list, sequence
from .json_fields import get, integer, only

DEFERRED = "deferred"
PICTURE_OPTIONS = ("resampleSize", "resampleMode")
FIELDS = (
    "initialValues",
    "initialValuesDataType",
    "initialValuesOffsetInBytes",
    "type",
    "sizeInBytes",
    *PICTURE_OPTIONS,
)


@dataclass(frozen=True)
class Buffer:
    """A buffer of `size` bytes that starts with its initial values; the rest is 0.

    Args:
      initial: the values.
      size: in bytes.
      is_deferred: whether it is empty until a dispatch of an ONNX model gives it an output, with its type and size.
    """

    initial: Initial
    size: int
    is_deferred: bool = False

    @property
    def data_type(self) -> DataType | None:
        """The type of the initial values, in which the buffer is printed and written; None for mixed types."""
        return self.initial.data_type

    def make(self) -> np.ndarray:
        """The bytes that the buffer starts with."""
        data = np.zeros(self.size, np.uint8)
        elements = self.initial_range(data)
        self.initial.fill(elements)
        if self.data_type and self.data_type.bits < 8:  # which are no view of the bytes
            data[: self.initial.byte_count] = as_bytes(elements)
        return data

    def initial_range(self, data: np.ndarray) -> np.ndarray:
        """Returns the elements of the buffer that its initial values filled, without the padding."""
        return as_elements(data, self.data_type or DataType.UINT8, self.initial.count)


def read_buffer(json: Any, folder: Path) -> Buffer:
    """Reads one entry of `resources`.

    Raises:
      SeveralErrors: all that is wrong with it.
    """
    json = as_object("a resource", json)
    faults, initial, offset, size = Faults(), None, 0, None
    with faults.at():
        only(json, FIELDS)
    with faults.at():
        if get(json, "type", str, "buffer").lower() != "buffer":
            raise ConstraintError(f"'type' must be 'buffer', but it is {json['type']!r:.60}")
    with faults.at():
        offset = integer(json, "initialValuesOffsetInBytes", 0)
    with faults.at():
        size = integer(json, "sizeInBytes") if "sizeInBytes" in json else None
    with faults.at():
        initial = _read_initial(json, folder)
    faults.finish()
    assert initial is not None
    if json["initialValues"] == DEFERRED:
        return Buffer(initial, 0, is_deferred=True)
    # As in DxDispatch, the offset counts for the size alone: the values start at byte 0.
    least = initial.byte_count + offset
    size = -(-initial.byte_count // 4) * 4 if size is None else size
    if size < least:
        fact = f"the initial values and their offset take, not {size}"
        raise ConstraintError(f"'sizeInBytes' must be at least the {least} that {fact}")
    return Buffer(initial, size)


def _read_initial(json: Mapping[str, Any], folder: Path) -> Initial:
    if "initialValues" not in json:
        raise ConstraintError("'initialValues' is missing")
    name = get(json, "initialValuesDataType", str, "UNKNOWN")
    unknown = name.removeprefix("DML_TENSOR_DATA_TYPE_") == "UNKNOWN"
    data_type = None if unknown else DataType.named(name)
    values, options = json["initialValues"], {key: json[key] for key in PICTURE_OPTIONS if key in json}
    if isinstance(values, Mapping) and "sourcePath" in values:
        return from_file(data_type, values, options, folder)
    if options:
        raise ConstraintError(f"{min(options)!r} is for pictures only")
    if values == DEFERRED:
        return from_array(np.zeros(0, np.uint8), None)
    if isinstance(values, list):
        return from_mixed_list(values) if data_type is None else from_list(data_type, values)
    if not isinstance(values, Mapping):
        raise ConstraintError(f"'initialValues' must be an array, an object or {DEFERRED!r}, but it is {shown(values)}")
    if data_type is None:
        raise ConstraintError("'initialValuesDataType' is missing: it names the type of the values")
    for field, read in (("value", constant), ("valueStart", sequence)):
        if field in values:
            return read(data_type, values)
    raise ConstraintError("'initialValues' must be an array, or an object with 'value', 'valueStart' or 'sourcePath'")
