"""`to_jax`: a model as a pure function of its inputs and parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from ..core.arguments import as_array
from ..errors import DataTypeError
from .block import run
from .errors import OnnxError
from .graph import Graph, TensorSpec, read_graph
from .loading import load_model
from .values import Array, on_device

__all__ = ["OnnxFunction", "check_sizes", "run_node", "to_jax"]


class OnnxFunction:
    """A model as a function: call it with its inputs in order; `jax.jit`, `jax.vmap` and `jax.grad` apply.

    Args:
      graph: the model, taken apart.
    """

    def __init__(self, graph: Graph):
        self._graph = graph
        self.__name__: str = graph.name

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What it takes, in order."""
        return self._graph.inputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """What it returns, in order."""
        return self._graph.outputs

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The initializers of floating-point type by name: what training changes."""
        return {n: v for n, v in self._graph.initializers.items() if jnp.issubdtype(v.dtype, jnp.floating)}

    def __call__(self, *inputs: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        """Runs the model.

        Args:
          inputs: arrays of the sizes and types that the model declares.
          parameters: arrays in place of initializers, by name; the others stay as they are.

        Returns:
          An array, or a tuple of them if the model has several outputs.

        Raises:
          OnnxError: another number of inputs, other sizes, unknown parameters, or a node that cannot be run.
          NotConstantError: a shape depends on data that is being traced.
          DataTypeError: other types, or 64-bit data while x64 is off.
        """
        if len(inputs) != len(self.inputs):
            names = ", ".join(spec.name for spec in self.inputs) or "none"
            raise OnnxError(f"the inputs must be {names}, but there are {len(inputs)}")
        sizes: dict[str, int] = {}
        values: dict[str, Array] = dict(self._graph.initializers)
        for spec, value in zip(self.inputs, inputs, strict=True):
            values[spec.name] = _as_input(f"input {spec.name!r}", spec, value, sizes)
        for name, value in (parameters or {}).items():
            values[name] = self._as_parameter(name, value)
        made = run(self._graph.steps, values, self.output_names)
        results = tuple(map(_as_output, self.output_names, made))
        return results[0] if len(results) == 1 else results

    def _as_parameter(self, name: str, value: Any) -> Array:
        known = self._graph.initializers.get(name)
        if known is None:
            names = ", ".join(self._graph.initializers) or "none"
            raise OnnxError(f"parameters must be among the initializers, {names}, but there is {name!r}")
        return _as_input(f"parameter {name!r}", TensorSpec(name, known.dtype, known.shape), value, {})


def to_jax(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> OnnxFunction:
    """Turns an ONNX model into a function on JAX arrays.

    Args:
      model: a path, the bytes of a file, or an `onnx.ModelProto`.

    Returns:
      A pure function of the model's inputs, in order, with the initializers as constants; its `parameters` are the
      floating-point initializers by name, and the keyword `parameters` puts arrays in their place.

    Raises:
      UnsupportedError: the model has operators that are not done here; all are listed.
      OnnxError: it cannot be read or breaks ONNX's rules.

    Example:
      >>> import jax, numpy as np
      >>> from onnx import TensorProto, helper, numpy_helper
      >>> from dml_jax.onnx import to_jax
      >>> table = numpy_helper.from_array(np.float32([[1, 2], [3, 4], [5, 6]]), "table")
      >>> rows = helper.make_tensor_value_info("rows", TensorProto.INT32, ["n"])
      >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])
      >>> node = helper.make_node("Gather", ["table", "rows"], ["y"])
      >>> model = helper.make_model(helper.make_graph([node], "embedding", [rows], [y], [table]))
      >>> embedding = to_jax(model)
      >>> embedding(np.int32([2, -1]))
      Array([[5., 6.],
             [5., 6.]], dtype=float32)
      >>> loss = lambda p: embedding(np.int32([2, -1]), parameters=p).sum()
      >>> jax.grad(loss)(embedding.parameters)["table"]
      Array([[0., 0.],
             [0., 0.],
             [2., 2.]], dtype=float32)

    Source: the operator specifications of ONNX, every version of each. An index out of range, an error there, reads
      the nearest element or writes nothing here.
    """
    return OnnxFunction(read_graph(*load_model(model)))


def run_node(node: onnx.NodeProto, inputs: Sequence[Any], *, opset: int | None = None) -> tuple[jax.Array, ...]:
    """Runs one node.

    Args:
      node: of an operator that `to_jax` takes.
      inputs: an array for each input that is not left out, in order.
      opset: the version of ONNX's operators; the newest that the installed onnx knows by default.

    Returns:
      One array per output that is not left out.

    Raises:
      OnnxError: the operator is not done here, or the node breaks ONNX's rules.
      DataTypeError: 64-bit data while x64 is off.

    Example:
      >>> import numpy as np
      >>> from onnx import helper
      >>> from dml_jax.onnx import run_node
      >>> run_node(helper.make_node("Gather", ["x", "i"], ["y"], axis=0), [np.float32([1, 2, 3]), np.array(-1)])
      (Array(3., dtype=float32),)
    """
    given = [name for name in node.input if name]
    if len(inputs) != len(given):
        raise OnnxError(f"{node.op_type}: the inputs must be {', '.join(given) or 'none'}, but there are {len(inputs)}")
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)), None)
        for name, x in dict(zip(given, inputs, strict=True)).items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    version = opset or onnx.defs.onnx_opset_version()
    graph = onnx.helper.make_graph([node], node.op_type, infos, outputs)
    function = to_jax(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)]))
    named = dict(zip(given, inputs, strict=True))
    results = function(*(named[spec.name] for spec in function.inputs))
    return results if isinstance(results, tuple) else (results,)


def _as_input(what: str, spec: TensorSpec, value: Any, sizes: dict[str, int]) -> Array:
    """An array that fits; 64-bit NumPy arrays stay constants while x64 is off."""
    array = as_array("ONNX", what, value)
    if array.dtype != spec.dtype:
        text = f"{what}: its type must be {spec.dtype}, but it is {array.dtype}"
        if jax.dtypes.canonicalize_dtype(spec.dtype) == array.dtype:
            text += ", as JAX makes it while x64 is off: put jax.enable_x64(True) around the call, its jit included"
        raise DataTypeError(text)
    check_sizes(what, spec, array.shape, sizes)
    if isinstance(array, np.ndarray) and jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        return array
    return jnp.asarray(array)


def check_sizes(what: str, spec: TensorSpec, shape: Sequence[int], sizes: dict[str, int]) -> None:
    """Compares a shape with what the model says; `sizes` takes those that have names.

    Raises:
      OnnxError: they differ.
    """
    fits = spec.sizes is None or len(spec.sizes) == len(shape)
    for wanted, size in zip(spec.sizes or (), shape, strict=False):
        wanted = sizes.setdefault(wanted, size) if isinstance(wanted, str) else wanted
        fits = fits and wanted in (None, size)
    if not fits:
        shown = tuple(f"{d}={sizes[d]}" if d in sizes else d for d in spec.sizes or ())
        raise OnnxError(f"{what}: its sizes must be [{', '.join(map(str, shown))}], but they are {list(shape)}")


def _as_output(name: str, value: Array) -> jax.Array:
    try:
        return on_device(value)
    except DataTypeError as error:
        raise DataTypeError(f"output {name!r}: {error}") from None
