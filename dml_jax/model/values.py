"""The initial values of a buffer that a model file spells out: lists, constants, sequences and mixed rows."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..descriptors.fields import DataType
from ..errors import ConstraintError
from .fields import as_object, get, integer, only

__all__ = ["Initial", "constant", "listed", "mixed", "sequence"]


@dataclass(frozen=True)
class Initial:
    """What a buffer starts with: how many bytes, of which type (None for mixed ones), and how to make them."""

    byte_count: int
    data_type: DataType | None
    make: Callable[[], np.ndarray]


def listed(data_type: DataType, values: Sequence[Any]) -> Initial:
    """An array of numbers, or of "nan", "inf" and "-inf" for float types."""
    _not_empty(len(values))
    array = _plain_numbers(data_type, values)
    if array is None:
        numbers = [_number(data_type, value, f"number {i}") for i, value in enumerate(values)]
        array = np.array(numbers, data_type.dtype)
    return Initial(array.nbytes, data_type, lambda: array)


def _plain_numbers(data_type: DataType, values: Sequence[Any]) -> np.ndarray | None:
    """The numbers converted all at once, for long lists; None where one of them needs a look of its own."""
    kinds = set(map(type, values))
    try:
        if data_type.dtype.kind != "f":
            return np.array(values, data_type.dtype) if kinds == {int} else None
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
    return Initial(count * data_type.itemsize, data_type, partial(np.full, count, value, data_type.dtype))


def sequence(data_type: DataType, json: Mapping[str, Any]) -> Initial:
    """`{"valueCount": n, "valueStart": a, "valueDelta": d}`: a, a + d, ..., computed exactly or in float64."""
    only(json, ("valueCount", "valueStart", "valueDelta"))
    count = integer(json, "valueCount", least=1)
    start = _finite("valueStart", json.get("valueStart"))
    delta = _finite("valueDelta", json.get("valueDelta"))
    for i in (0, min(1, count - 1), count - 1):
        _number(data_type, start + i * delta, f"value {i} of the sequence")
    return Initial(count * data_type.itemsize, data_type, partial(_sequence, data_type, count, start, delta))


def _sequence(data_type: DataType, count: int, start: int | float, delta: int | float) -> np.ndarray:
    if isinstance(start, int) and isinstance(delta, int) and data_type.dtype.kind != "f":
        # Modulo 2**64 every step is exact, and the ends are known to fit.
        steps = np.arange(count, dtype=np.uint64) * np.uint64(delta % 2**64) + np.uint64(start % 2**64)
        return steps.astype(data_type.dtype)
    return (float(start) + np.arange(count) * float(delta)).astype(data_type.dtype)


def mixed(values: Sequence[Any]) -> Initial:
    """Values of different types in a row: `[{"name": …, "type": "UINT32", "value": 6}, …]`."""
    _not_empty(len(values))
    parts = []
    for i, value in enumerate(values):
        json = as_object(f"value {i}", value)
        only(json, ("name", "type", "value"))
        data_type = DataType.of(get(json, "type", str))
        if "value" not in json:
            raise ConstraintError(f"value {i}: 'value' is missing")
        parts.append(np.array(_number(data_type, json["value"], f"value {i}"), data_type.dtype).tobytes())
    joined = np.frombuffer(b"".join(parts), np.uint8)
    return Initial(joined.nbytes, None, lambda: joined)


def _not_empty(count: int) -> None:
    if count == 0:
        raise ConstraintError("'initialValues' must not be empty")


_SPECIAL = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def _number(data_type: DataType, value: Any, what: str) -> int | float:
    """A JSON number that the type holds: nothing is rounded to an integer, wrapped, or turned into infinity."""
    dtype = data_type.dtype
    if isinstance(value, str) and value in _SPECIAL and dtype.kind == "f":
        return _SPECIAL[value]
    accepted = "a number" + (', "nan", "inf" or "-inf"' if dtype.kind == "f" else "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConstraintError(f"{what} must be {accepted}, but it is {value!r:.60}")
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            fits = abs(value) <= sys.float_info.max and np.isfinite(np.float64(value).astype(dtype))
        if not fits:
            raise ConstraintError(f"{what} must fit {data_type.name}, but it is {value}")
        return float(value)
    limits = np.iinfo(dtype)
    if value != value // 1 or not limits.min <= value <= limits.max:
        raise ConstraintError(
            f"{what} must be an integer of {data_type.name}, [{limits.min}, {limits.max}], but it is {value}"
        )
    return int(value)


def _finite(field: str, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConstraintError(f"{field!r} must be a number, but it is {value!r:.60}")
    return value
