"""`to_descs`: the DirectML descriptors of a model's nodes, as ONNX Runtime's DirectML provider makes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import onnx

from ..core.structs.operator_desc import OperatorDesc
from ..errors import ConstraintError, SeveralErrors
from .errors import OnnxError
from .free_dimensions import Sizes, with_sizes
from .graph import Graph, read_graph
from .model_loading import load_model
from .node import Node
from .node_descs import DESC_OF, MAKERS, Tensor
from .shape_inference import known_shapes

Desc = OperatorDesc[Any]


@dataclass(frozen=True)
class Described:
    """A node with a DirectML operator.

    Args:
      label: of the node, such as "Gather node 'embed'".
      desc: its descriptor, or why there is none.
    """

    label: str
    desc: Desc | ConstraintError


def to_descs(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, *, sizes: Sizes | None = None
) -> dict[str, OperatorDesc[Any]]:
    """The DirectML descriptors of a model's data movement.

    Tensors get leading sizes of 1 up to one DimensionCount, axes count them, booleans are bytes. What is transposed or
    repeated by broadcasting has strides for it.

    Args:
      model: a path, the bytes of a file, or an `onnx.ModelProto`.
      sizes: what the model leaves open: a number by the name of a size, or all sizes of an input by its name, such as
        {"n": 2, "img": (1, 3, 224, 224)}.

    Returns:
      A descriptor, valid at the newest feature level, per node that DirectML has an operator for, by labels such as
      "Gather node 'embed'". Arithmetic has none in this library, nor what follows from constants and shapes alone,
      unless it makes an array of them.

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

    Source: ONNX Runtime's DirectML execution provider, which makes GATHER_ND1 of GatherND, DEPTH_TO_SPACE1 and
      SPACE_TO_DEPTH1 of both, and ELEMENT_WISE_IDENTITY of Transpose, Expand and Reshape.
    """
    descs, errors = {}, []
    for node in described(model, sizes):
        if isinstance(node.desc, OperatorDesc):
            descs[node.label] = node.desc
        else:
            errors.append(type(node.desc)(f"{node.label}: {node.desc}"))
    if errors:
        raise SeveralErrors(errors)
    return descs


def described(model: Any, sizes: Sizes | None) -> Iterator[Described]:
    """Yields every node that DirectML has an operator for, with its descriptor, or why it has none."""
    graph = with_sizes(read_graph(*load_model(model)), sizes)
    yield from described_in(graph, known_shapes(graph))


def described_in(graph: Graph, tensors: Mapping[str, Tensor]) -> Iterator[Described]:
    """Yields the nodes of a graph whose sizes are set, as `described` does; `tensors` are its known shapes."""
    open_sizes = _open_sizes(graph)
    constants = _constants(graph, tensors)
    for node in graph.steps:
        is_constant = constants.issuperset(filter(None, node.outputs))
        if isinstance(node, Node) and node.function in DESC_OF and (node.op_type in MAKERS or not is_constant):
            yield Described(node.label, _desc(node, tensors, open_sizes))


def _constants(graph: Graph, tensors: Mapping[str, Tensor]) -> set[str]:
    """Returns the values that follow from constants and shapes, also those that are too large to be computed here."""
    names = {name for name, tensor in tensors.items() if isinstance(tensor, np.ndarray)}
    for step in graph.steps:
        if names.issuperset(filter(None, (*step.inputs, *step.captured))):
            names.update(step.outputs)
    return names


MOST_NAMED = 10  # open sizes in a message


def _open_sizes(graph: Graph) -> dict[str, dict[str, None]]:
    """Returns, by value, open sizes of the model that it depends on, in words; the keys are an ordered set.

    There are at most one more than a message names: chains of nodes would have all of them at each node.
    """
    open_sizes = {spec.name: dict.fromkeys(spec.open_sizes) for spec in graph.inputs}
    for step in graph.steps:
        read = [open_sizes.get(name, {}) for name in (*step.inputs, *step.captured)]
        first = list(dict.fromkeys(chain.from_iterable(read)))[: MOST_NAMED + 1]
        open_sizes |= dict.fromkeys(filter(None, step.outputs), dict.fromkeys(first))
    return open_sizes


def _desc(
    node: Node, tensors: Mapping[str, Tensor], open_sizes: Mapping[str, Mapping[str, None]]
) -> Desc | ConstraintError:
    outputs = () if node.op_type == "NonZero" else node.outputs  # as many as there are, which only the data say
    try:
        if missing := [name for name in filter(None, (*node.inputs, *outputs)) if name not in tensors]:
            open_ones = list(dict.fromkeys(text for name in missing for text in open_sizes.get(name, ())))
            rule = "for DirectML every size must be known"
            if open_ones:
                rule += ", or be given by sizes= in Python or --shape in the command"
            if len(open_ones) > MOST_NAMED:
                open_ones = [*open_ones[:MOST_NAMED], "others"]
            raise OnnxError(f"{rule}, but not {', '.join(open_ones) or f'those of {missing[0]!r}'}")
        given = node.checked_keywords([tensors[name] if name else None for name in node.inputs])
        given.pop("maximum", None)
        return DESC_OF[node.function]([tensors[name] if name else None for name in outputs], **given)
    except (TypeError, ValueError) as error:
        return error if isinstance(error, ConstraintError) else OnnxError(str(error))
