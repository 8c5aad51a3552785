"""ONNX's CausalConvWithState: a convolution of each channel with what came before, in float32, rounded once."""

from functools import reduce

import jax
import jax.numpy as jnp
from jax import nn

from ..errors import ConstraintError
from ..operations.values.accumulation_types import narrow_apart
from .convolution import conv
from .operand_checks import check_shape, check_value
from .values import Array, Operators, as_wide, on_device


def causal_convolution(
    *,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    past_state: Array | None = None,
    activation: str = "none",
) -> tuple[jax.Array, jax.Array]:
    """CausalConvWithState: an element of the output is made of k elements of the input, of which it is the last.

    The state has the last k - 1 elements of all that was read, or zeros before the first.
    """
    check_value("activation", activation, ("none", "silu", "swish"))
    check_shape("input", input, (None, None, None))
    batch, channels, length = input.shape
    check_shape("weight", weight, (channels, 1, None))
    check_shape("bias", bias, (channels,))
    if weight.shape[2] < 1:
        raise ConstraintError("weight must have at least 1 number for each channel, but it has none")
    before = (batch, channels, weight.shape[2] - 1)
    check_shape("past_state", past_state, before)
    past = jnp.zeros(before, input.dtype) if past_state is None else on_device(past_state)
    whole = jnp.concatenate([past, on_device(input)], axis=2)
    if 0 in input.shape:
        return on_device(input), whole[:, :, length:]
    y = _convolve(as_wide(whole), as_wide(weight), length)
    y = y if bias is None else y + as_wide(bias).reshape(1, -1, 1)
    return narrow_apart(y if activation == "none" else nn.silu(y), input.dtype), whole[:, :, length:]


def _convolve(whole: jax.Array, weight: jax.Array, length: int) -> jax.Array:
    """Returns the convolution of each channel; a few products are summed faster than XLA convolves."""
    channels, _, count = weight.shape
    if count > 16:
        return on_device(conv(x=whole, w=weight, group=channels))
    return reduce(jnp.add, (weight[None, :, 0, j : j + 1] * whole[:, :, j : j + length] for j in range(count)))


OPERATORS: Operators = {"CausalConvWithState": {27: causal_convolution}}
