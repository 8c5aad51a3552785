"""Reads and writes the JSON form of a graph: nodes by name, and DirectML's three kinds of edges."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..core.json_fields import as_object, refuse_unknown, shown
from ..core.structs.feature_level import FeatureLevel
from ..core.structs.fields import number_from_json
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.scalar import scalar_of
from ..core.tensors.data_type import DataType
from ..core.tensors.tensor_desc import TensorDesc
from ..core.tensors.tensor_json import tensor_from_json, tensor_to_json
from ..errors import ConstraintError, Faults, suggestion
from .graph_desc import GraphDesc
from .nodes_and_edges import Constant, Nodes, Port
from .rules import Wiring
from .rules import faults as faults_of

GRAPH, CONSTANT = "DML_GRAPH_DESC", "DML_GRAPH_NODE_TYPE_CONSTANT"

# The ends of each kind of edge, source and reader: the fields that name a node and its tensor, or the graph's own.
ENDS = {
    "InputEdges": (("GraphInput",), ("ToNode", "ToNodeInput")),
    "IntermediateEdges": (("FromNode", "FromNodeOutput"), ("ToNode", "ToNodeInput")),
    "OutputEdges": (("FromNode", "FromNodeOutput"), ("GraphOutput",)),
}
FIELDS = ("Nodes", *ENDS, "Inputs", "Outputs")
# Reads an operator's form, or the name of one that stands elsewhere.
ReadOperator = Callable[[Any, Faults], OperatorDesc[Any] | None]


def graph_to_json(graph: GraphDesc, operator_to_json: Callable[[OperatorDesc[Any]], Any]) -> dict[str, Any]:
    """Returns the JSON form of a graph, with its operators inside."""
    form: dict[str, Any] = {"Nodes": {}, **{kind: [] for kind in ENDS}}
    for name, node in graph.nodes.items():
        form["Nodes"][name] = _constant_to_json(node) if isinstance(node, Constant) else operator_to_json(node)
    for reader, source in graph.edges.items():
        kind = "InputEdges" if isinstance(source, str) else "OutputEdges" if isinstance(reader, str) else _BETWEEN
        edge: dict[str, str] = {}
        for port, fields in zip((source, reader), ENDS[kind], strict=True):
            edge |= dict(zip(fields, _shown(graph.nodes, port), strict=True))
        form[kind].append(edge)
    form["Inputs"] = {name: tensor_to_json(tensor) for name, tensor in graph.inputs.items()}
    form["Outputs"] = {name: tensor_to_json(tensor) for name, tensor in graph.outputs.items()}
    return {"type": GRAPH, "desc": form}


_BETWEEN = "IntermediateEdges"


def _shown(nodes: Nodes, port: Port) -> tuple[str, ...]:
    return (port,) if isinstance(port, str) else (port[0], nodes[port[0]].shown(port[1]))


def _constant_to_json(node: Constant) -> dict[str, Any]:
    return {"type": CONSTANT, "desc": {"Data": base64.b64encode(node.data).decode()}}


def read_graph(json: Any, faults: Faults, level: FeatureLevel, read_operator: ReadOperator) -> GraphDesc | None:
    """Reads a graph; returns None and adds every fault of its parts, or of its rules if all parts can be read."""
    faults_before, inner = len(faults.errors), Faults()
    with inner.at():
        json = as_object('"desc"', json)
        refuse_unknown(json, FIELDS, inner)
        nodes = _read_nodes(json.get("Nodes", {}), inner, read_operator)
        edges = _read_edges(json, nodes, inner)
        inputs, outputs = (_read_tensors(json, section, inner) for section in ("Inputs", "Outputs"))
    for error in inner.errors:
        faults.add(error, "GRAPH")
    faults.skipped |= inner.skipped
    if inner.errors or inner.skipped:
        return None
    known = {name: node for name, node in nodes.items() if node is not None}
    for error in faults_of(Wiring(known, edges, inputs, outputs, level)):
        faults.add(error)
    return GraphDesc(known, edges, inputs, outputs) if len(faults.errors) == faults_before else None


def _read_nodes(
    json: Any, faults: Faults, read_operator: ReadOperator
) -> dict[str, OperatorDesc[Any] | Constant | None]:
    nodes: dict[str, OperatorDesc[Any] | Constant | None] = {}
    for name, form in _by_name("Nodes", json, faults):
        nodes[name] = None
        with faults.at(f"node {name!r}"):
            if isinstance(form, Mapping) and form.get("type") == CONSTANT:
                nodes[name] = _read_constant(form)
            else:
                inside = Faults()
                nodes[name] = read_operator(form, inside)
                inside.finish()
    return nodes


def _by_name(section: str, json: Any, faults: Faults) -> Iterator[tuple[str, Any]]:
    """Yields the entries of an object whose keys are strings; other keys, which a mapping may have, are faults."""
    for name, form in as_object(section, json).items():
        if isinstance(name, str):
            yield name, form
        else:
            faults.add(ConstraintError(f"a name must be a string, but it is {name!r:.60}", (section,)))


def _read_constant(form: Mapping[str, Any]) -> Constant:
    faults = Faults()
    refuse_unknown(form, ("type", "desc"), faults)
    json = as_object('"desc"', form.get("desc"))
    refuse_unknown(json, ("Data", "DataType"), faults)
    faults.finish()
    data = json.get("Data")
    if isinstance(data, str) and "DataType" not in json:
        try:
            return Constant(base64.b64decode(data, validate=True))
        except (binascii.Error, ValueError) as error:
            raise ConstraintError(f"Data must be bytes in base64: {error}") from None
    if not isinstance(data, list) or not data or not isinstance(json.get("DataType"), str):
        raise ConstraintError("Data must be a list of numbers beside their DataType, or bytes in base64")
    data_type = DataType.named(json["DataType"])
    numbers = Faults()
    elements = []
    for i, number in enumerate(data):
        with numbers.at(f"Data[{i}]"):
            elements.append(scalar_of(_number(number), data_type))
    numbers.finish()
    return Constant(np.array(elements, data_type.dtype))


def _number(json: Any) -> Any:
    number = number_from_json(json)
    if isinstance(number, int | float) and not isinstance(number, bool):
        return number
    raise ConstraintError(f'it must be a number, or "nan", "inf" or "-inf", but it is {shown(json)}')


def _read_edges(json: Mapping[str, Any], nodes: Mapping[str, Any], faults: Faults) -> dict[Port, Port]:
    edges: dict[Port, Port] = {}
    for kind, (source_fields, reader_fields) in ENDS.items():
        listed = json.get(kind, [])
        if not isinstance(listed, list):
            faults.add(ConstraintError(f"{kind} must be an array, but it is {listed!r:.60}"))
            continue
        for i, element in enumerate(listed):
            with faults.at(f"{kind}[{i}]"):
                form = _strings(element, (*source_fields, *reader_fields))
                source, reader = (_port(nodes, form, fields) for fields in (source_fields, reader_fields))
                if reader in edges:
                    name, *tensor = (form[field] for field in reader_fields)
                    raise ConstraintError(f"a second edge leads to {'.'.join([repr(name), *tensor])}")
                edges[reader] = source
    return edges


def _strings(json: Any, fields: tuple[str, ...]) -> Mapping[str, str]:
    form, faults = as_object("an edge", json), Faults()
    refuse_unknown(form, (*fields, "Name"), faults)
    for name in fields:
        if not isinstance(form.get(name), str):
            fact = f"it is {form[name]!r:.60}" if name in form else "it is missing"
            faults.add(ConstraintError(f"{name} must be a name, but {fact}"))
    faults.finish()
    return form


def _port(nodes: Mapping[str, Any], form: Mapping[str, str], fields: tuple[str, ...]) -> Port:
    """Returns the port that an end of an edge names by DirectML's name of the tensor."""
    if len(fields) == 1:
        return form[fields[0]]
    name, tensor = (form[field] for field in fields)
    node = nodes.get(name)
    if node is None:
        if name in nodes:  # it is at fault itself
            return name, tensor
        raise ConstraintError(f"there is no node {name!r:.60}; {suggestion(name, nodes)}")
    ports = node.input_ports() if fields[0] == "ToNode" else node.output_ports()
    known = {node.shown(port): port for port in ports}
    if tensor not in known:
        near = suggestion(tensor, known) if known else "it has none"
        side = "input" if fields[0] == "ToNode" else "output"
        raise ConstraintError(f"{node.operator_type} {name!r:.60} has no {side} {tensor!r:.60}; {near}")
    return name, known[tensor]


def _read_tensors(json: Mapping[str, Any], section: str, faults: Faults) -> dict[str, TensorDesc]:
    tensors: dict[str, TensorDesc] = {}
    for name, form in _by_name(section, json.get(section, {}), faults):
        with faults.at(section, name):
            tensors[name] = tensor_from_json(form)
    return tensors
