"""Runs a model: buffers in host memory, dispatches on a JAX device, commands in order."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compiled.compile import CompiledOperator, compile_operator
from ..core.tensors.nibbles import as_bytes, as_elements
from ..core.tensors.tensor import TensorDesc
from ..errors import ConstraintError
from ..files import write_whole
from ..graphs.files import read_constants
from .commands import Command, Dispatch, Dispatchable, Print, Range, WriteFile
from .faults import Fault, ModelError
from .initial_values import copied
from .memory import check_device, check_operator
from .model_file import Model
from .onnx_dispatches import BoundOutput, OnnxDispatch
from .onnx_models import OnnxModel
from .printing import pieces, told
from .resources import Buffer
from .target_files import encode, resolve_target
from .timing import Timing, measure, report

__all__ = ["run_model"]


def run_model(
    model: Model,
    device: Any,
    say: Callable[[str], None],
    *,
    timing: Timing | None = None,
    output: Path | None = None,
    record: Callable[[str, Sequence[float]], None] | None = None,
    show: Callable[[str], None] | None = None,
    tells_commands: bool = False,
) -> None:
    """Executes the commands of a model, in order; what they do to buffers stays.

    Args:
      model: without faults.
      device: where the operators run.
      say: takes each line that DxDispatch would print.
      timing: how often dispatches are repeated, and what is said about it.
      output: the folder that files go to; the model's own by default.
      record: takes the dispatchable of every dispatch, and the milliseconds of each iteration.
      show: takes what is printed of buffers, in pieces with their line ends; by default `say` takes it line by line.
      tells_commands: whether a line before each command, and one after it, say which it is.

    Raises:
      ModelError: the device has too little memory, and nothing is run; or a file cannot be written, and it is not
        there then, or as it was.
    """
    with _placed(model, ""):
        check_device(model.dispatchables, device)
    with jax.enable_x64(True), jax.default_device(device):
        with _placed(model, ""):
            state = _State(model, device, timing or Timing(), say, show, output or model.path.parent, record)
        for i, command in enumerate(model.commands):
            with _placed(model, f"command {i}"), told(i, model.forms[i], say) if tells_commands else nullcontext():
                state.execute(command)


@contextmanager
def _placed(model: Model, where: str) -> Iterator[None]:
    """Makes an error a fault of the model, at a place in it."""
    try:
        yield
    except ConstraintError as error:
        raise ModelError(model.path, [Fault(where, str(error))]) from None


class _State:
    """The buffers and initialised operators of a running model."""

    def __init__(
        self,
        model: Model,
        device: Any,
        timing: Timing,
        say: Callable[[str], None],
        show: Callable[[str], None] | None,
        folder: Path,
        record: Callable[[str, Sequence[float]], None] | None,
    ):
        self.model, self.device, self.timing, self.say, self.show = model, device, timing, say, show
        self.folder, self.record = folder, record
        self.data = {name: buffer.make() for name, buffer in model.buffers.items()}
        self.buffers, self.shapes = dict(model.buffers), dict[str, tuple[int, ...]]()
        operators = ((name, d) for name, d in model.dispatchables.items() if isinstance(d, Dispatchable))
        self.operators = {name: self._initialised(name, d) for name, d in operators if not d.is_node}

    def execute(self, command: Command) -> None:
        if isinstance(command, Dispatch):
            self._dispatch(command)
        elif isinstance(command, OnnxDispatch):
            self._dispatch_onnx(command)
        elif isinstance(command, Print):
            self._print(command)
        else:
            self._write(command)

    def _initialised(self, name: str, dispatchable: Dispatchable) -> CompiledOperator:
        """The operator, compiled before any dispatch is timed, with its own copies of what it owns."""
        desc, tensors = dispatchable.desc, dispatchable.desc.input_ports()
        owned = {port: self._elements(bound, tensors[port]) for port, bound in dispatchable.owned.items()}
        owned |= read_constants(dispatchable.constants, tensors)
        operator = compile_operator(desc, **desc.owned_by_field(owned))
        operator.prepare(bound=True)
        check_operator(name, operator, self.model.buffers, self.model.dispatchables, self.device)
        return operator

    def _dispatch(self, command: Dispatch) -> None:
        operator = self.operators[command.dispatchable]
        desc = operator.desc
        inputs = [self._upload(command.bindings[p], t) for p, t in desc.input_ports().items() if p in command.bindings]
        bound = {port: command.bindings[port] for port in desc.output_ports()}
        outs = [self._upload(bound[p], t, operator.buffers[p].whole_length) for p, t in desc.output_ports().items()]
        addresses = [out.unsafe_buffer_pointer() for out in outs]

        def dispatch() -> list[jax.Array]:
            nonlocal outs
            outs = jax.tree.leaves(operator(*inputs, out=tuple(outs) if desc.has_several_outputs() else outs[0]))
            return outs

        jax.block_until_ready(dispatch())  # JAX sets up its call, once
        samples, results = measure(dispatch, jax.block_until_ready, self.timing)
        for result, at in zip(results, bound.values(), strict=True):
            self._download(result, at)
        self._report(command.dispatchable, samples)
        if self.timing.verbosity >= 1:
            self.say(_memory_line(operator, [result.unsafe_buffer_pointer() for result in results] == addresses))

    def _report(self, name: str, samples: Sequence[float]) -> None:
        if self.record:
            self.record(name, samples)
        for line in report(name, samples, self.timing):
            self.say(line)

    def _dispatch_onnx(self, command: OnnxDispatch) -> None:
        from ..onnx.backend import runner
        from ..onnx.function import OnnxFunction

        model = self.model.dispatchables[command.dispatchable]
        assert isinstance(model, OnnxModel)
        inputs = [jnp.array(bound.read(self.data[bound.buffer])) for bound in command.inputs.values()]
        run = runner(OnnxFunction(model.graph), inputs)
        jax.block_until_ready(run())  # JAX sets up its call, once
        samples, results = measure(run, jax.block_until_ready, self.timing)
        for name, result in zip(model.graph.outputs, results, strict=True):
            if name in command.outputs:
                self._keep(f"output {name!r}", command.outputs[name], np.asarray(result))
        self._report(command.dispatchable, samples)

    def _keep(self, what: str, bound: BoundOutput, result: np.ndarray) -> None:
        """Stores an output in its buffer; a deferred buffer takes the type and shape of the output."""
        buffer = self.model.buffers[bound.buffer]
        try:
            data_type = bound.stored(result, buffer)
        except ConstraintError as error:
            raise error.at(what) from None
        elements = result.astype(data_type.dtype).reshape(-1)
        content = as_bytes(elements)
        if buffer.is_deferred:
            self.buffers[bound.buffer] = Buffer(copied(elements, data_type), content.size)
            self.shapes[bound.buffer], self.data[bound.buffer] = result.shape, content
        else:
            self.data[bound.buffer][: content.size] = content

    def _upload(self, bound: Range, tensor: TensorDesc, most: int = 0) -> jax.Array:
        """Returns the elements of a tensor in its buffer, on the device; `most` elements if so many are bound."""
        return jnp.array(self._elements(bound, tensor, most))

    def _elements(self, bound: Range, tensor: TensorDesc, most: int = 0) -> np.ndarray:
        """Returns the elements of a tensor in its buffer; `most` elements if so many are bound."""
        count = max(tensor.element_span, min(most, 8 * bound.size // tensor.data_type.bits))
        count += count % 2 if tensor.data_type.bits < 8 else 0  # whole bytes, which are written back
        return as_elements(self.data[bound.buffer][bound.offset :], tensor.data_type, count)

    def _download(self, result: jax.Array, bound: Range) -> None:
        content = as_bytes(np.asarray(result))
        self.data[bound.buffer][bound.offset : bound.offset + content.size] = content

    def _print(self, command: Print) -> None:
        values = self.buffers[command.buffer].initial_range(self.data[command.buffer])
        text = pieces(command.buffer, values, command.verbose)
        if self.show:
            for piece in text:
                self.show(piece)
        else:
            for line in "".join(text).splitlines():
                self.say(line)

    def _write(self, command: WriteFile) -> None:
        buffer, data = self.buffers[command.buffer], self.data[command.buffer]
        try:
            dimensions = command.dimensions or self.shapes.get(command.buffer, ())
            content = encode(buffer, data, command.target, dimensions)
            path = resolve_target(command.target, self.folder)
            write_whole(path, *content)
        except OSError as error:
            raise ConstraintError(f"cannot write {command.target!r}: {error}") from None
        self.say(f"Resource {command.buffer!r} written to {str(self.folder / command.target)!r}")


def _memory_line(operator: CompiledOperator, in_place: bool) -> str:
    """Returns a line about the memory of a dispatch, by XLA, and whether the output stayed in its buffer."""
    memory = operator.memory(bound=True)
    output = "written in place, 0 bytes allocated" if in_place else f"moved, {memory.output} bytes allocated"
    return f"Memory: output of {memory.output} bytes {output}; {memory.temporary} bytes temporary"
