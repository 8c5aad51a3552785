"""Binds a model to memory: buffers on the host, and operators initialised with the inputs that they own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..compiled.compile import CompiledOperator, compile_operator
from ..core.tensors.int4_packing import as_bytes, as_elements
from ..core.tensors.tensor_desc import TensorDesc
from ..errors import ConstraintError
from ..graphs.graph_files import read_constants
from .commands import Dispatchable, Range
from .faults import faults_at
from .initial_values import from_array
from .memory_checks import check_device, check_operator
from .model_file import Model
from .onnx_dispatches import BoundInput, BoundOutput
from .resources import Buffer


class HostBuffers:
    """The buffers of a model in host memory, which operators and ONNX models read and write.

    Args:
      buffers: by name, with their initial values.
    """

    def __init__(self, buffers: Mapping[str, Buffer]):
        self._buffers = dict(buffers)
        self._bytes = {name: buffer.make() for name, buffer in buffers.items()}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def elements(self, bound: Range, tensor: TensorDesc, most: int = 0) -> np.ndarray:
        """Returns the elements of a tensor in its range; `most` elements if so many are bound."""
        count = max(tensor.element_span, min(most, 8 * bound.size // tensor.data_type.bits))
        count += count % 2 if tensor.data_type.bits < 8 else 0  # whole bytes, which are written back
        return as_elements(self._bytes[bound.buffer][bound.offset :], tensor.data_type, count)

    def array(self, bound: BoundInput) -> np.ndarray:
        """Returns the array of an input of an ONNX model."""
        return bound.read(self._bytes[bound.buffer])

    def store(self, bound: Range, elements: np.ndarray) -> None:
        """Writes the elements of a tensor to its range."""
        content = as_bytes(elements)
        self._bytes[bound.buffer][bound.offset : bound.offset + content.size] = content

    def store_output(self, name: str, bound: BoundOutput, result: np.ndarray) -> None:
        """Writes an output of an ONNX model; a deferred buffer takes its type and shape.

        Raises:
          ConstraintError: the buffer is too small, or was bound with another shape.
        """
        buffer = self._buffers[bound.buffer]
        try:
            data_type = bound.stored(result, buffer)
        except ConstraintError as error:
            raise error.at(f"output {name!r}") from None
        elements = result.astype(data_type.dtype).reshape(-1)
        content = as_bytes(elements)
        if buffer.is_deferred:
            self._buffers[bound.buffer] = Buffer(from_array(elements, data_type), content.size, is_deferred=True)
            self._shapes[bound.buffer], self._bytes[bound.buffer] = result.shape, content
        else:
            self._bytes[bound.buffer][: content.size] = content

    def values(self, name: str) -> np.ndarray:
        """Returns the elements of a buffer's initial range."""
        return self._buffers[name].initial_range(self._bytes[name])

    def content(self, name: str) -> tuple[Buffer, np.ndarray, tuple[int, ...]]:
        """Returns a buffer, its bytes, and the shape of the output that a deferred one holds."""
        return self._buffers[name], self._bytes[name], self._shapes.get(name, ())


@dataclass(frozen=True)
class BoundModel:
    """A model that is ready to run.

    Args:
      model: which.
      buffers: in host memory.
      operators: compiled, by the names of their dispatchables.
    """

    model: Model
    buffers: HostBuffers
    operators: Mapping[str, CompiledOperator]


@contextmanager
def bound_to(device: Any, model: Model) -> Iterator[BoundModel]:
    """Binds a model to a device, which is the default one in the block; x64 is on there.

    Raises:
      ModelError: the device has too little memory.
    """
    with faults_at(model.path, ""):
        check_device(model.dispatchables, device)
    with jax.enable_x64(True), jax.default_device(device):
        with faults_at(model.path, ""):
            buffers = HostBuffers(model.buffers)
            bound = BoundModel(model, buffers, dict(_initialise(model, buffers, device)))
        yield bound


def _initialise(model: Model, buffers: HostBuffers, device: Any) -> Iterator[tuple[str, CompiledOperator]]:
    """Yields the operators with copies of the inputs that they own, compiled before any dispatch is timed."""
    for name, dispatchable in model.dispatchables.items():
        if isinstance(dispatchable, Dispatchable) and not dispatchable.is_node:
            desc, tensors = dispatchable.desc, dispatchable.desc.input_ports()
            owned = {port: buffers.elements(bound, tensors[port]) for port, bound in dispatchable.owned.items()}
            owned |= read_constants(dispatchable.constants, tensors)
            operator = compile_operator(desc, **desc.owned_by_field(owned))
            operator.prepare(bound=True)
            check_operator(name, operator, model.buffers, model.dispatchables, device)
            yield name, operator
