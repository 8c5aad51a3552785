"""Matrix products of integers, with results in integers, requantised integers or floats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from ..core.rules import Rule, assuming, if_given, same_dtype, sizes_follow
from ..core.structs.feature_level_tables import FLOATS, Support
from ..core.structs.fields import Input, OptionalInput, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..operations.values.accumulation_types import narrow_apart
from ._gemm import SAME_BATCH, SAME_INNER_SIZE, product_sizes
from ._quantization import (
    BYTES,
    INTEGERS,
    REAL,
    PerAxis,
    below,
    multiply_integers,
    older_rank_rules,
    parameter_rules,
    parameters_of,
    rank_within,
    rescale,
    same_type,
    scales_of,
    since_2_1,
    spread,
    unfused,
    zero_points_of,
)

__all__ = ["MatrixMultiplyIntegerDesc", "MatrixMultiplyIntegerToFloatDesc", "QuantizedLinearMatrixMultiplyDesc"]

_RANKS = range(2, 5)
# Scales and zero points may be per row of a matrix, or per column.
_AXES = {
    "a": PerAxis(-2, "a", -2, "rows"),
    "b": PerAxis(-1, "b", -1, "columns"),
    "output": PerAxis(-2, "a", -2, "rows"),
}
_INPUTS = ("a", "b")


# The zero point and the scale of a broadcast to (..., M, 1), the zero point and the scale of b to (..., 1, N).


def multiply_quantized(
    a: jax.Array,
    a_scale: jax.Array,
    a_zero_point: jax.Array | None,
    b: jax.Array,
    b_scale: jax.Array,
    b_zero_point: jax.Array | None,
    output_scale: jax.Array,
    output_zero_point: jax.Array | None,
    *,
    dtype: Any,
) -> jax.Array:
    """The product of two quantised matrices, requantised to integers of `dtype`."""
    product = multiply_integers(a, a_zero_point, b, b_zero_point)
    return rescale(product, a_scale, b_scale, output_scale, output_zero_point, dtype)


def multiply_to_floats(
    a: jax.Array,
    a_scale: jax.Array,
    a_zero_point: jax.Array | None,
    b: jax.Array,
    b_scale: jax.Array,
    b_zero_point: jax.Array | None,
    bias: jax.Array | None,
) -> jax.Array:
    """The product of two quantised matrices, and a bias, in the type of `a_scale`."""
    real = scale_sums(multiply_integers(a, a_zero_point, b, b_zero_point), a_scale, b_scale)
    if bias is not None:
        real = real + bias.astype(jnp.float32)
    return narrow_apart(real, a_scale.dtype)


def scale_sums(sums: jax.Array, a_scale: jax.Array, b_scale: jax.Array) -> jax.Array:
    """Sums of products of integers, times both scales, in float32."""
    real = sums.astype(jnp.float32)
    for scale in (a_scale, b_scale):
        real = unfused(real * spread(scale.astype(jnp.float32), real.shape))
    return real


def _plain(rule: Rule) -> Rule:
    """A rule of GEMM where nothing is transposed."""
    return replace(assuming(rule, {"trans_a": False, "trans_b": False}), text=rule.text.split(", each as")[0])


_PRODUCT = sizes_follow("output", product_sizes, "(..., the rows of {a}, the columns of {b})")
_SIZES = tuple(map(_plain, (SAME_BATCH, SAME_INNER_SIZE, _PRODUCT)))


_OLDER_RANK_OF_B = below("5_2", rank_within("b_zero_point", 2, 4))


class MatrixMultiplyIntegerDesc(OperatorDesc):
    """DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC: multiplies matrices of integers, in 32 bits.

    output = (a - a_zero_point) @ (b - b_zero_point), which wraps

    Args:
      a: (..., M, K).
      a_zero_point: one element, or one for each row, (M, 1); the data type of `a`; or None, which is 0.
      b: (..., K, N), the same sizes before.
      b_zero_point: one element, or one for each column, (1, N); the data type of `b`; or None.
      output: (..., M, N).

    Example:
      >>> row, column = TensorDesc("UINT8", (1, 3)), TensorDesc("INT8", (3, 1))
      >>> desc = MatrixMultiplyIntegerDesc(row, TensorDesc("UINT8", (1,)), column, None, TensorDesc("INT32", (1, 1)))
      >>> print(desc.compute(np.uint8([[0, 128, 255]]), np.uint8([128]), np.int8([[1], [2], [-3]])))
      [[-509]]
    """

    a: Input
    a_zero_point: OptionalInput
    b: Input
    b_zero_point: OptionalInput
    output: Output

    in_jax = "jax.numpy.matmul(a, b, preferred_element_type=int32)"
    other_types = ("b", *zero_points_of(*_INPUTS), "output")
    other_ranks = zero_points_of(*_INPUTS)
    support = since_2_1(_RANKS, a=BYTES, b=BYTES, output=(DataType.INT32,))
    constraints = (*_SIZES, *parameter_rules(_AXES, *_INPUTS, scaled=False))
    lifted = (*older_rank_rules(*zero_points_of(*_INPUTS)), _OLDER_RANK_OF_B)

    def compute_checked(
        self, a: jax.Array, a_zero_point: jax.Array | None, b: jax.Array, b_zero_point: jax.Array | None
    ) -> jax.Array:
        return multiply_integers(a, a_zero_point, b, b_zero_point)


_ALL = (*_INPUTS, "output")


class QuantizedLinearMatrixMultiplyDesc(OperatorDesc):
    """DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC: multiplies matrices of quantised numbers.

    output = quantize(((a - a_zero_point) @ (b - b_zero_point)) * (a_scale * b_scale)), where the product is exact in
    32 bits, and the rest is float32.

    Args:
      a: (..., M, K).
      a_scale: FLOAT32, one element, or one for each row, (M, 1).
      a_zero_point: as `a_scale`, but with the data type of `a`; or None, which is 0.
      b: (..., K, N), the same sizes before.
      b_scale: FLOAT32, one element, or one for each column, (1, N).
      b_zero_point: as `b_scale`, but with the data type of `b`; or None.
      output_scale: FLOAT32, one element, or one for each row, (M, 1).
      output_zero_point: as `output_scale`, but with the data type of `output`; or None.
      output: (..., M, N).

    Example:
      >>> row, column, one = TensorDesc("INT8", (1, 3)), TensorDesc("INT8", (3, 1)), TensorDesc("FLOAT32", (1,))
      >>> output = TensorDesc("INT8", (1, 1))
      >>> desc = QuantizedLinearMatrixMultiplyDesc(row, one, None, column, one, None, one, None, output)
      >>> half, four = np.float32([0.5]), np.float32([4])
      >>> print(desc.compute(np.int8([[10, 20, 30]]), half, np.int8([[1], [2], [3]]), half, four))
      [[9]]

    Source: DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC, which dequantizes, multiplies and quantizes: the same
      but for the rounding of float32.
    """

    a: Input
    a_scale: Input
    a_zero_point: OptionalInput
    b: Input
    b_scale: Input
    b_zero_point: OptionalInput
    output_scale: Input
    output_zero_point: OptionalInput
    output: Output

    in_jax = "jax.numpy.matmul(a, b, preferred_element_type=int32), scaled, rounded and clipped"
    other_types = (*parameters_of(*_ALL), "b", "output")
    other_ranks = parameters_of(*_ALL)
    support = since_2_1(_RANKS, **dict.fromkeys(_ALL, BYTES), **dict.fromkeys(scales_of(*_ALL), REAL))
    constraints = (*_SIZES, *parameter_rules(_AXES, *_ALL))
    lifted = (*older_rank_rules(*parameters_of(*_ALL)), _OLDER_RANK_OF_B)

    def compute_checked(self, **arrays: Any) -> jax.Array:
        return multiply_quantized(**arrays, dtype=self.output.dtype)


class MatrixMultiplyIntegerToFloatDesc(OperatorDesc):
    """DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC: multiplies matrices of quantised numbers, as floats.

    output = ((a - a_zero_point) @ (b - b_zero_point)) * a_scale * b_scale + bias, where the product is exact in 32
    bits, which wrap, and the rest is float32, rounded once at the end.

    Args:
      a: (..., M, K).
      a_scale: one element, or one for each row, (M, 1).
      a_zero_point: as `a_scale`, but with the data type of `a`; or None, which is 0.
      b: (..., K, N), the sizes before and the data type of `a`.
      b_scale: one element, or one for each column, (1, N); the data type of `a_scale`.
      b_zero_point: as `b_scale`, but with the data type of `a`; or None.
      bias: (..., M, N), often broadcast by strides of 0; the data type of `a_scale`; or None.
      output: (..., M, N), the data type of `a_scale`.

    Example:
      >>> row, column, one = TensorDesc("INT8", (1, 3)), TensorDesc("INT8", (3, 1)), TensorDesc("FLOAT32", (1,))
      >>> output = TensorDesc("FLOAT32", (1, 1))
      >>> desc = MatrixMultiplyIntegerToFloatDesc(row, one, None, column, one, None, None, output)
      >>> half = np.float32([0.5])
      >>> print(desc.compute(np.int8([[10, 20, 30]]), half, np.int8([[1], [2], [3]]), half))
      [[35.]]

    Source: DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC. Its page describes a scale and a zero point of the
      output, which the struct does not have.
    """

    a: Input
    a_scale: Input
    a_zero_point: OptionalInput
    b: Input
    b_scale: Input
    b_zero_point: OptionalInput
    bias: OptionalInput
    output: Output

    in_jax = "jax.numpy.matmul(a, b, preferred_element_type=int32) * a_scale * b_scale + bias"
    other_types = (*parameters_of(*_INPUTS), "bias", "output")
    other_ranks = parameters_of(*_INPUTS)
    support = (Support.of("6_2", _RANKS, a=INTEGERS, a_scale=FLOATS),)
    constraints = (
        *_SIZES,
        *parameter_rules(_AXES, *_INPUTS),
        same_dtype("b_scale", "a_scale"),
        if_given("bias", _plain(sizes_follow("bias", product_sizes, "(..., the rows of {a}, the columns of {b})"))),
        if_given("bias", same_dtype("bias", "a_scale")),
        same_type("a_scale", "output"),
    )

    def compute_checked(self, **arrays: Any) -> jax.Array:
        return multiply_to_floats(**arrays)
