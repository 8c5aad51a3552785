"""`schema`: declares the schemas of ONNX Runtime's contrib operators, which the onnx package lacks."""

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import defs, helper

MICROSOFT = "com.microsoft"
_OPTION = defs.OpSchema.FormalParameterOption
_MARKS = {"?": _OPTION.Optional, "*": _OPTION.Variadic, "~": _OPTION.Variadic}


def qualified(domain: str, name: str) -> str:
    """Returns the name of an operator with its domain; ONNX's own operators have none."""
    return f"{domain}::{name}" if domain else name


def required(kind: str) -> Any:
    """An attribute that every node must have, such as `required("INTS")`."""
    return _without_default(kind, required=True)


def optional(kind: str) -> Any:
    """An attribute that a node may leave out, and that has no default."""
    return _without_default(kind, required=False)


def schema(
    name: str,
    inputs: str,
    outputs: str,
    attributes: Mapping[str, Any] | None = None,
    *,
    domain: str = MICROSOFT,
    since: int = 1,
    **types: str,
) -> defs.OpSchema:
    """Returns the schema of an operator.

    Args:
      name: of the operator.
      inputs: names and types, "X T, bias? T, rest* T": `?` may be left out, `*` stands for any number, at least one,
        of one type, and `~` for those of several types.
      outputs: as `inputs`.
      attributes: a default, or `required(kind)` or `optional(kind)`, by name.
      domain: that the operator is of; "" is ONNX's own.
      since: the first version of the domain that it is like this in.
      types: for each type that inputs and outputs name, the types that it may be: "float16 float".
    """
    return defs.OpSchema(
        name,
        domain,
        since,
        inputs=_parameters(inputs),
        outputs=_parameters(outputs),
        type_constraints=[
            (variable, [f"tensor({type_name})" for type_name in names.split()], "") for variable, names in types.items()
        ],
        attributes=[_attribute(name, default) for name, default in (attributes or {}).items()],
    )


def _parameters(text: str) -> Sequence[Any]:
    """
    >>> [(p.name, p.type_str, p.option.name) for p in _parameters("X T, bias? T")]
    [('X', 'T', 'Single'), ('bias', 'T', 'Optional')]
    """
    pairs = (parameter.split() for parameter in text.split(","))
    return [
        defs.OpSchema.FormalParameter(
            name.rstrip("?*~"),
            kind,
            param_option=_MARKS.get(name[-1], _OPTION.Single),
            is_homogeneous=not name.endswith("~"),
        )
        for name, kind in pairs
    ]


def _attribute(name: str, default: Any) -> Any:
    if callable(default):
        return default(name)
    return defs.OpSchema.Attribute(name, helper.make_attribute(name, default))


def _without_default(kind: str, *, required: bool) -> Any:
    return lambda name: defs.OpSchema.Attribute(name, getattr(defs.OpSchema.AttrType, kind), required=required)
