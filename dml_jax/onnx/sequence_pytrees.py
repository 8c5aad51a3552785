"""Sequences and optionals of tensors, registered as pytrees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import onnx

from ..core.tensors.tensor_spec import TensorSpec
from .errors import OnnxError
from .model_loading import dtype_of, type_name


@partial(jax.tree_util.register_dataclass, data_fields=["items"], meta_fields=["dtype"])
@dataclass(frozen=True)
class TensorSequence:
    """A sequence of tensors.

    Args:
      dtype: of the elements of each tensor.
      items: the tensors.
    """

    dtype: np.dtype[Any]
    items: tuple[Any, ...]


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["type"])
@dataclass(frozen=True)
class EmptyOptional:
    """An optional without an element. One with an element is that element.

    Args:
      type: as schemas name it, such as "optional(tensor(float))".
    """

    type: str


@dataclass(frozen=True)
class ContainerSpec(TensorSpec):
    """An input of a model that is a sequence, an optional, or an optional sequence; the sizes are those of a tensor.

    Args:
      type: as schemas name it, such as "optional(seq(tensor(float)))".
    """

    type: str

    @property
    def is_optional(self) -> bool:
        return self.type.startswith("optional(")

    @property
    def is_sequence(self) -> bool:
        return "seq(" in self.type

    def __str__(self) -> str:
        name, _, tensor = super().__str__().partition(": ")
        words = ("optional",) * self.is_optional + ("sequence of",) * self.is_sequence
        return f"{name}: {' '.join((*words, tensor))}"


def type_text(value: Any) -> str:
    """Returns the type of a value as schemas name it, such as "seq(tensor(float))"."""
    if isinstance(value, EmptyOptional):
        return value.type
    text = type_name(value.dtype)
    return f"seq({text})" if isinstance(value, TensorSequence) else text


def declared_type(proto: onnx.TypeProto, what: str) -> tuple[str, onnx.TypeProto.Tensor]:
    """Returns a declared type as schemas name it, and that of the tensors in it.

    Raises:
      OnnxError: there are no tensors of numbers in it.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return type_name(dtype_of(proto.tensor_type.elem_type, what)), proto.tensor_type
    if kind == "sequence_type":
        text, tensor = declared_type(proto.sequence_type.elem_type, what)
        return f"seq({text})", tensor
    if kind == "optional_type":
        text, tensor = declared_type(proto.optional_type.elem_type, what)
        return f"optional({text})", tensor
    rule = "it must be a tensor, a sequence of tensors, or an optional one of these"
    raise OnnxError(f"{what}: {rule}, but it is {kind or 'of no type'}")
