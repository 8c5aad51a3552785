"""`to_jax`: a model as a pure function of its inputs and parameters."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnx

from ..core.tensors.tensor_spec import TensorSpec
from ..errors import escaped
from .attention_subgraphs import ATTENTION
from .block_execution import run
from .cures import cure_of_cut_inputs, with_inputs
from .deferred import either
from .errors import NotConstantError, OnnxError
from .graph import Graph, read_graph
from .lazy_transpose import TRANSPOSED
from .memory_limits import counting_bytes
from .model_loading import load_model, outputs_of, with_initializers, without_initializers
from .node_limits import MAX_NODES, counting_nodes
from .non_trainable_initializers import literals, quantizing
from .quantized_folding import FOLDED
from .random_keys import RANDOM, RandomKeys, as_key
from .sequence_pytrees import ContainerSpec
from .signature import as_count, as_input, as_int64, as_output, as_value, by_name, static_values
from .static_inputs import deciding_floats, values_behind
from .straight_through_estimator import STRAIGHT_THROUGH
from .values import Array

_SYMBOLIC = "sizes are symbolic: export a jax.vmap over the batch, so that the sizes of the model are numbers"


class OnnxFunction:
    """A model as a function: call it with its inputs in order or by name; `jax.jit`, `jax.vmap` and `jax.grad` apply.

    A copy or a pickle holds the model with its external data, and the arguments of `to_jax`; it is read anew.

    Args:
      graph: of the model.
      static: the values of inputs that callers do not give, by name.
      int32: names of int64 inputs that are given as int32.
      source: the model without its initializers, and the arguments of `to_jax`, for pickles.
    """

    def __init__(
        self,
        graph: Graph,
        static: Mapping[str, np.ndarray] | None = None,
        int32: Collection[str] = (),
        source: tuple[onnx.ModelProto, Mapping[str, Any]] | None = None,
    ):
        self._graph = graph
        self._static = dict(static or {})
        self._wide = set(int32)
        self._inputs = self._specs(self._wide)
        self._source = source
        self.__name__: str = graph.name

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self._inputs))
        outputs = ", ".join(map(escaped, self.output_names))
        return f"OnnxFunction {escaped(self.__name__)}({inputs}) -> ({outputs})"

    def __reduce__(self) -> Any:
        if self._source is None:
            raise TypeError(f"only what to_jax returns can be pickled, but {self!r} was made by other means")
        return _restored, (*self._source, self._graph.initializers)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs, in order."""
        return self._inputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return self._graph.outputs

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The weights, which training changes: floating-point initializers by name.

        Those that decide sizes are left out, scales and zero points that quantise, and literals: numbers that are
        operands of elementwise operators alone.
        """
        graph = self._graph
        fixed = deciding_floats(graph.steps) | literals(graph) | quantizing(graph)
        floats = {n: v for n, v in graph.initializers.items() if jnp.issubdtype(v.dtype, jnp.floating)}
        return {name: value for name, value in floats.items() if name not in fixed}

    def _of_sizes(self, shapes: Sequence[tuple[int, ...]]) -> Graph:
        """The graph, for inputs of these shapes."""
        sizes = {spec.name: shape for spec, shape in zip(self._inputs, shapes, strict=True)}
        inputs = tuple(replace(s, sizes=sizes[s.name]) for s in self._graph.inputs if s.name in sizes)
        return replace(self._graph, inputs=inputs, initializers={**self._graph.initializers, **self._static})

    def __call__(
        self, /, *inputs: Any, parameters: Mapping[str, Any] | None = None, key: Any = None, **named: Any
    ) -> Any:
        """Runs the model.

        Args:
          inputs: arrays of the sizes and types that the model declares; lists of arrays for sequences, and None for
            optionals without an element. int32 will do for int64; while x64 is off, the traced ones must have been
            announced to `to_jax`.
          parameters: arrays in place of initializers, by name; the others stay as they are.
          key: a key of `jax.random`, from which all random numbers are drawn; nodes with a `seed` need none. If an
            input of the model is named "key" and not given in order, it is that input.
          named: inputs by name.

        Returns:
          An array, or a tuple of them if the model has several outputs; a sequence is a list of arrays, an optional
          without an element None. While x64 is off, an output that the model declares as int64 is int32 where its
          numbers provably fit.

        Raises:
          OnnxError: inputs that are missing, unknown or given twice, other sizes, unknown parameters, a node that
            cannot be run, or no key for random numbers.
          NotConstantError: a shape depends on data that is being traced.
          DataTypeError: other types, or 64-bit data while x64 is off.
        """
        parameters = by_name("parameters", parameters)
        names = [spec.name for spec in self._inputs]
        if key is not None and "key" in names[len(inputs) :]:
            key, named = None, {**named, "key": key}
        keys = RandomKeys(None if key is None else as_key(key), is_name_taken="key" in names)
        results = self._run(parameters, keys, self._wide, self._inputs_by_name(inputs, named))
        return results[0] if len(results) == 1 else results

    def _run(
        self, parameters: Mapping[str, Any], keys: RandomKeys, wide: Collection[str], given: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Returns the outputs.

        Args:
          parameters: arrays in place of initializers, by name.
          keys: of random numbers.
          wide: names of int64 inputs that are given as int32.
          given: the inputs by name.

        Raises:
          as `__call__`.
        """
        specs = [_as_given(spec, given[spec.name]) if spec.name in wide else spec for spec in self._specs(wide)]
        cure = partial(cure_of_cut_inputs, partial(self._run, parameters, keys), specs, wide, given)
        values: dict[str, Any] = {**self._graph.initializers, **self._static, RANDOM: keys}
        sizes: dict[str, int] = {}
        for spec in specs:
            value = as_value(f"input {spec.name!r}", spec, given[spec.name], sizes, cure)
            values[spec.name] = as_int64(value) if spec.name in wide else value
        values |= {name: self._as_parameter(name, value) for name, value in parameters.items()}
        try:
            with counting_nodes(self._graph.max_nodes), counting_bytes():
                outputs = run(self._graph.steps, values, self.output_names)
        except OnnxError as error:
            if any(jax.export.is_symbolic_dim(n) for value in jax.tree.leaves(given) for n in value.shape):
                raise OnnxError(f"{str(error).splitlines()[0]}; {_SYMBOLIC}") from error
            if isinstance(error, NotConstantError):
                raise with_inputs(error, specs, values_behind(error, self._graph.steps)) from error
            raise
        return tuple(map(as_output, self.output_names, outputs))

    def _specs(self, wide: Collection[str]) -> tuple[TensorSpec, ...]:
        """Returns the inputs that callers give, some of which are int32 in place of int64."""
        given = [spec for spec in self._graph.inputs if spec.name not in self._static]
        return tuple(replace(s, dtype=np.dtype(np.int32)) if s.name in wide else s for s in given)

    def _inputs_by_name(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the inputs by name."""
        names = [spec.name for spec in self._inputs]
        shown = ", ".join(map(escaped, names)) or "none"
        if len(inputs) > len(names):
            hint = "; a dict of parameters is given as parameters=" if isinstance(inputs[-1], Mapping) else ""
            raise OnnxError(f"the inputs must be {shown}, but there are {len(inputs)}{hint}")
        given = dict(zip(names, inputs, strict=False))
        for name in named:
            if name in given:
                raise OnnxError(f"every input must be given once, but {name!r} is given in order and by name")
            if name not in names:
                raise OnnxError(f"the inputs must be {shown}, but {name!r} is none of them")
        given.update(named)
        if missing := [name for name in names if name not in given]:
            raise OnnxError(f"the inputs must be {shown}, but {', '.join(map(escaped, missing))} is missing")
        return given

    def _as_parameter(self, name: str, value: Any) -> Array:
        known = self._graph.initializers.get(name)
        if known is None:
            names = ", ".join(map(escaped, self._graph.initializers)) or "none"
            raise OnnxError(f"parameters must be among the initializers, {names}, but there is {name!r}")
        return as_input(f"parameter {name!r}", TensorSpec(name, known.dtype, known.shape), value, {})


# Types whose integers int32 holds.
_NARROWER = frozenset(map(np.dtype, (bool, np.int8, np.uint8, np.int16, np.uint16)))


def _as_given(spec: TensorSpec, value: Any) -> TensorSpec:
    """A declared input with the type that is given, if int32 holds its numbers: then their range is known."""
    dtype = getattr(value, "dtype", None)
    return replace(spec, dtype=np.dtype(dtype)) if dtype in _NARROWER else spec


# Made once, as programs of nodes outside of transformations are kept by their functions.
_ROWS = either(either(FOLDED, TRANSPOSED), ATTENTION)


def to_jax(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    static: Mapping[str, Any] | None = None,
    int32: Collection[str] = (),
    maximum: Mapping[str, int] | None = None,
    straight_through: bool = False,
    max_nodes: int = MAX_NODES,
) -> OnnxFunction:
    """Turns an ONNX model into a function on JAX arrays.

    Args:
      model: a path, the bytes of a file, or an `onnx.ModelProto`.
      static: values of inputs that are known, by name, such as {"sr": 16000}; the function does not take them, and
        shapes and branches may depend on them.
      int32: names of int64 inputs that are given as int32, such as ["ids"]: so they can be data under `jax.jit` while
        x64 is off, and what is computed of them is refused unless it provably fits 32 bits. JAX cuts an int64 array
        that such a jitted function is given, so it is refused without. A narrower array has the range of its type: a
        mask of bool or int8 can be added up.
      maximum: sizes of outputs whose sizes depend on data, by name, such as {"tokens": 100}, which `jax.jit` needs:
        rows of a scan output of a Loop, boxes of a NonMaxSuppression, columns of a NonZero, elements of a Compress or
        a Unique. After the last one, rows and elements are 0, boxes -1, and coordinates and first indices the sizes of
        the array, where gathers read the last element and scatters write nothing. What exceeds the maximum is left out,
        as by the `size` of `jnp.nonzero`.
      straight_through: whether the derivatives of a DequantizeLinear of a QuantizeLinear are those of the numbers
        themselves, where they are within the range of the integers; else all that is quantised is constant to
        derivatives, and operators between the two compute in integers.
      max_nodes: how many nodes the model may have after expansion: those of a function count in each call, and those of
        a loop in each iteration that is unrolled.

    Returns:
      A pure function of the model's inputs, in order, with the initializers as constants; its `parameters` are the
      weights among them by name, and the keyword `parameters` puts arrays in the place of any initializers.

    Raises:
      UnsupportedError: the outputs need operators that are not supported; the message lists all of them.
      OnnxError: it cannot be read or breaks ONNX's rules, a static value is of no input or of other sizes, a maximum
        is of no output of such an operator, there are more than `max_nodes`, or an input, an initializer or the output
        of a node takes more bytes than the machine, its container or all devices together have. What follows from sizes
        or iterations that are not known yet is refused by the call.
      DataTypeError: a static value is not of the type of its input, exactly; or `model` is of another kind.

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
    max_nodes, static = as_count("max_nodes", max_nodes, 1), by_name("static", static)
    if isinstance(int32, str):
        raise OnnxError(f"int32 must be a list of names, such as [{int32!r}], but it is {int32!r}")
    proto, folder = load_model(model)
    rows = STRAIGHT_THROUGH if straight_through else _ROWS
    sized = outputs_of(proto, _OF_ONE_SIZE, 1) | outputs_of(proto, ["Loop"])
    maximum = _as_maximum(by_name("maximum", maximum), sized)
    graph = read_graph(proto, folder, maximum, rows, max_nodes)
    wide = {s.name for s in graph.inputs if s.dtype == np.int64 and not isinstance(s, ContainerSpec)}
    if unknown := [name for name in int32 if name not in wide]:
        names = ", ".join(map(escaped, sorted(wide))) or "none"
        raise OnnxError(f"int32 must name int64 inputs, {names}, but it has {unknown[0]!r}")
    options = {
        "int32": list(int32),
        "maximum": maximum,
        "straight_through": straight_through,
        "max_nodes": max_nodes,
    }
    source = without_initializers(proto, folder), options | {"static": jax.tree.map(np.asarray, dict(static))}
    return OnnxFunction(graph, static_values(graph.inputs, static), int32, source)


def _restored(
    model: onnx.ModelProto, options: Mapping[str, Any], initializers: Mapping[str, np.ndarray]
) -> OnnxFunction:
    """Reads a model that was pickled in these parts again."""
    return to_jax(with_initializers(model, initializers), **options)


# Operators whose outputs have as many rows as data say, or as many as are stated by the name of the first one.
_OF_ONE_SIZE = ("Compress", "NonMaxSuppression", "NonZero", "Unique")


def _as_maximum(maximum: Mapping[str, Any], names: Collection[str]) -> dict[str, int]:
    for name in maximum:
        if name not in names:
            shown = ", ".join(map(escaped, sorted(names))) or "of which there are none"
            rule = f"maximum must name outputs of Loop, or first outputs of {', '.join(_OF_ONE_SIZE)}"
            raise OnnxError(f"{rule}: {shown}, but it has {name!r}")
    return {name: as_count(f"maximum[{name!r}]", size, 0) for name, size in maximum.items()}
