"""Shape inference by tracing nodes one by one, because ONNX's own inference can crash."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .block_execution import Step, evaluate
from .errors import NotConstantError
from .graph import Graph
from .random_keys import RANDOM, RandomKeys
from .sequence_pytrees import ContainerSpec

__all__ = ["known_shapes"]

# A constant, what JAX knows of data, or None where a size is unknown.
_Known = np.ndarray | jax.ShapeDtypeStruct | None


def known_shapes(graph: Graph) -> dict[str, np.ndarray | jax.ShapeDtypeStruct]:
    """Returns every value whose sizes follow from the model.

    Raises:
      OnnxError: sizes contradict each other at a node.
      DataTypeError: types do.
    """
    values: dict[str, _Known] = dict(graph.initializers)
    for spec in graph.inputs:
        sizes = spec.sizes
        is_array = not isinstance(spec, ContainerSpec)
        fixed = is_array and sizes is not None and all(isinstance(n, int) for n in sizes)
        values[spec.name] = jax.ShapeDtypeStruct(sizes, spec.dtype) if fixed else None  # type: ignore[arg-type]
    with jax.enable_x64(True):
        for step in graph.steps:
            values |= _outputs(step, values)
    return {name: value for name, value in values.items() if value is not None}


def _outputs(step: Step, values: Mapping[str, _Known]) -> dict[str, _Known]:
    """Returns the outputs of a step; those that follow from shapes alone are constants."""
    unknown: dict[str, _Known] = dict.fromkeys(filter(None, step.outputs))
    read = {name: values[name] for name in (*step.inputs, *step.captured) if name not in ("", RANDOM)}
    data = {name: value for name, value in read.items() if not isinstance(value, np.ndarray)}
    if None in data.values():
        return unknown
    constants: dict[str, Any] = {}

    def traced(data: Mapping[str, Any]) -> dict[str, Any]:
        results = evaluate(step, {**values, **data, RANDOM: RandomKeys(jax.random.key(0))})
        constants.update({name: y for name, y in results.items() if isinstance(y, np.ndarray)})
        return {name: y for name, y in results.items() if name not in constants}

    try:
        return {**jax.eval_shape(traced, data), **constants}
    except NotConstantError:
        return unknown
