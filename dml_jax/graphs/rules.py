"""The rules of graphs, as a table: each rule finds the places that break it, and a fact for each place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from ..core.structs.feature_level import FeatureLevel
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import injective, not_owned
from ..core.tensors.tensor_desc import TensorDesc, span_bytes
from ..errors import ConstraintError, suggestion
from .nodes_and_edges import Constant, Edges, Nodes, Port, shown_edge, shown_port

# Where in the graph a rule is broken, and by what fact.
Broken = Iterator[tuple[str, str]]
SINCE, CONSTANTS_SINCE = FeatureLevel.of("2_1"), FeatureLevel.of("6_2")


@dataclass(frozen=True)
class Wiring:
    """The parts of a graph that may break rules, with its readers, ports and order.

    Args:
      nodes: by name.
      edges: what each input of a node, and each output of the graph, comes from.
      inputs: the tensors that are given for inputs of the graph.
      outputs: the tensors that are given for outputs of the graph.
      level: the feature level whose rules hold.
    """

    nodes: Nodes
    edges: Edges
    inputs: Mapping[str, TensorDesc]
    outputs: Mapping[str, TensorDesc]
    level: FeatureLevel
    # The readers of each source, in the order of the nodes.
    readers: dict[Port, list[Port]] = field(init=False)

    def __post_init__(self) -> None:
        readers: dict[Port, list[Port]] = {}
        for reader, source in self.edges.items():
            readers.setdefault(source, []).append(reader)
        object.__setattr__(self, "readers", readers)

    @property
    def operators(self) -> Iterator[tuple[str, OperatorDesc]]:
        """The nodes that are operators."""
        return ((name, node) for name, node in self.nodes.items() if isinstance(node, OperatorDesc))

    @property
    def known_edges(self) -> Iterator[tuple[Port, Port]]:
        """The edges both ends of which exist."""
        return ((reader, source) for reader, source in self.edges.items() if not self.unknown_end(reader, source))

    def unknown_end(self, reader: Port, source: Port) -> str | None:
        """Returns which end of an edge does not exist, or None if both do."""
        return self._unknown(reader, "input") or self._unknown(source, "output")

    def _unknown(self, port: Port, side: str) -> str | None:
        if isinstance(port, str):
            return None
        name, tensor = port
        node = self.nodes.get(name)
        if node is None:
            return f"there is no node {name!r}; {suggestion(name, self.nodes)}"
        reads, writes = self._ports[name]
        known = reads if side == "input" else writes
        if tensor in known:
            return None
        near = suggestion(tensor, known) if known else "it has none"
        return f"{node.operator_type} {name!r} has no {side} {tensor!r}; {near}"

    def tensor_of(self, port: Port) -> TensorDesc | None:
        """Returns the tensor of a port; None for a constant, and for a port that is not given or does not exist."""
        if isinstance(port, str):
            return self.inputs.get(port) if port in self.readers else self.outputs.get(port)
        name, tensor = port
        reads, writes = self._ports.get(name, ({}, {}))
        return reads.get(tensor) or writes.get(tensor)

    @cached_property
    def _ports(self) -> Mapping[str, tuple[Mapping[str, TensorDesc], Mapping[str, TensorDesc | None]]]:
        """The tensors that each node reads and writes, computed once: an operator may have thousands."""
        return {name: (node.input_ports(), {**node.output_ports()}) for name, node in self.nodes.items()}

    @cached_property
    def order(self) -> tuple[str, ...] | ConstraintError:
        """The nodes in topological order; or an error that shows a cycle."""
        read: dict[str, list[str]] = {name: [] for name in self.nodes}
        for reader, source in self.known_edges:
            if not isinstance(reader, str) and not isinstance(source, str):
                read[reader[0]].append(source[0])
        try:
            return tuple(TopologicalSorter(read).static_order())
        except CycleError as error:
            return ConstraintError(" -> ".join(map(repr, reversed(error.args[1]))))


@dataclass(frozen=True)
class GraphRule:
    """One rule of graphs.

    Args:
      name: identifies it in tests.
      text: the rule in words.
      find: yields every place that breaks it, and the fact.
    """

    name: str
    text: str
    find: Callable[[Wiring], Broken]


def faults(graph: Wiring) -> Iterator[ConstraintError]:
    """Finds every rule that a graph breaks, and those of its operators at its feature level."""
    for rule in RULES:
        for place, fact in rule.find(graph):
            yield ConstraintError(f"{rule.text}, but {fact}", ("GRAPH", place) if place else ("GRAPH",))
    for name, node in graph.operators:
        for error in node.faults(node.operands(), graph.level):
            yield error.at("GRAPH", f"node {name!r}")


def _available(graph: Wiring) -> Broken:
    if graph.level < SINCE:
        yield "", f"graphs exist from feature level {SINCE} on"
    for name, node in graph.nodes.items():
        if isinstance(node, Constant) and graph.level < CONSTANTS_SINCE:
            yield f"node {name!r}", f"constant nodes exist from feature level {CONSTANTS_SINCE} on"


def _no_output(graph: Wiring) -> Broken:
    if not any(isinstance(reader, str) for reader in graph.edges):
        yield "", "no edge leads to one"


def _own_names(graph: Wiring) -> Broken:
    inputs = {source for source in graph.edges.values() if isinstance(source, str)} | {*graph.inputs}
    outputs = {reader for reader in graph.edges if isinstance(reader, str)} | {*graph.outputs}
    for name in sorted(inputs & outputs):
        yield f"input {name!r}", "it is that of an output too"
    for name in sorted(inputs | outputs | {*graph.nodes}):
        if not name:
            yield "", "one is empty"


def _unknown_ends(graph: Wiring) -> Broken:
    for reader, source in graph.edges.items():
        if fact := graph.unknown_end(reader, source):
            yield shown_edge(graph.nodes, reader, source), fact


def _unconnected_inputs(graph: Wiring) -> Broken:
    for name, node in graph.operators:
        for port in node.input_ports():
            if (name, port) not in graph.edges:
                yield f"node {name!r}", f"no edge leads to {node.shown(port)}"


def _unread_outputs(graph: Wiring) -> Broken:
    for name, node in graph.nodes.items():
        for port in node.output_ports():
            if (name, port) not in graph.readers:
                yield f"node {name!r}", f"no edge begins at {node.shown(port)}: make it an output of the graph"


def _unused(graph: Wiring) -> Broken:
    for name in graph.inputs:
        if name not in graph.readers:
            yield f"input {name!r}", "no node reads it"
    for name in graph.outputs:
        if name not in graph.edges:
            yield f"output {name!r}", "no edge leads to it"


def _idle_outputs(graph: Wiring) -> Broken:
    for reader, source in graph.known_edges:
        of_operator = not isinstance(source, str) and isinstance(graph.nodes[source[0]], OperatorDesc)
        if isinstance(reader, str) and not of_operator:
            what = "an input" if isinstance(source, str) else "a constant"
            yield f"output {reader!r}", f"it is {what} of the graph: put an ELEMENT_WISE_IDENTITY between them"


def _cycle(graph: Wiring) -> Broken:
    if isinstance(graph.order, ConstraintError):
        yield "", f"this is one: {graph.order}"


def _ownership(graph: Wiring) -> Broken:
    for source, readers in graph.readers.items():
        tensors = {port: graph.tensor_of(port) for port in readers if not graph.unknown_end(port, source)}
        owned = [port for port, tensor in tensors.items() if tensor and tensor.flags]
        if isinstance(source, str):
            given = graph.inputs.get(source)
            plain = [port for port, tensor in tensors.items() if tensor and not tensor.flags]
            if owned and plain:
                shown = shown_port(graph.nodes, owned[0]), shown_port(graph.nodes, plain[0])
                yield f"input {source!r}", f"{shown[0]} is OWNED_BY_DML and {shown[1]} is not"
            elif given and bool(given.flags) != bool(owned):
                here, there = ("it is", "its readers are not") if given.flags else ("it is not", "its readers are")
                yield f"input {source!r}", f"{here} OWNED_BY_DML and {there}"
        elif owned:
            yield shown_edge(graph.nodes, owned[0], source), "it is none"


def _unequal_bytes(graph: Wiring) -> Broken:
    for reader, source in graph.known_edges:
        ends = graph.tensor_of(source), graph.tensor_of(reader)
        if isinstance(source, str) and ends[0] is None:  # it has the tensor of its first reader
            ends = next(filter(None, map(graph.tensor_of, graph.readers[source])), None), ends[1]
        if ends[0] and ends[1] and ends[0].total_tensor_size_in_bytes != ends[1].total_tensor_size_in_bytes:
            sizes = [f"{end.total_tensor_size_in_bytes} ({end.describe()})" for end in ends if end]
            yield shown_edge(graph.nodes, reader, source), f"they have {' and '.join(sizes)}"


def _wrong_data(graph: Wiring) -> Broken:
    for reader, source in graph.known_edges:
        node, tensor = graph.nodes.get(source[0]) if not isinstance(source, str) else None, graph.tensor_of(reader)
        if not isinstance(node, Constant) or tensor is None:
            continue
        if fact := unfit_data(node, tensor):
            yield shown_edge(graph.nodes, reader, source), fact


def unfit_data(constant: Constant, tensor: TensorDesc) -> str | None:
    """Returns why the bytes of a constant do not fit a tensor."""
    least, most = span_bytes(tensor), tensor.total_tensor_size_in_bytes
    wanted = f"{least}" if least == most else f"{least} to {most}"
    is_fit = least <= len(constant.data) <= most
    return None if is_fit else f"it has {len(constant.data)} bytes and {tensor.describe()} takes {wanted}"


def _unwritable(graph: Wiring) -> Broken:
    for name, tensor in graph.outputs.items():
        for rule in (not_owned("output"), injective("output")):
            if fact := rule.broken_by({"output": tensor}):
                yield f"output {name!r}", fact


RULES: Sequence[GraphRule] = (
    GraphRule("available", "the feature level must have what the graph is made of", _available),
    GraphRule("has_output", "a graph must have an output", _no_output),
    GraphRule("own_names", "every name must be a name of its own", _own_names),
    GraphRule("known_ends", "both ends of an edge must exist", _unknown_ends),
    GraphRule("inputs_connected", "every input of a node must be connected", _unconnected_inputs),
    GraphRule("outputs_connected", "every output of a node must be connected", _unread_outputs),
    GraphRule("own_ports_connected", "every input and output of the graph must be connected", _unused),
    GraphRule("computed_outputs", "an output of the graph must come from an operator", _idle_outputs),
    GraphRule("acyclic", "a graph must have no cycle", _cycle),
    GraphRule("ownership", "an OWNED_BY_DML input must come from an input of the graph that is owned", _ownership),
    GraphRule("same_bytes", "both ends of an edge must have the same TotalTensorSizeInBytes", _unequal_bytes),
    GraphRule("constant_data", "the data of a constant must fill the tensor that reads it", _wrong_data),
    GraphRule("writable_outputs", "an output must be plain memory, an element for every coordinate", _unwritable),
)
