"""ADAM_OPTIMIZER: a step of the Adam algorithm, which moves parameters against the mean of their gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..core.rules import Operands, Rule, custom, same_sizes
from ..core.structs.feature_level_tables import FLOATS, RANK_4, RANKS_1_TO_8, Support
from ..core.structs.fields import Float, Input, Output
from ..core.structs.operator_desc import SeveralOutputs
from ..core.tensors.data_type import DataType
from ..operations.values.accumulation_types import in_type, narrow_apart
from ._normalization_formulas import widened

__all__ = ["AdamOptimizerDesc"]

ALIKE = (
    "input_first_moment",
    "input_second_moment",
    "gradient",
    "output_parameters",
    "output_first_moment",
    "output_second_moment",
)


def _several_steps(x: Operands) -> str | None:
    sizes = x["training_step"].sizes
    return f"they are {sizes}" if any(n != 1 for n in sizes) else None


def _within_1(name: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        return None if 0 <= x[name] <= 1 else f"it is {x[name]}"

    return custom(f"in_range({name})", f"{{{name}}} must be in [0, 1]", broken_by)


def _correction(rate: np.floating, step: jax.Array) -> jax.Array:
    """Returns 1 - rate ** step, without subtracting a number near 1."""
    with np.errstate(divide="ignore"):
        exponent = np.log(np.float64(rate)).astype(step.dtype)
    return -jnp.expm1(step * exponent)


class AdamOptimizerDesc(SeveralOutputs):
    """DML_ADAM_OPTIMIZER_OPERATOR_DESC: a step of the Adam algorithm, for parameters and both of their moments.

    Each output may be bound to the buffer of an input that is described alike.

    Args:
      input_first_moment: the sizes of `input_parameters`; zeros before the first step.
      input_second_moment: as `input_first_moment`.
      training_step: the step, counted from 1; UINT32, one element.
      output_first_moment: the same: beta1 of the old one, and 1 - beta1 of the gradient.
      output_second_moment: the same: beta2 of the old one, and 1 - beta2 of the square of the gradient.
      learning_rate: how far a parameter moves where all gradients were the same.
      beta1: a number in [0, 1].
      beta2: a number in [0, 1].
      epsilon: a number that is added to the root of the second moment.

    Example:
      >>> numbers, step = TensorDesc("FLOAT32", (2,)), TensorDesc("UINT32", (1,))
      >>> desc = AdamOptimizerDesc(
      ...     *[numbers] * 4, step, *[numbers] * 3, learning_rate=0.5, beta1=0.5, beta2=0.75, epsilon=0
      ... )
      >>> x, zeros, gradient = np.float32([1, 1]), np.zeros(2, np.float32), np.float32([2, -4])
      >>> for output in desc.compute(x, zeros, zeros, gradient, np.uint32([1])):
      ...     print(output.round(4))
      [0.5 1.5]
      [ 1. -2.]
      [1. 4.]

    Source: DML_ADAM_OPTIMIZER_OPERATOR_DESC. Its table says that the step has the type of the parameters, its text that
      it is UINT32.
    """

    input_parameters: Input
    input_first_moment: Input
    input_second_moment: Input
    gradient: Input
    training_step: Input
    output_parameters: Output
    output_first_moment: Output
    output_second_moment: Output
    learning_rate: Float
    beta1: Float
    beta2: Float
    epsilon: Float

    in_jax = "jax.numpy.sqrt, products and sums"
    in_place = True
    other_types = ("training_step",)
    support = tuple(
        Support.of(level, ranks, input_parameters=FLOATS, training_step=(DataType.UINT32,))
        for level, ranks in (("4_0", RANKS_1_TO_8), ("3_0", RANK_4))
    )
    constraints = (
        *(same_sizes(name, "input_parameters") for name in ALIKE),
        custom("single(training_step)", "all {training_step}.{sizes} must be 1", _several_steps),
        _within_1("beta1"),
        _within_1("beta2"),
    )

    def compute_checked(
        self,
        input_parameters: jax.Array,
        input_first_moment: jax.Array,
        input_second_moment: jax.Array,
        gradient: jax.Array,
        training_step: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """The numbers of the struct are FLOAT: 1 - Beta2 is computed of Beta2 in float32."""
        arrays = (input_parameters, input_first_moment, input_second_moment, gradient)
        x, first, second, change = widened(*arrays)
        numbers = (self.learning_rate, self.beta1, self.beta2, self.epsilon)
        rate, beta1, beta2, epsilon = in_type(x.dtype, numbers)
        first = beta1 * first + (1 - beta1) * change
        second = beta2 * second + (1 - beta2) * (change * change)
        step = training_step.astype(x.dtype)
        correction = jnp.sqrt(_correction(beta2, step)) / _correction(beta1, step)
        x = x - rate * correction * first / (jnp.sqrt(second) + epsilon)
        return tuple(narrow_apart(array, input_parameters.dtype) for array in (x, first, second))
