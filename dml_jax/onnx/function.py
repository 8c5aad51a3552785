"""`to_jax`: a model as a pure function of its inputs and parameters."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnx
from jax.core import Tracer

from ..core.arguments import as_array
from ..errors import DataTypeError
from .block import run
from .bounded import Bounded
from .deciding import deciding_floats
from .errors import OnnxError
from .graph import Graph, TensorSpec, read_graph
from .loading import load_model
from .values import Array, is_narrowed, on_device

__all__ = ["OnnxFunction", "check_sizes", "run_node", "to_jax"]


class OnnxFunction:
    """A model as a function: call it with its inputs in order or by name; `jax.jit`, `jax.vmap` and `jax.grad` apply.

    Args:
      graph: the model, taken apart.
      static: inputs that are known, by name.
      int32: names of int64 inputs that are given as int32.
    """

    def __init__(self, graph: Graph, static: Mapping[str, np.ndarray] | None = None, int32: Collection[str] = ()):
        self._graph = graph
        self._static = dict(static or {})
        given = [spec for spec in graph.inputs if spec.name not in self._static]
        self._inputs = tuple(replace(s, dtype=np.dtype(np.int32)) if s.name in int32 else s for s in given)
        self._wide = set(int32)
        self.__name__: str = graph.name

    def __repr__(self) -> str:
        given = ", ".join(map(str, self._inputs))
        return f"OnnxFunction {self.__name__}({given}) -> ({', '.join(self.output_names)})"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What it takes, in order."""
        return self._inputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """What it returns, in order."""
        return self._graph.outputs

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The weights, which training changes: floating-point initializers by name, without those that decide sizes."""
        fixed = deciding_floats(self._graph.steps)
        floats = {n: v for n, v in self._graph.initializers.items() if jnp.issubdtype(v.dtype, jnp.floating)}
        return {name: value for name, value in floats.items() if name not in fixed}

    def __call__(self, /, *inputs: Any, parameters: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """Runs the model.

        Args:
          inputs: arrays of the sizes and types that the model declares. int32 will do for int64; while x64 is off, the
            traced ones must have been announced to `to_jax`.
          parameters: arrays in place of initializers, by name; the others stay as they are.
          named: inputs by name.

        Returns:
          An array, or a tuple of them if the model has several outputs. While x64 is off, an output that the model
          declares as int64 is int32 where its numbers provably fit.

        Raises:
          OnnxError: inputs that are missing, unknown or given twice, other sizes, unknown parameters, or a node that
            cannot be run.
          NotConstantError: a shape depends on data that is being traced.
          DataTypeError: other types, or 64-bit data while x64 is off.
        """
        sizes: dict[str, int] = {}
        values: dict[str, Any] = {**self._graph.initializers, **self._static}
        if not (parameters is None or isinstance(parameters, Mapping)):
            raise OnnxError(f"parameters must be a dict of arrays by name, but it is {type(parameters).__name__}")
        given = self._assigned(inputs, named)
        for spec in self._inputs:
            value = _as_input(f"input {spec.name!r}", spec, given[spec.name], sizes)
            values[spec.name] = _widened(value) if spec.name in self._wide else value
        for name, value in (parameters or {}).items():
            values[name] = self._as_parameter(name, value)
        try:
            made = run(self._graph.steps, values, self.output_names)
        except OnnxError as error:
            if not any(jax.export.is_symbolic_dim(n) for value in given.values() for n in value.shape):
                raise
            hint = "sizes are symbolic: export a jax.vmap over the batch, so that the sizes of the model are numbers"
            raise OnnxError(f"{str(error).splitlines()[0]}; {hint}") from error
        results = tuple(map(_as_output, self.output_names, made))
        return results[0] if len(results) == 1 else results

    def _assigned(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name."""
        names = [spec.name for spec in self._inputs]
        if len(inputs) > len(names):
            hint = "; a dict of parameters is given as parameters=" if isinstance(inputs[-1], Mapping) else ""
            raise OnnxError(f"the inputs must be {', '.join(names) or 'none'}, but there are {len(inputs)}{hint}")
        given = dict(zip(names, inputs, strict=False))
        for name in named:
            if name in given:
                raise OnnxError(f"every input must be given once, but {name!r} is given in order and by name")
            if name not in names:
                raise OnnxError(f"the inputs must be {', '.join(names) or 'none'}, but {name!r} is none of them")
        given.update(named)
        if missing := [name for name in names if name not in given]:
            raise OnnxError(f"the inputs must be {', '.join(names)}, but {', '.join(missing)} is missing")
        return given

    def _as_parameter(self, name: str, value: Any) -> Array:
        known = self._graph.initializers.get(name)
        if known is None:
            names = ", ".join(self._graph.initializers) or "none"
            raise OnnxError(f"parameters must be among the initializers, {names}, but there is {name!r}")
        return _as_input(f"parameter {name!r}", TensorSpec(name, known.dtype, known.shape), value, {})


def to_jax(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    static: Mapping[str, Any] | None = None,
    int32: Collection[str] = (),
) -> OnnxFunction:
    """Turns an ONNX model into a function on JAX arrays.

    Args:
      model: a path, the bytes of a file, or an `onnx.ModelProto`.
      static: values of inputs that are known, by name, such as {"sr": 16000}; the function does not take them, and
        shapes and branches may depend on them.
      int32: names of int64 inputs that are given as int32, such as ["ids"]: so they can be data under `jax.jit` while
        x64 is off, and what is computed of them is refused unless it provably fits 32 bits. JAX cuts an int64 array
        that such a jitted function is given, so it is refused without.

    Returns:
      A pure function of the model's inputs, in order, with the initializers as constants; its `parameters` are the
      floating-point initializers by name, and the keyword `parameters` puts arrays in their place.

    Raises:
      UnsupportedError: the model has operators that are not supported; the message lists all of them.
      OnnxError: it cannot be read or breaks ONNX's rules, or a static value is of no input or of other sizes.
      DataTypeError: a static value is not of the type of its input, exactly.

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
    if isinstance(int32, str):
        raise OnnxError(f"int32 must be a list of names, such as [{int32!r}], but it is {int32!r}")
    graph = read_graph(*load_model(model))
    wide = {spec.name for spec in graph.inputs if spec.dtype == np.int64}
    if unknown := [name for name in int32 if name not in wide]:
        raise OnnxError(f"int32 must name int64 inputs, {', '.join(sorted(wide)) or 'none'}, but it has {unknown[0]!r}")
    return OnnxFunction(graph, _known_inputs(graph, static or {}), int32)


def _known_inputs(graph: Graph, static: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Values for inputs, in the types of these."""
    specs, known, sizes = {spec.name: spec for spec in graph.inputs}, {}, {}
    for name, value in static.items():
        what = f"static value {name!r}"
        if name not in specs:
            raise OnnxError(f"{what}: it must be of an input, {', '.join(specs) or 'of which there are none'}")
        given = np.asarray(value)
        is_number = jnp.issubdtype(given.dtype, jnp.number) or given.dtype == bool
        with np.errstate(all="ignore"):
            known[name] = given.astype(specs[name].dtype) if is_number else given
        is_kept = (known[name] == given) | ((given != given) & (known[name] != known[name]))  # a NaN stays one
        if not is_number or not is_kept.all():
            raise DataTypeError(f"{what}: it must be {specs[name].dtype}, exactly, but it is {value!r:.60}")
        check_sizes(what, specs[name], given.shape, sizes)
    return known


def run_node(node: onnx.NodeProto, inputs: Sequence[Any], *, opset: int | None = None) -> tuple[jax.Array, ...]:
    """Runs one node.

    Args:
      node: of an operator that `to_jax` takes.
      inputs: an array for each input that is not left out, in order.
      opset: the version of ONNX's operators; the newest that the installed onnx knows by default.

    Returns:
      One array per output that is not left out.

    Raises:
      OnnxError: the operator is not supported, or the node breaks ONNX's rules.
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
    """An array that fits; 64-bit NumPy arrays stay constants while x64 is off, and int32 ones for int64 are widened."""
    array = as_array("ONNX", what, value)
    check_sizes(what, spec, array.shape, sizes)
    narrowed = is_narrowed(spec.dtype)
    if (spec.dtype, array.dtype) == (np.int64, np.int32) and not (narrowed and isinstance(array, Tracer)):
        array = (np.asarray(array) if narrowed else array).astype(np.int64)
    if array.dtype != spec.dtype:
        text = f"{what}: its type must be {spec.dtype}, but it is {array.dtype}"
        if jax.dtypes.canonicalize_dtype(spec.dtype) == array.dtype:
            text += ", as JAX makes it while x64 is off: put jax.enable_x64(True) around the call, its jit included"
            text += f", or say to_jax(model, int32=[{spec.name!r}])" if spec.dtype == np.int64 else ""
        raise DataTypeError(text)
    if narrowed or not isinstance(array, np.ndarray):
        return array
    # A copy, as the caller may write into the array; jnp.asarray would compile a program for each shape to make one.
    return jax.device_put(array.copy())


def _widened(array: Array) -> Any:
    """int32 as int64, which is data of 32 bits while x64 is off."""
    return Bounded.of(jnp.asarray(array)) if is_narrowed(np.int64) else array.astype(np.int64)


def check_sizes(what: str, spec: TensorSpec, shape: Sequence[int], sizes: dict[str, int]) -> None:
    """Compares a shape with what the model says; `sizes` takes those that have names.

    Raises:
      OnnxError: they differ.
    """
    wanted = tuple(shape) if spec.sizes is None else spec.sizes
    if len(wanted) == len(shape):
        known = [sizes.setdefault(d, n) if isinstance(d, str) else d for d, n in zip(wanted, shape, strict=True)]
        if all(d in (None, n) for d, n in zip(known, shape, strict=True)):
            return
    shown = ["?" if d is None else f"{d}={sizes[d]}" if d in sizes else str(d) for d in wanted]
    raise OnnxError(f"{what}: its sizes must be [{', '.join(shown)}], but they are {list(shape)}")


def _as_output(name: str, value: Array | Bounded) -> jax.Array:
    if isinstance(value, Bounded):
        return value.array
    if isinstance(value, np.ndarray) and value.dtype == np.int64 and np.array_equal(value, value.astype(np.int32)):
        return jnp.asarray(value)  # int32 while x64 is off
    try:
        return on_device(value)
    except DataTypeError as error:
        raise DataTypeError(f"output {name!r}: {error}") from None
