"""CUMULATIVE_SUMMATION: running totals along an axis."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.structs.enumerations import DirectionName, direction_of
from ..core.structs.fields import Bool
from ..operations.cumulative import SUMMATION, accumulate
from ._cumulative_rules import RULES, CumulativeDesc, dims_of, since

__all__ = ["CumulativeSummationDesc", "cumulative_summation"]


@operator(*RULES, dims=dims_of)
def cumulative_summation(
    input: Data,
    axis: int,
    *,
    direction: DirectionName = "increasing",
    exclusive: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Computes the running sums of `input` along `axis`: of all elements up to each one.

    output[k] = input[0] + ... + input[k] along the axis, or input[k] + ... + input[n-1] for direction="decreasing";
    exclusive leaves out input[k] itself.

    Args:
      input: rank >= 1, any dtype of numbers with 0 among them. The sum of bools is "or".
      axis: -rank <= axis < rank of `input`.
      direction: where to start, "increasing" at the first element and "decreasing" at the last one.
      exclusive: whether the sum ends before the element itself; the one that comes first is then 0.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the shape and dtype of `input`. Integers wrap. Floats of 8 and 16 bits are added in float32 and each
      sum is rounded once; in which order floats are added is left to the device.

    Raises:
      ConstraintError: a scalar, `axis` out of range, or an unknown `direction`.
      DataTypeError: `input` has no numbers, no 0, or 64-bit ones while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.int32([2, 1, 3, 5])
      >>> print(dml_jax.cumulative_summation(x, 0))
      [ 2  3  6 11]
      >>> print(dml_jax.cumulative_summation(x, 0, direction="decreasing", exclusive=True))
      [9 8 5 0]

    Source: DML_CUMULATIVE_SUMMATION_OPERATOR_DESC, which says nothing of the order of additions, of their width for
      FLOAT16, or of integers that overflow.
    """
    array, reverse = jnp.asarray(input), direction == "decreasing"
    return accumulate(SUMMATION, array, axis % array.ndim, reverse=reverse, exclusive=exclusive)


class CumulativeSummationDesc(CumulativeDesc):
    """DML_CUMULATIVE_SUMMATION_OPERATOR_DESC: adds up elements along `axis`, up to each one.

    The output may be bound to the buffer of `input` if both tensors are described alike.

    Args:
      has_exclusive_sum: whether each sum ends before the element itself.

    Example:
      >>> row = TensorDesc("INT32", (4,))
      >>> desc = CumulativeSummationDesc(row, row, axis=0, axis_direction="INCREASING", has_exclusive_sum=True)
      >>> desc.compute(np.int32([2, 1, 3, 5]))
      Array([0, 2, 3, 6], dtype=int32)
    """

    has_exclusive_sum: Bool

    support = since("2_1")

    def compute_checked(self, input: jax.Array) -> jax.Array:
        direction = direction_of(self.axis_direction)
        return cumulative_summation(input, self.axis, direction=direction, exclusive=self.has_exclusive_sum)
