"""Converts the operators of a serialized graph to descriptors, and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...catalogue import STRUCTS
from ...core.structs.operator_desc import OperatorDesc
from ...errors import ConstraintError
from .attributes import OPERATOR, read_attributes, written_attributes
from .error_context import at
from .records import OperatorNode
from .tensors import read_tensors, written_tensors


def to_desc(node: OperatorNode, owned: Collection[str] = ()) -> OperatorDesc[Any]:
    """Returns the descriptor of a node.

    Args:
      node: the node.
      owned: the values that are constants by name: inputs that read them are OWNED_BY_DML.

    Raises:
      ConstraintError: dml_jax does not have the operator, a tensor or an attribute is missing or another one than the
        struct has, or a rule of the operator is broken.
      DataTypeError: a rule of data types is broken.
    """
    operator = node.type.removeprefix(OPERATOR)
    if operator not in STRUCTS:
        raise ConstraintError(f"unknown operator {node.type!r:.60}; `dml-jax ops` lists the known ones")
    cls = STRUCTS[operator]
    with at(operator):
        tensors = read_tensors(cls, cls.input_names(), node.input_names, node.inputs, owned)
        tensors |= read_tensors(cls, cls.output_names(), node.output_names, node.outputs, ())
        values = tensors | read_attributes(cls, node.attributes, tensors)
    return cls(**values)


def to_node(
    desc: OperatorDesc[Any],
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    owned: Collection[str] = (),
) -> OperatorNode:
    """Returns the node of a descriptor.

    Args:
      desc: the descriptor.
      name: of the node, for messages.
      input_names: the value that each input reads, in DirectML's order, "" for an optional one that is left out.
      output_names: the value that each output is, likewise.
      owned: the values that are constants by name.

    Raises:
      ConstraintError: a file has no place for what the descriptor says: an alignment, or OWNED_BY_DML for another
        input than those that read constants by name; or there are other names than tensors.
    """
    with at(desc.operator_type):
        return OperatorNode(
            name,
            OPERATOR + desc.operator_type,
            written_tensors(desc, desc.input_names(), input_names, owned),
            written_tensors(desc, desc.output_names(), output_names, ()),
            written_attributes(desc),
            tuple(input_names),
            tuple(output_names),
        )
