"""ONNX's Cast, and its overflow rules: saturation, infinity or wrapping, by target type."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx import TensorProto, helper

from ..errors import ConstraintError
from ..operators import cast as dml_cast
from .int64_ranges import Bounded
from .model_loading import dtype_of
from .values import Array, Operators, arrays, is_narrowed, on_device


def cast(*, input: Array, to: int, saturate: int = 1, round_mode: str = "up") -> Array | Bounded:
    target = dtype_of(to, "to")
    if target == input.dtype:
        return input
    if isinstance(input, jax.Array) and is_narrowed(np.int64):
        if (bounded := Bounded.of(input, target)) is not None:
            return bounded
        on_device(np.zeros((), target))  # which refuses 64 bits
    xp, x = arrays(input)
    if target.name == "float8_e8m0fnu":
        return _power_of_two(xp, x, bool(saturate), round_mode)
    if target.name.startswith("float8"):
        x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(np.float32)
        limit = np.asarray(jnp.finfo(target).max, x.dtype)
        x = xp.clip(x, -limit, limit) if saturate else x
    if target.name.startswith(("int4", "uint4", "int2", "uint2")) and jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(np.int32)  # of which the low bits are kept; XLA would take the nearest
    is_cut = jnp.issubdtype(x.dtype, jnp.floating) and jnp.issubdtype(target, jnp.integer)
    return x.astype(target) if xp is np and not is_cut else dml_cast(x, target)  # beyond the range NumPy wraps


def cast_like(*, input: Array, target_type: Array, saturate: int = 1, round_mode: str = "up") -> Array | Bounded:
    to = helper.np_dtype_to_tensor_dtype(np.dtype(target_type.dtype))
    return cast(input=input, to=to, saturate=saturate, round_mode=round_mode)


def cast_to_named(*, input: Array, to: str) -> Array | Bounded:
    """Cast of opsets 1 to 5, which give the type by name."""
    names = TensorProto.DataType.keys()
    if to not in names:
        raise ConstraintError(f"to must be one of {', '.join(names)}, but it is {to!r}")
    return cast(input=input, to=TensorProto.DataType.Value(to))


def _power_of_two(xp: Any, x: Any, saturate: bool, round_mode: str) -> Array:
    """The exponent of a float32 alone; its fraction rounds it."""
    if round_mode not in _ROUNDS_UP:
        raise ConstraintError(f"round_mode must be one of {', '.join(_ROUNDS_UP)}, but it is {round_mode!r}")
    x, unsigned, target = x.astype(np.float32), np.uint32, jnp.dtype("float8_e8m0fnu")
    bits = x.view(unsigned) if xp is np else lax.bitcast_convert_type(x, unsigned)
    exponent, fraction = (bits >> unsigned(23)) & unsigned(255), bits & unsigned(2**23 - 1)
    rounded = exponent + (fraction >= unsigned(_ROUNDS_UP[round_mode])).astype(unsigned)
    special = exponent == unsigned(255)
    largest = unsigned(254) if saturate else unsigned(255)
    image = xp.where(special, unsigned(255), xp.minimum(rounded, largest)).astype(np.uint8)
    return image.view(target) if xp is np else lax.bitcast_convert_type(image, target)


# The least fraction, of 23 bits, that raises the exponent.
_ROUNDS_UP = {"up": 1, "down": 2**23, "nearest": 2**22}


OPERATORS: Operators = {
    "Cast": {1: cast_to_named, 6: cast},
    "CastLike": {15: cast_like},
}
