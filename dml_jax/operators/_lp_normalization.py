"""LP_NORMALIZATION: elements divided by their norm along a dimension."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.rules import Operands, custom, same_sizes
from ..core.structs.activation_table import in_type_of
from ..core.structs.feature_level_tables import FLOATS, RANK_4, RANKS_1_TO_8, levels
from ..core.structs.fields import Float, Input, Output, UInt
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import below_rank
from ..operations.sum_prod_norm import total
from ..operations.values.accumulation_types import narrow_apart
from ..operations.values.elementary_functions import divide
from ._normalization_formulas import widened

__all__ = ["LpNormalizationDesc", "divide_by_norm"]


def divide_by_norm(x: jax.Array, axis: int, p: int, least: float = 0.0) -> jax.Array:
    """Divides by the norm of order 1 or 2 along an axis, or by `least` where that is greater; zeros stay zeros."""
    (wide,) = widened(x)
    norm = jnp.maximum(total(wide, (axis,), f"l{p}"), in_type_of(wide, least))
    return narrow_apart(divide(wide, jnp.where(norm == 0, 1, norm)), x.dtype)


def _other_order(x: Operands) -> str | None:
    return None if x["p"] in (1, 2) else f"it is {x['p']}"


class LpNormalizationDesc(OperatorDesc):
    """DML_LP_NORMALIZATION_OPERATOR_DESC: divides elements by the norm of all that lie along a dimension.

    Args:
      axis: the dimension, in [0, DimensionCount).
      epsilon: the least divisor, in place of a smaller norm.
      p: the order of the norm: 1 for the sum of absolute values, 2 for the root of the sum of squares.

    Example:
      >>> matrix = TensorDesc("FLOAT32", (2, 2))
      >>> print(LpNormalizationDesc(matrix, matrix, axis=1, epsilon=1e-5, p=1).compute(np.float32([[1, 3], [0, 0]])))
      [[0.25 0.75]
       [0.   0.  ]]

    Source: DML_LP_NORMALIZATION_OPERATOR_DESC, whose page has no formula.
    """

    input: Input
    output: Output
    axis: UInt
    epsilon: Float
    p: UInt

    in_jax = "input / jax.numpy.linalg.norm(input, p, axis, keepdims=True)"
    support = levels(("3_1", RANKS_1_TO_8, FLOATS), ("1_0", RANK_4, FLOATS))
    constraints = (
        same_sizes("output", "input"),
        below_rank("axis", "input"),
        custom("one_of(p)", "{p} must be 1 or 2", _other_order),
    )

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return divide_by_norm(input, self.axis, self.p, float(self.epsilon))
