"""The attributes of an operator in a serialized graph, both ways: the fields of its struct that are no tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.activation import Activation as Fused
from ...core.desc import OperatorDesc
from ...core.exact import Real
from ...core.fields import scalar_of
from ...errors import ConstraintError
from .parts import Activation, Attribute
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


def read_attributes(
    cls: type[OperatorDesc[Any]], attributes: Sequence[Attribute], tensors: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of a struct that are no tensors, from the attributes of a node, which stand in the struct's order.

    Raises:
      ConstraintError: there are others than the struct has, one is missing or of another kind, or a count is wrong.
      DataTypeError: a scalar union's data type is none of DirectML's.
    """
    layout = list(_layout(cls))
    if len(attributes) != len(layout):
        wanted = ", ".join(shown for shown, _ in layout) or "none"
        raise ConstraintError(f"the attributes must be {wanted}, but there are {len(attributes)}")
    given = {shown: attribute for (shown, _), attribute in zip(layout, attributes, strict=True)}
    for shown, attribute in given.items():
        # What is left out may have no name.
        if attribute.name != shown and (attribute.name or attribute.value is not None):
            raise ConstraintError(f"there must be {shown} where {attribute.name!r:.60} stands")
    values = {name: _field_value(cls, name, given) for name, field in cls.fields().items() if not field.is_tensor}
    for name, field in cls.fields().items():
        if field.counted_by is not None:
            count, length = _of_kind("uint", field.counted_by, given), len({**tensors, **values}[name])
            if count != length:
                fact = f"{field.counted_by} is {count} and {cls.directml_names()[name]} has {length} entries"
                raise ConstraintError(fact)
    return values


def written_attributes(desc: OperatorDesc[Any]) -> tuple[Attribute, ...]:
    """The fields of a descriptor that are no tensors, as attributes in the struct's order."""
    return tuple(_attribute(desc, shown, name) for shown, name in _layout(type(desc)))


def _layout(cls: type[OperatorDesc[Any]]) -> Iterator[tuple[str, str]]:
    """DirectML's name of every attribute, and the field that it is: or, of a count, the first array that it counts."""
    counted = set()
    for name, field in cls.fields().items():
        if field.counted_by is not None and field.counted_by not in counted:
            counted.add(field.counted_by)
            yield field.counted_by, name
        if not field.is_tensor:
            yield cls.directml_names()[name], name


# Reading.


def _field_value(cls: type[OperatorDesc[Any]], name: str, given: Mapping[str, Attribute]) -> Any:
    field, shown = cls.fields()[name], cls.directml_names()[name]
    if field.is_optional and given[shown].value is None:
        return None
    value = _of_kind(field.kind, shown, given)
    if field.kind == "scalar union":
        typed = _typed_by(cls)
        data_type = cls.fields()[typed].kept(
            cls.operator_type, cls.directml_names()[typed], _field_value(cls, typed, given)
        )
        # The union's other bytes mean nothing.
        return np.frombuffer(value, data_type.dtype, 1)[0].item()
    return READ.get(field.kind, _same)(value)


def _of_kind(kind: str, shown: str, given: Mapping[str, Attribute]) -> Any:
    attribute, wanted = given[shown], KINDS[kind]
    if attribute.value is None:
        raise ConstraintError(f"{shown} is missing")
    # Not every writer has UINT for a BOOL.
    if attribute.kind != wanted and (kind, attribute.kind) != ("bool", AttributeKind.BOOL):
        raise ConstraintError(f"{shown} must be {wanted.name}, but it is {attribute.kind.name}")
    return attribute.value


def _typed_by(cls: type[OperatorDesc[Any]]) -> str:
    """The field that names the type of the struct's scalar unions."""
    return next(name for name in cls.field_names() if name.endswith("data_type"))


def _fused(activation: Activation) -> Fused:
    numbers = {one.name: one.value for one in activation.attributes if one.kind == AttributeKind.FLOAT32}
    if len(numbers) != len(activation.attributes) or None in numbers.values():
        raise ConstraintError(f"{activation.type}: the attributes must be FLOAT32, each under its own name")
    return Fused.of(activation.type.removeprefix(OPERATOR), numbers)


def _same(value: Any) -> Any:
    return value


# By the kind of a field, its value from that of the attribute, and back, where these differ.
READ: Mapping[str, Callable[[Any], Any]] = {"bool": bool, "activation": _fused}


# Writing.


def _attribute(desc: OperatorDesc[Any], shown: str, name: str) -> Attribute:
    field, value = desc.fields()[name], getattr(desc, name)
    if shown == field.counted_by:
        return Attribute(shown, AttributeKind.UINT32, len(value))
    if value is None:
        return Attribute("", KINDS[field.kind], None)
    if field.kind == "scalar union":
        scalar = scalar_of(value, getattr(desc, _typed_by(type(desc))))
        return Attribute(shown, AttributeKind.SCALAR_UNION, scalar.tobytes().ljust(8, b"\0"))
    return Attribute(shown, KINDS[field.kind], WRITTEN.get(field.kind, _same)(value))


def _serialized(activation: Fused) -> Activation:
    numbers = (Attribute(name, AttributeKind.FLOAT32, Real(value)) for name, value in activation.by_name.items())
    return Activation(OPERATOR + activation.operator_type, tuple(numbers))


WRITTEN: Mapping[str, Callable[[Any], Any]] = {
    "enum": int,
    "bool": int,
    "scale bias": lambda value: (value.scale, value.bias),
    "size 2d": lambda value: (value.width, value.height),
    "activation": _serialized,
}
