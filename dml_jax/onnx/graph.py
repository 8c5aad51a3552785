"""`Graph`: a model that is read. All of its operators are supported, and every value exists before it is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from ..core.tensor_spec import TensorSpec
from .block import Block, Step
from .deferred import Rows
from .errors import OnnxError
from .loading import dtype_of, read_tensor
from .reader import Reader, operator_name, opsets_of

__all__ = ["Graph", "TensorSpec", "read_graph"]


@dataclass(frozen=True)
class Graph:
    """A model that is read.

    Args:
      name: of the graph.
      inputs: that a caller gives, in order.
      outputs: names of values, in order.
      initializers: values that the model brings.
      steps: those that an output needs, in order.
      defaults: names of initializers that the model declares as inputs too.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, np.ndarray]
    steps: tuple[Step, ...]
    defaults: frozenset[str] = frozenset()


def read_graph(model: onnx.ModelProto, folder: Path, rows: Rows | None = None) -> Graph:
    """Reads the graph of a model, whose operators compute what is `Deferred` by some rows.

    Raises:
      UnsupportedError: it has operators that are not supported; the message lists all of them.
      OnnxError: it breaks ONNX's rules, or a tensor cannot be read.
    """
    graph = model.graph
    functions = {operator_name(f.domain, f.name, f.overload): f for f in model.functions}
    opsets = {"": 1} | opsets_of(model.opset_import)
    steps = Reader(opsets, folder, functions, rows=rows or {}).steps(graph.node)
    if graph.sparse_initializer:
        names = ", ".join(repr(sparse.values.name) for sparse in graph.sparse_initializer)
        raise OnnxError(f"every initializer must be dense, but {names} is sparse")
    initializers = {tensor.name: read_tensor(tensor, folder) for tensor in graph.initializer}
    inputs = tuple(_spec(info) for info in graph.input if info.name not in initializers)
    outputs = tuple(info.name for info in graph.output)
    if not outputs:
        raise OnnxError("the graph must have an output, but it has none")
    if "" in outputs or any(not spec.name for spec in inputs):
        raise OnnxError("every input and output of the graph must have a name, but one has none")
    block = Block.of([spec.name for spec in inputs], outputs, initializers, steps)
    for name in block.captured:
        if name in outputs:
            raise OnnxError(f"every output of the graph must be computed, but {name!r} is not")
        label = next(step.label for step in steps if name in (*step.inputs, *step.captured))
        raise OnnxError(f"{label}: every input must exist before the node, but {name!r} does not")
    defaults = frozenset(info.name for info in graph.input).intersection(initializers)
    return Graph(graph.name, inputs, outputs, initializers, block.steps, defaults)


def _spec(info: onnx.ValueInfoProto) -> TensorSpec:
    what = f"input {info.name!r}"
    if info.type.WhichOneof("value") != "tensor_type":
        raise OnnxError(f"{what}: it must be a tensor, but it is {info.type.WhichOneof('value') or 'of no type'}")
    tensor = info.type.tensor_type
    dims = [_size(d) for d in tensor.shape.dim]
    return TensorSpec(info.name, dtype_of(tensor.elem_type, what), tuple(dims) if tensor.HasField("shape") else None)


def _size(dimension: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """Returns a size, its name, or None. Some exporters write -1 or "?" for a size that they do not know."""
    if dimension.HasField("dim_value"):
        return None if dimension.dim_value == -1 else dimension.dim_value
    return None if dimension.dim_param == "?" else dimension.dim_param or None
