"""DirectML's data types and tensor flags."""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from functools import cache, reduce
from string import ascii_uppercase
from typing import Any, Literal

import numpy as np

from ...errors import ConstraintError, DataTypeError, message
from ..supports_dtype import SupportsDType


class DataType(enum.IntEnum):
    """DML_TENSOR_DATA_TYPE: types of the elements of tensors; UINT4 and INT4 are for QUANTIZE and DEQUANTIZE alone."""

    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @property
    @cache
    def dtype(self) -> np.dtype[Any]:
        """The type of the same name, of NumPy, or of JAX where NumPy has none."""
        if self.bits < 8:
            import jax.numpy as jnp  # the names of types are known without it

            return np.dtype(getattr(jnp, self.name.lower()))
        return np.dtype(self.name.lower())

    @property
    def bits(self) -> int:
        """Bits of one element in a buffer."""
        return int(self.name.lstrip(ascii_uppercase))

    @property
    def itemsize(self) -> int:
        """Bytes of one element of an array, where one of 4 bits takes a byte of its own."""
        return -(-self.bits // 8)

    @property
    def integers(self) -> range:
        """The integers that it holds; none for floats."""
        if self.name.startswith("FLOAT"):
            return range(0)
        return (
            range(2**self.bits) if self.name.startswith("U") else range(-(2 ** (self.bits - 1)), 2 ** (self.bits - 1))
        )

    def byte_count(self, count: int) -> int:
        """Bytes of so many elements in a buffer, where a byte holds two of 4 bits."""
        return -(-count * self.bits // 8)

    @classmethod
    def named(cls, name: str) -> DataType:
        """Reads DirectML's name of a data type, in full or as suffix.

        Raises:
          DataTypeError: no such name.
        """
        suffix = name.removeprefix("DML_TENSOR_DATA_TYPE_")
        if suffix in cls.__members__:
            return cls[suffix]
        raise cls._unknown(name)

    @classmethod
    def of(cls, value: DataTypeLike | str) -> DataType:
        """Reads a data type: a `DataType`, its DirectML name in full or as suffix, or an argument of numpy.dtype.

        Raises:
          DataTypeError: no such type, such as bool, bfloat16 or UINT2.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.removeprefix("DML_TENSOR_DATA_TYPE_") in cls.__members__:
            return cls.named(value)
        if value is None:  # which NumPy takes for float64
            raise cls._unknown(value)
        try:
            name = value if isinstance(value, str) and value in ("int4", "uint4") else np.dtype(value).name
            return cls[name.upper()]
        except Exception:  # NumPy parses strings, and fails in many ways
            raise cls._unknown(value) from None

    @classmethod
    def _unknown(cls, value: Any) -> DataTypeError:
        return DataTypeError(f"DataType must be one of {', '.join(cls.__members__)}, but it is {value!r:.60}.")


class TensorFlags(enum.IntFlag):
    """DML_TENSOR_FLAGS."""

    NONE = 0
    OWNED_BY_DML = 1

    @classmethod
    def of(cls, value: TensorFlags | str | Sequence[TensorFlags | str]) -> TensorFlags:
        """Reads flags: a `TensorFlags`, its DirectML name in full or as suffix, or a list of such.

        Raises:
          ConstraintError: no such flag.
        """
        name = value.removeprefix("DML_TENSOR_FLAG_") if isinstance(value, str) else ""
        if isinstance(value, cls):
            return value
        if isinstance(value, list | tuple):
            return reduce(operator.or_, map(cls.of, value), cls.NONE)
        if name in cls.__members__:
            return cls[name]
        rule = f"Flags must be one of {', '.join(cls.__members__)}"
        raise ConstraintError(message("TENSOR", rule, f"it is {value!r}", {"Flags": value}))


# For type checkers: DirectML's names as suffix and in full, and NumPy's.
DataTypeName = Literal[
    "FLOAT32",
    "FLOAT16",
    "UINT32",
    "UINT16",
    "UINT8",
    "INT32",
    "INT16",
    "INT8",
    "FLOAT64",
    "UINT64",
    "INT64",
    "UINT4",
    "INT4",
    "DML_TENSOR_DATA_TYPE_FLOAT32",
    "DML_TENSOR_DATA_TYPE_FLOAT16",
    "DML_TENSOR_DATA_TYPE_UINT32",
    "DML_TENSOR_DATA_TYPE_UINT16",
    "DML_TENSOR_DATA_TYPE_UINT8",
    "DML_TENSOR_DATA_TYPE_INT32",
    "DML_TENSOR_DATA_TYPE_INT16",
    "DML_TENSOR_DATA_TYPE_INT8",
    "DML_TENSOR_DATA_TYPE_FLOAT64",
    "DML_TENSOR_DATA_TYPE_UINT64",
    "DML_TENSOR_DATA_TYPE_INT64",
    "DML_TENSOR_DATA_TYPE_UINT4",
    "DML_TENSOR_DATA_TYPE_INT4",
    "float32",
    "float16",
    "uint32",
    "uint16",
    "uint8",
    "int32",
    "int16",
    "int8",
    "float64",
    "uint64",
    "int64",
    "uint4",
    "int4",
]
# The arguments of `DataType.of`: types of JAX and NumPy too, such as jnp.float32.
DataTypeLike = DataType | DataTypeName | np.dtype[Any] | type[Any] | SupportsDType
