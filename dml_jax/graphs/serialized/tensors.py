"""Reads and writes the tensors of an operator in a serialized graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...core.arguments.ports import ports_of
from ...core.structs.operator_desc import OperatorDesc
from ...core.tensors.data_type import DataType, TensorFlags
from ...core.tensors.tensor_desc import TensorDesc
from ...errors import ConstraintError, describe
from .error_context import at
from .records import Tensor

DATA_TYPE = "DML_TENSOR_DATA_TYPE_"


def read_tensors(
    cls: type[OperatorDesc[Any]],
    fields: Sequence[str],
    names: Sequence[str],
    tensors: Sequence[Tensor],
    owned: Collection[str],
) -> dict[str, Any]:
    """Returns the tensors of a node by field of its struct; an array of tensors takes all that are left.

    Raises:
      ConstraintError: one is missing, or there are more than the struct has, or one breaks a rule of tensors.
    """
    if len(tensors) != sum(name != "" for name in names):
        fact = f"there are {len(tensors)} tensors for the values {describe(tuple(names))}"
        raise ConstraintError(f"there must be a tensor for every value that has a name, but {fact}")
    described = iter(tensors)
    left = [(name, next(described) if name else None) for name in names]
    values: dict[str, Any] = {}
    for field in fields:
        shown, kind = cls.directml_names()[field], cls.fields()[field]
        taken = left if kind.is_array else left[:1]
        left = left[len(taken) :]
        if not kind.is_optional and (not taken or any(tensor is None for _, tensor in taken)):
            raise ConstraintError(f"{shown} is missing")
        with at(shown):
            read = tuple(None if tensor is None else _tensor(tensor, name in owned) for name, tensor in taken)
        values[field] = read if kind.is_array else (*read, None)[0]
    if left:
        raise ConstraintError(f"there are more tensors than {', '.join(cls.directml_names()[f] for f in fields)}")
    return values


def _tensor(tensor: Tensor, is_owned: bool) -> TensorDesc:
    flags = TensorFlags.OWNED_BY_DML if is_owned else TensorFlags.NONE
    data_type = DataType.named(tensor.data_type)
    return TensorDesc(data_type, tensor.sizes, tensor.strides, flags, tensor.total_tensor_size_in_bytes)


def written_tensors(
    desc: OperatorDesc[Any], fields: Sequence[str], names: Sequence[str], owned: Collection[str]
) -> tuple[Tensor, ...]:
    """Returns the tensors of some fields of a descriptor.

    Raises:
      ConstraintError: there are other names than tensors, or a file has no place for what a tensor says.
    """
    shown = desc.directml_names()
    tensors = ports_of({shown[field]: getattr(desc, field) for field in fields}).items()
    if len(names) != len(tensors) or any((name == "") != (tensor is None) for name, (_, tensor) in zip(names, tensors)):  # noqa: B905
        wanted = ", ".join(port if tensor else f'{port} ("": it is left out)' for port, tensor in tensors) or "none"
        raise ConstraintError(f"there must be names for {wanted}, but they are {describe(tuple(names))}")
    written = []
    for name, (port, tensor) in zip(names, tensors, strict=True):
        with at(port):
            written += [] if tensor is None else [_written_tensor(tensor, name in owned)]
    return tuple(written)


def _written_tensor(tensor: TensorDesc, is_owned: bool) -> Tensor:
    if tensor.guaranteed_base_offset_alignment:
        alignment = tensor.guaranteed_base_offset_alignment
        raise ConstraintError(f"GuaranteedBaseOffsetAlignment must be 0 in a serialized graph, but it is {alignment}")
    if bool(tensor.flags) != is_owned:
        rule = (
            "Flags must be OWNED_BY_DML in a serialized graph for what reads a constant by name, and for nothing else"
        )
        raise ConstraintError(f"{rule}, but they are {tensor.flags.name}")
    name = DATA_TYPE + tensor.data_type.name
    return Tensor(name, tensor.sizes, tensor.strides, tensor.total_tensor_size_in_bytes)
