"""FILL_VALUE_CONSTANT: an array of one number."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from ..core.arguments.kinds import DType, OutSharding, Value
from ..core.arguments.operator import operator
from ..core.rules import each_at_least, representable
from ..core.sharding import dims_of_sizes
from ..core.structs.feature_level_tables import ALL_TYPES, RANK_4, RANKS_1_TO_8, UP_TO_32_BITS, levels
from ..core.structs.fields import Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.scalar import Scalar, ScalarType, scalar_of
from ..core.structs.struct_rules import held, type_of
from ..operations.fill import fill_with

__all__ = ["FillValueConstantDesc", "fill_value_constant"]

RULES = (each_at_least("sizes", 0), representable("sizes", lambda x: x["sizes"], "dtype"))


@operator(*RULES, dims=dims_of_sizes)
def fill_value_constant(
    sizes: Sequence[int], value: Value, dtype: DType, *, out_sharding: OutSharding = None
) -> jax.Array:
    """Makes an array that holds one number everywhere.

    output[c] = value

    Args:
      sizes: of the output; integers, at least 0.
      value: a number that `dtype` holds, to which floats are rounded, or a traced scalar of `dtype`. Another one
        compiles nothing new.
      dtype: of the output: an argument of numpy.dtype, such as jnp.bfloat16 or "uint8".
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default every device of the mesh that
        jax.set_mesh has set has all of it.

    Returns:
      An array of `sizes` and `dtype`.

    Raises:
      ConstraintError: a negative size, or too many elements.
      DataTypeError: a size is not an integer, `dtype` does not hold `value`, is no type that JAX has, or has 64 bits
        while x64 is off.

    Example:
      >>> import dml_jax
      >>> print(dml_jax.fill_value_constant((2, 3), 7, "int32"))
      [[7 7 7]
       [7 7 7]]

    Source: DML_FILL_VALUE_CONSTANT_OPERATOR_DESC.
    """
    return fill_with(value, sizes)


class FillValueConstantDesc(OperatorDesc):
    """DML_FILL_VALUE_CONSTANT_OPERATOR_DESC: one number everywhere.

    Example:
      >>> FillValueConstantDesc(TensorDesc("FLOAT16", (3,)), "FLOAT16", 0.5).compute()
      Array([0.5, 0.5, 0.5], dtype=float16)
    """

    output: Output
    value_data_type: ScalarType
    value: Scalar

    support = levels(
        ("4_1", RANKS_1_TO_8, ALL_TYPES),
        ("4_0", RANKS_1_TO_8, UP_TO_32_BITS),
        ("2_1", RANK_4, UP_TO_32_BITS),
        of="output",
    )
    constraints = (type_of("value_data_type", "output"), held("value", "value_data_type"))

    def compute_checked(self) -> jax.Array:
        return fill_value_constant(self.output.sizes, scalar_of(self.value, self.value_data_type), self.output.dtype)
