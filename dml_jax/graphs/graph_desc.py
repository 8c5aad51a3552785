"""`GraphDesc`: a graph of operators, which can be used like the descriptor of a single operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar

import jax

from ..core.structs.computation import Computation
from ..core.structs.feature_level import NEWEST, FeatureLevel
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..core.tensors.stored_tensor import StoredTensor, as_words
from ..core.tensors.tensor_desc import TensorDesc
from ..errors import ConstraintError, DataTypeError, describe, escaped, message
from ..operations.programs.forced_form import forced_form, forcing
from .edge_reinterpretation import See, constant_value, reinterpret, view_as
from .nodes_and_edges import Constant, Edges, Nodes, Port
from .rules import Wiring, faults


@dataclass(frozen=True, eq=False)
class GraphDesc(Computation[Any]):
    """DML_GRAPH_DESC: operators and constants, and edges between them; frozen, hashable, and valid if it exists.

    A port is a pair of names, of a node and of one of its tensors: ("pick", "input"), ("join", "inputs[0]") of an array
    of tensors, ("order", "output") of a constant. A single name is an input or output of the graph itself.

    Args:
      nodes: by name, descriptors of operators, or a `Constant`.
      edges: what every input of a node, and every output of the graph, comes from. Both ends of an edge have the same
        TotalTensorSizeInBytes; where data type, sizes or strides differ, the bytes are read as the other tensor.
      inputs: the tensors of inputs of the graph; that of its first reader for one that is left out. Their order is
        that of the arrays and buffers in a call, and the others follow.
      outputs: the tensors of outputs of the graph, likewise; that of its source for one that is left out.

    Raises:
      ConstraintError: an input or output is not connected, an end does not exist or has other bytes, the edges form a
        cycle, or a constant has the wrong size.
      DataTypeError: `nodes`, `edges`, `inputs` or `outputs` hold something else.

    Example:
      >>> import numpy as np
      >>> from dml_jax import Constant, DepthToSpaceDesc, GatherDesc, GraphDesc, TensorDesc
      >>> channels, picture = TensorDesc("FLOAT32", (1, 4, 1, 1)), TensorDesc("FLOAT32", (1, 1, 2, 2))
      >>> graph = GraphDesc(
      ...     nodes={
      ...         "order": Constant(np.uint32([3, 2, 1, 0])),
      ...         "pick": GatherDesc(channels, TensorDesc("UINT32", (1, 1, 1, 4)), channels, 1, index_dimensions=1),
      ...         "enlarge": DepthToSpaceDesc(channels, picture, block_size=2),
      ...     },
      ...     edges={
      ...         ("pick", "input"): "x",
      ...         ("pick", "indices"): ("order", "output"),
      ...         ("enlarge", "input"): ("pick", "output"),
      ...         "y": ("enlarge", "output"),
      ...     },
      ... )
      >>> print(graph.compute(np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)))
      [[[[3. 2.]
         [1. 0.]]]]

    Source: DML_GRAPH_DESC, IDMLDevice1::CompileGraph. Elements of an edge that its source does not write are
      undefined there and 0 here. Compiled, all readers of an input see its whole buffer.
    """

    nodes: Nodes
    edges: Edges
    inputs: Mapping[str, TensorDesc] = field(default_factory=dict)
    outputs: Mapping[str, TensorDesc] = field(default_factory=dict)

    operator_type: ClassVar[str] = "GRAPH"

    def __post_init__(self) -> None:
        _check_kinds(self)
        wiring = self._wiring(NEWEST)
        for error in faults(wiring):
            raise error
        assert isinstance(wiring.order, tuple)
        nodes = {name: self.nodes[name] for name in wiring.order}
        readers = [(name, port) for name, node in nodes.items() for port in node.input_ports()]
        own = dict.fromkeys([*self.outputs, *(reader for reader in self.edges if isinstance(reader, str))])
        edges = {reader: self.edges[reader] for reader in (*readers, *own)}
        for name, value in {
            "nodes": nodes,
            "edges": edges,
            "inputs": {**self.inputs, **_own_inputs(nodes, edges, self.inputs)},
            "outputs": {name: self.outputs.get(name) or _tensor(nodes, edges[name]) for name in own},
        }.items():
            object.__setattr__(self, name, MappingProxyType(value))

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return tuple(tuple(part.items()) for part in (self.nodes, self.edges, self.inputs, self.outputs))

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        inputs, outputs = (
            ", ".join(f"{escaped(name)}: {tensor.describe()}" for name, tensor in tensors.items())
            for tensors in (self.inputs, self.outputs)
        )
        return f"GraphDesc({inputs}) -> ({outputs}) of {len(self.nodes)} nodes"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, GraphDesc) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return GraphDesc, tuple(dict(part) for part in (self.nodes, self.edges, self.inputs, self.outputs))

    @classmethod
    def from_bytes(cls, content: bytes) -> GraphDesc:
        """Reads a serialized graph, as ONNX Runtime's DirectML provider and `to_bytes` write them.

        A constant whose bytes lie in the file is a `Constant`. One that is a name, whose bytes lie in NAME.bin beside
        the file, becomes an input of the graph that is OWNED_BY_DML, behind the others. Of several nodes of one name
        the later ones are numbered, "0", "0 (2)"; inputs and outputs without a name are not connected and left out.

        Args:
          content: the bytes of the file; they need not be trusted.

        Raises:
          ConstraintError: the bytes are damaged, or the graph has operators that dml_jax does not have, all of which
            are listed, or it breaks a rule.
          DataTypeError: no bytes, or a rule of data types is broken.

        Source: DxDispatch's dispatchables of type "dmlSerializedGraph".
        """
        from .serialized.codec import decode
        from .serialized.graph_from_records import to_parts

        return cls(*to_parts(decode(content)))

    def to_bytes(self) -> bytes:
        """Writes the graph as ONNX Runtime's DirectML provider does, so that DxDispatch can read it.

        Inputs that are OWNED_BY_DML become constants by name: put their buffers in NAME.bin beside the file.
        FLOAT fields are rounded to 32 bits, and a scalar union comes back as a number of its data type; but for that
        `from_bytes` gives back an equal graph if the owned inputs are behind the others.

        Raises:
          ConstraintError: what the file has no place for: a GuaranteedBaseOffsetAlignment, two outputs of one source,
            or a tensor of an input or output that differs from that of its first reader or its source; or the package
            flatbuffers is missing, which the extra `graphs` installs.

        Example:
          >>> from dml_jax import DepthToSpaceDesc, GraphDesc, TensorDesc
          >>> desc = DepthToSpaceDesc(TensorDesc("UINT8", (1, 4, 1, 1)), TensorDesc("UINT8", (1, 1, 2, 2)), 2)
          >>> graph = GraphDesc({"enlarge": desc}, {("enlarge", "input"): "x", "y": ("enlarge", "output")})
          >>> GraphDesc.from_bytes(graph.to_bytes()) == graph
          True
        """
        from .serialized.codec import encode
        from .serialized.graph_to_records import to_serialized

        return encode(to_serialized(self))

    def faults(self, feature_level: FeatureLevel | str = NEWEST) -> Iterator[ConstraintError]:
        """Finds every rule of a feature level that the graph, or one of its operators, breaks."""
        return faults(self._wiring(FeatureLevel.of(feature_level)))

    def validate(self, feature_level: FeatureLevel | str = NEWEST) -> None:
        for error in self.faults(feature_level):
            raise error

    def _wiring(self, level: FeatureLevel) -> Wiring:
        return Wiring(self.nodes, self.edges, self.inputs, self.outputs, level)

    @property
    def operators(self) -> dict[str, OperatorDesc[Any]]:
        """The nodes that are operators."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, OperatorDesc)}

    # Ports.

    def input_ports(self) -> dict[str, TensorDesc]:
        return dict(self.inputs)

    def output_ports(self) -> dict[str, TensorDesc]:
        return dict(self.outputs)

    def shown(self, port: str) -> str:
        return port

    def is_index(self, port: str) -> bool:
        """Whether all readers of the input take it as indices of its own data type, so that clamping keeps them."""
        readers = [reader for reader, source in self.edges.items() if source == port and not isinstance(reader, str)]
        nodes = [(self.nodes[name], tensor) for name, tensor in readers]
        of = self.inputs[port].data_type
        return all(_takes_indices(node, tensor, of) for node, tensor in nodes)

    def fields_bound(self) -> dict[str, str | tuple[str, ...]]:
        return {port: port for port in self.ports()}

    def by_field(self, ports: Mapping[str, Any]) -> dict[str, Any]:
        return {port: ports.get(port) for port in self.inputs}

    # Running.

    def compute_ports(self, arrays: Mapping[str, jax.Array]) -> Any:
        words = jax.dtypes.canonicalize_dtype("int64") != "int64"
        outputs = _compute(self, words, forced_form(), dict(arrays))
        return tuple(outputs) if self.has_several_outputs() else outputs[0]

    def compute_stored(self, views: Mapping[str, jax.Array], words: bool) -> Sequence[jax.Array]:
        return self._run({p: partial(reinterpret, views[p], tensor) for p, tensor in self.inputs.items()}, words)

    def compute_buffers(self, buffers: Mapping[str, jax.Array], words: bool) -> Sequence[jax.Array]:
        return self._run({p: partial(view_as, buffers[p], tensor) for p, tensor in self.inputs.items()}, words)

    def _run(self, inputs: Mapping[str, See], words: bool) -> Sequence[jax.Array]:
        see: dict[Port, See] = {**inputs}
        for name, node in self.nodes.items():
            if isinstance(node, Constant):
                see[name, "output"] = partial(constant_value, node)
                continue
            read = {port: see[self.edges[name, port]](tensor, words) for port, tensor in node.input_ports().items()}
            outputs = zip(node.output_ports().items(), node.compute_stored(read, words), strict=True)
            see |= {(name, port): partial(reinterpret, array, tensor) for (port, tensor), array in outputs}
        return [see[self.edges[name]](tensor, words) for name, tensor in self.outputs.items()]


@partial(jax.jit, static_argnums=(0, 1, 2))
def _compute(graph: GraphDesc, words: bool, form: str | None, arrays: dict[str, jax.Array]) -> Sequence[jax.Array]:
    """Computes the outputs; 64-bit indices among the inputs are 32-bit ones while x64 is off."""
    in_words = {port: StoredTensor(tensor, words).in_words for port, tensor in graph.inputs.items()}
    views = {port: as_words(array) if in_words[port] else array for port, array in arrays.items()}
    with forcing(form):
        return graph.compute_stored(views, words)


def _tensor(nodes: Nodes, port: Port) -> TensorDesc:
    """The tensor of an operator's port."""
    assert not isinstance(port, str)
    node = nodes[port[0]]
    assert isinstance(node, OperatorDesc)
    return node.ports()[port[1]]


def _takes_indices(node: OperatorDesc[Any] | Constant, port: str, data_type: DataType) -> bool:
    return isinstance(node, OperatorDesc) and node.is_index(port) and node.ports()[port].data_type == data_type


def _own_inputs(nodes: Nodes, edges: Edges, given: Mapping[str, TensorDesc]) -> dict[str, TensorDesc]:
    """Returns a tensor for each input of the graph without one: that of its first reader."""
    tensors: dict[str, TensorDesc] = {}
    for reader, source in edges.items():
        if isinstance(source, str) and source not in given:
            tensors.setdefault(source, _tensor(nodes, reader))
    return tensors


def _check_kinds(graph: GraphDesc) -> None:
    for name, keys, values in (
        ("nodes", (str,), (OperatorDesc, Constant)),
        ("edges", (str, tuple), (str, tuple)),
        ("inputs", (str,), (TensorDesc,)),
        ("outputs", (str,), (TensorDesc,)),
    ):
        given = getattr(graph, name)
        if not isinstance(given, Mapping):
            rule, fact = f"{name} must be a mapping", f"it is {type(given).__name__}"
            raise DataTypeError(message("GRAPH", rule, fact, {name: given}))
        for key, value in given.items():
            for what, accepted in ((key, keys), (value, values)):
                if not isinstance(what, accepted) or (isinstance(what, tuple) and not _is_port(what)):
                    kinds = " or ".join(_KINDS[kind] for kind in accepted)
                    rule = f"{name} must map {' or '.join(_KINDS[kind] for kind in keys)} to "
                    rule += " or ".join(_KINDS[kind] for kind in values)
                    raise DataTypeError(message("GRAPH", rule, f"{describe(what)} is no {kinds}", {"at": key}))


def _is_port(value: tuple[Any, ...]) -> bool:
    return len(value) == 2 and all(isinstance(part, str) for part in value)


_KINDS = {
    str: "name",
    tuple: "(node, tensor)",
    OperatorDesc: "descriptor of an operator",
    Constant: "Constant",
    TensorDesc: "TensorDesc",
}
