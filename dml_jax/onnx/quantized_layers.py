"""Layers of quantised weights that ONNX Runtime adds: LSTM of bytes that are made at every step, and attention."""

from __future__ import annotations

from typing import Any

import jax

from ..operators._recurrent import LSTM, LSTM_COUPLED
from .quantized_products import dynamic_quantize_mat_mul
from .recurrent import recurrent
from .schemas import optional, schema
from .values import Operators

__all__ = ["OPERATORS", "SCHEMAS"]


def dynamic_quantize_lstm(*, input_forget: int = 0, **given: Any) -> tuple[jax.Array, ...]:
    """`lstm` of bytes as weights, in columns; what they multiply becomes bytes by a range of its own at every step."""
    return recurrent(LSTM_COUPLED if input_forget else LSTM, product=_product, **given)


def _product(x: jax.Array, weights: tuple[jax.Array, ...]) -> jax.Array:
    """The product of floats, which become bytes by the range of them all, and of the transpose of bytes."""
    b, scale, zero_point = (one.T for one in weights)
    return dynamic_quantize_mat_mul(a=x, b=b, b_scale=scale, b_zero_point=zero_point)


OPERATORS: Operators = {"com.microsoft::DynamicQuantizeLSTM": {1: dynamic_quantize_lstm}}

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
)
