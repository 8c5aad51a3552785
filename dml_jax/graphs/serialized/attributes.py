"""Reads and writes the attributes of an operator in a serialized graph: the fields that are no tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.structs.activation import Activation as Fused
from ...core.structs.activation_table import ACTIVATIONS
from ...core.structs.fields import Field
from ...core.structs.operator_desc import OperatorDesc
from ...core.structs.scalar import scalar_of
from ...core.tensors.data_type import DataType
from ...errors import ConstraintError
from .error_context import at
from .records import Activation, Attribute, AttributeKind

OPERATOR = "DML_OPERATOR_"
# Fields of a struct, or parameters of an activation, by DirectML's names.
Fields = Mapping[str, Field]


def read_attributes(
    cls: type[OperatorDesc[Any]], attributes: Sequence[Attribute], tensors: Mapping[str, Any]
) -> dict[str, Any]:
    """Reads the non-tensor fields of a struct from the attributes of a node, which stand in the struct's order.

    Raises:
      ConstraintError: there are others than the struct has, one is missing or of another kind, or a count is wrong.
    """
    names = cls.directml_names()
    fields = {names[name]: field for name, field in cls.fields().items()}
    values = _values(fields, attributes, {names[name]: value for name, value in tensors.items()})
    return {name: values[names[name]] for name, field in cls.fields().items() if not field.is_tensor}


def written_attributes(desc: OperatorDesc[Any]) -> tuple[Attribute, ...]:
    """Returns the non-tensor fields of a descriptor as attributes in the struct's order."""
    names = desc.directml_names()
    fields = {names[name]: field for name, field in desc.fields().items()}
    return _attributes(fields, {names[name]: value for name, value in desc.operands().items()})


def _layout(fields: Fields) -> dict[str, str]:
    """Maps each attribute, in order, to its field; a count to the first array that it counts."""
    fields_by_attribute: dict[str, str] = {}
    for name, field in fields.items():
        if field.counted_by is not None:
            fields_by_attribute.setdefault(field.counted_by, name)
        if not field.is_tensor:
            fields_by_attribute[name] = name
    return fields_by_attribute


def _typed_by(fields: Fields) -> str:
    """Returns the field with the data type of the struct's scalar unions."""
    return next(name for name in fields if name.endswith("DataType"))


# Reading.


def _values(fields: Fields, attributes: Sequence[Attribute], tensors: Mapping[str, Any]) -> dict[str, Any]:
    layout = _layout(fields)
    if len(attributes) != len(layout):
        raise ConstraintError(f"the attributes must be {', '.join(layout) or 'none'}, but there are {len(attributes)}")
    given = dict(zip(layout, attributes, strict=True))
    for name, attribute in given.items():
        # An attribute that is left out may have no name.
        if attribute.name != name and (attribute.name or attribute.value is not None):
            raise ConstraintError(f"there must be {name} where {attribute.name!r:.60} stands")
    values = {name: _value(name, fields, given) for name, field in fields.items() if not field.is_tensor}
    for name, field in fields.items():
        if field.counted_by is not None:
            count, length = _of_kind("uint", field.counted_by, given), len({**tensors, **values}[name])
            if count != length:
                raise ConstraintError(f"{field.counted_by} is {count} and {name} has {length} entries")
    return values


def _value(name: str, fields: Fields, given: Mapping[str, Attribute]) -> Any:
    field = fields[name]
    if field.is_optional and given[name].value is None:
        return None
    value = _of_kind(field.kind, name, given)
    if field.kind == "scalar union":
        typed = _typed_by(fields)
        number = _of_kind("enum", typed, given)
        if number not in list(DataType):
            raise ConstraintError(f"{typed} must be the number of a data type, but it is {number}")
        # The union's other bytes mean nothing.
        return np.frombuffer(value, DataType(number).dtype, 1)[0].item()
    return FORMS[field.kind].read(value)


def _of_kind(kind: str, name: str, given: Mapping[str, Attribute]) -> Any:
    attribute, wanted = given[name], FORMS[kind].kind
    if attribute.value is None:
        raise ConstraintError(f"{name} is missing")
    # Not every writer has UINT for a BOOL.
    if attribute.kind != wanted and (kind, attribute.kind) != ("bool", AttributeKind.BOOL):
        raise ConstraintError(f"{name} must be {wanted.name}, but it is {attribute.kind.name}")
    return attribute.value


def _fused(activation: Activation) -> Fused:
    name = activation.type.removeprefix(OPERATOR)
    with at(name):
        if name not in ACTIVATIONS:
            raise ConstraintError("no operator can be fused with it")
        return Fused.of(name, _values(ACTIVATIONS[name].fields, activation.attributes, {}))


# Writing.


def _attributes(fields: Fields, values: Mapping[str, Any]) -> tuple[Attribute, ...]:
    return tuple(_attribute(name, of, fields, values) for name, of in _layout(fields).items())


def _attribute(name: str, of: str, fields: Fields, values: Mapping[str, Any]) -> Attribute:
    field, value = fields[of], values[of]
    if name == field.counted_by:
        return Attribute(name, AttributeKind.UINT32, len(value))
    if value is None:
        return Attribute("", FORMS[field.kind].kind, None)
    if field.kind == "scalar union":
        scalar = scalar_of(value, values[_typed_by(fields)])
        return Attribute(name, AttributeKind.SCALAR_UNION, scalar.tobytes().ljust(8, b"\0"))
    return Attribute(name, FORMS[field.kind].kind, FORMS[field.kind].write(value))


def _serialized(activation: Fused) -> Activation:
    attributes = _attributes(activation.row.fields, activation.by_name)
    return Activation(OPERATOR + activation.operator_type, attributes)


@dataclass(frozen=True)
class Form:
    """The attribute of a kind of fields: its kind, and its value from the value of the field and back."""

    kind: AttributeKind
    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value


# By the kind of a field. C's BOOL is an integer, and DirectML's schema has UINT for it.
FORMS: Mapping[str, Form] = {
    "uint": Form(AttributeKind.UINT32),
    "enum": Form(AttributeKind.UINT32, int),
    "bool": Form(AttributeKind.UINT32, int, bool),
    "int": Form(AttributeKind.INT32),
    "float": Form(AttributeKind.FLOAT32),
    "uint array": Form(AttributeKind.UINT_ARRAY),
    "int array": Form(AttributeKind.INT_ARRAY),
    "float array": Form(AttributeKind.FLOAT_ARRAY),
    "scale bias": Form(AttributeKind.SCALE_BIAS, lambda value: (value.scale, value.bias)),
    "size 2d": Form(AttributeKind.SIZE_2D, lambda value: (value.width, value.height)),
    "scalar union": Form(AttributeKind.SCALAR_UNION),
    "activation": Form(AttributeKind.ACTIVATION, _serialized, _fused),
    "activation array": Form(
        AttributeKind.ACTIVATION_ARRAY,
        lambda activations: tuple(map(_serialized, activations)),
        lambda activations: tuple(map(_fused, activations)),
    ),
}
