"""Runs a model: buffers in host memory, dispatches on a JAX device, commands in order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..compiler import compile_operator
from ..descriptors.operator import OperatorDesc
from ..descriptors.tensor import TensorDesc
from ..errors import ConstraintError
from .commands import Dispatch, Print, Range, WriteFile
from .file import Fault, Model, ModelError
from .memory import check_device
from .output import encode, resolve_target, write_whole
from .printing import lines
from .timing import Timing, measure, report

__all__ = ["run_model"]


def run_model(
    model: Model,
    device: Any,
    say: Callable[[str], None],
    *,
    timing: Timing | None = None,
    output: Path | None = None,
) -> None:
    """Executes the commands of a model, in order; what they do to buffers stays.

    Args:
      model: without faults, read with `to_run`.
      device: where the operators run.
      say: takes each line that DxDispatch would print.
      timing: how often dispatches are repeated, and what is said about it.
      output: the folder that files go to; the model's own by default.

    Raises:
      ModelError: the device has too little memory, and nothing is run; or a file cannot be written, and it is not
        there then, or as it was.
    """
    try:
        check_device(model.dispatchables, device)
    except ConstraintError as error:
        raise ModelError(model.path, [Fault("", str(error))]) from None
    with jax.enable_x64(True), jax.default_device(device):
        state = _State(model, timing or Timing(), say, output or model.path.parent)
        for i, command in enumerate(model.commands):
            try:
                state.execute(command)
            except ConstraintError as error:
                raise ModelError(model.path, [Fault(f"command {i}", str(error))]) from None


def _compile(desc: OperatorDesc) -> Callable[..., jax.Array]:
    """The operator compiled for exactly its elements: initialisation, which no dispatch is timed with."""
    tensors = [getattr(desc, name) for name in desc.input_names()]
    specs = [jax.ShapeDtypeStruct((tensor.element_span,), tensor.dtype) for tensor in tensors]
    return jax.jit(compile_operator(desc)).lower(*specs).compile()


class _State:
    """The buffers and initialised operators of a running model."""

    def __init__(self, model: Model, timing: Timing, say: Callable[[str], None], folder: Path):
        self.model, self.timing, self.say, self.folder = model, timing, say, folder
        self.data = {name: buffer.make() for name, buffer in model.buffers.items()}
        self.executables = {name: _compile(d.desc) for name, d in model.dispatchables.items()}
        # Owned inputs are copied when the operator is initialised: later writes to their buffers do not reach it.
        self.owned = {
            name: {field: self._upload(bound, getattr(d.desc, field)) for field, bound in d.owned.items()}
            for name, d in model.dispatchables.items()
        }

    def execute(self, command: Dispatch | Print | WriteFile) -> None:
        if isinstance(command, Dispatch):
            self._dispatch(command)
        elif isinstance(command, Print):
            self._print(command)
        else:
            self._write(command)

    def _dispatch(self, command: Dispatch) -> None:
        execute, owned = self.executables[command.dispatchable], self.owned[command.dispatchable]
        desc = self.model.dispatchables[command.dispatchable].desc
        inputs = [
            owned[name] if name in owned else self._upload(command.bindings[name], getattr(desc, name))
            for name in desc.input_names()
        ]
        samples, result = measure(lambda: execute(*inputs), jax.block_until_ready, self.timing)
        self._download(result, command.bindings["output"])
        for line in report(command.dispatchable, samples, self.timing):
            self.say(line)

    def _upload(self, bound: Range, tensor: TensorDesc) -> jax.Array:
        """The elements of a tensor in its buffer, on the device."""
        count = tensor.element_span * tensor.data_type.itemsize
        # A copy: on the CPU, JAX may keep the memory that it is given, and the buffer changes later.
        return jax.device_put(self.data[bound.buffer][bound.offset : bound.offset + count].copy().view(tensor.dtype))

    def _download(self, result: jax.Array, bound: Range) -> None:
        content = np.asarray(result).view(np.uint8)
        self.data[bound.buffer][bound.offset : bound.offset + content.size] = content

    def _print(self, command: Print) -> None:
        values = self.model.buffers[command.buffer].initial_range(self.data[command.buffer])
        for line in lines(command.buffer, values, command.verbose):
            self.say(line)

    def _write(self, command: WriteFile) -> None:
        buffer, data = self.model.buffers[command.buffer], self.data[command.buffer]
        try:
            content = encode(buffer, data, command.target, command.dimensions)
            write_whole(resolve_target(command.target, self.folder), content)
        except OSError as error:
            raise ConstraintError(f"cannot write {command.target!r}: {error}") from None
        self.say(f"Resource {command.buffer!r} written to {command.target!r}")
