"""DIAGONAL_MATRIX: one number on a diagonal of zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import DType, OutSharding, Value
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom, each_at_least, numbers, representable
from ..core.sharding import dims_of_sizes
from ..core.structs.feature_level_tables import ALL_TYPES, FLOATS, RANK_4, UP_TO_32_BITS, levels
from ..core.structs.fields import INT, Float, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.scalar import truncated
from ._diagonal_formulas import filled

__all__ = ["DiagonalMatrixDesc", "diagonal_matrix"]


def _no_matrix(x: Operands) -> str | None:
    return None if len(x["sizes"]) >= 2 else f"there are {len(x['sizes'])}"


RULES = (
    numbers("dtype", with_zero=True),
    custom("matrix(sizes)", "{sizes} must hold at least two sizes", _no_matrix),
    each_at_least("sizes", 0),
    representable("sizes", lambda x: x["sizes"], "dtype"),
)


@operator(*RULES, dims=dims_of_sizes)
def diagonal_matrix(
    sizes: Sequence[int], dtype: DType, *, offset: int = 0, value: Value = 1, out_sharding: OutSharding = None
) -> jax.Array:
    """Makes matrices that hold one number on a diagonal and zeros elsewhere.

    output[..., y, x] = value if x - y == offset else 0

    Args:
      sizes: of the output, two or more; integers, at least 0. The last two are those of each matrix.
      dtype: of the output, with 0 among its numbers: an argument of numpy.dtype, such as jnp.bfloat16 or "uint8".
      offset: of the diagonal: 0 is the main one, positive ones are above it. One may lie outside of the matrix.
      value: a number that `dtype` holds, to which floats are rounded, or a traced scalar of `dtype`. Another one
        compiles nothing new.
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default every device of the mesh that
        jax.set_mesh has set has all of it.

    Returns:
      An array of `sizes` and `dtype`.

    Raises:
      ConstraintError: fewer than two sizes, a negative one, or too many elements.
      DataTypeError: a size or `offset` is no integer, `dtype` does not hold `value`, has no 0, is no type that JAX
        has, or has 64 bits while x64 is off.

    Example:
      >>> import dml_jax
      >>> print(dml_jax.diagonal_matrix((3, 4), "int32", offset=1, value=7))
      [[0 7 0 0]
       [0 0 7 0]
       [0 0 0 7]]

    Source: DML_DIAGONAL_MATRIX_OPERATOR_DESC, whose tensors have 2 to 4 dimensions.
    """
    return filled(jnp.zeros(tuple(sizes), dtype), offset, offset + 1, value)


class DiagonalMatrixDesc(OperatorDesc):
    """DML_DIAGONAL_MATRIX_OPERATOR_DESC: one number on a diagonal of zeros.

    Args:
      output: 2 to 4 dimensions; the last two are those of each matrix.
      offset: of the diagonal: 0 is the main one, positive ones are above it.
      value: a float of 32 bits; of integers its whole part, or the nearest one that the type holds, and 0 for NaN.

    Example:
      >>> DiagonalMatrixDesc(TensorDesc("INT8", (2, 3)), offset=1, value=2.5).compute()
      Array([[0, 2, 0],
             [0, 0, 2]], dtype=int8)

    Source: DML_DIAGONAL_MATRIX_OPERATOR_DESC. It says nothing of numbers beyond an integer type.
    """

    output: Output
    offset: Annotated[int, INT]
    value: Float

    support = levels(
        ("5_1", range(2, 5), ALL_TYPES),
        ("4_0", range(2, 5), UP_TO_32_BITS),
        ("2_1", RANK_4, UP_TO_32_BITS),
        ("2_0", RANK_4, FLOATS),
        of="output",
    )
    constraints = ()

    def compute_checked(self) -> jax.Array:
        value = truncated(self.value, self.output.data_type)
        return diagonal_matrix(self.output.sizes, self.output.dtype, offset=self.offset, value=value)
