"""Writes a serialized graph as ONNX Runtime's DirectML provider lays it out, so that DxDispatch can read it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...errors import ConstraintError, describe
from . import schema
from .error_context import at
from .records import Activation, Attribute, ConstantNode, NamedConstant, OperatorNode, SerializedGraph, Tensor
from .schema import AttributeKind, ConstantKind, NodeKind


def encode(graph: SerializedGraph) -> bytes:
    """Writes the serialized form of a graph; `decode` gives back an equal one.

    Args:
      graph: the graph. Numbers of FLOAT fields are rounded to 32 bits.

    Returns:
      The content of the file.

    Raises:
      ConstraintError: a node has no name, a value does not fit its field, a constant is too long for the format, or
        the package flatbuffers is missing.
    """
    try:
        from flatbuffers.builder import Builder, BuilderSizeError  # an extra
    except ImportError as error:
        fix = "pip install '.[graphs]' in a clone installs it"
        raise ConstraintError(f"writing a serialized graph needs the package flatbuffers: {error}; {fix}") from None
    writer = _Writer(Builder(1024))
    try:
        with at("serialized graph"):
            return writer.graph(graph)
    except BuilderSizeError:
        raise ConstraintError(
            "serialized graph: it must have less than 2 GiB, the most that the format holds"
        ) from None


class _Writer:
    """Writes the parts of a graph; each method returns the offset of what it wrote."""

    def __init__(self, builder: Any):
        self._builder = builder

    def graph(self, graph: SerializedGraph) -> bytes:
        nodes = self._vector("nodes", graph.nodes, self._node)
        inputs = self._vector("graphInputNames", graph.input_names, self._string)
        outputs = self._vector("graphOutputNames", graph.output_names, self._string)
        root = self._table(schema.GRAPH, nodes=nodes, graphInputNames=inputs, graphOutputNames=outputs)
        self._builder.Finish(root)
        return bytes(self._builder.Output())

    def _node(self, node: OperatorNode | ConstantNode) -> int:
        if not node.name:
            raise ConstraintError("a node must have a name")
        is_operator = isinstance(node, OperatorNode)
        return self._table(
            schema.NODE,
            desc_type=NodeKind.OPERATOR if is_operator else NodeKind.CONSTANT,
            desc=self._operator(node) if is_operator else self._constant(node.data),
            name=self._string(node.name),
            inputNames=self._vector("inputNames", node.input_names if is_operator else (), self._string),
            outputNames=self._vector("outputNames", node.output_names, self._string),
        )

    def _operator(self, node: OperatorNode) -> int:
        return self._table(
            schema.OPERATOR,
            type=self._string(node.type),
            inputs=self._vector("inputs", node.inputs, self._tensor),
            outputs=self._vector("outputs", node.outputs, self._tensor),
            attributes=self._vector("attributes", node.attributes, self._attribute),
        )

    def _constant(self, data: bytes | NamedConstant) -> int:
        if isinstance(data, NamedConstant):
            kind, value = ConstantKind.NAME, self._table(schema.CONSTANT_NAME, name=self._string(data.name))
        else:
            raw = self._builder.CreateByteVector(data)
            kind, value = ConstantKind.RAW_DATA, self._table(schema.CONSTANT_RAW_DATA, data=raw)
        return self._table(schema.CONSTANT, data_type=kind, data=value)

    def _tensor(self, tensor: Tensor) -> int:
        strides = 0 if tensor.strides is None else self._numbers("I", tensor.strides)
        _packed("Q", (tensor.total_tensor_size_in_bytes,))
        return self._table(
            schema.TENSOR,
            dataType=self._string(tensor.data_type),
            sizes=self._numbers("I", tensor.sizes),
            strides=strides,
            totalTensorSizeInBytes=tensor.total_tensor_size_in_bytes,
        )

    def _attribute(self, attribute: Attribute) -> int:
        with at(attribute.name):
            value = 0 if attribute.value is None else self._value(attribute.kind, attribute.value)
        # ONNX Runtime leaves out the name of what is left out.
        name = self._string(attribute.name) if attribute.name else 0
        return self._table(schema.ATTRIBUTE, name=name, val_type=attribute.kind, val=value)

    def _value(self, kind: AttributeKind, value: Any) -> int:
        if kind in schema.STRUCTS:
            return self._struct(_packed(schema.STRUCTS[kind], value if isinstance(value, tuple) else (value,)))
        if kind in schema.ARRAYS:
            return self._table(schema.ARRAY, data=self._numbers(schema.ARRAYS[kind], value))
        if kind == AttributeKind.SCALAR_UNION:
            if len(value) != 8:
                raise ConstraintError(f"a scalar union must have 8 bytes, but it has {len(value)}")
            return self._table(schema.SCALAR_UNION, data_type=1, data=self._struct(_packed("8s", (value,))))
        if kind == AttributeKind.ACTIVATION:
            return self._activation(value)
        if kind == AttributeKind.ACTIVATION_ARRAY:
            return self._table(schema.ARRAY, data=self._vector("data", value, self._activation))
        raise ConstraintError(f"an attribute of kind NONE must have no value, but it is {describe(value)}")

    def _activation(self, activation: Activation) -> int:
        kind = self._string(activation.type)
        attributes = self._vector("attributes", activation.attributes, self._attribute)
        return self._table(schema.ACTIVATION, type=kind, attributes=attributes)

    # The parts of a flatbuffer.

    def _table(self, fields: schema.Fields, **values: int) -> int:
        """Writes a table; fields that are 0 or None are left out, as defaults."""
        add = {
            schema.OFFSET: self._builder.PrependUOffsetTRelativeSlot,
            schema.UINT8: self._builder.PrependUint8Slot,
            schema.UINT64: self._builder.PrependUint64Slot,
        }
        self._builder.StartObject(len(fields))
        for slot, (field, form) in enumerate(fields.items()):
            add[form](slot, values.get(field, 0), 0)
        return self._builder.EndObject()

    def _vector(self, field: str, items: Iterable[Any], write: Callable[[Any], int]) -> int:
        """Writes a vector of tables or strings."""
        offsets = []
        for number, item in enumerate(items):
            with at(f"{field}[{number}]"):
                offsets.append(write(item))
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return self._builder.EndVector()

    def _numbers(self, form: str, numbers: Sequence[Any]) -> int:
        packed = _packed(f"{len(numbers)}{form}", numbers)
        self._builder.StartVector(4, len(numbers), 4)
        self._bytes(packed)
        return self._builder.EndVector()

    def _struct(self, packed: bytes) -> int:
        """Writes a struct in a union; its numbers have up to 8 bytes."""
        self._builder.Prep(len(packed), len(packed))
        self._bytes(packed)
        return self._builder.Offset()

    def _bytes(self, packed: bytes) -> None:
        for byte in reversed(packed):
            self._builder.PrependByte(byte)

    def _string(self, text: str) -> int:
        if "\0" in text:
            raise ConstraintError(f"a name must have no NUL, but it is {text!r:.60}")
        try:
            return self._builder.CreateString(text)
        except UnicodeEncodeError:
            raise ConstraintError(f"a name must be writable in UTF-8, but it is {text!r:.60}") from None


def _packed(form: str, values: Sequence[Any]) -> bytes:
    try:
        return struct.pack(f"<{form}", *values)
    except (struct.error, OverflowError) as error:
        raise ConstraintError(f"{describe(values)} must fit its field: {error}") from None
