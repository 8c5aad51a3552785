"""ONNX Runtime's DynamicQuantizeLSTM and QAttention."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..operators._integer_matrix_multiply import scale_sums
from .contrib_schemas import optional, required, schema
from .operand_checks import check_shape
from .ort_attention import attend_projected
from .quantized_matmul import mat_mul_integer, mat_mul_integer_to_float
from .quantized_operators import dynamic_quantize_linear
from .recurrent import lstm
from .values import Array, Operators, as_wide


def dynamic_quantize_lstm(**given: Any) -> tuple[jax.Array, ...]:
    """DynamicQuantizeLSTM: `lstm` with int8 weights in columns; their operands are quantised at every step."""
    return lstm(product=_product, **given)


def _product(x: jax.Array, weights: tuple[jax.Array, ...], gates: int) -> list[jax.Array]:
    """Returns the product of floats, quantised by their range, and of a transposed int8 matrix, gate by gate."""
    b, scale, zero_point = (array.T for array in weights)
    q, x_scale, x_zero_point = dynamic_quantize_linear(x=x)
    sums = mat_mul_integer(a=q, a_zero_point=x_zero_point, b=b, b_zero_point=zero_point)
    # Scaled apart: gates share no sum.
    of_gates = zip(*(jnp.split(array, gates, axis=-1) for array in (sums, scale)), strict=True)
    return [scale_sums(part, x_scale, b_scale) for part, b_scale in of_gates]


def q_attention(
    *,
    input: Array,
    weight: Array,
    bias: Array,
    input_scale: Array,
    weight_scale: Array,
    input_zero_point: Array | None = None,
    weight_zero_point: Array | None = None,
    do_rotary: int = 0,  # supported_options.py refuses others, also of the next one
    past_present_share_buffer: int = 0,
    **given: Any,
) -> tuple[jax.Array, ...]:
    """QAttention: attention whose projection of queries, keys and values is an integer product."""
    check_shape("input", input, (None, None, None))
    check_shape("weight", weight, (input.shape[2], None))
    width = weight.shape[1] // 3
    check_shape("weight", weight, (None, 3 * width))
    product = mat_mul_integer_to_float(
        a=input,
        b=weight,
        a_scale=as_wide(input_scale),
        b_scale=as_wide(weight_scale),
        a_zero_point=input_zero_point,
        b_zero_point=weight_zero_point,
        bias=as_wide(bias),
    )
    return attend_projected(product, [width] * 3, dtype=bias.dtype, **given)


OPERATORS: Operators = {
    "com.microsoft::DynamicQuantizeLSTM": {1: dynamic_quantize_lstm},
    "com.microsoft::QAttention": {1: q_attention},
}

_BYTES = "int8 uint8"
SCHEMAS = (
    schema(
        "DynamicQuantizeLSTM",
        "X T, W T2, R T2, B? T, sequence_lens? T1, initial_h? T, initial_c? T, P? T, "
        "W_scale T, W_zero_point T2, R_scale T, R_zero_point T2",
        "Y? T, Y_h? T, Y_c? T",
        {
            "activation_alpha": optional("FLOATS"),
            "activation_beta": optional("FLOATS"),
            "activations": optional("STRINGS"),
            "clip": optional("FLOAT"),
            "direction": "forward",
            "hidden_size": optional("INT"),
            "input_forget": 0,
        },
        T="float",
        T1="int32",
        T2=_BYTES,
    ),
    schema(
        "QAttention",
        "input T1, weight T2, bias T3, input_scale T3, weight_scale T3, mask_index? T4, input_zero_point? T1, "
        "weight_zero_point? T2, past? T3",
        "output T3, present? T3",
        {
            "do_rotary": optional("INT"),
            "mask_filter_value": optional("FLOAT"),
            "num_heads": required("INT"),
            "past_present_share_buffer": optional("INT"),
            "scale": optional("FLOAT"),
            "unidirectional": 0,
        },
        T1=_BYTES,
        T2=_BYTES,
        T3="float float16",
        T4="int32",
    ),
)
