"""`Graph`: a model taken apart, whose operators are all done and whose values exist before they are read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import defs

from .errors import OnnxError, UnsupportedError
from .loading import dtype_of, read_tensor
from .nodes import Node, node_of
from .table import ONNX_OPERATORS

__all__ = ["Graph", "TensorSpec", "read_graph"]


@dataclass(frozen=True)
class TensorSpec:
    """What a model says about an input.

    Args:
      name: in the model.
      dtype: of the elements.
      sizes: a size, the name of one, or None if any will do; None for any rank.
    """

    name: str
    dtype: np.dtype[Any]
    sizes: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class Graph:
    """A model whose operators are all supported.

    Args:
      inputs: that a caller gives, in order.
      outputs: names of values, in order.
      initializers: values that the model brings.
      nodes: those that an output needs, in order.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, np.ndarray]
    nodes: tuple[Node, ...]


def read_graph(model: onnx.ModelProto, folder: Path) -> Graph:
    """Takes a model apart.

    Raises:
      UnsupportedError: it has other operators than those of `table.py`; all are listed.
      OnnxError: it breaks ONNX's rules, or a tensor cannot be read.
    """
    graph = model.graph
    version = _opset(model)
    _check_supported(graph.node, {_operator(function.domain, function.name) for function in model.functions})
    if graph.sparse_initializer:
        names = ", ".join(repr(sparse.values.name) for sparse in graph.sparse_initializer)
        raise OnnxError(f"every initializer must be dense, but {names} is sparse")
    initializers = {tensor.name: read_tensor(tensor, folder) for tensor in graph.initializer}
    inputs = tuple(_spec(info) for info in graph.input if info.name not in initializers)
    nodes = [node_of(proto, version, folder, number) for number, proto in enumerate(graph.node)]
    if len({node.label for node in nodes}) < len(nodes):
        nodes = [replace(node, label=f"{node.label} #{number}") for number, node in enumerate(nodes)]
    outputs = tuple(info.name for info in graph.output)
    _check_names([spec.name for spec in inputs], initializers, nodes, outputs)
    return Graph(graph.name, inputs, outputs, initializers, tuple(_needed(nodes, outputs)))


def _opset(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    newest = defs.onnx_opset_version()
    if versions and not 1 <= versions[0] <= newest:
        rule = f"the opset version must be in [1, {newest}], which onnx {onnx.__version__} knows"
        raise OnnxError(f"{rule}, but it is {versions[0]}")
    return versions[0] if versions else 1


def _operator(domain: str, name: str) -> tuple[str, str]:
    """What names an operator; ONNX's own domain has two names."""
    return "" if domain == "ai.onnx" else domain, name


def _check_supported(nodes: Sequence[onnx.NodeProto], own: set[tuple[str, str]]) -> None:
    """No other operators than those of the table; `own` are the functions that the model defines."""
    unsupported = []
    for number, node in enumerate(nodes):
        standard = _operator(node.domain, "")[0] == "" and node.op_type in ONNX_OPERATORS
        if not standard or _operator(node.domain, node.op_type) in own:
            domain = f"{node.domain}::" if node.domain else ""
            unsupported.append(f"{domain}{node.op_type} (node {repr(node.name) if node.name else f'#{number}'})")
    if unsupported:
        raise UnsupportedError(unsupported, sorted(ONNX_OPERATORS))


def _spec(info: onnx.ValueInfoProto) -> TensorSpec:
    what = f"input {info.name!r}"
    if info.type.WhichOneof("value") != "tensor_type":
        raise OnnxError(f"{what}: it must be a tensor, but it is {info.type.WhichOneof('value') or 'of no type'}")
    tensor = info.type.tensor_type
    dims = [d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in tensor.shape.dim]
    return TensorSpec(info.name, dtype_of(tensor.elem_type, what), tuple(dims) if tensor.HasField("shape") else None)


def _check_names(
    inputs: Sequence[str], initializers: Mapping[str, Any], nodes: Sequence[Node], outputs: Sequence[str]
) -> None:
    """Every value has one name, and exists before it is read."""
    defined = {*inputs, *initializers}
    if len(set(inputs)) < len(inputs):
        raise OnnxError(f"every input must have a name of its own, but they are {', '.join(map(repr, inputs))}")
    for node in nodes:
        if missing := [name for name in node.inputs if name and name not in defined]:
            raise OnnxError(f"{node.label}: every input must exist before the node, but {missing[0]!r} does not")
        for name in node.outputs:
            if name and name in defined:
                raise OnnxError(f"{node.label}: an output must have a new name, but {name!r} exists before the node")
            defined.add(name)
    if missing := [name for name in outputs if name not in defined]:
        raise OnnxError(f"every output of the graph must be computed, but {missing[0]!r} is not")
    if not outputs:
        raise OnnxError("the graph must have an output, but it has none")


def _needed(nodes: Sequence[Node], outputs: Sequence[str]) -> Iterator[Node]:
    """The nodes that an output depends on, in order, without the names of values that nothing reads."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            used = tuple(name if name in needed else "" for name in node.outputs)
            kept.append(replace(node, outputs=used))
            needed.update(filter(None, node.inputs))
    return reversed(kept)
