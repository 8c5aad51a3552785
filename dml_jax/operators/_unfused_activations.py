"""The ACTIVATION operators that no operator is fused with: log softmax, hardmax, and swish."""

from __future__ import annotations

from ..core.rules import same_sizes
from ..core.structs.fields import Axes, Float, Input, Output  # noqa: F401  # annotations of the base name them
from ._activation_structs import AXES, EFFECTIVE_RANK, ActivationDesc, since

__all__ = [
    "ActivationHardSwishDesc",
    "ActivationHardmax1Desc",
    "ActivationHardmaxDesc",
    "ActivationLogSoftmax1Desc",
    "ActivationLogSoftmaxDesc",
    "ActivationSwishDesc",
]


class ActivationHardmaxDesc(ActivationDesc):
    """DML_ACTIVATION_HARDMAX_OPERATOR_DESC: 1 for the first maximum along the last dimension, 0 for the others."""

    in_jax = "jax.nn.one_hot(jax.numpy.argmax(x, -1), x.shape[-1])"
    in_place = False
    constraints = (same_sizes("output", "input"), EFFECTIVE_RANK)


class ActivationHardmax1Desc(ActivationDesc):
    """DML_ACTIVATION_HARDMAX1_OPERATOR_DESC: 1 for the first maximum along the dimensions axes, 0 for the others."""

    axes: Axes

    in_jax = "jax.nn.one_hot(jax.numpy.argmax(x, axis), x.shape[axis], axis=axis)"
    in_place = False
    support = since("5_1")
    constraints = (same_sizes("output", "input"), AXES)


class ActivationHardSwishDesc(ActivationDesc):
    """DML_ACTIVATION_HARD_SWISH_OPERATOR_DESC: x * max(0, min(alpha * x + beta, 1))."""

    alpha: Float
    beta: Float

    in_jax = "jax.nn.hard_swish"
    support = since("6_2")


class ActivationLogSoftmaxDesc(ActivationDesc):
    """DML_ACTIVATION_LOG_SOFTMAX_OPERATOR_DESC: x - ln(the sum of exp(x) along the last dimension)."""

    in_jax = "jax.nn.log_softmax"
    in_place = False
    constraints = (same_sizes("output", "input"), EFFECTIVE_RANK)


class ActivationLogSoftmax1Desc(ActivationDesc):
    """DML_ACTIVATION_LOG_SOFTMAX1_OPERATOR_DESC: x - ln(the sum of exp(x) along the dimensions axes)."""

    axes: Axes

    in_jax = "jax.nn.log_softmax"
    in_place = False
    support = since("5_1")
    constraints = (same_sizes("output", "input"), AXES)


class ActivationSwishDesc(ActivationDesc):
    """DML_ACTIVATION_SWISH_OPERATOR_DESC: x / (1 + exp(-sigmoid_input_scale * x))."""

    sigmoid_input_scale: Float

    in_jax = "jax.nn.swish"
    support = since("6_2")
