"""Says whether `dml-jax run` and `to_jax` take a model, and with which arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import onnx

from ..core.tensors.tensor_spec import TensorSpec
from .alike_nodes import NotTracedError, sharing_outputs
from .cures import cure_of_cut_inputs, failure
from .errors import NotConstantError, OnnxError
from .function import OnnxFunction
from .graph import Graph, check_tensors
from .shape_inference import Shapes, infer_shapes


@dataclass(frozen=True)
class Calls:
    """Sentences about the ways to call a model.

    Args:
      run: about `dml-jax run`.
      to_jax: about `to_jax`, and what it returns under `jax.jit`.
    """

    run: str
    to_jax: str


def possible_calls(model: onnx.ModelProto, graph: Graph, shapes: Shapes) -> Calls:
    """Says what a trace with x64 showed, as `dml-jax run` makes it, and traces the model without x64. Open sizes are 1.

    Args:
      model: the model.
      graph: of the model, with the sizes that are given.
      shapes: of the graph.
    """
    try:
        check_tensors(model)
    except OnnxError as error:
        return Calls(f"`dml-jax run` does not take it: {error}", "`to_jax(model)` takes it")
    if without_rank := [spec.name for spec in graph.inputs if spec.sizes is None]:
        hint = f"give its sizes, --shape {without_rank[0]}=1x3x8, to see how"
        return Calls(f"`dml-jax run` takes it; {hint}", f"`to_jax(model)` takes it; {hint}")
    open_sizes = dict.fromkeys(text for spec in graph.inputs for text in spec.open_sizes)
    if not open_sizes:
        return _calls_of_traced(graph, shapes.unknown, "")
    try:
        unknown = infer_shapes(replace(graph, inputs=tuple(map(_closed, graph.inputs)))).unknown
    except NotTracedError as error:
        fact = f"; where open sizes are 1, it was not traced, because {error}"
        return Calls(f"`dml-jax run` takes it{fact}", f"`to_jax(model)` takes it{fact}")
    except Exception as error:  # of any other kind: other sizes may do
        run = f"`dml-jax run` takes it, but if open sizes are 1, it fails: {error}"
        return Calls(run, f"`to_jax(model)` takes it; give others by --shape to see how: {', '.join(open_sizes)}")
    return _calls_of_traced(graph, unknown, " (where open sizes are 1)")


def _calls_of_traced(graph: Graph, unknown: NotConstantError | None, condition: str) -> Calls:
    """Returns the sentences about a model that can be traced with x64, or runs node by node because of an error."""
    run = f"`dml-jax run` takes it{condition}"
    if unknown is not None:
        run += f", and runs it node by node, because {str(unknown).partition(', but ')[0]}"
    return Calls(run, f"`to_jax(model)` takes it{condition}{_keys(graph)}; {_under_jit(graph)}")


def _closed(spec: TensorSpec) -> TensorSpec:
    return replace(spec, sizes=tuple(n if isinstance(n, int) else 1 for n in spec.sizes or ()))


def _arguments(graph: Graph) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns the shapes of the inputs, and the types that JAX makes of theirs."""
    dtypes = {spec.name: jax.dtypes.canonicalize_dtype(spec.dtype) for spec in graph.inputs}
    return {s.name: jax.ShapeDtypeStruct(s.sizes, dtypes[s.name]) for s in map(_closed, graph.inputs)}


def _keys(graph: Graph) -> str:
    return ", called with key=jax.random.key(...)" if graph.is_random else ""


def _under_jit(graph: Graph) -> str:
    """Says how the function is called under `jax.jit` without x64."""
    key = jax.random.key(0)

    def call(int32: Collection[str], arrays: Mapping[str, Any]) -> Any:
        return OnnxFunction(graph, None, int32)(*(arrays[spec.name] for spec in graph.inputs), key=key)

    with jax.enable_x64(False), sharing_outputs():
        arguments = _arguments(graph)
        try:
            if any(arguments[spec.name].dtype != spec.dtype for spec in graph.inputs):
                return f"under jax.jit {cure_of_cut_inputs(call, graph.inputs, (), arguments)}"
            error = failure(call, (), arguments)
        except NotTracedError as error:
            return f"under jax.jit it was not traced, because {error}"
    return "under jax.jit, too" if error is None else f"under jax.jit: {error}"
