"""The attributes of an operator in a serialized graph, both ways: the fields of its struct that are no tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.activation import Activation as Fused
from ...core.desc import OperatorDesc
from ...core.fields import Field, scalar_of
from ...errors import ConstraintError
from .parts import Activation, Attribute
from .places import at
from .schema import AttributeKind

__all__ = ["OPERATOR", "read_attributes", "written_attributes"]

OPERATOR = "DML_OPERATOR_"
# By the kind of a field, the kind of its attribute. C's BOOL is an integer, and DirectML's schema has UINT for it.
KINDS: Mapping[str, AttributeKind] = {
    "uint": AttributeKind.UINT32,
    "enum": AttributeKind.UINT32,
    "bool": AttributeKind.UINT32,
    "int": AttributeKind.INT32,
    "float": AttributeKind.FLOAT32,
    "uint array": AttributeKind.UINT_ARRAY,
    "int array": AttributeKind.INT_ARRAY,
    "float array": AttributeKind.FLOAT_ARRAY,
    "scale bias": AttributeKind.SCALE_BIAS,
    "size 2d": AttributeKind.SIZE_2D,
    "scalar union": AttributeKind.SCALAR_UNION,
    "activation": AttributeKind.ACTIVATION,
}


def _layout(cls: type[OperatorDesc[Any]]) -> Iterator[tuple[str, str]]:
    """DirectML's name of every attribute, and of the field that has it or is counted by it."""
    counted = set()
    for name, field in cls.fields().items():
        if field.counted_by is not None and field.counted_by not in counted:
            counted.add(field.counted_by)
            yield field.counted_by, name
        if not field.is_tensor:
            yield cls.directml_names()[name], name


def read_attributes(
    cls: type[OperatorDesc[Any]], attributes: Sequence[Attribute], tensors: Mapping[str, Any]
) -> dict[str, Any]:
    layout = list(_layout(cls))
    if len(attributes) != len(layout):
        wanted = ", ".join(shown for shown, _ in layout) or "none"
        raise ConstraintError(f"the attributes must be {wanted}, but there are {len(attributes)}")
    given = {shown: attribute for (shown, _), attribute in zip(layout, attributes, strict=True)}
    for shown, attribute in given.items():
        if attribute.name != shown and (attribute.name or attribute.value is not None):
            raise ConstraintError(f"the attributes must have {shown} where they have {attribute.name!r:.60}")
    values = {name: _field_value(cls, name, given) for name, field in cls.fields().items() if not field.is_tensor}
    for name, field in cls.fields().items():
        if field.counted_by is not None:
            count, length = given[field.counted_by].value, len({**tensors, **values}[name])
            if count != length:
                raise ConstraintError(f"{field.counted_by} is {count} and {cls.directml_names()[name]} has {length}")
    return values


def _field_value(cls: type[OperatorDesc[Any]], name: str, given: Mapping[str, Attribute]) -> Any:
    field, shown = cls.fields()[name], cls.directml_names()[name]
    attribute = given[shown]
    if attribute.value is None:
        if field.is_optional:
            return None
        raise ConstraintError(f"{shown} is missing")
    # Not every writer has UINT for a BOOL.
    kinds = (KINDS[field.kind], *([AttributeKind.BOOL] if field.kind == "bool" else []))
    if attribute.kind not in kinds:
        raise ConstraintError(f"{shown} must be {kinds[0].name}, but it is {attribute.kind.name}")
    if field.kind == "bool":
        return bool(attribute.value)
    if field.kind == "activation":
        return _fused(attribute.value)
    if field.kind == "scalar union":
        typed = _typed_by(cls)
        data_type = cls.fields()[typed].kept(
            cls.operator_type, cls.directml_names()[typed], _field_value(cls, typed, given)
        )
        # The union's other bytes mean nothing.
        return np.frombuffer(attribute.value, data_type.dtype, 1)[0].item()
    return attribute.value


def _typed_by(cls: type[OperatorDesc[Any]]) -> str:
    """The field that names the type of the struct's scalar unions."""
    return next(name for name in cls.field_names() if name.endswith("data_type"))


def _fused(activation: Activation) -> Fused:
    numbers = {attribute.name: attribute.value for attribute in activation.attributes}
    if len(numbers) != len(activation.attributes) or any(
        one.kind != AttributeKind.FLOAT32 for one in activation.attributes
    ):
        raise ConstraintError(f"{activation.type}: the attributes must be FLOAT32, each with its own name")
    return Fused.of(activation.type.removeprefix(OPERATOR), numbers)


def _attribute(desc: OperatorDesc[Any], shown: str, name: str) -> Attribute:
    field, value = desc.fields()[name], getattr(desc, name)
    if shown == field.counted_by:
        return Attribute(shown, AttributeKind.UINT32, len(value))
    kind = KINDS[field.kind]
    if value is None:
        return Attribute("", kind, None)
    return Attribute(shown, kind, _written(desc, field, value))


def _written(desc: OperatorDesc[Any], field: Field, value: Any) -> Any:
    if field.kind in ("enum", "bool"):
        return int(value)
    if field.kind == "scale bias":
        return value.scale, value.bias
    if field.kind == "size 2d":
        return value.width, value.height
    if field.kind == "scalar union":
        return scalar_of(value, getattr(desc, _typed_by(type(desc)))).tobytes().ljust(8, b"\0")
    if field.kind == "activation":
        numbers = (Attribute(name, AttributeKind.FLOAT32, number) for name, number in value.by_name.items())
        return Activation(OPERATOR + value.operator_type, tuple(numbers))
    return value
