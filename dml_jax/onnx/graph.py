"""`Graph`: a parsed and checked model; all operators are supported, and nodes are in topological order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import onnx

from ..core.tensors.tensor_spec import TensorSpec
from ..errors import ConstraintError
from .block_execution import Block, Step
from .deferred import Rows
from .errors import OnnxError
from .memory_limits import check_array
from .model_loading import dtype_of, read_initializers
from .node_limits import MAX_NODES, check_nodes
from .node_reader import Reader, operator_name, opsets_of
from .random_keys import RANDOM
from .sequence_pytrees import ContainerSpec, declared_type


@dataclass(frozen=True)
class Graph:
    """A parsed model.

    Args:
      name: of the graph.
      inputs: that a caller gives, in order.
      outputs: names of values, in order.
      initializers: values that the model brings.
      steps: those that an output needs, in order.
      defaults: names of initializers that the model declares as inputs too.
      max_nodes: how many nodes a call may run.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, np.ndarray]
    steps: tuple[Step, ...]
    defaults: frozenset[str] = frozenset()
    max_nodes: int = MAX_NODES

    @property
    def is_random(self) -> bool:
        """Whether a node draws random numbers."""
        return any(RANDOM in step.captured for step in self.steps)


def read_graph(
    model: onnx.ModelProto,
    folder: Path,
    maximum: Mapping[str, int] | None = None,
    rows: Rows | None = None,
    max_nodes: int = MAX_NODES,
) -> Graph:
    """Reads the graph of a model.

    Args:
      model: the model.
      folder: where the files with its tensors lie.
      maximum: sizes of outputs of nodes that depend on data, by name.
      rows: how its operators compute what is `Deferred`.
      max_nodes: how many nodes there may be, those of functions in each call.

    Raises:
      UnsupportedError: its outputs need operators that are not supported; the message lists all of them.
      OnnxError: it breaks ONNX's rules, a tensor cannot be read, there are too many nodes, or an input that has the
        sizes that the model declares would not fit in memory.
    """
    graph = model.graph
    functions = {operator_name(f.domain, f.name, f.overload): f for f in model.functions}
    opsets = {"": 1} | opsets_of(model.opset_import)
    reader = Reader(opsets, folder, functions, maximum=maximum or {}, rows=rows or {}, max_nodes=max_nodes)
    steps = reader.steps(graph.node)
    weights = dict.fromkeys(tensor.name for tensor in graph.initializer)
    given = [info for info in graph.input if info.name not in weights]
    outputs = tuple(info.name for info in graph.output)
    if not outputs:
        raise OnnxError("the graph must have an output, but it has none")
    if "" in outputs or any(not info.name for info in given):
        raise OnnxError("every input and output of the graph must have a name, but one has none")
    for count in (len(given), len(outputs)):
        check_nodes(count, max_nodes)
    # Before tensors are read: what is not done is told of a model without its weights, too.
    block = Block.of([*(info.name for info in given), *weights], outputs, {}, steps)
    if graph.sparse_initializer:
        names = ", ".join(repr(sparse.values.name) for sparse in graph.sparse_initializer)
        raise OnnxError(f"every initializer must be dense, but {names} is sparse")
    initializers = read_initializers(graph, folder)
    check_nodes(block.nodes, max_nodes)
    inputs = tuple(map(_spec, given))
    check_inputs(inputs)
    for name in block.captured:
        if name == RANDOM:
            continue
        if name in outputs:
            raise OnnxError(f"every output of the graph must be computed, but {name!r} is not")
        label = next(step.label for step in block.steps if name in (*step.inputs, *step.captured))
        raise OnnxError(f"{label}: every input must exist before the node, but {name!r} does not")
    defaults = frozenset(info.name for info in graph.input).intersection(initializers)
    return Graph(graph.name, inputs, outputs, initializers, block.steps, defaults, max_nodes)


def check_inputs(inputs: Sequence[TensorSpec]) -> None:
    """Compares each input whose sizes are all declared with the memory that there is.

    Raises:
      OnnxError: it takes more.
    """
    for spec in inputs:
        if all(isinstance(n, int) for n in spec.sizes or ()):
            try:
                check_array(f"input {spec.name!r}", jax.ShapeDtypeStruct(spec.sizes or (), spec.dtype))
            except ConstraintError as error:
                raise OnnxError(str(error)) from None


def read_tensor_graph(model: onnx.ModelProto, folder: Path, max_nodes: int = MAX_NODES) -> Graph:
    """Reads the graph of a model whose inputs and outputs are files or buffers.

    Raises:
      OnnxError: as `read_graph`, or an input or output is no tensor.
    """
    check_tensors(model)
    return read_graph(model, folder, max_nodes=max_nodes)


def check_tensors(model: onnx.ModelProto) -> None:
    """Checks that all inputs and outputs are tensors.

    Raises:
      OnnxError: one is none.
    """
    for what, infos in (("input", model.graph.input), ("output", model.graph.output)):
        for info in infos:
            kind = info.type.WhichOneof("value")
            if kind not in (None, "tensor_type"):
                raise OnnxError(f"{what} {info.name!r}: it must be a tensor here, but it is {kind}; `to_jax` takes it")


def _spec(info: onnx.ValueInfoProto) -> TensorSpec:
    what = f"input {info.name!r}"
    text, tensor = declared_type(info.type, what)
    sizes = tuple(_size(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
    dtype = dtype_of(tensor.elem_type, what)
    is_tensor = text.startswith("tensor(")
    return TensorSpec(info.name, dtype, sizes) if is_tensor else ContainerSpec(info.name, dtype, sizes, text)


def _size(dimension: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """Returns a size, its name, or None. Some exporters write -1 or "?" for a size that they do not know."""
    if dimension.HasField("dim_value"):
        return None if dimension.dim_value == -1 else dimension.dim_value
    return None if dimension.dim_param == "?" else dimension.dim_param or None
