"""DIAGONAL_MATRIX1: writes one number to some diagonals of matrices."""

from __future__ import annotations

from typing import Annotated

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, Number, OutSharding, number_of
from ..core.arguments.operator import operator
from ..core.rules import minimum_rank, sizes_follow
from ..core.sharding import dims_of_input
from ..core.structs.feature_level_tables import ALL_TYPES, levels
from ..core.structs.fields import INT, OptionalInput, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.scalar import Scalar, ScalarType, scalar_of
from ..core.structs.struct_rules import held, type_of
from ._diagonal_formulas import filled

__all__ = ["DiagonalMatrix1Desc", "fill_diagonals"]

Value = Annotated[Number, number_of("input")]
RULES = (minimum_rank("input", 2),)


@operator(*RULES, dims=dims_of_input)
def fill_diagonals(input: Data, *, begin: int, end: int, value: Value, out_sharding: OutSharding = None) -> jax.Array:
    """Replaces the elements on neighbouring diagonals of matrices by a number.

    output[..., y, x] = value if begin <= x - y < end else input[..., y, x]

    With begin > end all others are replaced: value if x - y < end or begin <= x - y.

    Args:
      input: rank >= 2, any dtype of numbers; the last two dimensions are those of each matrix.
      begin: the first diagonal, any integer: 0 is the main one, positive ones are above it.
      end: the diagonal after the last one; with begin == end nothing is replaced.
      value: a number that the dtype of `input` holds, to which floats are rounded, or a traced scalar of this dtype.
        Another one compiles nothing new.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      ConstraintError: fewer than two dimensions.
      DataTypeError: `begin` or `end` is no integer, the dtype does not hold `value`, or 64-bit `input` while x64 is
        off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
      >>> print(dml_jax.fill_diagonals(x, begin=1, end=4, value=0))  # the lower triangle is left
      [[ 1  0  0  0]
       [ 5  6  0  0]
       [ 9 10 11  0]]

    Source: DML_DIAGONAL_MATRIX1_OPERATOR_DESC, whose tensors have 2 to 4 dimensions.
    """
    return filled(jnp.asarray(input), begin, end, value)


class DiagonalMatrix1Desc(OperatorDesc):
    """DML_DIAGONAL_MATRIX1_OPERATOR_DESC: matrices with one number on some of their diagonals.

    Args:
      input: 2 to 4 dimensions, or None for zeros; the last two are those of each matrix.
      output: the sizes of `input`.
      diagonal_fill_begin: the first diagonal that is filled: 0 is the main one, positive ones are above it.
      diagonal_fill_end: the one after the last; if it is less than the first, all others are filled.

    Example:
      >>> DiagonalMatrix1Desc(None, TensorDesc("INT8", (2, 3)), "INT8", 7, 0, 2).compute()
      Array([[7, 7, 0],
             [0, 7, 7]], dtype=int8)

    Source: DML_DIAGONAL_MATRIX1_OPERATOR_DESC. Its first example prints ones for a value of 7.
    """

    input: OptionalInput
    output: Output
    value_data_type: ScalarType
    value: Scalar
    diagonal_fill_begin: Annotated[int, INT]
    diagonal_fill_end: Annotated[int, INT]

    support = levels(("5_1", range(2, 5), ALL_TYPES), of="output")
    constraints = (
        sizes_follow("output", lambda x: x["input"] and x["input"].sizes, "{input}.{sizes}, if there is one"),
        type_of("value_data_type", "output"),
        held("value", "value_data_type"),
    )

    def compute_checked(self, input: jax.Array | None) -> jax.Array:
        array = jnp.zeros(self.output.sizes, self.output.dtype) if input is None else input
        value = scalar_of(self.value, self.value_data_type)
        return fill_diagonals(array, begin=self.diagonal_fill_begin, end=self.diagonal_fill_end, value=value)
