"""Converts a graph to its serialized form: each source of edges becomes a value with a name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.arguments.ports import ports_of
from ...core.structs.operator_desc import OperatorDesc
from ...core.tensors.tensor_desc import TensorDesc
from ...errors import ConstraintError
from ..nodes_and_edges import Constant, Graph, Port, shown_port
from .error_context import at
from .graph_from_records import first_readers
from .operator_descs import to_node
from .records import ConstantNode, NamedConstant, OperatorNode, SerializedGraph


def to_serialized(graph: Graph) -> SerializedGraph:
    """Returns the serialized form of a graph. Inputs that are OWNED_BY_DML become constants by name.

    Raises:
      ConstraintError: what a file has no place for: an alignment, two outputs of one source, or a tensor of an input
        or output that is another one than that of its first reader or its source.
    """
    with at("GRAPH"):
        _check_tensors(graph)
        values = _values(graph)
        owned = {name: None for name, tensor in graph.inputs.items() if tensor.flags}
        nodes: list[OperatorNode | ConstantNode] = [ConstantNode(name, NamedConstant(name), (name,)) for name in owned]
        for name, node in graph.nodes.items():
            with at(f"node {name!r}"):
                if isinstance(node, Constant):
                    nodes.append(ConstantNode(name, node.data, (values[name, "output"],)))
                else:
                    read = [port and values[graph.edges[name, port]] for port in _ports(node, node.input_names())]
                    written = [port and values[name, port] for port in _ports(node, node.output_names())]
                    nodes.append(to_node(node, name, read, written, owned))
    inputs = tuple(name for name in graph.inputs if name not in owned)
    return SerializedGraph(tuple(nodes), inputs, tuple(graph.outputs))


def _check_tensors(graph: Graph) -> None:
    readers = first_readers(graph.nodes, graph.edges)
    for name, tensor in graph.inputs.items():
        _check_same(f"input {name!r}", tensor, readers[name])
    for name, tensor in graph.outputs.items():
        node, port = graph.edges[name]
        _check_same(f"output {name!r}", tensor, graph.nodes[node].output_ports()[port])


def _check_same(where: str, tensor: TensorDesc, other: TensorDesc | None) -> None:
    if other is not None and tensor != other:
        rule = "in a serialized graph it must have the tensor of the first node that is connected to it"
        raise ConstraintError(f"{rule}, {other.describe()}, but it is {tensor.describe()}", (where,))


def _values(graph: Graph) -> dict[Port, str]:
    """Returns the name of each source's value."""
    values: dict[Port, str] = {name: name for name in graph.inputs}
    for name in graph.outputs:
        source = graph.edges[name]
        if source in values:
            rule = "a serialized graph must have one output of a source"
            fact = f"{values[source]!r} and {name!r} are both {shown_port(graph.nodes, source)}"
            raise ConstraintError(f"{rule}, but {fact}: put an ELEMENT_WISE_IDENTITY before one of them")
        values[source] = name
    used = set(values.values())
    for source in graph.edges.values():
        if source not in values:
            node, port = source
            name = f"{node}.{graph.nodes[node].shown(port)}"
            while name in used:
                name += "'"
            used.add(name)
            values[source] = name
    return values


def _ports(desc: OperatorDesc[Any], fields: Iterable[str]) -> list[str]:
    """Returns the ports of fields; "" is an optional tensor that is left out."""
    tensors = ports_of({field: getattr(desc, field) for field in fields})
    return ["" if tensor is None else port for port, tensor in tensors.items()]
