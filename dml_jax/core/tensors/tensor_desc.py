"""`TensorDesc`: DirectML's description of a tensor in a flat buffer, by sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...errors import SeveralErrors
from ..arguments.static_values import as_int, as_ints
from ..rules import Fact, Operands, Rule, faults
from .data_type import DataType, DataTypeLike, TensorFlags

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
DIMENSION_COUNT_MAX = 8


@dataclass(frozen=True, init=False)
class TensorDesc:
    """Describes a tensor in a flat buffer; one that exists is valid.

    Args:
      data_type: a `DataType`, its DirectML name in full or as suffix, or anything that numpy.dtype takes.
      sizes: 1 to 8 sizes, each at least 1.
      strides: elements, not bytes, from one coordinate to the next, per dimension; None for packed row-major.
        0 repeats an element along a dimension.
      flags: OWNED_BY_DML for an input handed over once, when the operator is initialised.
      total_tensor_size_in_bytes: at least the bytes that the elements span, rounded up to 4; None for exactly these.
      guaranteed_base_offset_alignment: bytes; 0, or a power of two of at least the element size.

    Raises:
      ConstraintError: a rule above is broken.
      DataTypeError: `data_type` is none of DirectML's, or a number is not an integer.

    Example:
      >>> from dml_jax import TensorDesc
      >>> rows = TensorDesc("FLOAT32", (2, 3), strides=(5, 1))
      >>> rows.element_span, rows.total_tensor_size_in_bytes
      (8, 32)

    Source: DML_BUFFER_TENSOR_DESC. The element limit of 2**32 - 1 is applied to the span in the buffer.
    """

    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    flags: TensorFlags
    total_tensor_size_in_bytes: int
    guaranteed_base_offset_alignment: int

    def __init__(
        self,
        data_type: DataTypeLike,
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        flags: TensorFlags | str = TensorFlags.NONE,
        total_tensor_size_in_bytes: int | None = None,
        guaranteed_base_offset_alignment: int = 0,
    ):
        values = {
            "data_type": DataType.of(data_type),
            "sizes": as_ints("TENSOR", "Sizes", sizes),
            "strides": None if strides is None else as_ints("TENSOR", "Strides", strides),
            "flags": TensorFlags.of(flags),
            "total_tensor_size_in_bytes": total_tensor_size_in_bytes,
            "guaranteed_base_offset_alignment": guaranteed_base_offset_alignment,
        }
        if total_tensor_size_in_bytes is None:
            values["total_tensor_size_in_bytes"] = _implied_size(values)
        for name in ("total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"):
            values[name] = as_int("TENSOR", FIELDS[name], values[name])
        errors = list(faults("TENSOR", TENSOR, values, FIELDS))
        if errors:
            raise errors[0] if len(errors) == 1 else SeveralErrors(errors)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, under the name that arrays have for them."""
        return self.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements in arrays."""
        return self.data_type.dtype

    @property
    def element_span(self) -> int:
        """Elements of the buffer from the first to the last that a coordinate addresses, both included."""
        return _span(self.sizes, self.strides)

    @property
    def is_packed(self) -> bool:
        """Whether the elements lie in row-major order without gaps; strides of size-1 dimensions do not matter."""
        if self.strides is None:
            return True
        wanted = packed_strides(self.sizes)
        return all(s == w for n, s, w in zip(self.sizes, self.strides, wanted, strict=True) if n > 1)

    def describe(self) -> str:
        """The tensor in a few characters, for messages."""
        text = f"{self.data_type.name}[{','.join(map(str, self.sizes))}]"
        if self.strides is not None:
            text += f" strides ({','.join(map(str, self.strides))})"
        return text + (" OWNED_BY_DML" if self.flags else "")


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    return tuple(prod(sizes[d + 1 :]) for d in range(len(sizes)))


def implied_bytes(sizes: Sequence[int], strides: Sequence[int] | None, data_type: DataType) -> int:
    """The least size of a buffer: the bytes of the span of the elements, rounded up to a multiple of 4."""
    return -(-data_type.byte_count(_span(sizes, strides)) // 4) * 4


def span_bytes(tensor: TensorDesc) -> int:
    """The bytes of a buffer from the first to the last element of a tensor."""
    return tensor.data_type.byte_count(tensor.element_span)


def _span(sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    if strides is None:
        return prod(sizes)
    return 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


FIELDS = {
    "data_type": "DataType",
    "sizes": "Sizes",
    "strides": "Strides",
    "flags": "Flags",
    "total_tensor_size_in_bytes": "TotalTensorSizeInBytes",
    "guaranteed_base_offset_alignment": "GuaranteedBaseOffsetAlignment",
}


def _implied_size(x: Operands) -> int:
    """Returns the size in bytes of a tensor that gives none; 0 if sizes or strides break a rule."""
    return implied_bytes(x["sizes"], x["strides"], x["data_type"]) if _measurable(x) else 0


def _measurable(x: Operands) -> bool:
    return (
        len(x["sizes"]) <= DIMENSION_COUNT_MAX
        and all(n >= 1 for n in x["sizes"])
        and (x["strides"] is None or (len(x["strides"]) == len(x["sizes"]) and all(s >= 0 for s in x["strides"])))
    )


def _out_of_range(values: Sequence[int], least: int) -> Fact:
    bad = [(d, n) for d, n in enumerate(values) if not least <= n <= UINT32_MAX]
    return f"dimension {bad[0][0]} has {bad[0][1]}" if bad else None


def _dimension_count(x: Operands) -> Fact:
    rank = len(x["sizes"])
    return None if 1 <= rank <= DIMENSION_COUNT_MAX else f"it is {rank}"


def _stride_count(x: Operands) -> Fact:
    if x["strides"] is None or len(x["strides"]) == len(x["sizes"]):
        return None
    return f"there are {len(x['strides'])} for {len(x['sizes'])} dimensions"


def _elements(x: Operands) -> Fact:
    span = _span(x["sizes"], x["strides"]) if _measurable(x) else 0
    return f"it spans {span}" if span > UINT32_MAX else None


def _total(x: Operands) -> Fact:
    if not _measurable(x):
        return None
    total, implied = x["total_tensor_size_in_bytes"], implied_bytes(x["sizes"], x["strides"], x["data_type"])
    return None if implied <= total <= UINT64_MAX else f"it is {total} and they imply {implied}"


def _alignment(x: Operands) -> Fact:
    value, itemsize = x["guaranteed_base_offset_alignment"], x["data_type"].itemsize
    power = value >= itemsize and value & (value - 1) == 0 and value <= UINT32_MAX
    return None if value == 0 or power else f"it is {value} and an element has {itemsize} bytes"


TENSOR = (
    Rule("dimension_count", f"DimensionCount must be in [1, {DIMENSION_COUNT_MAX}]", _dimension_count),
    Rule("sizes", "every one of {sizes} must be in [1, 2**32 - 1]", lambda x: _out_of_range(x["sizes"], 1)),
    Rule("stride_count", "{strides} must have one entry per dimension", _stride_count),
    Rule("strides", "every one of {strides} must be in [0, 2**32 - 1]", lambda x: _out_of_range(x["strides"] or (), 0)),
    Rule("element_limit", "the tensor must span at most 2**32 - 1 elements of its buffer", _elements),
    Rule(
        "total_size",
        "{total_tensor_size_in_bytes} must be at least the bytes of {sizes}, {strides} and {data_type}, in 64 bits",
        _total,
    ),
    Rule(
        "alignment",
        "{guaranteed_base_offset_alignment} must be 0 or a power of two of at least the element size",
        _alignment,
    ),
)
