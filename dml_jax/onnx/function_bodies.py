"""Expands operators that ONNX defines as functions: their bodies, with the attributes of a call inserted."""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, helper

from .errors import OnnxError

Attributes = Mapping[str, AttributeProto]
Schema = Any  # an OpSchema, whose stubs lack what is said of bodies


def has_body(schema: Schema) -> bool:
    """Whether ONNX defines the operator as a function of other operators."""
    return schema.has_function or schema.has_context_dependent_function


def needs_types(schema: Schema) -> bool:
    """Whether the body depends on the types of the inputs."""
    return not schema.has_function


def onnx_body(schema: Schema, opset: int, call: NodeProto, types: Sequence[Any]) -> FunctionProto:
    """Returns the body that a schema has for a call in an opset.

    Args:
      schema: of an operator with a body.
      opset: the version of the schema's domain that the model asks for.
      call: the node.
      types: a dtype and sizes per input, None for one that is left out.

    Raises:
      OnnxError: there is none for such a call.
    """
    if schema.has_function:
        return FunctionProto.FromString(
            schema.get_function_with_opset_version(_nearest(schema.function_opset_versions, opset))
        )
    version = _nearest(schema.context_dependent_function_opset_versions, opset)
    protos = [_type_proto(*known).SerializeToString() if known else b"" for known in types]
    why = "it depends on more than the types and sizes that are known"
    try:
        body = schema.get_context_dependent_function_with_opset_version(version, call.SerializeToString(), protos)
    except (RuntimeError, ValueError) as error:
        body, why = b"", str(error)
    if not body:
        raise OnnxError(f"ONNX must have a body for this call of {schema.name}, but {why}")
    return FunctionProto.FromString(body)


def _nearest(versions: Sequence[int], opset: int) -> int:
    return max((v for v in versions if v <= opset), default=min(versions))


def _type_proto(dtype: Any, sizes: Any) -> onnx.TypeProto:
    known = None if sizes is None else [n if isinstance(n, int) else None for n in sizes]
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), known)


def given_attributes(call: NodeProto, defaults: Sequence[AttributeProto]) -> dict[str, AttributeProto]:
    """Returns the attributes of a call by name, with the defaults of those that it lacks."""
    return {attribute.name: attribute for attribute in (*defaults, *call.attribute)}


def with_attributes(node: NodeProto, attributes: Attributes) -> NodeProto:
    """Returns a node of a body with the attributes of the call that it refers to, without those that the call lacks."""
    copied = NodeProto()
    copied.CopyFrom(node)
    copied.ClearField("attribute")
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in attributes:
                copied.attribute.add().CopyFrom(attributes[attribute.ref_attr_name])
                copied.attribute[-1].name = attribute.name
            continue
        copied.attribute.add().CopyFrom(attribute)
        if attribute.type == AttributeProto.GRAPH:
            inner = [with_attributes(n, attributes) for n in attribute.g.node]
            copied.attribute[-1].g.ClearField("node")
            copied.attribute[-1].g.node.extend(inner)
    return copied
