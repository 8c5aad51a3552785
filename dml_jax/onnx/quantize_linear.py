"""ONNX's QuantizeLinear and DequantizeLinear: per tensor, per axis or blocked."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx import TensorProto, helper

from ..errors import ConstraintError
from ..operations.values.accumulation_types import narrow_apart
from ..operators import cast
from ..operators._quantization import dequantize, integers_of, quotient, shifted
from .cast import cast as onnx_cast
from .contrib_schemas import optional, schema
from .layout import axis_of
from .model_loading import dtype_of
from .values import Array, Operators, on_device

_FLOATS = ("float32", "float16", "bfloat16")


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
    """QuantizeLinear from opset 23 on: divides in `precision`, by default in the type of the scale."""
    target = target_of(y_zero_point, output_dtype)
    of_scale = y_scale.dtype if y_scale.dtype.name in _FLOATS else np.dtype(np.float32)
    divided = _float_of("precision", precision, of_scale)
    scale, zero_point = aligned(x, y_scale, y_zero_point, axis, block_size)
    operands = (cast(lax.stop_gradient(on_device(operand)), divided) for operand in (x, scale))
    steps = cast(quotient(*operands), divided).astype(np.float32)
    if jnp.issubdtype(target, jnp.integer):
        return integers_of(steps, zero_point, target)
    to = helper.np_dtype_to_tensor_dtype(target)
    return jnp.asarray(onnx_cast(input=shifted(steps, zero_point), to=to, saturate=saturate))


def quantize_linear_in_float32(**keywords: Any) -> jax.Array:
    """QuantizeLinear before opset 23: divides in float32."""
    return quantize_linear(**keywords, precision=TensorProto.FLOAT)


def dequantize_linear(*, x: Array, **keywords: Any) -> Array:
    return floats_of(x, *quantization_of(x=x, **keywords))


def quantization_of(
    *,
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> tuple[Array, Array | None, Any]:
    """Returns the scale and zero point of a DequantizeLinear, broadcast to x, and its output type."""
    target = _float_of("output_dtype", output_dtype, x_scale.dtype)
    return *aligned(x, x_scale, x_zero_point, axis, block_size), target


def floats_of(q: Array, scale: Array, zero_point: Array | None, dtype: Any) -> Array:
    """Dequantises in float32, and rounds once; constants in NumPy, as JAX would compile a program for each shape."""
    if all(x is None or isinstance(x, np.ndarray) for x in (q, scale, zero_point)):
        return dequantize(q, scale, zero_point).astype(dtype)
    return narrow_apart(dequantize(on_device(q), scale, zero_point), dtype)


def _float_of(name: str, asked: int, default: np.dtype[Any]) -> np.dtype[Any]:
    dtype = dtype_of(asked, name) if asked else default
    if dtype.name not in _FLOATS and asked:
        raise ConstraintError(f"{name} must be one of {', '.join(_FLOATS)}, but it is {dtype}")
    return dtype


def target_of(zero_point: Array | None, output_dtype: int) -> np.dtype[Any]:
    """Returns the quantised type, by the zero point or `output_dtype`; uint8 without either."""
    asked = dtype_of(output_dtype, "output_dtype") if output_dtype else None
    if zero_point is not None and asked not in (None, zero_point.dtype):
        raise ConstraintError(f"output_dtype must be that of y_zero_point, {zero_point.dtype}, but it is {asked}")
    return asked or np.dtype(np.uint8 if zero_point is None else zero_point.dtype)


def aligned(
    x: Array, scale: Array, zero_point: Array | None, axis: int = 1, block_size: int = 0
) -> tuple[Array, Array | None]:
    """Returns a scale and a zero point that broadcast to the shape of `x`; what is known stays so.

    A zero point that is known to be 0 is None: nothing is subtracted then, and -0.0 of a float8 stays so.
    """
    _check_zero_point(scale, zero_point)
    is_zero = zero_point is None or (isinstance(zero_point, np.ndarray) and not zero_point.any())
    spread_scale = _spread(x, scale, axis, block_size)
    return spread_scale, None if zero_point is None or is_zero else _spread(x, zero_point, axis, block_size)


def _check_zero_point(scale: Array, zero_point: Array | None) -> None:
    if zero_point is not None and zero_point.shape != scale.shape and max(zero_point.size, scale.size) > 1:
        raise ConstraintError(f"the zero point must have the sizes of the scale, {scale.shape}, not {zero_point.shape}")


def _spread(x: Array, array: Array, axis: int, block_size: int) -> Array:
    """Returns a scale or a zero point that broadcasts to the shape of `x`.

    Blocks of 2 along 5 elements have three numbers, [10, 20, 30], which are spread to [10, 10, 20, 20, 30].
    """
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
    _check_blocks(x, array, along, block_size)
    if array.shape[along] == 1:  # of a block that may be longer than the dimension by far
        return array
    repeat = np.repeat if isinstance(array, np.ndarray) else jnp.repeat
    return repeat(array, block_size, along)[tuple(slice(n) for n in x.shape)]


def _check_blocks(x: Array, scale: Array, along: int, block_size: int) -> None:
    sizes = [-(-n // block_size) if d == along else n for d, n in enumerate(x.shape)]
    if list(scale.shape) != sizes:
        raise ConstraintError(f"the scale of blocks of {block_size} must be of {sizes}, but it is of {scale.shape}")


def blocks_of(
    *,
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None = None,
    axis: int = 1,
    block_size: int,
    output_dtype: int = 0,
) -> tuple[Array, Array | None, int, np.dtype[Any]]:
    """Returns the scale and zero point of each block of a DequantizeLinear, their axis, and the output type."""
    along = axis_of("axis", axis, x.ndim)
    _check_zero_point(x_scale, x_zero_point)
    _check_blocks(x, x_scale, along, block_size)
    return x_scale, x_zero_point, along, _float_of("output_dtype", output_dtype, x_scale.dtype)


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
