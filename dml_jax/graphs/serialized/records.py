"""Dataclasses of a serialized graph's records, also for operators that dml_jax lacks."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class AttributeKind(enum.IntEnum):
    """The union type of an attribute's val."""

    NONE = 0
    ACTIVATION = 1
    ACTIVATION_ARRAY = 2
    UINT32 = 3
    UINT64 = 4
    INT32 = 5
    FLOAT32 = 6
    UINT_ARRAY = 7
    INT_ARRAY = 8
    FLOAT_ARRAY = 9
    SCALE_BIAS = 10
    SIZE_2D = 11
    SCALAR_UNION = 12
    BOOL = 13


@dataclass(frozen=True, slots=True)
class Tensor:
    """DML_BUFFER_TENSOR_DESC, without the flags and the alignment, which a file has no place for.

    Args:
      data_type: DirectML's name in full, such as "DML_TENSOR_DATA_TYPE_FLOAT32".
      sizes: elements, per dimension.
      strides: elements from one coordinate to the next, per dimension; None for packed row-major.
      total_tensor_size_in_bytes: bytes of the buffer.
    """

    data_type: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    total_tensor_size_in_bytes: int


@dataclass(frozen=True, slots=True)
class Attribute:
    """A field of an operator that is no tensor.

    Args:
      name: DirectML's name of the field, such as "Axis"; "" where ONNX Runtime leaves out an optional one.
      kind: of `value`.
      value: None where it is left out, an int, a float, a tuple of them (of SCALE_BIAS scale and bias, of SIZE_2D
        width and height), 8 bytes for SCALAR_UNION, a bool, an `Activation`, or a tuple of these.
    """

    name: str
    kind: AttributeKind
    value: Any


@dataclass(frozen=True, slots=True)
class Activation:
    """An operator that another one is fused with: it has no tensors.

    Args:
      type: DirectML's name in full, such as "DML_OPERATOR_ACTIVATION_RELU".
      attributes: its numbers, in DirectML's order.
    """

    type: str
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """An operator. Values flow from the output to the input of the same name.

    Args:
      name: for messages; several nodes may have one.
      type: DirectML's name in full, such as "DML_OPERATOR_GATHER".
      inputs: the tensors that are read, in DirectML's order, without optional ones that are left out.
      outputs: the tensors that are written, likewise.
      attributes: every other field, in DirectML's order, the counts of arrays among them.
      input_names: the value that each input reads, "" for an optional one that is left out.
      output_names: the value that each output is, likewise.
    """

    name: str
    type: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: tuple[Attribute, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamedConstant:
    """A constant that lies in the file NAME.bin beside that of the graph."""

    name: str


@dataclass(frozen=True, slots=True)
class ConstantNode:
    """A value that the graph brings along.

    Args:
      name: for messages.
      data: the bytes, or the name of the file that has them.
      output_names: the one name of the value; several, or none, as files have them.
    """

    name: str
    data: bytes | NamedConstant
    output_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SerializedGraph:
    """A graph as a file stores it.

    Args:
      nodes: in an order in which each value is written before it is read.
      input_names: the values that a caller gives, "" for one that no node reads.
      output_names: the values that a caller gets.
    """

    nodes: tuple[OperatorNode | ConstantNode, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
