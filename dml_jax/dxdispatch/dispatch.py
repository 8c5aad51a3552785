"""Dispatches operators and ONNX models on the buffers bound to them, in a loop that is timed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compiled.compile import CompiledOperator
from ..core.tensors.tensor_desc import TensorDesc
from .binding import BoundModel, HostBuffers
from .commands import Dispatch, Range
from .onnx_dispatches import OnnxDispatch
from .onnx_models import OnnxModel
from .timing import Timing, measure


@dataclass(frozen=True)
class Dispatched:
    """The result of a dispatch.

    Args:
      dispatchable: its name.
      samples: the milliseconds of each iteration.
      operator: the operator; None of an ONNX model.
      in_place: whether the outputs of an operator stayed in the buffers that were bound to them.
    """

    dispatchable: str
    samples: Sequence[float]
    operator: CompiledOperator | None = None
    in_place: bool = False


def dispatch(command: Dispatch | OnnxDispatch, bound: BoundModel, timing: Timing) -> Dispatched:
    """Dispatches the operator or model of a command on its buffers, and stores the outputs there.

    Raises:
      ConstraintError: an output of an ONNX model does not fit its buffer.
    """
    if isinstance(command, OnnxDispatch):
        model = bound.model.dispatchables[command.dispatchable]
        assert isinstance(model, OnnxModel)
        return _dispatch_onnx(command, model, bound.buffers, timing)
    return _dispatch_operator(command, bound.operators[command.dispatchable], bound.buffers, timing)


def _dispatch_operator(
    command: Dispatch, operator: CompiledOperator, buffers: HostBuffers, timing: Timing
) -> Dispatched:
    desc, ranges = operator.desc, command.bindings
    inputs = [_upload(buffers, ranges[port], t) for port, t in desc.input_ports().items() if port in ranges]
    outputs = desc.output_ports()
    outs = [_upload(buffers, ranges[port], t, operator.buffers[port].whole_length) for port, t in outputs.items()]
    addresses = [out.unsafe_buffer_pointer() for out in outs]

    def run() -> list[jax.Array]:
        nonlocal outs
        outs = jax.tree.leaves(operator(*inputs, out=tuple(outs) if desc.has_several_outputs() else outs[0]))
        return outs

    samples, results = _time(run, timing)
    for port, result in zip(outputs, results, strict=True):
        buffers.store(ranges[port], np.asarray(result))
    in_place = [result.unsafe_buffer_pointer() for result in results] == addresses
    return Dispatched(command.dispatchable, samples, operator, in_place)


def _dispatch_onnx(command: OnnxDispatch, model: OnnxModel, buffers: HostBuffers, timing: Timing) -> Dispatched:
    from ..onnx.backend import runner

    inputs = [jnp.array(buffers.array(bound)) for bound in command.inputs.values()]
    key = jax.random.key(0)  # of random numbers: a model file says no seed
    samples, results = _time(runner(model.function, inputs, key), timing)
    for name, result in zip(model.graph.outputs, results, strict=True):
        if name in command.outputs:
            buffers.store_output(name, command.outputs[name], np.asarray(result))
    return Dispatched(command.dispatchable, samples)


def _upload(buffers: HostBuffers, bound: Range, tensor: TensorDesc, most: int = 0) -> jax.Array:
    """Returns the elements of a tensor on the device; `most` elements if so many are bound."""
    return jnp.array(buffers.elements(bound, tensor, most))


def _time(run: Callable[[], Any], timing: Timing) -> tuple[Sequence[float], Any]:
    """Returns the milliseconds of each iteration, and the last outputs."""
    jax.block_until_ready(run())  # JAX sets up its call, once
    return measure(run, jax.block_until_ready, timing)
