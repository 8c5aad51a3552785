"""`Scalar`: DML_SCALAR_UNION, a number whose data type another field of the struct names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from ...errors import ConstraintError, DataTypeError, describe, message
from ..arguments.static_values import Real, TypedNumber
from ..tensors.data_type import DataType, DataTypeLike
from .field_types import Converted
from .fields import Field, named, number_from_json, number_to_json

# The members of DML_SCALAR_UNION that are numbers.
_MEMBERS = {
    name: np.dtype(name.lower())
    for name in ("Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float32", "Float64")
}


def _as_scalar(struct: str, field: str, value: Any) -> int | Real | TypedNumber:
    if isinstance(value, np.integer | np.floating):
        return TypedNumber.of(value)
    if isinstance(value, TypedNumber | Real) or type(value) is int:
        return value
    if type(value) is float:
        return Real(value)
    rule = f"{field} must be a number, or one of NumPy whose bits are meant"
    raise DataTypeError(message(struct, rule, f"it is {describe(value)}", {field: value}))


def _scalar_from_json(json: Any) -> Any:
    if not isinstance(json, Mapping):
        return number_from_json(json)
    if len(json) != 1 or (member := next(iter(json))) not in _MEMBERS:
        raise ConstraintError(f"a scalar must be a number, or an object with one of {', '.join(_MEMBERS)}")
    number, dtype = number_from_json(json[member]), _MEMBERS[member]
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    if not is_number or (limits and not (number == number // 1 and limits.min <= number <= limits.max)):
        raise ConstraintError(f"{member} must be a number that it holds, but it is {json[member]!r:.60}")
    return dtype.type(number)


def _scalar_to_json(value: Any) -> Any:
    if not isinstance(value, TypedNumber):
        return number_to_json(value)
    member = next((name for name, dtype in _MEMBERS.items() if dtype == value.dtype), None)
    number = number_to_json(value.number.item())
    return number if member is None else {member: number}


_TYPE_NAME = named(DataType, "DML_TENSOR_DATA_TYPE_")


def _as_scalar_type(struct: str, field: str, value: Any) -> DataType:
    """Reads a data type as TensorDesc does: a member, a name, or a type of NumPy."""
    name = np.dtype(value).name.upper() if isinstance(value, type | np.dtype) else value
    return _TYPE_NAME.read(struct, field, name)


ScalarType = Annotated[
    Converted[DataType, DataTypeLike],
    replace(_TYPE_NAME, read=_as_scalar_type),
    "that of `output`: a `DataType`, its DirectML name in full or as suffix, or a type of NumPy.",
]
Scalar = Annotated[
    Converted[Any, float | np.number[Any]],
    Field("scalar union", _as_scalar, _scalar_from_json, _scalar_to_json),
    "a number of that type; one of NumPy of as many bits stands for its bits.",
]


def scalar_of(value: Any, data_type: DataType) -> np.generic:
    """Returns the element of `data_type` that a scalar union holds.

    A Python number is converted to the type. A number of NumPy that has the width of the type gives its bits: a UInt16
    gives those of a FLOAT16, for which DirectML's union has no member.

    Raises:
      DataTypeError: the type cannot hold the number.
    """
    dtype = data_type.dtype
    if isinstance(value, TypedNumber) and value.dtype != dtype and value.dtype.itemsize == dtype.itemsize:
        return value.number.view(dtype)
    number = value.number.item() if isinstance(value, TypedNumber) else value
    if dtype.kind == "f":
        with np.errstate(over="ignore"), suppress(OverflowError):
            element = dtype.type(number)
            if math.isinf(element) <= math.isinf(number):
                return element
    if dtype.kind != "f" and math.isfinite(number) and number == int(number) and int(number) in data_type.integers:
        return dtype.type(int(number))
    raise DataTypeError(f"a scalar of {data_type.name} must be a number that it holds, but it is {value!r}")


def truncated(value: float, data_type: DataType) -> np.generic:
    """Returns the element of `data_type` that a FLOAT means.

    For an integer type that is the whole part, the nearest integer of the type if that is out of range, and 0 for NaN.
    """
    dtype = data_type.dtype
    with np.errstate(over="ignore"):
        single = np.float32(value)
        if dtype.kind == "f":
            return dtype.type(single)
    least, most = data_type.integers[0], data_type.integers[-1]
    return dtype.type(0 if np.isnan(single) else int(min(max(float(single), least), most)))
