"""The ACTIVATION operators: activations of elements, such as ReLU, or along dimensions, such as softmax."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import at_least
from ..core.structs.activation_fusion import Fusion, axes_within, computed_by
from ..core.structs.feature_level_tables import FLOATS, RANKS_1_TO_8, SIGNED_UP_TO_32_BITS, UP_TO_32_BITS
from ..core.structs.fields import Float
from ._activation_structs import ActivationDesc, AlongAxesDesc, AlongLastDesc, activated, since
from ._elementwise_sharding import elementwise

__all__ = [
    "ActivationCeluDesc",
    "ActivationEluDesc",
    "ActivationGeluDesc",
    "ActivationHardSigmoidDesc",
    "ActivationIdentityDesc",
    "ActivationLeakyReluDesc",
    "ActivationLinearDesc",
    "ActivationParametricSoftplusDesc",
    "ActivationReluDesc",
    "ActivationScaledEluDesc",
    "ActivationScaledTanhDesc",
    "ActivationShrinkDesc",
    "ActivationSigmoidDesc",
    "ActivationSoftmax1Desc",
    "ActivationSoftmaxDesc",
    "ActivationSoftplusDesc",
    "ActivationSoftsignDesc",
    "ActivationTanhDesc",
    "ActivationThresholdedReluDesc",
    "activate",
]

RULES = (computed_by("activation", "input"), axes_within("activation", "input"))


@operator(*RULES, dims=lambda x: elementwise(x, "input"))
def activate(input: Data, activation: Fusion, *, out_sharding: OutSharding = None) -> jax.Array:
    """Applies an activation, such as ReLU or softmax.

    output[c] = activation(input[c]), or of all elements along its dimensions

    Floats of 8 and 16 bits are computed in float32 and rounded once.

    Args:
      input: any rank, floats of any width; integers where the activation takes them, whose parameters are truncated.
      activation: an `Activation`: its DirectML name, and its numbers.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.
        Where a softmax runs along a dimension that is sharded it must be given.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      ConstraintError: `input` lacks a dimension that the activation runs along.
      DataTypeError: the activation is not of this dtype, `activation` is not an `Activation`, or 64-bit numbers while
        x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> from dml_jax import Activation
      >>> print(dml_jax.activate(np.float32([-2, 0, 4]), Activation("ACTIVATION_LEAKY_RELU", (0.5,))))
      [-1.  0.  4.]
      >>> print(dml_jax.activate(np.zeros(4, np.float32), Activation("ACTIVATION_SOFTMAX")))
      [0.25 0.25 0.25 0.25]

    Source: the structs from DML_ACTIVATION_CELU_OPERATOR_DESC to DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC.
    """
    return activated(activation, jnp.asarray(input))


# The structs.


class ActivationCeluDesc(ActivationDesc):
    """DML_ACTIVATION_CELU_OPERATOR_DESC: max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    alpha: Float

    support = since("3_0")


class ActivationEluDesc(ActivationDesc):
    """DML_ACTIVATION_ELU_OPERATOR_DESC: x where x >= 0, alpha * (exp(x) - 1) elsewhere."""

    alpha: Float


class ActivationGeluDesc(ActivationDesc):
    """DML_ACTIVATION_GELU_OPERATOR_DESC: x / 2 * (1 + erf(x / sqrt(2)))."""

    support = since("5_1")


class ActivationHardSigmoidDesc(ActivationDesc):
    """DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC: max(0, min(alpha * x + beta, 1))."""

    alpha: Float
    beta: Float


class ActivationIdentityDesc(ActivationDesc):
    """DML_ACTIVATION_IDENTITY_OPERATOR_DESC: x."""


class ActivationLeakyReluDesc(ActivationDesc):
    """DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC: x where x >= 0, alpha * x elsewhere."""

    alpha: Float


class ActivationLinearDesc(ActivationDesc):
    """DML_ACTIVATION_LINEAR_OPERATOR_DESC: alpha * x + beta."""

    alpha: Float
    beta: Float


class ActivationParametricSoftplusDesc(ActivationDesc):
    """DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC: alpha * ln(1 + exp(beta * x))."""

    alpha: Float
    beta: Float


class ActivationReluDesc(ActivationDesc):
    """DML_ACTIVATION_RELU_OPERATOR_DESC: max(0, x)."""

    support = since("1_0", ("5_1", RANKS_1_TO_8, (*FLOATS, *SIGNED_UP_TO_32_BITS)))


class ActivationScaledEluDesc(ActivationDesc):
    """DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC: gamma * x where x > 0, gamma * alpha * (exp(x) - 1) elsewhere."""

    alpha: Float
    gamma: Float


class ActivationScaledTanhDesc(ActivationDesc):
    """DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC: alpha * tanh(beta * x)."""

    alpha: Float
    beta: Float


class ActivationShrinkDesc(ActivationDesc):
    """DML_ACTIVATION_SHRINK_OPERATOR_DESC: x - bias where x > threshold, x + bias where x < -threshold, 0 elsewhere."""

    bias: Float
    threshold: Float

    support = since("2_0", ("5_1", RANKS_1_TO_8, UP_TO_32_BITS))


class ActivationSigmoidDesc(ActivationDesc):
    """DML_ACTIVATION_SIGMOID_OPERATOR_DESC: 1 / (1 + exp(-x))."""


class ActivationSoftmaxDesc(AlongLastDesc):
    """DML_ACTIVATION_SOFTMAX_OPERATOR_DESC: exp(x) / the sum of exp(x) along the last dimension."""


class ActivationSoftmax1Desc(AlongAxesDesc):
    """DML_ACTIVATION_SOFTMAX1_OPERATOR_DESC: exp(x) / the sum of exp(x) along the dimensions axes."""


class ActivationSoftplusDesc(ActivationDesc):
    """DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC: ln(1 + exp(steepness * x)) / steepness."""

    steepness: Float

    lifted = (("6_4", at_least("steepness", 1)),)


class ActivationSoftsignDesc(ActivationDesc):
    """DML_ACTIVATION_SOFTSIGN_OPERATOR_DESC: x / (1 + abs(x))."""


class ActivationTanhDesc(ActivationDesc):
    """DML_ACTIVATION_TANH_OPERATOR_DESC: tanh(x)."""


class ActivationThresholdedReluDesc(ActivationDesc):
    """DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC: x where x > alpha, 0 elsewhere."""

    alpha: Float
