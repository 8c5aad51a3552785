"""Reads a dispatch of an ONNX model: the buffer and the shape that it binds to each tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.json_fields import as_object, shown
from ..core.tensors.data_type import DataType
from ..core.tensors.int4_packing import as_elements
from ..errors import ConstraintError, Faults
from .json_fields import binding_fields, get, integer, look_up, only
from .onnx_models import OnnxModel
from .resources import Buffer

if TYPE_CHECKING:
    from ..core.tensors.tensor_spec import TensorSpec
    from ..onnx.graph import Graph

Buffers = Mapping[str, Buffer | None]


@dataclass(frozen=True)
class BoundInput:
    """An input: elements from the first byte of a buffer on."""

    buffer: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, data: np.ndarray) -> np.ndarray:
        """The array in the bytes of the buffer."""
        return self.as_input(as_elements(data, stored_type(self.dtype), prod(self.shape)))

    def as_input(self, elements: Any) -> Any:
        """The array of flat elements, of NumPy or of JAX."""
        array = elements.reshape(self.shape)
        return array != 0 if self.dtype == np.bool_ else array


@dataclass(frozen=True)
class BoundOutput:
    """An output: the buffer that it goes to, from its first byte on, and the shape that its binding asks for."""

    buffer: str
    shape: tuple[int, ...]

    def stored(self, result: Any, buffer: Buffer) -> DataType:
        """The type that the elements of a result have in the buffer.

        Args:
          result: the array, or its shape and dtype.
          buffer: which.

        Raises:
          ConstraintError: it has another shape than was asked for, or the buffer is too small.
          DataTypeError: DirectML has no such type.
        """
        data_type, shape = stored_type(result.dtype), tuple(result.shape)
        if self.shape and shape != self.shape:
            raise ConstraintError(f"'shape' must equal that of the model, {list(shape)}, but it is {list(self.shape)}")
        needed = data_type.byte_count(prod(shape))
        if not buffer.is_deferred and needed > buffer.size:
            raise ConstraintError(
                f"{data_type.name}{list(shape)} needs {needed} bytes, but {self.buffer!r} has {buffer.size}"
            )
        return data_type


@dataclass(frozen=True)
class OnnxDispatch:
    """Runs a model: all its inputs in order, and the outputs that are kept, by their names."""

    dispatchable: str
    inputs: Mapping[str, BoundInput]
    outputs: Mapping[str, BoundOutput]


def read_onnx_dispatch(name: str, model: OnnxModel, json: Any, buffers: Buffers) -> OnnxDispatch:
    """Reads the bindings of a dispatch to the tensors of a model.

    Args:
      name: of the dispatchable.
      model: which.
      json: the bindings.
      buffers: by name; None for one that is at fault.

    Raises:
      SeveralErrors: all bindings that are unknown, missing, too small or of other sizes than the model's.
    """
    json = as_object("'bindings'", json)
    graph, faults = model.graph, Faults()
    inputs: dict[str, BoundInput] = {}
    outputs: dict[str, BoundOutput] = {}
    sizes: dict[str, int] = {}
    with faults.at():
        only(json, (*(spec.name for spec in graph.inputs), *graph.outputs))
    for spec in graph.inputs:
        with faults.at(f"input {spec.name!r}"):
            inputs[spec.name] = _read_input(spec, json.get(spec.name), buffers, sizes)
    faults.finish()
    known = _infer_shapes(graph, inputs)
    for output in graph.outputs:
        with faults.at(f"output {output!r}"):
            if json.get(output) is not None:
                outputs[output] = BoundOutput(*_read_binding(json[output]))
                buffer = look_up("resource", outputs[output].buffer, buffers)
                if output in known:
                    outputs[output].stored(known[output], buffer)
    with faults.at():
        _refuse_shared([bound.buffer for bound in outputs.values()])
    faults.finish()
    return OnnxDispatch(name, inputs, outputs)


def _infer_shapes(graph: Graph, inputs: Mapping[str, BoundInput]) -> Mapping[str, Any]:
    """Returns the type and shape of each value that does not depend on the content of buffers."""
    from ..onnx.shape_inference import known_shapes

    return known_shapes(replace(graph, inputs=tuple(replace(s, sizes=inputs[s.name].shape) for s in graph.inputs)))


def _read_input(spec: TensorSpec, json: Any, buffers: Buffers, sizes: dict[str, int]) -> BoundInput:
    from ..onnx.signature import check_sizes

    if json is None:
        raise ConstraintError("it is not bound")
    name, shape = _read_binding(json)
    buffer = look_up("resource", name, buffers)
    if buffer.is_deferred:
        raise ConstraintError(f"{name!r} is deferred: only an output can be bound to it")
    if not shape and spec.sizes is None:
        raise ConstraintError("'shape' is missing, and the model does not say how many dimensions it has")
    shape = shape or tuple(n if isinstance(n, int) else 1 for n in spec.sizes or ())
    if min(shape, default=0) < 0:
        raise ConstraintError(f"every size must be at least 0, but the model says {list(shape)}")
    check_sizes("its binding", spec, shape, sizes)
    needed = stored_type(spec.dtype).byte_count(prod(shape))
    if needed > buffer.size:
        fact = f"needs {needed} bytes, but {name!r} has {buffer.size}"
        raise ConstraintError(f"{stored_type(spec.dtype).name}{list(shape)} {fact}")
    return BoundInput(name, shape, spec.dtype)


def _read_binding(json: Any) -> tuple[str, tuple[int, ...]]:
    """Returns the name of the buffer and the shape, which is () if the binding gives none."""
    json = binding_fields(json)
    only(json, ("name", "shape", "elementOffset", "elementCount", "elementSizeInBytes", "elementStride", "format"))
    if integer(json, "elementOffset", 0):
        raise ConstraintError("'elementOffset' must be 0: a tensor of an ONNX model begins where its buffer does")
    shape = get(json, "shape", list, [])
    if len(shape) > 32 or not all(type(n) is int and 1 <= n < 2**32 for n in shape):
        raise ConstraintError(f"'shape' must be at most 32 sizes of at least 1, but it is {shown(shape)}")
    return get(json, "name", str), tuple(shape)


def _refuse_shared(names: Sequence[str]) -> None:
    for name in set(names):
        if names.count(name) > 1:
            raise ConstraintError(f"every output must have a buffer of its own, but {name!r} is bound to several")


def stored_type(dtype: Any) -> DataType:
    """Returns the data type in buffers, where a boolean is a byte."""
    return DataType.of(np.uint8 if dtype == np.bool_ else dtype)
