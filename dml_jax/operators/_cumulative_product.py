"""CUMULATIVE_PRODUCT: running products along an axis."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.structs.enumerations import DirectionName, direction_of
from ..core.structs.fields import Bool
from ..operations.cumulative import PRODUCT, accumulate
from ._cumulative_rules import RULES, CumulativeDesc, dims_of, since

__all__ = ["CumulativeProductDesc", "cumulative_product"]


@operator(*RULES, dims=dims_of)
def cumulative_product(
    input: Data,
    axis: int,
    *,
    direction: DirectionName = "increasing",
    exclusive: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Computes the running products of `input` along `axis`: of all elements up to each one.

    output[k] = input[0] * ... * input[k] along the axis, or input[k] * ... * input[n-1] for direction="decreasing";
    exclusive leaves out input[k] itself.

    Args:
      input: rank >= 1, any dtype of numbers with 0 among them. The product of bools is "and".
      axis: -rank <= axis < rank of `input`.
      direction: where to start, "increasing" at the first element and "decreasing" at the last one.
      exclusive: whether the product ends before the element itself; the one that comes first is then 1.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the shape and dtype of `input`. Integers wrap. Floats of 8 and 16 bits are multiplied in float32 and
      each product is rounded once; in which order floats are multiplied is left to the device.

    Raises:
      ConstraintError: a scalar, `axis` out of range, or an unknown `direction`.
      DataTypeError: `input` has no numbers, no 0, or 64-bit ones while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.int32([2, 1, 3, 5])
      >>> print(dml_jax.cumulative_product(x, 0))
      [ 2  2  6 30]
      >>> print(dml_jax.cumulative_product(x, 0, direction="decreasing", exclusive=True))
      [15 15  5  1]

    Source: DML_CUMULATIVE_PRODUCT_OPERATOR_DESC, which says nothing of the order of multiplications, of their
      width for FLOAT16, or of integers that overflow.
    """
    array, reverse = jnp.asarray(input), direction == "decreasing"
    return accumulate(PRODUCT, array, axis % array.ndim, reverse=reverse, exclusive=exclusive)


class CumulativeProductDesc(CumulativeDesc):
    """DML_CUMULATIVE_PRODUCT_OPERATOR_DESC: multiplies elements along `axis`, up to each one.

    The output may be bound to the buffer of `input` if both tensors are described alike.

    Args:
      has_exclusive_product: whether each product ends before the element itself.

    Example:
      >>> row = TensorDesc("INT32", (4,))
      >>> desc = CumulativeProductDesc(row, row, axis=0, axis_direction="INCREASING", has_exclusive_product=True)
      >>> desc.compute(np.int32([2, 1, 3, 5]))
      Array([1, 2, 2, 6], dtype=int32)
    """

    has_exclusive_product: Bool

    support = since("3_1")

    def compute_checked(self, input: jax.Array) -> jax.Array:
        direction = direction_of(self.axis_direction)
        return cumulative_product(input, self.axis, direction=direction, exclusive=self.has_exclusive_product)
