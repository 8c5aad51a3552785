"""The ACTIVATION operators that no operator is fused with: log softmax, hardmax, and swish."""

from __future__ import annotations

from ..core.structs.fields import Float
from ._activation_structs import ActivationDesc, AlongAxesDesc, AlongLastDesc, since

__all__ = [
    "ActivationHardSwishDesc",
    "ActivationHardmax1Desc",
    "ActivationHardmaxDesc",
    "ActivationLogSoftmax1Desc",
    "ActivationLogSoftmaxDesc",
    "ActivationSwishDesc",
]


class ActivationHardmaxDesc(AlongLastDesc):
    """DML_ACTIVATION_HARDMAX_OPERATOR_DESC: 1 for the first maximum along the last dimension, 0 for the others."""

    in_jax = "jax.nn.one_hot(jax.numpy.argmax(x, -1), x.shape[-1])"


class ActivationHardmax1Desc(AlongAxesDesc):
    """DML_ACTIVATION_HARDMAX1_OPERATOR_DESC: 1 for the first maximum along the dimensions axes, 0 for the others."""

    in_jax = "jax.nn.one_hot(jax.numpy.argmax(x, axis), x.shape[axis], axis=axis)"


class ActivationHardSwishDesc(ActivationDesc):
    """DML_ACTIVATION_HARD_SWISH_OPERATOR_DESC: x * max(0, min(alpha * x + beta, 1))."""

    alpha: Float
    beta: Float

    in_jax = "jax.nn.hard_swish"
    support = since("6_2")


class ActivationLogSoftmaxDesc(AlongLastDesc):
    """DML_ACTIVATION_LOG_SOFTMAX_OPERATOR_DESC: x - ln(the sum of exp(x) along the last dimension)."""

    in_jax = "jax.nn.log_softmax"


class ActivationLogSoftmax1Desc(AlongAxesDesc):
    """DML_ACTIVATION_LOG_SOFTMAX1_OPERATOR_DESC: x - ln(the sum of exp(x) along the dimensions axes)."""

    in_jax = "jax.nn.log_softmax"


class ActivationSwishDesc(ActivationDesc):
    """DML_ACTIVATION_SWISH_OPERATOR_DESC: x / (1 + exp(-sigmoid_input_scale * x))."""

    sigmoid_input_scale: Float

    in_jax = "jax.nn.swish"
    support = since("6_2")
