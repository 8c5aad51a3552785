"""The flatbuffers schema of a serialized graph: its tables and unions, and the records that they are read to.

Source: DmlGraphDesc_generated.h and OperatorFieldTypes_generated.h of DxDispatch.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ConstraintError, describe
from .forms import Bytes, Choice, Form, Numbers, Size, String, Struct, Table, Union, Vector
from .records import Activation, Attribute, ConstantNode, NamedConstant, OperatorNode, SerializedGraph, Tensor
from .records import AttributeKind as Kind

# The values of a table's fields that are known so far; what breaks a rule of them, in words, or "".
Values = Mapping[str, Any]
Rule = Callable[[Values], str]


class NodeKind(enum.IntEnum):
    """The union type of a node's desc."""

    OPERATOR = 1
    CONSTANT = 2


class ConstantKind(enum.IntEnum):
    """The union type of a constant's data: the name of a file, or the bytes."""

    NAME = 1
    RAW_DATA = 2


def required(field: str, words: str) -> dict[str, Rule]:
    """Returns the rule that a field must not be left out."""
    return {field: lambda values: words if values[field] in (None, "") else ""}


def boxed(form: Form) -> Table:
    """Returns the table of one field, data, whose value is the value of that field."""
    return Table({"data": form}, lambda data: data, lambda data: (data,))


NAMES = Vector(String())

TENSOR = Table(
    {
        "dataType": String(),
        "sizes": Numbers("I"),
        "strides": Numbers("I", left_out=None),
        "totalTensorSizeInBytes": Size(),
    },
    Tensor,
)


# Attributes.


def _scalar_parts(data: bytes) -> tuple[int, bytes]:
    if len(data) != 8:
        raise ConstraintError(f"a scalar union must have 8 bytes, but it has {len(data)}")
    return 1, data


# By kind: 8 bytes of any type; INT8, UINT8, and so on to UINT64; FLOAT32 and FLOAT64.
SCALARS = {kind: Struct(f"{size}s") for kind, size in enumerate((8, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8), 1)}
SCALAR_UNION = Table(
    {"data_type": Choice(SCALARS), "data": Union(SCALARS)},
    lambda _, data: data.ljust(8, b"\0"),
    _scalar_parts,
    rules=required("data", "data is missing"),
)
VALUES: Mapping[int, Form] = {
    Kind.UINT32: Struct("I"),
    Kind.UINT64: Struct("Q"),
    Kind.INT32: Struct("i"),
    Kind.FLOAT32: Struct("f"),
    Kind.UINT_ARRAY: boxed(Numbers("I")),
    Kind.INT_ARRAY: boxed(Numbers("i")),
    Kind.FLOAT_ARRAY: boxed(Numbers("f")),
    Kind.SCALE_BIAS: Struct("2f"),
    Kind.SIZE_2D: Struct("2I"),
    Kind.SCALAR_UNION: SCALAR_UNION,
    Kind.BOOL: Struct("?"),
}


def _of_no_kind(values: Values) -> str:
    is_wrong = values["val_type"] == Kind.NONE and values["val"] is not None
    return f"an attribute of kind NONE must have no value, but it is {describe(values['val'])}" if is_wrong else ""


def _nested(values: Values) -> str:
    # No operator that can be fused has activations itself: so a file cannot nest them without end.
    is_wrong = values["val_type"] in (Kind.ACTIVATION, Kind.ACTIVATION_ARRAY)
    return "an activation must have no activation itself" if is_wrong else ""


def _attributes(values: Mapping[int, Form], **rules: Rule) -> Vector:
    fields = {"name": String(), "val_type": Choice(Kind), "val": Union(values)}
    return Vector(Table(fields, Attribute, rules={"val": _of_no_kind, **rules}, named_by="name"))


ACTIVATION = Table(
    {"type": String(), "attributes": _attributes(VALUES, val_type=_nested)},
    Activation,
    rules=required("type", "the type of an activation is missing"),
)
ACTIVATIONS: Mapping[int, Form] = {Kind.ACTIVATION: ACTIVATION, Kind.ACTIVATION_ARRAY: boxed(Vector(ACTIVATION))}

# Nodes.

OPERATOR = Table(
    {
        "type": String(),
        "inputs": Vector(TENSOR),
        "outputs": Vector(TENSOR),
        "attributes": _attributes({**VALUES, **ACTIVATIONS}),
    },
    lambda *parts: parts,
    lambda parts: parts,
    rules=required("type", "the type of an operator is missing"),
)
CONSTANTS: Mapping[int, Form] = {
    ConstantKind.NAME: Table(
        {"name": String()}, NamedConstant, rules=required("name", "the name of a constant is missing")
    ),
    ConstantKind.RAW_DATA: boxed(Bytes()),
}
CONSTANT = Table(
    {"data_type": Choice(ConstantKind), "data": Union(CONSTANTS)},
    lambda _, data: data,
    lambda data: (ConstantKind.NAME if isinstance(data, NamedConstant) else ConstantKind.RAW_DATA, data),
    rules=required("data", "data is missing"),
)


def _node(kind: NodeKind, desc: Any, name: str, *names: tuple[str, ...]) -> OperatorNode | ConstantNode:
    return OperatorNode(name, *desc, *names) if kind == NodeKind.OPERATOR else ConstantNode(name, desc, names[1])


def _node_parts(node: OperatorNode | ConstantNode) -> tuple[Any, ...]:
    if isinstance(node, ConstantNode):
        return NodeKind.CONSTANT, node.data, node.name, (), node.output_names
    desc = (node.type, node.inputs, node.outputs, node.attributes)
    return NodeKind.OPERATOR, desc, node.name, node.input_names, node.output_names


def _of_a_constant(values: Values) -> str:
    is_wrong = values["desc_type"] == NodeKind.CONSTANT and values["inputNames"]
    return f"a constant must have no inputs, but it has {len(values['inputNames'])}" if is_wrong else ""


NODE = Table(
    {
        "desc_type": Choice(NodeKind),
        "desc": Union({NodeKind.OPERATOR: OPERATOR, NodeKind.CONSTANT: CONSTANT}),
        "name": String(),
        "inputNames": NAMES,
        "outputNames": NAMES,
    },
    _node,
    _node_parts,
    rules={
        "inputNames": _of_a_constant,
        **required("name", "a node must have a name"),
        **required("desc", "desc: desc is missing"),
    },
)
GRAPH = Table({"nodes": Vector(NODE), "graphInputNames": NAMES, "graphOutputNames": NAMES}, SerializedGraph)
