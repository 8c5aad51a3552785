"""DirectML's activations, one a row: the formula, its parameters, and from which feature level on it can be fused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from ...operations.softmax import hardmax, log_softmax, softmax
from ...operations.values.accumulation_types import in_type
from ...operations.values.elementary_functions import expm1, gelu, sigmoid, soft_sign, softplus, tanh
from .fields import FLOAT, Field, counted_by
from .size_and_scale_bias import SCALE_BIAS, ScaleAndBias


@dataclass(frozen=True)
class Row:
    """One activation.

    Args:
      formula: takes an array and the parameters in its type; returns an array of that type. Its branches do not
        overflow where another one is chosen, because the derivative there would be NaN.
      parameters: DirectML's name of each, in DirectML's order, and the number that DirectMLX takes by default, if any.
      since: the first feature level at which an operator can be fused with it.
      hosts: the operators that can be fused with it; () for none, None for all that take activations.
      least: a parameter, the least number that it must be, and the feature level from which on it may be less.
      axes: the dimensions along which it combines elements, unless a parameter says them; () if it computes each
        element from one element.
      of_integers: whether it takes integers too; the parameters are then truncated.
    """

    formula: Callable[..., jax.Array]
    parameters: Mapping[str, float | None] = field(default_factory=dict)
    since: str = "1_0"
    hosts: tuple[str, ...] | None = None
    least: tuple[str, float, str] | None = None
    axes: tuple[int, ...] = ()
    of_integers: bool = False

    @property
    def fields(self) -> Mapping[str, Field]:
        """The kind of each parameter."""
        return {name: field_of(name) for name in self.parameters}

    @property
    def required(self) -> Set[str]:
        """The parameters that may not be None; some have a default."""
        return {name for name, kind in self.fields.items() if not kind.is_optional}


def field_of(parameter: str) -> Field:
    """The kind of a parameter, by its name in DirectML: FLOAT for most."""
    return _FIELDS.get(parameter, FLOAT)


# The kinds of the parameters that are no FLOAT.
_FIELDS = {"Axes": counted_by("AxisCount"), "ScaleBias": SCALE_BIAS}


def in_type_of(x: jax.Array, value: Any) -> Any:
    """Casts a float parameter to the dtype of x; returns axes, and scales with biases, as they are.

    For an integer dtype it is truncated and clamped; NaN becomes 0.
    """
    if not isinstance(value, float):
        return value
    if jnp.issubdtype(x.dtype, jnp.integer):
        limits = jnp.iinfo(x.dtype)
        return np.asarray(0 if value != value else int(min(max(value, limits.min), limits.max))).astype(x.dtype)
    return in_type(x.dtype, value)


def _exponential(x: jax.Array, scale: Any = 1) -> jax.Array:
    """expm1(min(x, 0) / scale), the negative branch of ELU: never overflows, and its slope at 0 is of that branch."""
    return expm1(jnp.where(x > 0, 0, x) / scale)


def _shrink(x: jax.Array, bias: Any, threshold: Any) -> jax.Array:
    below = in_type_of(x, -float(threshold))  # not -threshold, which wraps in unsigned integers
    return jnp.where(x > threshold, x - bias, jnp.where(x < below, x + bias, 0))


def _hard_sigmoid(x: jax.Array, slope: Any, shift: Any) -> jax.Array:
    return lax.clamp(in_type_of(x, 0.0), slope * x + shift, in_type_of(x, 1.0))


def _scale_and_clip(x: jax.Array, scale_bias: ScaleAndBias | None, least: Any, most: Any) -> jax.Array:
    scaled = x if scale_bias is None else x * in_type_of(x, scale_bias.scale) + in_type_of(x, scale_bias.bias)
    return lax.clamp(least, scaled, most)


ACTIVATIONS: Mapping[str, Row] = {
    "ACTIVATION_CELU": Row(lambda x, a: jnp.where(x >= 0, x, a * _exponential(x, a)), {"Alpha": 1}, since="3_0"),
    "ACTIVATION_ELU": Row(lambda x, a: jnp.where(x >= 0, x, a * _exponential(x)), {"Alpha": 1}),
    "ACTIVATION_GELU": Row(gelu, since="5_1"),
    "ACTIVATION_HARDMAX": Row(lambda x: hardmax(x, (-1,)), hosts=(), axes=(-1,)),
    "ACTIVATION_HARDMAX1": Row(hardmax, {"Axes": None}, hosts=()),
    "ACTIVATION_HARD_SIGMOID": Row(_hard_sigmoid, {"Alpha": 0.2, "Beta": 0.5}),
    "ACTIVATION_HARD_SWISH": Row(lambda x, a, b: x * _hard_sigmoid(x, a, b), {"Alpha": 1 / 6, "Beta": 0.5}, hosts=()),
    "ACTIVATION_IDENTITY": Row(lambda x: x),
    "ACTIVATION_LEAKY_RELU": Row(lambda x, a: jnp.where(x >= 0, x, a * x), {"Alpha": 0.01}),
    "ACTIVATION_LINEAR": Row(lambda x, a, b: a * x + b, {"Alpha": None, "Beta": None}),
    "ACTIVATION_LOG_SOFTMAX": Row(lambda x: log_softmax(x, (-1,)), hosts=(), axes=(-1,)),
    "ACTIVATION_LOG_SOFTMAX1": Row(log_softmax, {"Axes": None}, hosts=()),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": Row(lambda x, a, b: a * softplus(b * x), {"Alpha": None, "Beta": None}),
    "ACTIVATION_RELU": Row(nn.relu, of_integers=True),
    "ACTIVATION_SCALED_ELU": Row(
        lambda x, a, g: jnp.where(x > 0, g * x, g * a * _exponential(x)),
        {"Alpha": 1.67326319217681884765625, "Gamma": 1.05070102214813232421875},
    ),
    "ACTIVATION_SCALED_TANH": Row(lambda x, a, b: a * tanh(b * x), {"Alpha": 1, "Beta": 0.5}),
    "ACTIVATION_SHRINK": Row(_shrink, {"Bias": 0, "Threshold": 0.5}, since="2_0", of_integers=True),
    "ACTIVATION_SIGMOID": Row(sigmoid),
    "ACTIVATION_SOFTMAX": Row(lambda x: softmax(x, (-1,)), since="6_1", hosts=("GEMM",), axes=(-1,)),
    "ACTIVATION_SOFTMAX1": Row(softmax, {"Axes": None}, since="6_1", hosts=("GEMM",)),
    "ACTIVATION_SOFTPLUS": Row(lambda x, s: softplus(s * x) / s, {"Steepness": 1}, least=("Steepness", 1, "6_4")),
    "ACTIVATION_SOFTSIGN": Row(soft_sign),
    "ACTIVATION_SWISH": Row(lambda x, s: x * sigmoid(s * x), {"SigmoidInputScale": 1}, hosts=()),
    "ACTIVATION_TANH": Row(tanh),
    "ACTIVATION_THRESHOLDED_RELU": Row(lambda x, a: jnp.where(x > a, x, 0), {"Alpha": 1}),
    "ELEMENT_WISE_CLIP": Row(
        _scale_and_clip, {"ScaleBias": None, "Min": None, "Max": None}, since="6_0", hosts=("CONVOLUTION", "GEMM")
    ),
}
