"""The parts of a graph: nodes, which are operators and constants, and edges, which connect their ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import jax
import numpy as np
from jax.core import Tracer

from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..core.tensors.int4_packing import as_bytes
from ..core.tensors.tensor_desc import TensorDesc
from ..errors import DataTypeError, describe, message

# A tensor of a node, ("pick", "input"); or an input or output of the graph itself, "x".
Port = str | tuple[str, str]


@dataclass(frozen=True, init=False, repr=False)
class Constant:
    """DML_CONSTANT_DATA_GRAPH_NODE_DESC: bytes that are part of the graph, read as the tensor of whatever reads them.

    They become part of the executable. Bind large ones, such as weights, to an input that is OWNED_BY_DML instead.

    Args:
      data: bytes, or an array, whose elements are taken in row-major order.

    Raises:
      DataTypeError: neither bytes nor an array of one of DirectML's data types.

    Example:
      >>> import numpy as np
      >>> from dml_jax import Constant
      >>> Constant(np.uint32([3, 1]))
      Constant(8 bytes)

    Source: DML_CONSTANT_DATA_GRAPH_NODE_DESC.
    """

    data: bytes
    operator_type: ClassVar[str] = "CONSTANT"

    def __init__(self, data: bytes | bytearray | memoryview | jax.Array | np.ndarray[Any, Any]):
        object.__setattr__(self, "data", _bytes_of(data))

    def __repr__(self) -> str:
        return f"Constant({len(self.data)} bytes)"

    def input_ports(self) -> dict[str, TensorDesc]:
        """Always empty: a constant reads nothing."""
        return {}

    def output_ports(self) -> dict[str, None]:
        """The only output; it has no tensor of its own."""
        return {"output": None}

    def shown(self, _: str) -> str:
        """The name of the output in messages and model files."""
        return "Data"


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    fact = f"it is {describe(value)}"
    if isinstance(value, Tracer):
        fact = "it is traced"
    elif isinstance(value, jax.Array) and value.is_deleted():
        fact = "it is deleted"
    elif isinstance(value, np.ma.MaskedArray):
        fact = "it is masked"
    elif isinstance(value, jax.Array | np.ndarray):
        data_type = DataType.of(value.dtype)
        return as_bytes(np.asarray(value).astype(data_type.dtype).reshape(-1)).tobytes()
    rule = "data must be bytes or an array of one of DirectML's data types"
    raise DataTypeError(message("CONSTANT", rule, fact, {"data": value}))


Nodes = Mapping[str, OperatorDesc[Any] | Constant]
# The source of each input of a node and of each output of the graph.
Edges = Mapping[Port, Port]


class Graph(Protocol):
    """Protocol of objects with nodes, edges, inputs and outputs."""

    @property
    def nodes(self) -> Nodes: ...
    @property
    def edges(self) -> Edges: ...
    @property
    def inputs(self) -> Mapping[str, TensorDesc]: ...
    @property
    def outputs(self) -> Mapping[str, TensorDesc]: ...


def shown_port(nodes: Nodes, port: Port) -> str:
    """Returns a port as messages show it: 'pick'.InputTensor, or the name of an input or output of the graph."""
    if isinstance(port, str):
        return repr(port)
    name, tensor = port
    node = nodes.get(name)
    known = node is not None and (tensor in node.input_ports() or tensor in node.output_ports())
    return f"{name!r}.{node.shown(tensor) if node is not None and known else tensor}"


def shown_edge(nodes: Nodes, reader: Port, source: Port) -> str:
    """Returns an edge as messages show it, in the direction of the data."""
    return f"edge {shown_port(nodes, source)} -> {shown_port(nodes, reader)}"
