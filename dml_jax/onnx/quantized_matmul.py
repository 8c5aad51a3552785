"""Quantised matrix products of ONNX and ONNX Runtime: MatMulInteger, QLinearMatMul, QGemm and others, in int8."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.structs.struct_rules import right_aligned
from ..errors import ConstraintError, DataTypeError
from ..operators._integer_matrix_multiply import multiply_quantized, multiply_to_floats
from ..operators._quantization import multiply_integers, rescale
from .contrib_schemas import schema
from .matmul import broadcast_term
from .quantization_scales import Parameter, along, numbers
from .quantized_operators import dynamic_quantize_linear
from .values import Array, Operators, on_device


def _matrices(*, a: Array, b: Array, **parameters: Parameter) -> dict[str, Any]:
    """Prepares operands of `multiply_integers`: vectors as rows or columns, scales and zero points that broadcast.

    Those of a and of the product may differ from row to row, those of b from column to column.
    """
    if min(a.ndim, b.ndim) < 1:
        raise ConstraintError(f"a and b must have a dimension, but their shapes are {a.shape} and {b.shape}")
    if a.dtype.kind not in "iu":
        raise DataTypeError(f"a and b must be int8 or uint8, as float8 is not multiplied here, but a is {a.dtype}")
    of_a, of_b = (1, *a.shape)[-max(a.ndim, 2) :], (*b.shape, 1) if b.ndim == 1 else b.shape
    if of_a[-1] != of_b[-2]:
        raise ConstraintError(f"the last of a must be the last but one of b, but they are of {a.shape} and {b.shape}")
    batch, rank = np.broadcast_shapes(of_a[:-2], of_b[:-2]), max(len(of_a), len(of_b))
    sizes = {
        "a": ((*of_a[:-1], 1), -2),
        "b": ((*of_b[:-2], 1, of_b[-1]), -1),
        "y": ((*batch, of_a[-2], 1), -2),
    }
    aligned = {name: along(name, parameter, *sizes[name[0]]) for name, parameter in parameters.items()}
    rows, columns = (x.reshape(right_aligned(of_x, rank)) for x, of_x in ((a, of_a), (b, of_b)))
    return {"a": rows, "b": columns, **aligned}


def _product(product: jax.Array, a: Array, b: Array) -> jax.Array:
    """Drops the dimensions that vectors lack from a product of matrices."""
    return product.squeeze([d for d, operand in ((-2, a), (-1, b)) if operand.ndim == 1])


def mat_mul_integer(*, a: Array, b: Array, a_zero_point: Parameter = None, b_zero_point: Parameter = None) -> jax.Array:
    given = _matrices(a=a, b=b, a_zero_point=a_zero_point, b_zero_point=b_zero_point)
    return _product(multiply_integers(**given), a, b)


def qlinear_mat_mul(*, a: Array, b: Array, y_zero_point: Array, **parameters: Array) -> jax.Array:
    given = _matrices(a=a, b=b, y_zero_point=y_zero_point, **parameters)
    of_output = {"output_scale": given.pop("y_scale"), "output_zero_point": given.pop("y_zero_point")}
    return _product(multiply_quantized(**given, **of_output, dtype=y_zero_point.dtype), a, b)


def mat_mul_integer_to_float(
    *,
    a: Array,
    b: Array,
    a_scale: Array,
    b_scale: Array,
    a_zero_point: Parameter = None,
    b_zero_point: Parameter = None,
    bias: Parameter = None,
) -> jax.Array:
    scales = {"a_scale": a_scale, "b_scale": b_scale}
    given = _matrices(a=a, b=b, **scales, a_zero_point=a_zero_point, b_zero_point=b_zero_point)
    *batch, _, count = given["b"].shape
    if bias is not None and bias.shape != (count,):
        raise ConstraintError(f"bias must have a number for each of {count} columns, but its shape is {bias.shape}")
    aligned = None if bias is None else on_device(bias).reshape(*(1,) * len(batch), 1, count)
    return _product(multiply_to_floats(**given, bias=aligned), a, b)


def dynamic_quantize_mat_mul(*, a: Array, **of_b: Any) -> jax.Array:
    q, scale, zero_point = dynamic_quantize_linear(x=a)
    return mat_mul_integer_to_float(a=q, a_scale=scale, a_zero_point=zero_point, **of_b)


def qgemm(
    *,
    a: Array,
    b: Array,
    c: Array | None = None,
    y_scale: Parameter = None,
    y_zero_point: Parameter = None,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803  # as ONNX Runtime calls them
    transB: int = 0,  # noqa: N803
    **of_terms: Array,
) -> jax.Array:
    """QGemm; without y_scale the result stays float."""
    if (y_scale is None) != (y_zero_point is None):
        raise ConstraintError("y_scale and y_zero_point must be given together, but one is left out")
    if a.ndim != 2 or b.ndim != 2:
        raise ConstraintError(f"a and b must have 2 dimensions, but their shapes are {a.shape} and {b.shape}")
    given = _matrices(a=a.T if transA else a, b=b.T if transB else b, **of_terms)
    unit = [given.pop("a_scale") * np.float32(alpha), given.pop("b_scale")]
    sums = multiply_integers(**given)
    if c is not None:
        sums = sums + on_device(broadcast_term(c, (sums.shape[0], sums.shape[1])))
    if y_zero_point is None:
        return sums.astype(jnp.float32) * (unit[0] * unit[1])
    of_y = numbers(y_scale=y_scale, y_zero_point=y_zero_point)
    return rescale(sums, *unit, *of_y.values(), dtype=y_zero_point.dtype)


OPERATORS: Operators = {
    "MatMulInteger": {10: mat_mul_integer},
    "QLinearMatMul": {10: qlinear_mat_mul},
    "com.microsoft::DynamicQuantizeMatMul": {1: dynamic_quantize_mat_mul},
    "com.microsoft::MatMulIntegerToFloat": {1: mat_mul_integer_to_float},
    "com.microsoft::QGemm": {1: qgemm},
}

_BYTES = "int8 uint8"
SCHEMAS = (
    schema(
        "DynamicQuantizeMatMul",
        "A T1, B T2, b_scale T1, b_zero_point? T2, bias? T1",
        "Y T1",
        T1="float",
        T2=_BYTES,
    ),
    schema(
        "MatMulIntegerToFloat",
        "A T1, B T2, a_scale T3, b_scale T3, a_zero_point? T1, b_zero_point? T2, bias? T3",
        "Y T3",
        T1=_BYTES,
        T2=_BYTES,
        T3="float float16",
    ),
    schema(
        "QGemm",
        "A TA, a_scale T, a_zero_point TA, B TB, b_scale T, b_zero_point TB, C? TC, y_scale? T, y_zero_point? TYZ",
        "Y TY",
        {"alpha": 1.0, "transA": 0, "transB": 0},
        T="float",
        TA=_BYTES,
        TB=_BYTES,
        TC="int32",
        TYZ=_BYTES,
        TY=f"float {_BYTES}",
    ),
)
