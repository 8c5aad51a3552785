"""Makes the methods of `GraphBuilder` from the structs, with signatures and help for editors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence  # noqa: F401  # annotations name it
from typing import Any, get_type_hints

from ..core.structs.fields import Field
from ..core.structs.operator_desc import OperatorDesc
from ..errors import DataTypeError, suggestion
from .expression import Expression, TensorLike  # noqa: F401  # annotations name them

# Adds a node: the builder, the struct, the name that is given, and the fields that are.
Add = Callable[[Any, type[OperatorDesc], str | None, dict[str, Any]], Any]


def method_of(name: str, struct: type[OperatorDesc], add: Add) -> Callable[..., Any]:
    """Returns the method that adds an operator, under its DirectML name in lower case."""
    signature = _signature(struct)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise DataTypeError(_misuse(struct, signature, kwargs, str(error))) from None
        bound.apply_defaults()
        fields = {field: value for field, value in bound.arguments.items() if field not in ("self", "name")}
        return add(self, struct, bound.arguments["name"], fields)

    method.__name__ = name.lower()
    method.__module__ = f"{__package__}.builder"
    method.__qualname__ = f"GraphBuilder.{method.__name__}"
    method.__doc__ = _documentation(struct)
    method.__annotations__ = {name: p.annotation for name, p in signature.parameters.items() if name != "self"}
    method.__annotations__["return"] = signature.return_annotation
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _signature(struct: type[OperatorDesc]) -> inspect.Signature:
    """Returns the struct's signature with expressions as inputs; outputs are optional keywords."""
    own, hints, fields = inspect.signature(struct).parameters, get_type_hints(struct.__init__), struct.fields()
    annotations = {name: _annotation(field, hints[name]) for name, field in fields.items()}
    taken = [own[name].replace(annotation=annotations[name]) for name in fields if not fields[name].is_output]
    named = {name: annotations[name] for name in struct.output_names()} | {"name": str | None}
    by_name = inspect.Parameter("any", inspect.Parameter.KEYWORD_ONLY, default=None)
    return inspect.Signature(
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *taken,
            *(by_name.replace(name=name, annotation=annotation) for name, annotation in named.items()),
        ],
        return_annotation=_returned(struct),
    )


def _annotation(field: Field, hint: Any) -> Any:
    if not field.is_tensor:
        return hint
    text = "Expression" if field.is_input else "TensorLike"
    text = f"Sequence[{text}]" if field.is_array else text
    return f"{text} | None" if field.is_optional or field.is_output else text


def _returned(struct: type[OperatorDesc]) -> str:
    """Returns the annotation of the result: one expression, a tuple, or either if outputs are optional."""
    outputs = [struct.fields()[name] for name in struct.output_names()]
    if any(field.is_array for field in outputs) or sum(not field.is_optional for field in outputs) > 1:
        return "tuple[Expression, ...]"
    return "Expression" if len(outputs) == 1 else "Expression | tuple[Expression, ...]"


def _misuse(struct: type[OperatorDesc], signature: inspect.Signature, kwargs: dict[str, Any], error: str) -> str:
    known = [name for name in signature.parameters if name != "self"]
    unknown = next((name for name in kwargs if name not in known), None)
    fact = error if unknown is None else f"{unknown!r} is none of them; {suggestion(unknown, known)}"
    given = [name for name in known if name not in (*struct.output_names(), "name")]
    named = ", ".join((*struct.output_names(), "name"))
    return f"{struct.operator_type}: takes {', '.join(given)}, and {named} by name, but {fact}"


_WAYS = "one is a TensorDesc, its data type, its sizes, or (data type, sizes); the rest follows."


def _documentation(struct: type[OperatorDesc]) -> str:
    text = inspect.getdoc(struct) or ""
    fields = re.search(r"^Args:\n(.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    return f"""Adds {struct.operator_type} to the graph: {struct.summary()}

Args:
{fields[1] if fields else ""}
  name: of the node; by default that of the operator with a number.

Returns:
  {"The output" if _returned(struct) == "Expression" else "The outputs, in their order"}. Given by name, {_WAYS}

Raises:
  ConstraintError: a rule of `{struct.__name__}.wordings()` is broken, or an output does not follow from the rest.
  DataTypeError: a data type that DirectML does not take here, or a field of the wrong type.

Source: DML_{struct.operator_type}_OPERATOR_DESC.
"""
