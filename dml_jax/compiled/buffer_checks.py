"""Checks the buffers that are bound to a compiled operator: flat arrays of a given dtype and length."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ..core.arguments.arrays import as_array
from ..core.structs.computation import Computation
from ..core.tensors.int4_packing import split_nibbles
from ..errors import ConstraintError, DataTypeError, message
from .program import BufferSpec, Program


def as_buffer(program: Program, name: str, value: Any, shown: str | None = None) -> Any:
    """Returns the flat buffer of a tensor; a 64-bit NumPy array as its words, where the program takes words.

    Args:
      program: what it is bound to.
      name: of the tensor, such as "input", or "inputs[0]" of an array.
      value: the array.
      shown: what messages call it; DirectML's name of the tensor by default.

    Raises:
      ConstraintError: it is deleted, not 1-D or too short.
      DataTypeError: no array, or of another data type.
    """
    spec = program.buffers[name]
    if isinstance(value, jax.Array) and _fits(value, spec):
        return value
    operator = program.desc.operator_type
    shown = shown or program.desc.shown(name)
    array = as_array(operator, shown, value)

    def fail(error: type[ConstraintError], rule: str, fact: str) -> None:
        raise error(message(operator, f"the buffer of {shown} must {rule}", fact, {shown: array}))

    if isinstance(array, jax.Array) and not isinstance(array, Tracer) and array.is_deleted():
        fail(ConstraintError, "be alive", "it is deleted: given away as out= (use what that call returned), or donated")
    described = program.ports[name].dtype
    is_small = program.ports[name].data_type.bits < 8
    if is_small and array.dtype == np.uint8 and array.ndim == 1:
        array = split_nibbles(array, described)
    in_words, per_element = described != spec.dtype, described.itemsize // spec.dtype.itemsize
    given_wide = isinstance(array, np.ndarray) and array.dtype == described
    if array.dtype != spec.dtype and not given_wide:
        pairs = " or bytes, uint8, of two each" if is_small else ""
        rule = f"have elements of {spec.dtype}{pairs}{_because(described, in_words)}"
        fail(DataTypeError, rule, f"they are {array.dtype}")
    length = spec.length // per_element if given_wide else spec.length
    if array.ndim != 1 or array.shape[0] < length:
        words = f", two for every {described}" if in_words and not given_wide else ""
        fail(ConstraintError, f"be 1-D with at least {length} elements{words}", f"its shape is {array.shape}")
    return np.ascontiguousarray(array).view(spec.dtype) if given_wide and in_words else array


def _fits(array: jax.Array, spec: BufferSpec) -> bool:
    """Whether an array needs no conversion. Nearly every one needs none, so this test has to be cheap."""
    is_alike = array.dtype == spec.dtype and array.ndim == 1 and array.shape[0] >= spec.length
    return is_alike and (isinstance(array, Tracer) or not array.is_deleted())


def _because(described: np.dtype[Any], in_words: bool) -> str:
    """Returns why a buffer of a 64-bit type must have another type."""
    if in_words:
        return (
            f", two words for every {described}, or be a NumPy array of {described}: "
            "jax_enable_x64 was off when it was compiled"
        )
    return ": jax_enable_x64 was on when it was compiled" if described.itemsize == 8 else ""


def check_devices(program: Program, buffers: Mapping[str, Any]) -> None:
    """Checks that the buffers are on the same devices.

    Raises:
      ConstraintError: two of them were put on different devices.
    """
    placed = {
        name: array.devices()
        for name, array in buffers.items()
        if isinstance(array, jax.Array) and not isinstance(array, Tracer) and array.committed
    }
    if len(set(map(frozenset, placed.values()))) > 1:
        shown = {program.desc.shown(name): ", ".join(sorted(map(str, devices))) for name, devices in placed.items()}
        fact = ", ".join(f"{name} is on {devices}" for name, devices in shown.items())
        raise ConstraintError(
            message(program.desc.operator_type, "all buffers must be on the same devices", fact, buffers)
        )


def as_outputs(program: Program, out: Any, inputs: Mapping[str, Any]) -> dict[str, jax.Array]:
    """Returns the buffers that the outputs are written into.

    Raises:
      ConstraintError: not one for each output, also bound to an input or another output, or a wrong buffer.
      DataTypeError: no jax.Array, or of another data type.
    """
    ports = list(program.outputs)
    outs = out if program.has_several_outputs else (out,)
    if not isinstance(outs, tuple) or len(outs) != len(ports):
        rule = f"out= must be a tuple of buffers for {', '.join(map(program.desc.shown, ports))}"
        fact = f"it has {len(outs)}" if isinstance(outs, tuple) else f"it is {type(outs).__name__}"
        raise ConstraintError(message(program.desc.operator_type, rule, fact, {"out": out}))
    bound: dict[str, Any] = dict(inputs)
    for port, buffer in zip(ports, outs, strict=True):
        bound[port] = _as_output(program, port, buffer, bound)
    return {port: bound[port] for port in ports}


def _as_output(program: Program, port: str, out: Any, bound: Mapping[str, Any]) -> jax.Array:
    name = program.desc.shown(port)
    if not isinstance(out, jax.Array):
        rule = f"out= for {name} must be a jax.Array, whose memory can be reused"
        raise DataTypeError(message(program.desc.operator_type, rule, f"it is {type(out).__name__}", {"out": out}))
    as_buffer(program, port, out, f"{name} (out=)")
    address = _address(out)
    for other, array in bound.items():
        if out is array and program.desc.may_share(port, other):
            continue
        if out is array or (address is not None and address == _address(array)):
            shown, is_input = program.desc.shown(other), other in program.inputs
            reason = "as an input: it is overwritten while inputs are read" if is_input else "twice: both are written"
            rule = f"out= for {name} must not be bound {reason}"
            raise ConstraintError(
                message(program.desc.operator_type, rule, f"it is the buffer of {shown} too", {"out": out})
            )
    return out


def _address(array: Any) -> int | None:
    """Returns the address of an array on a single device; None for any other."""
    if not isinstance(array, jax.Array) or isinstance(array, Tracer) or len(array.devices()) != 1:
        return None
    return array.unsafe_buffer_pointer()


def _one_each(desc: Computation[Any], name: str, ports: Sequence[str], value: Any) -> dict[str, Any]:
    """Returns the buffers of an array of tensors, by port."""
    count = len(ports)
    if not isinstance(value, list | tuple) or len(value) != count:
        rule = f"{name}= must be a sequence of {count}, a buffer or None for each of {desc.shown(name)}"
        fact = f"it has {len(value)}" if isinstance(value, list | tuple) else f"it is {type(value).__name__}"
        raise ConstraintError(message(desc.operator_type, rule, fact, {name: value}))
    return {port: buffer for port, buffer in zip(ports, value, strict=True) if buffer is not None}


def _ports(of_keyword: Any) -> tuple[str, ...]:
    """Returns the ports of an array of tensors; none for a single tensor."""
    return of_keyword if isinstance(of_keyword, tuple) else ()


def _by_keyword(program: Program) -> dict[str, Any]:
    """Returns the port, or the ports of an array of tensors, by the keyword that callers use."""
    return program.desc.by_field({port: port for port in program.inputs})


def by_port(program: Program, given: Mapping[str, Any]) -> dict[str, Any]:
    """Converts buffers by keyword to buffers by port; an array of tensors takes a sequence, with None for no buffer.

    Raises:
      ConstraintError: no such sequence.
    """
    by_keyword, ports = _by_keyword(program), {}
    for name, value in given.items():
        several = _ports(by_keyword.get(name))
        ports |= _one_each(program.desc, name, several, value) if several else {name: value}
    return ports


def owned_ports(program: Program, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the buffer of each input that is OWNED_BY_DML, by port; an array of tensors takes a sequence.

    Raises:
      ConstraintError: one is missing, or is not owned.
    """
    desc, inputs, ports = program.desc, program.inputs, by_port(program, given)
    by_keyword = _by_keyword(program)
    owned = [port for port, tensor in inputs.items() if tensor.flags]
    for port in sorted({*owned} ^ {*ports}):
        if port in owned:
            keyword = next(name for name, of_name in by_keyword.items() if port == of_name or port in _ports(of_name))
            rule, fact = (
                f"{desc.shown(port)} must be bound at compilation, as {keyword}=",
                "it is OWNED_BY_DML and not bound",
            )
        elif port in inputs:
            rule, fact = (
                f"{desc.shown(port)} must be bound at every call",
                f"it is not OWNED_BY_DML and {port}= is bound",
            )
        else:
            rule, fact = "only inputs can be bound at compilation", f"{port}= is none"
        raise ConstraintError(message(desc.operator_type, rule, fact, {desc.shown(p): t for p, t in inputs.items()}))
    return ports
