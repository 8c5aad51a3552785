"""LOCAL_RESPONSE_NORMALIZATION_GRAD: the gradient of LOCAL_RESPONSE_NORMALIZATION."""

from __future__ import annotations

from functools import partial

import jax

from ..core.rules import at_least, same_sizes
from ..core.structs.feature_level_tables import FLOATS, RANK_4, levels
from ..core.structs.fields import Bool, Float, Input, Output, UInt
from ..core.structs.operator_desc import OperatorDesc
from ..operations.values.accumulation_types import narrow_apart
from ._local_response_normalization import local_response_normalization
from ._normalization_formulas import widened

__all__ = ["LocalResponseNormalizationGradDesc"]


class LocalResponseNormalizationGradDesc(OperatorDesc):
    """DML_LOCAL_RESPONSE_NORMALIZATION_GRAD_OPERATOR_DESC: the gradient of LOCAL_RESPONSE_NORMALIZATION.

    Args:
      input: (N, C, H, W), the input of LOCAL_RESPONSE_NORMALIZATION.
      input_gradient: the gradient of its output, of the same sizes.
      output_gradient: the gradient of `input`, of its sizes.
      cross_channel: whether the region of an element is of channels, or of rows and columns.
      local_size: elements of a region along each of its dimensions, at least 1.
      alpha: a number that the mean of squares is multiplied with.
      beta: the exponent.
      bias: a number that is added before.

    Example:
      >>> channels = TensorDesc("FLOAT32", (1, 2, 1, 1))
      >>> desc = LocalResponseNormalizationGradDesc(
      ...     channels, channels, channels, cross_channel=True, local_size=1, alpha=1, beta=1, bias=1
      ... )
      >>> x = np.float32([1, 3]).reshape(1, 2, 1, 1)
      >>> print(desc.compute(x, 25 * np.ones_like(x)).ravel())  # 25 * (1 - x ** 2) / (1 + x ** 2) ** 2
      [ 0. -2.]

    Source: DML_LOCAL_RESPONSE_NORMALIZATION_GRAD_OPERATOR_DESC. Its page changes round the meanings of CrossChannel in
      the description of LocalSize.
    """

    input: Input
    input_gradient: Input
    output_gradient: Output
    cross_channel: Bool
    local_size: UInt
    alpha: Float
    beta: Float
    bias: Float

    in_jax = "jax.vjp"
    support = levels(("3_1", RANK_4, FLOATS))
    constraints = (
        same_sizes("input_gradient", "input"),
        same_sizes("output_gradient", "input"),
        at_least("local_size", 1),
    )

    def compute_checked(self, input: jax.Array, input_gradient: jax.Array) -> jax.Array:
        """Computes the transpose of the derivative, in float32 as a whole: it is rounded once."""
        forward = partial(
            local_response_normalization,
            local_size=self.local_size,
            cross_channel=self.cross_channel,
            alpha=self.alpha,
            beta=self.beta,
            bias=self.bias,
        )
        wide, gradient = widened(input, input_gradient)
        (input_cotangent,) = jax.vjp(forward, wide)[1](gradient)
        return narrow_apart(input_cotangent, input.dtype)
