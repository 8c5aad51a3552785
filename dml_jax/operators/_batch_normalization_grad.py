"""BATCH_NORMALIZATION_GRAD and BATCH_NORMALIZATION_TRAINING_GRAD: gradients of the input, the scale and the bias."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import ClassVar

import jax
import jax.numpy as jnp

from ..core.rules import same_sizes
from ..core.structs.feature_level_tables import FLOATS, RANKS_1_TO_8, levels
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import SeveralOutputs
from ..core.structs.struct_rules import broadcast_to
from ..operations.values.accumulation_types import narrow_apart
from ._normalization_formulas import Epsilon, axes_of, inverse_deviation, widened

__all__ = ["BatchNormalizationGradDesc", "BatchNormalizationTrainingGradDesc"]

SIZES = (
    broadcast_to("mean", "input"),
    *(same_sizes(name, "input") for name in ("input_gradient", "output_gradient")),
    *(same_sizes(name, "mean") for name in ("variance", "scale", "output_scale_gradient", "output_bias_gradient")),
)


def _gradients(
    input: jax.Array,
    gradient: jax.Array,
    mean: jax.Array,
    variance: jax.Array,
    scale: jax.Array,
    *,
    epsilon: float,
    in_training: bool,
) -> tuple[jax.Array, ...]:
    """Returns the gradients of the input, the scale and the bias.

    In training, the mean and the variance follow from the input. Then that of the input has no part in common with
    a constant, which would move the mean, nor with the input, which would stretch the deviation.
    """
    dtype = input.dtype
    input, gradient, mean, variance, scale = widened(input, gradient, mean, variance, scale)
    axes = axes_of(mean)
    inverse = inverse_deviation(variance, epsilon)
    standardized = (input - mean) * inverse
    total = partial(jnp.sum, axis=axes, keepdims=True)
    of_scale, of_bias = total(gradient * standardized), total(gradient)
    if in_training:
        count = jnp.asarray(prod(input.shape[d] for d in axes), input.dtype)
        gradient = gradient - of_bias / count - standardized * (of_scale / count)
    return tuple(narrow_apart(array, dtype) for array in (gradient * (scale * inverse), of_scale, of_bias))


class _GradientsDesc(SeveralOutputs, is_base=True):
    """The base of both structs: all gradients of a normalization, whose mean and variance are constants or not.

    Args:
      output_gradient: the gradient of `input`, of its sizes.
    """

    input: Input
    input_gradient: Input
    mean: Input
    variance: Input
    scale: Input
    output_gradient: Output
    output_scale_gradient: Output
    output_bias_gradient: Output
    epsilon: Epsilon

    in_jax = "jax.vjp"
    constraints = SIZES
    in_training: ClassVar[bool]

    def compute_checked(
        self, input: jax.Array, input_gradient: jax.Array, mean: jax.Array, variance: jax.Array, scale: jax.Array
    ) -> tuple[jax.Array, ...]:
        arrays = (input, input_gradient, mean, variance, scale)
        return _gradients(*arrays, epsilon=self.epsilon, in_training=self.in_training)


class BatchNormalizationGradDesc(_GradientsDesc):
    """DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC: gradients of BATCH_NORMALIZATION, by a mean and a variance.

    Args:
      input_gradient: the gradient of the output of BATCH_NORMALIZATION, of the sizes of `input`.
      mean: of each dimension 1 or the size of `input`; along those of 1, gradients are added up.

    Example:
      >>> row, one = TensorDesc("FLOAT32", (2,)), TensorDesc("FLOAT32", (1,))
      >>> desc = BatchNormalizationGradDesc(row, row, one, one, one, row, one, one, epsilon=0.5)
      >>> numbers = [np.float32([n]) for n in (1, 3.5, 4)]  # the mean, the variance, the scale
      >>> for gradient in desc.compute(np.float32([1, 3]), np.float32([5, 6]), *numbers):
      ...     print(gradient)
      [10. 12.]
      [6.]
      [11.]
    """

    support = levels(("3_1", RANKS_1_TO_8, FLOATS))
    in_training = False


class BatchNormalizationTrainingGradDesc(_GradientsDesc):
    """DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC: gradients of BATCH_NORMALIZATION_TRAINING.

    Args:
      input_gradient: the gradient of the output of BATCH_NORMALIZATION_TRAINING, of the sizes of `input`.
      mean: that operator's mean; of each dimension 1 or the size of `input`.
      variance: that operator's variance, of the sizes of `mean`.

    Example:
      >>> row, one = TensorDesc("FLOAT32", (2,)), TensorDesc("FLOAT32", (1,))
      >>> desc = BatchNormalizationTrainingGradDesc(row, row, one, one, one, row, one, one, epsilon=3)
      >>> numbers = [np.float32([n]) for n in (2, 1, 4)]  # the mean, the variance, the scale
      >>> for gradient in desc.compute(np.float32([1, 3]), np.float32([4, 6]), *numbers):
      ...     print(gradient)
      [-1.5  1.5]
      [1.]
      [10.]

    Source: DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC, whose page defines InputCentered by itself; the
      input is meant.
    """

    support = levels(("4_1", RANKS_1_TO_8, FLOATS))
    in_training = True
