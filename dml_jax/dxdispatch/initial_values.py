"""Initial values of a buffer inside of a model file: lists, constants, sequences, mixed types."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core.json_fields import as_object, shown
from ..core.structs.fields import number_from_json
from ..core.tensors.data_type import DataType
from ..errors import ConstraintError
from .json_fields import get, integer, only


@dataclass(frozen=True)
class Initial:
    """The initial values of a buffer.

    Args:
      count: how many elements.
      data_type: their type; None for bytes that hold values of different types.
      fill: writes them into an array of that many elements.
      source: the file that they come from.
      temporary: the bytes that `fill` takes and gives back.
    """

    count: int
    data_type: DataType | None
    fill: Callable[[np.ndarray], None]
    source: Path | None = None
    temporary: int = 0

    @property
    def byte_count(self) -> int:
        """The size of all elements."""
        return self.data_type.byte_count(self.count) if self.data_type else self.count

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return self.data_type.dtype if self.data_type else np.dtype(np.uint8)


def from_array(values: np.ndarray, data_type: DataType | None, source: Path | None = None) -> Initial:
    """Returns the initial values of an array."""

    def fill(out: np.ndarray) -> None:
        out.reshape(values.shape)[...] = values  # flat, one in Fortran order would be copied

    return Initial(values.size, data_type, fill, source)


def from_list(data_type: DataType, values: Sequence[Any]) -> Initial:
    """An array of numbers, or of "nan", "inf" and "-inf" for float types."""
    _not_empty(len(values))
    array = _plain_numbers(data_type, values)
    if array is None:
        numbers = [_number(data_type, value, f"number {i}") for i, value in enumerate(values)]
        array = np.array(numbers, data_type.dtype)
    return from_array(array, data_type)


def _plain_numbers(data_type: DataType, values: Sequence[Any]) -> np.ndarray | None:
    """Converts long lists at once; returns None if a number must be checked on its own."""
    kinds = set(map(type, values))
    try:
        if data_type.dtype.kind != "f":
            return np.array(values, data_type.dtype) if kinds == {int} and data_type.bits >= 8 else None
        with np.errstate(over="ignore"):
            array = np.array(values, np.float64).astype(data_type.dtype) if kinds <= {int, float} else None
    except OverflowError:
        return None
    return array if array is not None and np.isfinite(array).all() else None


def constant(data_type: DataType, json: Mapping[str, Any]) -> Initial:
    """`{"valueCount": n, "value": v}`."""
    only(json, ("valueCount", "value"))
    count = integer(json, "valueCount", least=1)
    value = _number(data_type, json["value"], "'value'")
    return Initial(count, data_type, lambda out: out.fill(value))


def sequence(data_type: DataType, json: Mapping[str, Any]) -> Initial:
    """`{"valueCount": n, "valueStart": a, "valueDelta": d}`: each value is the one before plus d, in the element type.

    Floats are rounded at every step: FLOAT16 0, 1, 2, ... stays at 2048. Integers wrap, so a step may be negative.
    """
    only(json, ("valueCount", "valueStart", "valueDelta"))
    count = integer(json, "valueCount", least=1)
    for field in ("valueStart", "valueDelta"):
        if field not in json:
            raise ConstraintError(f"{field!r} is missing")
    start, delta = _number(data_type, json["valueStart"], "'valueStart'"), json["valueDelta"]
    if type(delta) is not int or data_type.dtype.kind == "f":
        delta = _number(data_type, delta, "'valueDelta'")
    return Initial(count, data_type, partial(_fill_sequence, start, delta))


def _fill_sequence(start: int | float, delta: int | float, out: np.ndarray) -> None:
    if isinstance(delta, int):
        wrapped = delta % 2 ** (8 * out.itemsize)
        out[1:].view(f"u{out.itemsize}")[:] = wrapped
    else:
        out[1:] = delta
    out[:1] = start
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.accumulate(out, out=out)


def from_mixed_list(values: Sequence[Any]) -> Initial:
    """Values of different types in a row: `[{"name": …, "type": "UINT32", "value": 6}, …]`."""
    _not_empty(len(values))
    parts = []
    for i, value in enumerate(values):
        json = as_object(f"value {i}", value)
        only(json, ("name", "type", "value"))
        data_type = DataType.named(get(json, "type", str))
        if "value" not in json:
            raise ConstraintError(f"value {i}: 'value' is missing")
        parts.append(np.array(_number(data_type, json["value"], f"value {i}"), data_type.dtype).tobytes())
    return from_array(np.frombuffer(b"".join(parts), np.uint8), None)


def _not_empty(count: int) -> None:
    if count == 0:
        raise ConstraintError("'initialValues' must not be empty")


def _number(data_type: DataType, value: Any, what: str) -> int | float:
    """Reads a number that the type can hold; none is rounded to an integer, wrapped, or made infinite."""
    dtype = data_type.dtype
    if isinstance(value, str) and dtype.kind == "f":
        value = number_from_json(value)
        if not isinstance(value, str):
            return value
    accepted = "a number" + (', "nan", "inf" or "-inf"' if dtype.kind == "f" else "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConstraintError(f"{what} must be {accepted}, but it is {shown(value)}")
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            fits = abs(value) <= sys.float_info.max and np.isfinite(np.float64(value).astype(dtype))
        if not fits:
            raise ConstraintError(f"{what} must fit {data_type.name}, but it is {value}")
        return float(value)
    limits = data_type.integers
    if value != value // 1 or not limits[0] <= value <= limits[-1]:
        raise ConstraintError(
            f"{what} must be an integer of {data_type.name}, [{limits[0]}, {limits[-1]}], but it is {value}"
        )
    return int(value)
