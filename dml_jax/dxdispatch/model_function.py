"""`load_model`: a model file as a pure function on JAX arrays, which are its resources by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compiled.program import Program
from ..core.arguments.arrays import as_data
from ..core.tensors.data_type import DataType
from ..core.tensors.int4_packing import as_elements
from ..core.tensors.tensor_desc import TensorDesc
from ..core.tensors.tensor_spec import TensorSpec
from ..errors import ConstraintError, DataTypeError, escaped, message, suggestion
from ..graphs.edge_reinterpretation import as_type
from ..graphs.graph_files import read_constants
from ..operations.programs.forced_form import forced_form, forcing
from ..operations.values.accumulation_types import widen_apart
from .commands import Dispatch, Dispatchable, Range
from .model_file import Model, read_model
from .onnx_dispatches import OnnxDispatch, stored_type
from .onnx_models import OnnxModel
from .resources import Buffer

Shape = tuple[int, ...]


class ModelFunction:
    """A model file as a function: call it with its inputs by name; `jax.jit`, `jax.vmap` and `jax.grad` apply.

    A copy or a pickle holds the operators and the initial values, and needs no file.

    Args:
      model: without faults.
    """

    def __init__(self, model: Model):
        self.__name__: str = model.path.name
        self._dispatches = [c for c in model.commands if isinstance(c, Dispatch | OnnxDispatch)]
        dispatched = {d.dispatchable: model.dispatchables[d.dispatchable] for d in self._dispatches}
        self._onnx = {name: d.function for name, d in dispatched.items() if isinstance(d, OnnxModel)}
        operators = {name: d for name, d in dispatched.items() if isinstance(d, Dispatchable)}
        self._descs = {name: d.desc for name, d in operators.items()}
        self._owned = {name: d.owned for name, d in operators.items()}
        self._constants = {n: read_constants(d.constants, d.desc.input_ports()) for n, d in operators.items()}
        used = {bound.buffer for _, bound, _ in self._bound()}
        buffers = {name: buffer for name, buffer in model.buffers.items() if name in used and not buffer.is_deferred}
        self._initial = {name: _elements(buffer) for name, buffer in buffers.items()}
        self._counts = {name: buffer.initial.count for name, buffer in buffers.items()}
        self._inputs = self._find_inputs()

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(map(str, self.inputs)), ", ".join(map(escaped, self.output_names))
        return f"ModelFunction {escaped(self.__name__)}({inputs}) -> ({outputs})"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs: resources that a dispatch reads before one writes them.

        An input has the sizes of the first tensor that is bound to it, if that fills it row by row, and is flat if not.
        """
        return tuple(self._inputs.values())

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs: resources that a dispatch writes."""
        return tuple(dict.fromkeys(bound.buffer for written, bound, _ in self._bound() if written))

    def __call__(self, /, *unnamed: Any, **inputs: Any) -> dict[str, jax.Array]:
        """Runs the dispatches of the model, in order; commands that print or write files do nothing.

        Args:
          unnamed: nothing; all inputs have names.
          inputs: arrays of the sizes and types in `inputs`; one that is left out has its initial values.

        Returns:
          The content of each output after the last dispatch, by name, in the sizes of the first tensor that is bound
          to it if that fills it row by row, and flat if not.

        Raises:
          ConstraintError: no name, an unknown one, or other sizes.
          DataTypeError: another type, or a resource of 64 bits while x64 is off.
          OnnxError: a node of an ONNX model cannot be run.
        """
        if unnamed:
            names = ", ".join(map(repr, self._inputs)) or "none"
            raise ConstraintError(f"{self.__name__}: inputs must be given by name, {names}, but one is given in order")
        self._check_x64()
        buffers = {name: jnp.asarray(values) for name, values in self._initial.items()}
        buffers |= {name: self._filled(name, value) for name, value in inputs.items()}
        owned = {
            name: {port: _read(buffers, bound, *self._stored(name, port)) for port, bound in ranges.items()}
            for name, ranges in self._owned.items()
        }
        shapes: dict[str, Shape | None] = {}
        for dispatch in self._dispatches:
            if isinstance(dispatch, OnnxDispatch):
                self._run_onnx(dispatch, buffers, shapes)
            else:
                self._run_operator(dispatch, owned[dispatch.dispatchable], buffers, shapes)
        return {name: self._shaped(name, buffers[name], shapes[name]) for name in self.output_names}

    def _run_operator(
        self,
        dispatch: Dispatch,
        owned: Mapping[str, jax.Array],
        buffers: dict[str, jax.Array],
        shapes: dict[str, Shape | None],
    ) -> None:
        name, ranges = dispatch.dispatchable, dispatch.bindings
        program = self._program(name)
        read = {port: _read(buffers, bound, *self._stored(name, port)) for port, bound in ranges.items()}
        read |= owned
        read |= {port: _as_stored(values, program, port) for port, values in self._constants[name].items()}
        results = _run(program, forced_form(), *(read[port] for port in (*program.outputs, *program.inputs)))
        for (port, tensor), result in zip(program.outputs.items(), results, strict=True):
            bound = ranges[port]
            shapes.setdefault(bound.buffer, self._shape(bound, tensor))
            buffers[bound.buffer] = _written(buffers[bound.buffer], result, bound.offset)

    def _run_onnx(self, dispatch: OnnxDispatch, buffers: dict[str, jax.Array], shapes: dict[str, Shape | None]) -> None:
        function = self._onnx[dispatch.dispatchable]
        given = []
        for bound in dispatch.inputs.values():
            elements = as_type(buffers[bound.buffer], stored_type(bound.dtype).dtype)[: prod(bound.shape)]
            given.append(bound.as_input(elements))
        results = function(*given, key=jax.random.key(0))  # as `dml-jax run`
        results = results if isinstance(results, tuple) else (results,)
        for name, result in zip(function.output_names, results, strict=True):
            if name in dispatch.outputs:
                buffer = dispatch.outputs[name].buffer
                result = jnp.asarray(result)
                flat = result.astype(stored_type(result.dtype).dtype).reshape(-1)
                is_alike = buffer in buffers and buffers[buffer].dtype == flat.dtype
                shapes.setdefault(buffer, result.shape if is_alike or buffer not in self._initial else None)
                buffers[buffer] = _written(buffers[buffer], flat, 0) if buffer in self._initial else flat

    def _bound(self) -> Iterator[tuple[bool, Any, TensorDesc | None]]:
        """Yields what is bound, in order: whether it is written, the binding, and the tensor of an operator."""
        for name, ranges in self._owned.items():
            yield from ((False, bound, self._descs[name].ports()[port]) for port, bound in ranges.items())
        for dispatch in self._dispatches:
            if isinstance(dispatch, OnnxDispatch):
                yield from ((False, bound, None) for bound in dispatch.inputs.values())
                yield from ((True, bound, None) for bound in dispatch.outputs.values())
                continue
            desc, ranges = self._descs[dispatch.dispatchable], dispatch.bindings
            for is_output, tensors in ((False, desc.input_ports()), (True, desc.output_ports())):
                yield from ((is_output, ranges[port], tensors[port]) for port in tensors if port in ranges)

    def _find_inputs(self) -> dict[str, TensorSpec]:
        found: dict[str, TensorSpec] = {}
        written: set[str] = set()
        for is_output, bound, tensor in self._bound():
            name = bound.buffer
            if is_output:
                written.add(name)
            elif name not in written and name not in found:
                dtype, count = self._initial[name].dtype, self._counts[name]
                if isinstance(bound, Range):
                    shape = self._shape(bound, tensor)
                else:
                    shape = bound.shape if stored_type(bound.dtype).dtype == dtype else None
                found[name] = TensorSpec(name, dtype, _sizes(shape, count))
        return found

    def _shape(self, bound: Range, tensor: TensorDesc | None) -> Shape | None:
        """Returns the sizes of a tensor that lies in its buffer as an array does; None of others."""
        assert tensor is not None
        is_array = tensor.is_packed and not bound.offset and tensor.dtype == self._initial[bound.buffer].dtype
        return tensor.sizes if is_array else None

    def _shaped(self, name: str, flat: jax.Array, shape: Shape | None) -> jax.Array:
        count = self._counts.get(name, flat.shape[0])
        return flat[:count].reshape(_sizes(shape, count))

    def _filled(self, name: str, value: Any) -> jax.Array:
        """Returns the buffer of an input that holds an array.

        Raises:
          ConstraintError: no such input, or other sizes.
          DataTypeError: another type.
        """
        if name not in self._inputs:
            fact = f"no input is named {name!r:.60}; {suggestion(name, self._inputs)}"
            raise ConstraintError(f"{self.__name__}: {fact if self._inputs else 'the model has no inputs'}")
        spec, shown = self._inputs[name], f"input {name!r}"
        array = as_data(self.__name__, shown, value)
        for error, what, wanted, fact in (
            (DataTypeError, "be of type", spec.dtype, array.dtype),
            (ConstraintError, "have the shape", spec.sizes, array.shape),
        ):
            if wanted != fact:
                raise error(message(self.__name__, f"{shown} must {what} {wanted}", f"it is {fact}", {name: array}))
        rest = self._initial[name][self._counts[name] :]
        return jnp.concatenate([jnp.reshape(array, -1), rest]) if rest.size else jnp.reshape(array, -1)

    def _check_x64(self) -> None:
        if jax.dtypes.canonicalize_dtype(np.int64) == np.int64:
            return
        types = {name: values.dtype for name, values in self._initial.items()}
        types |= {b.buffer: b.dtype for d in self._dispatches if isinstance(d, OnnxDispatch) for b in d.inputs.values()}
        for name, dtype in types.items():
            if dtype.itemsize == 8:
                rule = f"resource {name!r} of {dtype} needs 64-bit types"
                fact = "jax_enable_x64 is off: call it in `with jax.enable_x64(True)`"
                raise DataTypeError(f"{self.__name__}: {rule}, but {fact}")

    def _program(self, name: str) -> Program:
        words = jax.dtypes.canonicalize_dtype(np.int64) != np.int64
        return Program(self._descs[name], words=words, flat=True)

    def _stored(self, name: str, port: str) -> tuple[np.dtype[Any], int]:
        spec = self._program(name).buffers[port]
        return spec.dtype, spec.length


def load_model(path: str | os.PathLike[str]) -> ModelFunction:
    """Turns a DxDispatch model file into a function on JAX arrays.

    Args:
      path: the file, .json. Files that it names lie beside it, or in the current folder, and are read now.

    Returns:
      A pure function of the resources that its dispatches read, by name, to a dict of those that they write. `inputs`
      and `output_names` list both; an input that a call leaves out has its initial values.

    Raises:
      ConstraintError: the file cannot be read or has faults, all of which are listed, each with its line.

    Example:
      >>> import json, tempfile, jax, numpy as np, dml_jax
      >>> tensor = lambda *sizes: {"DataType": "FLOAT32", "Sizes": sizes}
      >>> buffer = lambda *values: {"initialValuesDataType": "FLOAT32", "initialValues": values}
      >>> add = {"type": "DML_OPERATOR_ELEMENT_WISE_ADD", "ATensor": tensor(3), "BTensor": tensor(3)}
      >>> bindings = {"ATensor": "x", "BTensor": "bias", "OutputTensor": "y"}
      >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
      ...     json.dump({
      ...         "resources": {"x": buffer(0, 0, 0), "bias": buffer(1, 2, 3), "y": buffer(0, 0, 0)},
      ...         "dispatchables": {"add": {**add, "OutputTensor": tensor(3)}},
      ...         "commands": [{"type": "dispatch", "dispatchable": "add", "bindings": bindings}],
      ...     }, file)
      ...     file.flush()
      ...     model = dml_jax.load_model(file.name)
      >>> print(model(x=np.float32([10, 20, 30]))["y"])
      [11. 22. 33.]
      >>> print(jax.grad(lambda bias: (model(bias=bias)["y"] ** 2).sum())(np.float32([1, 2, 3])))
      [2. 4. 6.]

    Source: DxDispatch's model files. The function has no memory: every call begins with the initial values.
    """
    path = Path(path)
    if path.suffix.lower() in _OTHERS:
        raise ConstraintError(
            f"load_model: path must be a DxDispatch model file, .json; {_OTHERS[path.suffix.lower()]}"
        )
    return ModelFunction(read_model(path, writes=False))


_OTHERS = {
    ".onnx": "`dml_jax.onnx.to_jax` reads a .onnx file",
    ".bin": "`dml_jax.GraphDesc.from_bytes` reads the bytes of a serialized graph",
}


@partial(jax.jit, static_argnums=(0, 1))
def _run(program: Program, form: str | None, *buffers: jax.Array) -> Any:
    """Computes the outputs of a program, flat; `buffers` are those of its outputs, and then of its inputs."""
    with forcing(form):
        return program.bound(*buffers)


def _sizes(shape: Shape | None, count: int) -> Shape:
    """Returns a shape of so many elements; that of a flat array if it has others."""
    return (count,) if shape is None or prod(shape) != count else shape


def _elements(buffer: Buffer) -> np.ndarray:
    """Returns the initial content of a buffer, all of it, in its type; zeros fill up the last element."""
    data_type = buffer.data_type or DataType.UINT8
    data = buffer.make()
    data = np.pad(data, (0, -data.size % data_type.itemsize))
    return as_elements(data, data_type, 8 * data.size // data_type.bits)


def _as_stored(values: np.ndarray, program: Program, port: str) -> np.ndarray:
    dtype = program.buffers[port].dtype
    return values if values.dtype == dtype else values.view(dtype)


def _read(buffers: Mapping[str, jax.Array], bound: Range, dtype: np.dtype[Any], count: int) -> jax.Array:
    """Returns so many elements of a buffer, of a type, from the offset of a range on."""
    start = _position(bound.offset, dtype)
    return as_type(buffers[bound.buffer], dtype)[start : start + count]


def _written(buffer: jax.Array, values: jax.Array, offset: int) -> jax.Array:
    """Returns a buffer with flat values in it, from a byte on."""
    whole, start = as_type(buffer, values.dtype), _position(offset, values.dtype)
    parts = [whole[:start], values, whole[start + values.shape[0] :]]
    if DataType.of(values.dtype).bits < 8:  # XLA:GPU of jaxlib 0.11 loses halves of bytes where it joins such arrays
        parts = [widen_apart(part, np.dtype(np.int8)) for part in parts]
    joined = jnp.concatenate([part for part in parts if part.shape[0]]).astype(values.dtype)
    return as_type(joined, buffer.dtype)


def _position(offset: int, dtype: Any) -> int:
    return 8 * offset // DataType.of(dtype).bits
