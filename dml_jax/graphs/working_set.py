"""Working set of an operator or a graph: the bytes of its tensors and of the intermediates that live at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from ..core.memory_checks import check_bytes
from ..core.structs.computation import Computation
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.tensor_desc import TensorDesc, span_bytes
from .graph_desc import GraphDesc
from .graph_files import owned_inputs
from .nodes_and_edges import Constant, Port


def check_graph(graph: GraphDesc) -> None:
    """Checks that a graph, with its constants in files, fits into the memory of the machine.

    Raises:
      ConstraintError: it takes more.
    """
    constants = owned_inputs(graph)
    held = {"constants": sum(map(span_bytes, constants.values()))}
    check_bytes(held | working_set(graph, constants), "its tensors")


def working_set(desc: Computation[Any], owned: Collection[str] = ()) -> dict[str, int]:
    """Estimates, before compilation, the bytes that a computation needs beside its buffers, by purpose.

    XLA may need less, as it fuses operators, or more, as some sort or transpose on the way: what is run is compared
    again when it is compiled.

    Args:
      desc: an operator or a graph.
      owned: inputs whose buffers are on the device already.
    """
    tensors = desc.ports()
    # A tensor is copied out of its buffer and to the device, or back; of an owned one only what it repeats is new.
    sizes = _sizes(desc, tensors).items()
    taken = sum(size - span_bytes(tensors[port]) if port in owned else 2 * size for port, size in sizes)
    return {"tensors": taken} | (_intermediates(desc) if isinstance(desc, GraphDesc) else {})


def _sizes(desc: Computation[Any], tensors: Mapping[str, TensorDesc]) -> dict[str, int]:
    """Returns the bytes of tensors with repeated elements counted: XLA may materialize strides of 0."""
    elements = {port: prod(tensor.sizes) for port, tensor in tensors.items()}
    if isinstance(desc, OperatorDesc) and _gathers(desc):  # it reads no more elements of its table than it writes
        most = sum(prod(tensor.sizes) for tensor in desc.output_ports().values())
        elements = {port: count if desc.is_index(port) else min(count, most) for port, count in elements.items()}
    return {port: max(span_bytes(t), t.data_type.byte_count(elements[port])) for port, t in tensors.items()}


def _gathers(desc: OperatorDesc[Any]) -> bool:
    return desc.moves_words and desc.replaces_in is None and any(map(desc.is_index, desc.input_ports()))


def _intermediates(graph: GraphDesc) -> dict[str, int]:
    """Returns the peak bytes of intermediates, by the node that runs at the peak.

    Nodes run in order, and a value lives until its last reader has run: of a -> b -> c, two at once.
    """
    unread = Counter(graph.edges.values())
    held: dict[Port, int] = {**_sizes(graph, graph.inputs)}
    sources = {graph.edges[name] for name in graph.outputs}
    live, most = 0, {"intermediates": 0}
    for name, node in graph.nodes.items():
        outputs = _made(name, node)
        held |= outputs
        # The outputs of the graph are counted among its tensors.
        live += sum(size for port, size in outputs.items() if port not in sources)
        # A reader may see more elements than there are: repeated ones, and zeros behind them.
        reads = {} if isinstance(node, Constant) else _sizes(node, node.input_ports())
        here = live + sum(max(0, size - held[graph.edges[name, port]]) for port, size in reads.items())
        if here > max(most.values()):
            most = {f"intermediates at node {name!r}": here}
        for port in reads:
            source = graph.edges[name, port]
            unread[source] -= 1
            if not unread[source] and not isinstance(source, str) and source not in sources:
                live -= held[source]
    return most


def _made(name: str, node: OperatorDesc[Any] | Constant) -> dict[Port, int]:
    if isinstance(node, Constant):
        return {(name, "output"): len(node.data)}
    return {(name, port): size for port, size in _sizes(node, node.output_ports()).items()}
