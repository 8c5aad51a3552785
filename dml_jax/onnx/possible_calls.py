"""Says whether `dml-jax run` and `to_jax` take a model, and with which arguments, by tracing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import onnx

from ..errors import ConstraintError
from .cures import Run, cure_of_cut_inputs, failure
from .errors import NotConstantError, OnnxError
from .function import OnnxFunction
from .graph import Graph, check_tensors

__all__ = ["Calls", "possible_calls"]


@dataclass(frozen=True)
class Calls:
    """Sentences about the ways to call a model.

    Args:
      run: about `dml-jax run`.
      to_jax: about `to_jax`, and what it returns under `jax.jit`.
    """

    run: str
    to_jax: str


def possible_calls(model: onnx.ModelProto, graph: Graph) -> Calls:
    """Traces a model with x64, as `dml-jax run` does, and without. Sizes that are open are 1 then.

    Args:
      model: the model.
      graph: of the model, with the sizes that are given.

    Raises:
      ConstraintError: it cannot be run, though its sizes are known.
    """
    try:
        check_tensors(model)
    except OnnxError as error:
        return Calls(f"`dml-jax run` does not take it: {error}", "`to_jax(model)` takes it")
    if without_rank := [spec.name for spec in graph.inputs if spec.sizes is None]:
        hint = f"give its sizes, --shape {without_rank[0]}=1x3x8, to see how"
        return Calls(f"`dml-jax run` takes it; {hint}", f"`to_jax(model)` takes it; {hint}")
    open_sizes = dict.fromkeys(text for spec in graph.inputs for text in spec.open_sizes)
    key = jax.random.key(0)

    def call(int32: Collection[str], arrays: Mapping[str, Any]) -> Any:
        return OnnxFunction(graph, None, int32)(*(arrays[spec.name] for spec in graph.inputs), key=key)

    with jax.enable_x64(True):
        error = failure(call, (), _shapes(graph))
    if error is None or isinstance(error, NotConstantError):
        return _calls_of_traced(call, graph, error, " (where open sizes are 1)" if open_sizes else "")
    if open_sizes:
        run = f"`dml-jax run` takes it, but if open sizes are 1, it fails: {error}"
        return Calls(run, f"`to_jax(model)` takes it; give others by --shape to see how: {', '.join(open_sizes)}")
    if isinstance(error, ConstraintError):
        raise error
    raise OnnxError(f"it cannot be traced: {error}") from error


def _calls_of_traced(call: Run, graph: Graph, error: NotConstantError | None, condition: str) -> Calls:
    """Returns the sentences about a model that can be traced with x64, or runs node by node because of an error."""
    run = f"`dml-jax run` takes it{condition}"
    if error is not None:
        run += f", and runs it node by node, because {str(error).partition(', but ')[0]}"
    return Calls(run, f"`to_jax(model)` takes it{condition}{_keys(graph)}; {_under_jit(call, graph)}")


def _shapes(graph: Graph) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns the shapes of the inputs, and the types that JAX makes of theirs."""
    sizes = {spec.name: [n if isinstance(n, int) else 1 for n in spec.sizes or ()] for spec in graph.inputs}
    dtypes = {spec.name: jax.dtypes.canonicalize_dtype(spec.dtype) for spec in graph.inputs}
    return {name: jax.ShapeDtypeStruct(sizes[name], dtypes[name]) for name in sizes}


def _keys(graph: Graph) -> str:
    return ", called with key=jax.random.key(...)" if graph.is_random else ""


def _under_jit(call: Run, graph: Graph) -> str:
    """Says how the function is called under `jax.jit` without x64."""
    with jax.enable_x64(False):
        shapes = _shapes(graph)
        if any(shapes[spec.name].dtype != spec.dtype for spec in graph.inputs):
            return f"under jax.jit {cure_of_cut_inputs(call, graph.inputs, (), shapes)}"
        error = failure(call, (), shapes)
    return "under jax.jit, too" if error is None else f"under jax.jit: {error}"
