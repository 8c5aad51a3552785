"""Shape inference by tracing nodes one by one, because ONNX's own inference can crash."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..errors import ConstraintError
from .alike_nodes import sharing_outputs
from .block_execution import Step, evaluate
from .constant_work import leaving_out
from .errors import NotConstantError, OnnxError
from .graph import Graph
from .memory_limits import counting_bytes
from .node_limits import counting_nodes
from .random_keys import RANDOM, RandomKeys
from .sequence_pytrees import ContainerSpec
from .traced_memory import check_program_arrays

# A constant, data that is traced, or None where a size is unknown.
_Known = np.ndarray | jax.Array | None


@dataclass(frozen=True)
class Shapes:
    """The arrays whose sizes follow from a model.

    Args:
      arrays: by name, the values of a constant that is not large, or its sizes.
      unknown: why the outputs of a node have sizes that only data decide, of the first such node; None without one.
    """

    arrays: Mapping[str, np.ndarray | jax.ShapeDtypeStruct]
    unknown: NotConstantError | None


def known_shapes(graph: Graph) -> Mapping[str, np.ndarray | jax.ShapeDtypeStruct]:
    """Returns the arrays of `infer_shapes`."""
    return infer_shapes(graph).arrays


def infer_shapes(graph: Graph) -> Shapes:
    """Traces a graph with x64. What depends on sizes that are open is unknown.

    Large constants are left out; if sizes are unknown then, it is traced again, with all constants.

    Raises:
      OnnxError: sizes contradict each other at a node, an array would not fit in memory, or there are too many nodes.
      DataTypeError: types do.
    """
    with leaving_out() as left_out:
        shapes = _traced(graph)
    return _traced(graph) if left_out and shapes.unknown else shapes


def _traced(graph: Graph) -> Shapes:
    specs = [spec for spec in graph.inputs if not isinstance(spec, ContainerSpec) and spec.sizes is not None]
    fixed = [spec for spec in specs if all(isinstance(n, int) for n in spec.sizes or ())]
    data = {spec.name: jax.ShapeDtypeStruct(spec.sizes, spec.dtype) for spec in fixed}  # type: ignore[arg-type]
    values: dict[str, Any] = dict.fromkeys(spec.name for spec in graph.inputs) | dict(graph.initializers)
    errors: list[NotConstantError] = []

    def trace(data: Mapping[str, Any]) -> None:
        values.update(data)
        values[RANDOM] = RandomKeys(jax.random.key(0))
        for number, step in enumerate(graph.steps):
            with jax.named_scope(str(number)):
                values.update(_outputs(step, values, errors))

    with jax.enable_x64(True), counting_nodes(graph.max_nodes), counting_bytes(), sharing_outputs():
        try:
            check_program_arrays(jax.make_jaxpr(trace)(data), [step.label for step in graph.steps])
        except ConstraintError as error:
            raise error if isinstance(error, OnnxError) else OnnxError(str(error)) from None
    arrays = {name: _shape_of(value) for name, value in values.items() if hasattr(value, "shape")}
    return Shapes(arrays, errors[0] if errors else None)


def _outputs(step: Step, values: Mapping[str, _Known], errors: list[NotConstantError]) -> Mapping[str, _Known]:
    """Returns the outputs of a step; those that follow from shapes alone are constants. `errors` keeps the first."""
    unknown: dict[str, _Known] = dict.fromkeys(filter(None, step.outputs))
    if any(values[name] is None for name in (*step.inputs, *step.captured) if name):
        return unknown
    try:
        return evaluate(step, values)
    except NotConstantError as error:
        errors[:] = errors or [error]
        return unknown


def _shape_of(value: Any) -> np.ndarray | jax.ShapeDtypeStruct:
    return value if isinstance(value, np.ndarray) else jax.ShapeDtypeStruct(value.shape, value.dtype)
