"""The sizes and types of every value of a graph, by tracing its nodes one by one: ONNX's own inference can crash."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .errors import NotConstantError
from .evaluation import evaluate
from .graph import Graph
from .nodes import Node

__all__ = ["known_shapes"]

# A constant, what JAX knows of data, or None where a size is unknown.
_Known = np.ndarray | jax.ShapeDtypeStruct | None


def known_shapes(graph: Graph) -> dict[str, np.ndarray | jax.ShapeDtypeStruct]:
    """Every value whose sizes follow from the model.

    Raises:
      OnnxError: sizes contradict each other at a node.
      DataTypeError: types do.
    """
    values: dict[str, _Known] = dict(graph.initializers)
    for spec in graph.inputs:
        sizes = spec.sizes
        fixed = sizes is not None and all(isinstance(n, int) for n in sizes)
        values[spec.name] = jax.ShapeDtypeStruct(sizes, spec.dtype) if fixed else None  # type: ignore[arg-type]
    with jax.enable_x64(True):
        for node in graph.nodes:
            values |= _outputs(node, values)
    return {name: value for name, value in values.items() if value is not None}


def _outputs(node: Node, values: Mapping[str, _Known]) -> dict[str, _Known]:
    """The outputs of a node: constants where they follow from shapes alone."""
    unknown: dict[str, _Known] = dict.fromkeys(filter(None, node.outputs))
    data = {name: values[name] for name in node.inputs if name and not isinstance(values[name], np.ndarray)}
    if None in data.values():
        return unknown
    constants: dict[str, Any] = {}

    def traced(data: Mapping[str, Any]) -> dict[str, Any]:
        results = evaluate(node, [{**values, **data}[name] if name else None for name in node.inputs])
        constants.update({name: y for name, y in results.items() if isinstance(y, np.ndarray)})
        return {name: y for name, y in results.items() if name not in constants}

    try:
        return {**jax.eval_shape(traced, data), **constants}
    except NotConstantError:
        return unknown
