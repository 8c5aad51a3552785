"""ONNX Runtime's Gelu, FastGelu, BiasGelu, QuickGelu, BiasSplitGelu and BiasAdd; rounded once."""

import jax
import jax.numpy as jnp

from ..errors import ConstraintError
from ..operations.values.elementary_functions import gelu, tanh_gelu
from .activations import activation
from .contrib_schemas import schema
from .values import Array, Operators, as_wide


def _bias_add(*, x: Array, bias: Array, skip: Array) -> jax.Array:
    if x.ndim != 3 or skip.shape != x.shape:
        rule = "x and skip must be of one shape of 3 dimensions"
        raise ConstraintError(f"{rule}, but their shapes are {x.shape} and {skip.shape}")
    return (_add_bias(x, bias) + as_wide(skip)).astype(x.dtype)


def _bias_gelu(*, a: Array, b: Array) -> jax.Array:
    return gelu(_add_bias(a, b)).astype(a.dtype)


def _bias_split_gelu(*, x: Array, bias: Array) -> jax.Array:
    """BiasSplitGelu: the first half of the last dimension, times the Gelu of the second half."""
    if x.ndim != 3 or x.shape[-1] % 2:
        raise ConstraintError(f"x must have 3 dimensions, the last one of an even size, but its shape is {x.shape}")
    factors, gated = jnp.split(_add_bias(x, bias), 2, -1)
    return (factors * gelu(gated)).astype(x.dtype)


def _fast_gelu(*, x: Array, bias: Array | None = None) -> jax.Array:
    y = as_wide(x) if bias is None else _add_bias(x, bias)
    return tanh_gelu(y).astype(x.dtype)


def _add_bias(x: Array, bias: Array) -> jax.Array:
    """Returns the sum with a bias, in float32 or wider."""
    if bias.ndim != 1 or bias.shape != x.shape[-1:]:
        rule = "the bias must have one number for each element of the last dimension"
        raise ConstraintError(f"{rule}, but its shape is {bias.shape}, and the input is {x.shape}")
    return as_wide(x) + jnp.broadcast_to(as_wide(bias), x.shape)


OPERATORS: Operators = {
    "com.microsoft::BiasAdd": {1: _bias_add},
    "com.microsoft::BiasGelu": {1: _bias_gelu},
    "com.microsoft::BiasSplitGelu": {1: _bias_split_gelu},
    "com.microsoft::FastGelu": {1: _fast_gelu},
    "com.microsoft::Gelu": {1: activation("GELU")},
    "com.microsoft::QuickGelu": {1: activation("SWISH", "alpha")},
}
_ALL = "bfloat16 float16 float double"
SCHEMAS = (
    schema("BiasAdd", "X T, bias T, skip T", "Y T", T="float16 float"),
    schema("BiasGelu", "A T, B T", "C T", T=_ALL),
    schema("BiasSplitGelu", "X T, bias T", "Y T", T="float16 float"),
    schema("FastGelu", "X T, bias? T", "Y T", T=_ALL),
    schema("Gelu", "X T", "Y T", T=_ALL),
    schema("QuickGelu", "X T", "Y T", {"alpha": 1.702}, T=_ALL),
)
