"""Reads a serialized graph. Files are untrusted: the format is checked before objects are built."""

from __future__ import annotations

from typing import Any

from ...core.arguments.static_values import Real
from ...errors import ConstraintError, DataTypeError
from . import schema
from .error_context import at
from .flatbuffer import Content, Table
from .records import Activation, Attribute, ConstantNode, NamedConstant, OperatorNode, SerializedGraph, Tensor
from .schema import AttributeKind, ConstantKind, NodeKind


def decode(content: bytes) -> SerializedGraph:
    """Reads the serialized form of a graph.

    Args:
      content: the bytes of a file that ONNX Runtime's DirectML provider wrote, or `encode`.

    Returns:
      The content of the file. Not checked: that values are written before they are read, and that operators are known.

    Raises:
      ConstraintError: the bytes break the format, such as a table that lies outside of them; or their parts overlap,
        so that there would be far more to read than the bytes can say.
      DataTypeError: no bytes.

    Source: DmlGraphDeserialization.cpp of DxDispatch.
    """
    if not isinstance(content, bytes | bytearray | memoryview):
        raise DataTypeError(f"a serialized graph must be bytes, but it is {type(content).__name__}")
    with at("serialized graph"):
        bounded = Content(bytes(content))
        root = Table(bounded, bounded.target(0), schema.GRAPH)
        nodes = tuple(_node(where, node) for where, node in root.tables("nodes", schema.NODE))
        return SerializedGraph(nodes, root.strings("graphInputNames"), root.strings("graphOutputNames"))


def _node(where: str, node: Table) -> OperatorNode | ConstantNode:
    with at(where):
        name = node.string("name")
        inputs, outputs = node.strings("inputNames"), node.strings("outputNames")
        if not name:
            raise ConstraintError("a node must have a name")
        if node.number("desc_type") == NodeKind.OPERATOR:
            with at("desc"):
                return _operator(name, _required(node, "desc", schema.OPERATOR), inputs, outputs)
        if node.number("desc_type") != NodeKind.CONSTANT:
            raise ConstraintError(f"desc_type must be {_choices(NodeKind)}, but it is {node.number('desc_type')}")
        if inputs:
            raise ConstraintError(f"a constant must have no inputs, but it has {len(inputs)}")
        with at("desc"):
            return ConstantNode(name, _constant(_required(node, "desc", schema.CONSTANT)), outputs)


def _required(table: Table, field: str, fields: schema.Fields) -> Table:
    inner = table.table(field, fields)
    if inner is None:
        raise ConstraintError(f"{field} is missing")
    return inner


def _choices(kinds: Any) -> str:
    return ", ".join(f"{kind.value} ({kind.name})" for kind in kinds)


def _operator(name: str, desc: Table, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> OperatorNode:
    kind = desc.string("type")
    if not kind:
        raise ConstraintError("the type of an operator is missing")
    read, written = _tensors(desc, "inputs"), _tensors(desc, "outputs")
    return OperatorNode(name, kind, read, written, _attributes(desc), inputs, outputs)


def _constant(desc: Table) -> bytes | NamedConstant:
    kind = desc.number("data_type")
    if kind == ConstantKind.NAME:
        name = _required(desc, "data", schema.CONSTANT_NAME).string("name")
        if not name:
            raise ConstraintError("the name of a constant is missing")
        return NamedConstant(name)
    if kind == ConstantKind.RAW_DATA:
        return _required(desc, "data", schema.CONSTANT_RAW_DATA).raw("data")
    raise ConstraintError(f"data_type must be {_choices(ConstantKind)}, but it is {kind}")


def _tensors(desc: Table, field: str) -> tuple[Tensor, ...]:
    return tuple(_tensor(where, tensor) for where, tensor in desc.tables(field, schema.TENSOR))


def _tensor(where: str, tensor: Table) -> Tensor:
    with at(where):
        sizes, strides = tensor.array("sizes", "I"), tensor.array("strides", "I")
        total = tensor.number("totalTensorSizeInBytes")
        return Tensor(tensor.string("dataType"), sizes or (), strides, total)


def _attributes(owner: Table, is_inner: bool = False) -> tuple[Attribute, ...]:
    return tuple(_attribute(where, inner, is_inner) for where, inner in owner.tables("attributes", schema.ATTRIBUTE))


def _attribute(where: str, attribute: Table, is_inner: bool) -> Attribute:
    with at(where):
        number = attribute.number("val_type")
        if number not in list(AttributeKind):
            raise ConstraintError(f"val_type must be {_choices(AttributeKind)}, but it is {number}")
        kind = AttributeKind(number)
        # No operator that can be fused has activations itself: so a file cannot nest them without end.
        if is_inner and kind in (AttributeKind.ACTIVATION, AttributeKind.ACTIVATION_ARRAY):
            raise ConstraintError("an activation must have no activation itself")
        return Attribute(attribute.string("name"), kind, _value(attribute, kind))


def _value(attribute: Table, kind: AttributeKind) -> Any:
    if kind in schema.STRUCTS:
        numbers = attribute.small_struct("val", schema.STRUCTS[kind])
        return None if numbers is None else _from_struct(kind, numbers)
    if kind == AttributeKind.ACTIVATION:
        activation = attribute.table("val", schema.ACTIVATION)
        return None if activation is None else _activation("val", activation)
    if kind == AttributeKind.NONE:
        return None
    fields = schema.SCALAR_UNION if kind == AttributeKind.SCALAR_UNION else schema.ARRAY
    table = attribute.table("val", fields)
    with at("val"):
        if table is None:
            return None
        if kind == AttributeKind.SCALAR_UNION:
            return _scalar(table)
        if kind == AttributeKind.ACTIVATION_ARRAY:
            return tuple(_activation(where, inner) for where, inner in table.tables("data", schema.ACTIVATION))
        return _reals(table.array("data", schema.ARRAYS[kind]) or ())


def _from_struct(kind: AttributeKind, numbers: tuple[Any, ...]) -> Any:
    if kind == AttributeKind.BOOL:
        return bool(numbers[0])
    return _reals(numbers)[0] if len(numbers) == 1 else _reals(numbers)


def _reals(numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Wraps floats in `Real`, so that a graph with a NaN equals itself."""
    return tuple(Real(number) if isinstance(number, float) else number for number in numbers)


def _activation(where: str, activation: Table) -> Activation:
    with at(where):
        kind = activation.string("type")
        if not kind:
            raise ConstraintError("the type of an activation is missing")
        return Activation(kind, _attributes(activation, is_inner=True))


def _scalar(union: Table) -> bytes:
    """Returns the 8 bytes of a scalar union, whatever member the file stores."""
    number = union.number("data_type")
    if number not in schema.SCALAR_SIZES:
        raise ConstraintError(f"data_type must be in [1, 11], but it is {number}")
    value = union.small_struct("data", f"{schema.SCALAR_SIZES[number]}s")
    if value is None:
        raise ConstraintError("data is missing")
    return value[0].ljust(8, b"\0")
