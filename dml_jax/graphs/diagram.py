"""`Diagram`: the boxes and labelled edges of a drawn graph, without their layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.tensor_desc import TensorDesc
from ..errors import DataTypeError, describe, escaped, message
from .graph_desc import GraphDesc
from .nodes_and_edges import Constant, Port

# Characters of a line that are shown.
LONGEST = 60


class Box(NamedTuple):
    """A node, or an input or output of the graph: its kind, what it is, its name, and lines about that."""

    kind: str
    what: str
    name: str
    about: Sequence[str] = ()

    @property
    def lines(self) -> Sequence[str]:
        """All lines of text in the box."""
        return [self.what, self.name, *self.about]


class Edge(NamedTuple):
    """An edge between two boxes, by their numbers, and the lines of its label."""

    source: int
    reader: int
    lines: Sequence[str]


class Diagram(NamedTuple):
    """The boxes, each before those that read it, and the edges."""

    boxes: Sequence[Box]
    edges: Sequence[Edge]


def diagram(graph: GraphDesc) -> Diagram:
    """Returns the diagram of a graph.

    Raises:
      DataTypeError: it is no GraphDesc.
    """
    if not isinstance(graph, GraphDesc):
        fact = f"it is {getattr(graph, 'operator_type', None) or describe(graph)}"
        raise DataTypeError(message("GRAPH", "what is drawn must be a GraphDesc", fact, {}))
    boxes = {("input", name): _own("input", name, tensor) for name, tensor in graph.inputs.items()}
    boxes |= {("node", name): _node(name, node) for name, node in graph.nodes.items()}
    boxes |= {("output", name): _own("output", name, tensor) for name, tensor in graph.outputs.items()}
    numbers = {key: number for number, key in enumerate(boxes)}

    def number(port: Port, own: str) -> int:
        return numbers[(own, port) if isinstance(port, str) else ("node", port[0])]

    edges = [
        Edge(number(source, "input"), number(reader, "output"), _label(graph, source, reader))
        for reader, source in graph.edges.items()
    ]
    return Diagram(list(boxes.values()), edges)


def _own(kind: str, name: str, tensor: TensorDesc) -> Box:
    return Box(kind, kind, printable(name), ["OWNED_BY_DML"] if tensor.flags else [])


def _node(name: str, node: OperatorDesc[Any] | Constant) -> Box:
    if isinstance(node, Constant):
        return Box("constant", "CONSTANT", printable(name), [f"{len(node.data)} bytes"])
    shown = node.directml_names()
    attributes = {
        shown[field]: kind.to_json(value)
        for field, kind in node.fields().items()
        if not kind.is_tensor and (value := getattr(node, field)) is not None
    }
    lines = [printable(f"{field}: {_worded(value)}") for field, value in attributes.items()]
    return Box("operator", node.operator_type, printable(name), lines)


def _label(graph: GraphDesc, source: Port, reader: Port) -> list[str]:
    """Returns the lines of an edge's label: tensor names where a node has several, then type, sizes and strides."""
    names = _tensor_name(graph, source, "output"), _tensor_name(graph, reader, "input")
    written, read = _tensor(graph, source), _tensor(graph, reader)
    assert read is not None
    lines = _lines_of(read)
    if written and _lines_of(written) != lines:
        lines = [*_lines_of(written), "read as", *lines]
    return [" ".join(filter(None, (names[0], names[0] and "→", names[1]))), *lines] if any(names) else lines


def _tensor_name(graph: GraphDesc, port: Port, side: str) -> str:
    """DirectML's name of a tensor; "" for a node's only input or output."""
    if isinstance(port, str):
        return ""
    node = graph.nodes[port[0]]
    tensors: Mapping[str, Any] = node.input_ports() if side == "input" else node.output_ports()
    return node.shown(port[1]) if len(tensors) > 1 else ""


def _tensor(graph: GraphDesc, port: Port) -> TensorDesc | None:
    """The tensor at one end of an edge; None for a constant."""
    if isinstance(port, str):
        return graph.inputs.get(port) or graph.outputs[port]
    node = graph.nodes[port[0]]
    return None if isinstance(node, Constant) else node.ports()[port[1]]


def _lines_of(tensor: TensorDesc) -> list[str]:
    """Returns type and sizes, and strides unless the tensor is packed."""
    lines = [f"{tensor.data_type.name} {'x'.join(map(str, tensor.sizes))}"]
    if tensor.strides is not None and not tensor.is_packed:
        lines.append(f"strides {','.join(map(str, tensor.strides))}")
    return lines


def _worded(json: Any) -> str:
    """The value of an attribute."""
    if isinstance(json, Mapping):
        return ", ".join(f"{name} {_worded(value)}" for name, value in json.items())
    if isinstance(json, list):
        return f"[{', '.join(map(_worded, json))}]"
    return str(json)


def printable(text: str) -> str:
    """Returns a line of text with control characters escaped, cut off at `LONGEST` characters."""
    shown = escaped(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
