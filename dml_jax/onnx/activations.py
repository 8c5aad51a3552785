"""ONNX's activation functions, by `activate` or jax.nn; narrow floats are rounded once."""

from collections.abc import Callable
from math import floor
from typing import Any

import jax
import jax.numpy as jnp

from ..core.structs.activation import Activation
from ..errors import ConstraintError
from ..operations.softmax import compute_along, hardmax, log_softmax, softmax
from ..operations.values.accumulation_types import wide_type
from ..operations.values.elementary_functions import gelu, mish, tanh_gelu
from ..operators import activate
from .layout import axis_of, flattened_sizes
from .values import Array, Operators, float_for, on_device


def activation(operator_type: str, *parameters: str) -> Callable[..., jax.Array]:
    """Returns the function of a node that DirectML's activation computes, with these attributes as parameters."""

    def activated(**keywords: Any) -> jax.Array:
        numbers = tuple(float(keywords.pop(name)) for name in parameters)
        (x,) = keywords.values()
        return activate(on_device(x), Activation(f"ACTIVATION_{operator_type}", numbers))

    return activated


def _round_once(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Returns the function with its array computed in float32 or wider, and rounded once."""

    def rounded(**keywords: Any) -> jax.Array:
        *_, name = keywords  # the input comes after the attributes
        x = on_device(keywords.pop(name))
        return function(x.astype(wide_type(x.dtype)), **keywords).astype(x.dtype)

    return rounded


def _shrink(*, input: Array, bias: float, lambd: float) -> jax.Array:
    """Shrink; integers stay exact unless `bias` has a fraction: then they are computed as floats and truncated."""
    x = on_device(input)
    if jnp.issubdtype(x.dtype, jnp.floating):
        return activate(x, Activation("ACTIVATION_SHRINK", (bias, lambd)))
    numbers = x.astype(float_for(x.dtype)) if bias % 1 else x
    return activate(numbers, Activation("ACTIVATION_SHRINK", (bias, float(floor(lambd))))).astype(x.dtype)


def _gelu(x: jax.Array, approximate: str) -> jax.Array:
    if approximate not in ("none", "tanh"):
        raise ConstraintError(f"approximate must be none or tanh, but it is {approximate!r}")
    return tanh_gelu(x) if approximate == "tanh" else gelu(x)


def _along(function: Callable[[jax.Array, tuple[int, ...]], jax.Array]) -> Callable[..., jax.Array]:
    """Returns the function of a node that works along one axis."""

    def along(*, axis: int, **arrays: Any) -> jax.Array:
        (x,) = map(on_device, arrays.values())
        at = axis_of("axis", axis, x.ndim)
        return compute_along(lambda x: function(x, (at,)), x, (at,))

    return along


def _from(function: Callable[[jax.Array, tuple[int, ...]], jax.Array]) -> Callable[..., jax.Array]:
    """Returns the function of opsets before 13, which flattens the axes from `axis` on into one."""

    def flattened(*, axis: int, **arrays: Any) -> jax.Array:
        (x,) = map(on_device, arrays.values())
        rows = x.reshape(flattened_sizes(x.shape, axis))
        return compute_along(lambda x: function(x, (1,)), rows, (1,)).reshape(x.shape)

    return flattened


OPERATORS: Operators = {
    "Celu": {12: activation("CELU", "alpha")},
    "Elu": {1: activation("ELU", "alpha")},
    "Gelu": {20: _round_once(_gelu)},
    "HardSigmoid": {1: activation("HARD_SIGMOID", "alpha", "beta")},
    "HardSwish": {14: activation("HARD_SWISH")},
    "Hardmax": {1: _from(hardmax), 13: _along(hardmax)},
    "LeakyRelu": {1: activation("LEAKY_RELU", "alpha")},
    "LogSoftmax": {1: _from(log_softmax), 13: _along(log_softmax)},
    "Mish": {18: _round_once(mish)},
    "Relu": {1: activation("RELU")},
    "Selu": {1: activation("SCALED_ELU", "alpha", "gamma")},
    "Shrink": {9: _shrink},
    "Sigmoid": {1: activation("SIGMOID")},
    "Softmax": {1: _from(softmax), 13: _along(softmax)},
    "Softplus": {1: activation("SOFTPLUS")},
    "Softsign": {1: activation("SOFTSIGN")},
    "Swish": {24: activation("SWISH", "alpha")},
    "Tanh": {1: activation("TANH")},
    "ThresholdedRelu": {10: activation("THRESHOLDED_RELU", "alpha")},
}
