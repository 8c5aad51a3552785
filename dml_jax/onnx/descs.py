"""`to_descs`: the DirectML descriptors of a model's nodes, as ONNX Runtime's DirectML provider makes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np
import onnx

from ..core.desc import OperatorDesc
from ..core.tensor import TensorDesc
from ..errors import ConstraintError, SeveralErrors
from ..operators import (
    DepthToSpace1Desc,
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    ScatterElementsDesc,
    ScatterNDDesc,
    SpaceToDepth1Desc,
)
from ..operators._blocks import ORDERS
from .errors import OnnxError
from .graph import read_graph
from .loading import load_model
from .movement import order_of
from .nodes import Node
from .shapes import known_shapes

__all__ = ["Described", "described", "to_descs"]

_Tensor = np.ndarray | jax.ShapeDtypeStruct


@dataclass(frozen=True)
class Described:
    """A node that DirectML has an operator for.

    Args:
      label: of the node, such as "Gather node 'embed'".
      desc: its descriptor, or why there is none.
    """

    label: str
    desc: OperatorDesc | ConstraintError


def to_descs(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> dict[str, OperatorDesc]:
    """The DirectML descriptors of a model's data movement.

    Tensors get leading sizes of 1 up to one DimensionCount, axes count them, booleans are bytes.

    Args:
      model: a path, the bytes of a file, or an `onnx.ModelProto`; every size follows from it.

    Returns:
      A descriptor per Gather, GatherElements, GatherND, Scatter, ScatterElements, ScatterND, DepthToSpace and
      SpaceToDepth, valid at the newest feature level, by labels such as "Gather node 'embed'". Other operators have
      no descriptor in this library.

    Raises:
      OnnxError: the model cannot be read, breaks ONNX's rules, or its sizes contradict each other.
      SeveralErrors: what each node asks for that DirectML does not have.

    Example:
      >>> from onnx import TensorProto, helper
      >>> from dml_jax.onnx import to_descs
      >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])
      >>> i = helper.make_tensor_value_info("i", TensorProto.INT64, [4, 5])
      >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
      >>> node = helper.make_node("Gather", ["x", "i"], ["y"], name="rows", axis=-2)
      >>> model = helper.make_model(helper.make_graph([node], "g", [x, i], [y]))
      >>> desc = to_descs(model)["Gather node 'rows'"]
      >>> desc.input.sizes, desc.indices.sizes, desc.output.sizes, desc.axis, desc.index_dimensions
      ((1, 3, 2), (1, 4, 5), (4, 5, 2), 1, 2)

    Source: ONNX Runtime's DirectML execution provider, which makes GATHER_ND1 of GatherND, and DEPTH_TO_SPACE1 and
      SPACE_TO_DEPTH1 of both.
    """
    descs, errors = {}, []
    for node in described(model):
        if isinstance(node.desc, OperatorDesc):
            descs[node.label] = node.desc
        else:
            errors.append(type(node.desc)(f"{node.label}: {node.desc}"))
    if errors:
        raise SeveralErrors(errors)
    return descs


def described(model: Any) -> Iterator[Described]:
    """Every node that DirectML has an operator for, with its descriptor or why there is none."""
    graph = read_graph(*load_model(model))
    tensors = known_shapes(graph)
    for node in graph.nodes:
        if node.op_type in _DESCRIBED:
            yield Described(node.label, _desc(node, tensors))


def _desc(node: Node, tensors: Mapping[str, _Tensor]) -> OperatorDesc | ConstraintError:
    make, names = _DESCRIBED[node.op_type]
    try:
        reduction = node.attributes.get("reduction", "none")
        if reduction != "none":
            raise OnnxError(f"reduction must be none in DirectML, but it is {reduction}")
        given = {}
        for name, value in zip(names, (*node.inputs, node.outputs[0]), strict=True):
            if value not in tensors:
                raise OnnxError(f"every size must follow from the model, but those of {value!r} do not")
            given[name] = tensors[value]
            if not prod(given[name].shape):
                raise OnnxError(f"a tensor must have elements in DirectML, but {value!r} is {given[name].shape}")
        return make(node.attributes, given)
    except ConstraintError as error:
        return error


def _padded(given: Mapping[str, _Tensor]) -> dict[str, TensorDesc]:
    """The tensors at one DimensionCount, with leading sizes of 1."""
    rank = max(1, *(len(tensor.shape) for tensor in given.values()))
    return {
        name: TensorDesc(
            "UINT8" if tensor.dtype == bool else tensor.dtype, (*(1,) * (rank - len(tensor.shape)), *tensor.shape)
        )
        for name, tensor in given.items()
    }


def _axis(attributes: Mapping[str, Any], given: Mapping[str, _Tensor], padded: Mapping[str, TensorDesc]) -> int:
    """ONNX's axis among the padded dimensions."""
    axis, rank = attributes["axis"], len(given["input"].shape)
    if not -rank <= axis < rank:
        raise OnnxError(f"axis must be in [{-rank}, {rank - 1}], but it is {axis}")
    return axis % rank + len(padded["input"].sizes) - rank


def _gather(attributes: Mapping[str, Any], given: Mapping[str, _Tensor]) -> OperatorDesc:
    padded = _padded(given)
    axis = _axis(attributes, given, padded)
    return GatherDesc(**padded, axis=axis, index_dimensions=len(given["indices"].shape))


def _along(cls: Callable[..., OperatorDesc]) -> Callable[..., OperatorDesc]:
    def make(attributes: Mapping[str, Any], given: Mapping[str, _Tensor]) -> OperatorDesc:
        padded = _padded(given)
        return cls(**padded, axis=_axis(attributes, given, padded))

    return make


def _tuples(cls: Callable[..., OperatorDesc], **batch: str) -> Callable[..., OperatorDesc]:
    """`batch` gives the field and the attribute of the batch, where there is one."""

    def make(attributes: Mapping[str, Any], given: Mapping[str, _Tensor]) -> OperatorDesc:
        counts = {field: attributes.get(name, 0) for field, name in batch.items()}
        return cls(
            **_padded(given),
            input_dimension_count=len(given["input"].shape),
            indices_dimension_count=len(given["indices"].shape),
            **counts,
        )

    return make


def _blocks(cls: Callable[..., OperatorDesc]) -> Callable[..., OperatorDesc]:
    def make(attributes: Mapping[str, Any], given: Mapping[str, _Tensor]) -> OperatorDesc:
        order = ORDERS[order_of(attributes.get("mode", "DCR"))]
        return cls(**_padded(given), block_size=attributes["blocksize"], order=order)

    return make


_READS, _WRITES, _MOVES = (
    ("input", "indices", "output"),
    ("input", "indices", "updates", "output"),
    ("input", "output"),
)

# By ONNX's operator: how the descriptor is made, and which of its tensors the inputs and the output are.
_DESCRIBED: Mapping[str, tuple[Callable[..., OperatorDesc], Sequence[str]]] = {
    "Gather": (_gather, _READS),
    "GatherElements": (_along(GatherElementsDesc), _READS),
    "GatherND": (_tuples(GatherND1Desc, batch_dimension_count="batch_dims"), _READS),
    "Scatter": (_along(ScatterElementsDesc), _WRITES),
    "ScatterElements": (_along(ScatterElementsDesc), _WRITES),
    "ScatterND": (_tuples(ScatterNDDesc), _WRITES),
    "DepthToSpace": (_blocks(DepthToSpace1Desc), _MOVES),
    "SpaceToDepth": (_blocks(SpaceToDepth1Desc), _MOVES),
}
