"""BATCH_NORMALIZATION with a given mean and variance, and BATCH_NORMALIZATION_TRAINING with those of the input."""

from __future__ import annotations

import jax

from ..core.rules import Operands, Rule, custom, if_given, same_sizes
from ..core.structs.activation_fusion import Fused
from ..core.structs.feature_level_tables import FLOATS, RANK_4, RANKS_1_TO_8, levels
from ..core.structs.fields import Bool, Input, OptionalInput, Output
from ..core.structs.operator_desc import OperatorDesc, SeveralOutputs
from ..core.structs.struct_rules import broadcast_to
from ..operations.values.accumulation_types import narrow_apart
from ._normalization_formulas import Epsilon, axes_of, moments, normalize, widened

__all__ = ["BatchNormalizationDesc", "BatchNormalizationTrainingDesc"]


def _per_element(tensor: str) -> Rule:
    """Below 4_0, Spatial FALSE means a number for each element of a picture."""

    def broken_by(x: Operands) -> str | None:
        sizes, wanted = x[tensor].sizes[-2:], x["input"].sizes[-2:]
        return None if x["spatial"] or sizes == wanted else f"they are {sizes} and {wanted}"

    sizes = f"the last two of {{{tensor}}}.{{sizes}} must be those of {{input}}"
    text = f"{sizes} where {{spatial}} is False, below feature level 4_0"
    return custom(f"per_element({tensor})", text, broken_by)


class BatchNormalizationDesc(OperatorDesc):
    """DML_BATCH_NORMALIZATION_OPERATOR_DESC: subtracts a mean, divides by a deviation, scales, and adds a bias.

    Args:
      mean: of each dimension 1 or the size of `input`.
      variance: as `mean`, with sizes of its own.
      scale: as `mean`.
      bias: as `mean`.
      spatial: without effect; below feature level 4_0, False asks for the last two sizes of `input` in `mean` and
        `variance`.

    Example:
      >>> row, number = TensorDesc("FLOAT32", (3,)), TensorDesc("FLOAT32", (1,))
      >>> desc = BatchNormalizationDesc(
      ...     row, number, number, scale=row, bias=number, output=row, spatial=True, epsilon=0.5
      ... )
      >>> mean, variance, scale, bias = np.float32([2]), np.float32([3.5]), np.float32([2, 4, 6]), np.float32([1])
      >>> print(desc.compute(np.float32([1, 2, 6]), mean, variance, scale, bias))
      [ 0.  1. 13.]
    """

    input: Input
    mean: Input
    variance: Input
    scale: Input
    bias: Input
    output: Output
    spatial: Bool
    epsilon: Epsilon
    fused_activation: Fused = None

    in_jax = "jax.nn.standardize(input, None, mean, variance, epsilon) * scale + bias"
    support = levels(("3_1", RANKS_1_TO_8, FLOATS), ("1_0", RANK_4, FLOATS))
    constraints = (
        *(broadcast_to(name, "input") for name in ("mean", "variance", "scale", "bias")),
        same_sizes("output", "input"),
    )
    lifted = (("4_0", _per_element("mean")), ("4_0", _per_element("variance")))

    def compute_checked(
        self, input: jax.Array, mean: jax.Array, variance: jax.Array, scale: jax.Array, bias: jax.Array
    ) -> jax.Array:
        numbers = (mean, variance, scale, bias)
        return normalize(input, *numbers, epsilon=self.epsilon, activation=self.fused_activation)


class BatchNormalizationTrainingDesc(SeveralOutputs):
    """DML_BATCH_NORMALIZATION_TRAINING_OPERATOR_DESC: BATCH_NORMALIZATION by the mean and the variance of the input.

    Args:
      scale: of each dimension 1 or the size of `input`; the mean and the variance are along the dimensions of 1.
      fused_add: the sizes of `input`, or None; it is added before the activation.

    Example:
      >>> row, number = TensorDesc("FLOAT32", (4,)), TensorDesc("FLOAT32", (1,))
      >>> desc = BatchNormalizationTrainingDesc(row, number, number, None, row, number, number, epsilon=0.5)
      >>> for output in desc.compute(np.float32([1, 2, 3, 6]), np.float32([2]), np.float32([1])):
      ...     print(output)
      [-1.  0.  1.  4.]
      [3.]
      [3.5]

    Source: DML_BATCH_NORMALIZATION_TRAINING_OPERATOR_DESC. Its page does not say that the variance is divided by the
      number of elements, as it is in ONNX.
    """

    input: Input
    scale: Input
    bias: Input
    fused_add: OptionalInput
    output: Output
    output_mean: Output
    output_variance: Output
    epsilon: Epsilon
    fused_activation: Fused = None

    in_jax = "jax.nn.standardize(input, axes, epsilon=epsilon) * scale + bias + fused_add"
    support = levels(("4_1", RANKS_1_TO_8, FLOATS))
    constraints = (
        broadcast_to("scale", "input"),
        same_sizes("bias", "scale"),
        if_given("fused_add", same_sizes("fused_add", "input")),
        same_sizes("output", "input"),
        same_sizes("output_mean", "scale"),
        same_sizes("output_variance", "scale"),
    )

    def compute_checked(
        self, input: jax.Array, scale: jax.Array, bias: jax.Array, fused_add: jax.Array | None
    ) -> tuple[jax.Array, ...]:
        (wide,) = widened(input)
        y, mean, variance = moments(wide, axes_of(scale))
        numbers = (None, variance, scale, bias, fused_add)
        y = normalize(y, *numbers, epsilon=self.epsilon, activation=self.fused_activation)
        return tuple(narrow_apart(array, input.dtype) for array in (y, mean, variance))
