"""ONNX's QuantizeLinear and DequantizeLinear: by one scale, one per element of an axis, or one per block."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import TensorProto, helper

from ..errors import ConstraintError
from ..lowering.values.accumulation_types import narrow_apart
from ..operators import cast
from ..operators._quantization import dequantize, quotient, shifted
from .arrange import axis_of
from .casting import cast as onnx_cast
from .loading import dtype_of
from .schemas import optional, schema
from .values import Array, Operators, on_device

__all__ = ["OPERATORS", "SCHEMAS", "dequantize_linear", "quantize_linear", "quantize_linear_in_float32"]

_PRECISIONS = ("float32", "float16", "bfloat16")


def quantize_linear(
    *,
    x: Array,
    y_scale: Array,
    y_zero_point: Array | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> jax.Array:
    """From opset 23 on: divides in `precision`, by default in the type of the scale."""
    target = _target(y_zero_point, output_dtype)
    of_scale = y_scale.dtype if y_scale.dtype.name in _PRECISIONS else np.dtype(np.float32)
    divided = dtype_of(precision, "precision") if precision else of_scale
    if divided.name not in _PRECISIONS:
        raise ConstraintError(f"precision must be one of {', '.join(_PRECISIONS)}, but it is {divided}")
    scale, zero_point = _aligned(x, y_scale, y_zero_point, axis, block_size)
    steps = cast(quotient(cast(on_device(x), divided), cast(scale, divided)), divided).astype(np.float32)
    if jnp.issubdtype(target, jnp.integer):
        return cast(shifted(jnp.round(steps), zero_point), target)
    to = helper.np_dtype_to_tensor_dtype(target)
    return on_device(onnx_cast(input=shifted(steps, zero_point), to=to, saturate=saturate))


def quantize_linear_in_float32(**keywords: Any) -> jax.Array:
    """Before opset 23: divides in float32."""
    return quantize_linear(**keywords, precision=TensorProto.FLOAT)


def dequantize_linear(
    *,
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> jax.Array:
    """Multiplies in float32, and rounds the product once."""
    scale, zero_point = _aligned(x, x_scale, x_zero_point, axis, block_size)
    target = dtype_of(output_dtype, "output_dtype") if output_dtype else scale.dtype
    return narrow_apart(dequantize(on_device(x), scale, zero_point), target)


def _target(zero_point: Array | None, output_dtype: int) -> np.dtype[Any]:
    """Returns the type of quantised numbers, which either tells; uint8 if neither does."""
    asked = dtype_of(output_dtype, "output_dtype") if output_dtype else None
    if zero_point is not None and asked not in (None, zero_point.dtype):
        raise ConstraintError(f"output_dtype must be that of y_zero_point, {zero_point.dtype}, but it is {asked}")
    return asked or np.dtype(np.uint8 if zero_point is None else zero_point.dtype)


def _aligned(
    x: Array, scale: Array, zero_point: Array | None, axis: int, block_size: int
) -> tuple[jax.Array, jax.Array | None]:
    """Returns a scale and a zero point that broadcast to the shape of `x`."""
    if zero_point is not None and zero_point.shape != scale.shape and max(zero_point.size, scale.size) > 1:
        raise ConstraintError(f"the zero point must have the sizes of the scale, {scale.shape}, not {zero_point.shape}")
    return (
        _spread(x, scale, axis, block_size),
        None if zero_point is None else _spread(x, zero_point, axis, block_size),
    )


def _spread(x: Array, parameter: Array, axis: int, block_size: int) -> jax.Array:
    """Returns a scale or a zero point that broadcasts to the shape of `x`.

    Blocks of 2 along 5 elements have three numbers, [10, 20, 30], which are spread to [10, 10, 20, 20, 30].
    """
    array = on_device(parameter)
    if block_size < 0:
        raise ConstraintError(f"block_size must be at least 0, but it is {block_size}")
    if not block_size and array.size == 1 and array.ndim < 2:
        return array.reshape(())
    along = axis_of("axis", axis, x.ndim)
    count = x.shape[along]
    if not block_size:
        if array.shape != (count,):
            raise ConstraintError(f"the scale must have 1 or {count} elements along axis {axis}, not {array.shape}")
        return array.reshape([count if d == along else 1 for d in range(x.ndim)])
    sizes = [-(-n // block_size) if d == along else n for d, n in enumerate(x.shape)]
    if list(array.shape) != sizes:
        raise ConstraintError(f"the scale of blocks of {block_size} must be of {sizes}, but it is of {array.shape}")
    return jnp.repeat(array, block_size, along)[tuple(slice(n) for n in x.shape)]


OPERATORS: Operators = {
    "DequantizeLinear": {10: dequantize_linear},
    "QuantizeLinear": {10: quantize_linear_in_float32, 23: quantize_linear},
    "com.microsoft::DequantizeLinear": {1: dequantize_linear},
    "com.microsoft::QuantizeLinear": {1: quantize_linear_in_float32},
}
_INTEGERS = "int8 uint8 int16 uint16 int4 uint4"
SCHEMAS = (
    schema(
        "QuantizeLinear",
        "x T1, y_scale T1, y_zero_point? T2",
        "y T2",
        {"axis": optional("INT")},
        T1="float16 float",
        T2=_INTEGERS,
    ),
    schema(
        "DequantizeLinear",
        "x T1, x_scale T2, x_zero_point? T1",
        "y T2",
        {"axis": optional("INT")},
        T1=f"{_INTEGERS} int32",
        T2="float16 float",
    ),
)
