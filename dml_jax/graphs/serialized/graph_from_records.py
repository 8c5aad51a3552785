"""Converts a serialized graph to nodes and edges: values by name become the sources of edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core.structs.operator_desc import OperatorDesc
from ...core.tensors.tensor_desc import TensorDesc
from ...errors import ConstraintError, Faults
from ..nodes_and_edges import Constant, Edges, Nodes, Port
from .error_context import at
from .operator_descs import to_desc
from .records import ConstantNode, NamedConstant, OperatorNode, SerializedGraph

GraphNodes = dict[str, OperatorDesc[Any] | Constant]


def to_parts(serialized: SerializedGraph) -> tuple[Nodes, Edges, dict[str, TensorDesc]]:
    """Returns the nodes, edges and inputs of the graph in a file; the rules of graphs are checked later.

    Constants by name become inputs that are OWNED_BY_DML, behind the others.

    Raises:
      ConstraintError: every operator that dml_jax does not have and every node that is no valid descriptor; else a
        value that is read before it is written, written twice or not at all.
    """
    with at("serialized graph"):
        constants = _constants_by_name(serialized)
        nodes, names = _nodes(serialized.nodes, {value for values in constants.values() for value in values})
        sources: dict[str, Port] = {}
        edges: dict[Port, Port] = {}
        for value in _connected(serialized.input_names):
            _add(sources, value, value)
        for name, node in zip(names, serialized.nodes, strict=True):
            if isinstance(node, OperatorNode):
                _read(name, nodes[name], node, sources, edges)
            _write(name, nodes.get(name), node, sources)
        for value in _connected(serialized.output_names):
            if value in edges:
                raise ConstraintError(f"every output must have a name of its own, but there are two {value!r:.60}")
            if value not in sources:
                raise ConstraintError(f"output {value!r:.60}: no node writes it")
            edges[value] = sources[value]
        readers = first_readers(nodes, edges)
        inputs = dict.fromkeys([*_connected(serialized.input_names), *constants])
        for name in inputs:
            if name not in readers:
                raise ConstraintError(f"input {name!r:.60}: no node reads it")
    return nodes, edges, {name: readers[name] for name in inputs}


def _connected(values: Iterable[str]) -> list[str]:
    return [value for value in values if value]


def _constants_by_name(serialized: SerializedGraph) -> dict[str, list[str]]:
    """Returns the constants by name, and the values that they define."""
    values_by_constant, inputs = dict[str, list[str]](), set(serialized.input_names)
    for node in serialized.nodes:
        if isinstance(node, ConstantNode) and isinstance(node.data, NamedConstant):
            name = node.data.name
            if name in inputs:
                raise ConstraintError(f"a constant must not have the name of an input, but {name!r:.60} has")
            values_by_constant.setdefault(name, []).extend(node.output_names)
    return values_by_constant


def _nodes(nodes: Sequence[OperatorNode | ConstantNode], owned: set[str]) -> tuple[GraphNodes, list[str]]:
    """Returns the nodes by unique name, and the name of every node of the file, where names may repeat."""
    graph_nodes, names, counts, faults = GraphNodes(), list[str](), dict[str, int](), Faults()
    for node in nodes:
        name = node.name
        while name in counts:
            counts[node.name] += 1
            name = f"{node.name} ({counts[node.name]})"
        counts[name] = 1
        names.append(name)
        with faults.at(f"node {name!r:.60}"):
            if isinstance(node, OperatorNode):
                graph_nodes[name] = to_desc(node, owned)
            elif isinstance(node.data, bytes):
                graph_nodes[name] = Constant(node.data)
    faults.finish()
    return graph_nodes, names


def _read(name: str, desc: Any, node: OperatorNode, sources: dict[str, Port], edges: dict[Port, Port]) -> None:
    for port, value in zip(desc.input_ports(), _connected(node.input_names), strict=True):
        if value not in sources:
            fact = f"{desc.shown(port)} reads {value!r:.60}"
            rule = "every value that is read must be an input of the graph or written by a node before"
            raise ConstraintError(f"{rule}, but {fact}", (f"node {name!r:.60}",))
        edges[name, port] = sources[value]


def _write(name: str, desc: Any, node: OperatorNode | ConstantNode, sources: dict[str, Port]) -> None:
    with at(f"node {name!r:.60}"):
        if isinstance(node, OperatorNode):
            for port, value in zip(desc.output_ports(), _connected(node.output_names), strict=True):
                _add(sources, value, (name, port))
            return
        for value in dict.fromkeys(node.output_names):
            _add(sources, value, node.data.name if isinstance(node.data, NamedConstant) else (name, "output"))


def _add(sources: dict[str, Port], value: str, source: Port) -> None:
    if value in sources:
        raise ConstraintError(f"every value must be written once, but {value!r:.60} is there already")
    sources[value] = source


def first_readers(nodes: Nodes, edges: Edges) -> dict[Port, TensorDesc]:
    """Returns the first tensor that reads each source."""
    tensors = {(name, port): tensor for name, node in nodes.items() for port, tensor in node.input_ports().items()}
    first_read: dict[Port, TensorDesc] = {}
    for reader, source in edges.items():
        if not isinstance(reader, str):
            first_read.setdefault(source, tensors[reader])
    return first_read
