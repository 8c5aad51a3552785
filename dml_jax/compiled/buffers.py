"""What may be bound to a compiled operator: flat buffers of one type and length, and an output that is given away."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ..core.arguments import as_array
from ..errors import ConstraintError, DataTypeError, message
from .program import Program

__all__ = ["as_buffer", "as_output", "check_devices", "check_names"]


def as_buffer(program: Program, name: str, value: Any, shown: str | None = None) -> Any:
    """Returns the flat buffer of a tensor; a 64-bit NumPy array as its words, where the program takes words.

    Args:
      program: what it is bound to.
      name: of the tensor, such as "input".
      value: the array.
      shown: what messages call it; DirectML's name of the tensor by default.

    Raises:
      ConstraintError: it is deleted, not 1-D or too short.
      DataTypeError: no array, or of another data type.
    """
    operator, spec = program.desc.operator_type, program.buffer(name)
    shown = shown or program.desc.directml_names()[name]
    array = as_array(operator, shown, value)

    def fail(error: type[ConstraintError], rule: str, fact: str) -> None:
        raise error(message(operator, f"the buffer of {shown} must {rule}", fact, {shown: array}))

    if isinstance(array, jax.Array) and not isinstance(array, Tracer) and array.is_deleted():
        fail(ConstraintError, "be alive", "it is deleted: given away as out= (use what that call returned), or donated")
    described = getattr(program.desc, name).dtype
    in_words, per_element = described != spec.dtype, described.itemsize // spec.dtype.itemsize
    given_wide = isinstance(array, np.ndarray) and array.dtype == described
    if array.dtype != spec.dtype and not given_wide:
        fail(DataTypeError, f"have elements of {spec.dtype}{_because(described, in_words)}", f"they are {array.dtype}")
    length = spec.length // per_element if given_wide else spec.length
    if array.ndim != 1 or array.shape[0] < length:
        words = f", two for every {described}" if in_words and not given_wide else ""
        fail(ConstraintError, f"be 1-D with at least {length} elements{words}", f"its shape is {array.shape}")
    return np.ascontiguousarray(array).view(spec.dtype) if given_wide and in_words else array


def _because(described: np.dtype[Any], in_words: bool) -> str:
    """Why a buffer of a 64-bit type is what it is."""
    if in_words:
        return (
            f", two words for every {described}, or be a NumPy array of {described}: "
            "jax_enable_x64 was off when it was compiled"
        )
    return ": jax_enable_x64 was on when it was compiled" if described.itemsize == 8 else ""


def check_devices(program: Program, buffers: Mapping[str, Any]) -> None:
    """Compares where the buffers are.

    Raises:
      ConstraintError: two of them were put on different devices.
    """
    placed = {
        name: sorted(map(str, array.devices()))
        for name, array in buffers.items()
        if isinstance(array, jax.Array) and not isinstance(array, Tracer) and array.committed
    }
    if len(set(map(tuple, placed.values()))) > 1:
        names = program.desc.directml_names()
        fact = ", ".join(f"{names[name]} is on {', '.join(devices)}" for name, devices in placed.items())
        raise ConstraintError(
            message(program.desc.operator_type, "all buffers must be on the same devices", fact, buffers)
        )


def as_output(program: Program, out: Any, inputs: Mapping[str, Any]) -> jax.Array:
    """Returns the buffer that the output is written into.

    Raises:
      ConstraintError: also bound to an input, or a wrong buffer.
      DataTypeError: no jax.Array, or of another data type.
    """
    name = program.desc.directml_names()["output"]
    if not isinstance(out, jax.Array):
        rule = f"out= for {name} must be a jax.Array, whose memory can be given away"
        raise DataTypeError(message(program.desc.operator_type, rule, f"it is {type(out).__name__}", {"out": out}))
    as_buffer(program, "output", out, f"{name} (out=)")
    address = _address(out)
    for field, array in inputs.items():
        if out is array or (address is not None and address == _address(array)):
            shown = program.desc.directml_names()[field]
            rule = f"out= for {name} must not be bound as an input: it is overwritten while inputs are read"
            raise ConstraintError(
                message(program.desc.operator_type, rule, f"it is the buffer of {shown} too", {"out": out})
            )
    return out


def _address(array: Any) -> int | None:
    """Where an array of one device starts in its memory."""
    if not isinstance(array, jax.Array) or isinstance(array, Tracer) or len(array.devices()) != 1:
        return None
    return array.unsafe_buffer_pointer()


def check_names(program: Program, given: Mapping[str, Any]) -> None:
    """Compares the inputs handed over with those that are OWNED_BY_DML.

    Raises:
      ConstraintError: one is missing, or is not owned.
    """
    desc = program.desc
    owned = [name for name in desc.input_names() if getattr(desc, name).flags]
    for name in sorted({*owned} ^ {*given}):
        field = desc.directml_names().get(name, name)
        if name in owned:
            rule, fact = f"{field} must be bound at compilation, as {name}=", "it is OWNED_BY_DML and not bound"
        elif name in desc.input_names():
            rule, fact = f"{field} must be bound at every call", f"it is not OWNED_BY_DML and {name}= is bound"
        else:
            rule, fact = "only inputs can be bound at compilation", f"{name}= is none"
        raise ConstraintError(
            message(desc.operator_type, rule, fact, {f: getattr(desc, f) for f in desc.input_names()})
        )
