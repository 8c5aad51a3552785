"""`Node`: one node of a graph, bound to a function of `table.py` by the names in the schema of its version."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto, defs, helper

from .errors import OnnxError
from .loading import read_tensor, type_name
from .table import ONNX_OPERATORS

__all__ = ["Node", "node_of"]

_OPTION = defs.OpSchema.FormalParameterOption
_IGNORED = ("consumed_inputs",)  # a hint of the first opset, about memory
_TOLERATED = {"SpaceToDepth": ("mode",)}  # of opset 28, which exporters write before


@dataclass(frozen=True)
class Node:
    """One node, valid by its schema as far as that is known without data.

    Args:
      label: for messages, such as "Gather node 'embed'".
      op_type: its operator.
      function: computes it from keywords, the schema's names in lower case.
      inputs: names of values, "" for one that is left out.
      outputs: names of values, "" for one that nothing needs.
      attributes: by name, with the schema's defaults.
      schema: of the version that the model asks for.
    """

    label: str
    op_type: str
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    schema: defs.OpSchema

    def bound(self, values: Sequence[Any]) -> dict[str, Any]:
        """The keywords for `function`: the attributes, and the inputs, None where they are left out.

        Raises:
          OnnxError: the operator takes no such types, or not together.
        """
        self._check_types(values)
        keywords = dict(self.attributes)
        if self.schema.outputs[-1].option == _OPTION.Variadic:
            keywords["count"] = len(self.outputs)
        if self.schema.inputs and self.schema.inputs[-1].option == _OPTION.Variadic:
            return keywords | {self.schema.inputs[-1].name.lower(): tuple(values)}
        return keywords | {p.name.lower(): v for p, v in zip(self.schema.inputs, values, strict=False) if v is not None}

    def _check_types(self, values: Sequence[Any]) -> None:
        accepted = {c.type_param_str: c.allowed_type_strs for c in self.schema.type_constraints}
        seen: dict[str, str] = {}
        for i, value in enumerate(values):
            if value is None:
                continue
            parameter = self.schema.inputs[min(i, len(self.schema.inputs) - 1)]
            variable, actual = parameter.type_str, type_name(value.dtype)
            names = accepted.get(variable, [variable])
            if actual not in names:
                texts = ", ".join(n.removeprefix("tensor(").removesuffix(")") for n in names if n.startswith("tensor"))
                version = f"{self.op_type}-{self.schema.since_version}"
                raise OnnxError(f"{parameter.name} of {version} must be one of {texts}, but it is {value.dtype}")
            if seen.setdefault(variable, actual) != actual and parameter.is_homogeneous:
                rule = f"inputs of type {variable} must have one type"
                raise OnnxError(f"{rule}, but they are {seen[variable]} and {actual}")


def node_of(proto: onnx.NodeProto, version: int, folder: Path = Path(), number: int = 0) -> Node:
    """A node by the schema of an opset version.

    Raises:
      OnnxError: the version has no such operator, attribute or number of inputs.
    """
    label = _label(proto, number)
    try:
        schema = defs.get_schema(proto.op_type, version, "")
    except defs.SchemaError:
        first = min(s.since_version for s in defs.get_all_schemas_with_history() if s.name == proto.op_type)
        rule = f"the operator must exist in opset {version}"
        raise OnnxError(f"{label}: {rule}, but it does from opset {first} on") from None
    versions = ONNX_OPERATORS[proto.op_type]
    function = versions[max(since for since in versions if since <= schema.since_version)]
    inputs, outputs = (list(names) for names in (proto.input, proto.output))
    _check_count(label, "inputs", inputs, schema.inputs, schema.min_input, schema.max_input)
    _check_count(label, "outputs", outputs, schema.outputs, schema.min_output, schema.max_output)
    attributes = _attributes(label, proto, schema, folder)
    return Node(label, proto.op_type, function, tuple(inputs), tuple(outputs), attributes, schema)


def _label(proto: onnx.NodeProto, number: int) -> str:
    return f"{proto.op_type} node {repr(proto.name) if proto.name else f'#{number}'}"


def _check_count(label: str, what: str, names: list[str], parameters: Sequence[Any], least: int, most: int) -> None:
    if not least <= len(names) <= most:
        raise OnnxError(f"{label}: it must have from {least} to {most} {what}, but it has {len(names)}")
    for name, parameter in zip(names, parameters, strict=False):
        if not name and parameter.option == _OPTION.Single and what == "inputs":
            raise OnnxError(f"{label}: it must have the input {parameter.name}, but that is left out")


def _attributes(label: str, proto: onnx.NodeProto, schema: defs.OpSchema, folder: Path) -> dict[str, Any]:
    """The attributes of a node by name, those of the schema that have a default included."""
    values = {}
    for name, formal in schema.attributes.items():
        if formal.default_value.type != AttributeProto.UNDEFINED:
            values[name] = _value(label, formal.default_value, folder)
    for attribute in proto.attribute:
        formal = schema.attributes.get(attribute.name)
        if formal is None and attribute.name not in _TOLERATED.get(proto.op_type, ()):
            accepted = ", ".join(schema.attributes) or "none"
            rule = f"the attributes of {schema.name}-{schema.since_version} must be among {accepted}"
            raise OnnxError(f"{label}: {rule}, but there is {attribute.name!r}")
        if formal is not None and AttributeProto.AttributeType.Name(attribute.type) != _type_of(formal):
            rule = f"attribute {attribute.name!r} must be of type {_type_of(formal)}"
            raise OnnxError(f"{label}: {rule}, but it is {AttributeProto.AttributeType.Name(attribute.type)}")
        values[attribute.name] = _value(label, attribute, folder)
    for name, formal in schema.attributes.items():
        if formal.required and name not in values:
            raise OnnxError(f"{label}: it must have the attribute {name!r}, but that is missing")
    return {name: value for name, value in values.items() if name not in _IGNORED}


def _type_of(formal: defs.OpSchema.Attribute) -> str:
    return str(formal.type).rpartition(".")[2]


def _value(label: str, attribute: AttributeProto, folder: Path) -> Any:
    """An attribute as a number, a string, a list or an array."""
    try:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            return read_tensor(value, folder)
        return value.decode() if isinstance(value, bytes) else value
    except (ValueError, OnnxError) as error:
        raise OnnxError(f"{label}: attribute {attribute.name!r}: {error}") from None
