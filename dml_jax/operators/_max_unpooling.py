"""MAX_UNPOOLING: writes numbers to the places of the maxima that max-pooling found, among zeros."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, Indices, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, each_at_least, integer_indices, numbers, representable, same_sizes
from ..core.sharding import Dims, names_of
from ..core.structs.feature_level_tables import ALL_BUT_FLOAT64, FLOATS, RANK_4, Support
from ..core.structs.fields import IndexInput, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..operations.gather_scatter_dimension_numbers import Slices
from ..operations.indexed_write import write
from ..operations.promises import Promises
from ..operations.values.bit_exact import carry_bits

__all__ = ["MaxUnpoolingDesc", "max_unpooling"]


RULES = (
    integer_indices(),
    numbers("input", with_zero=True),
    same_sizes("indices", "input"),
    each_at_least("output_sizes", 0),
    representable("output_sizes", lambda x: x["output_sizes"]),
)


def _dims(x: Operands) -> Dims:
    """The output is not sharded: any element may go anywhere."""
    return Dims(dict.fromkeys(("input", "indices"), names_of(x, "input")), ())


@operator(*RULES, dims=_dims)
def max_unpooling(
    input: Data, indices: Indices, output_sizes: Sequence[int], *, out_sharding: OutSharding = None
) -> jax.Array:
    """Fills an array with zeros and writes each element of `input` where `indices` points, in row-major order.

    output = zeros; output.flat[indices[c]] = input[c]

    Args:
      input: any rank, any dtype of numbers with 0 among them.
      indices: the shape of `input`; any integer dtype, or lists of Python integers. They count the elements of the
        whole output. A negative index counts from the end, once; an unsigned one never does. Elements with an index
        out of range are not written; of two with the same index, either may win.
      output_sizes: of the output, of any rank; integers, at least 0.
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; needed where an operand is sharded.

    Returns:
      An array of `output_sizes` and the dtype of `input`.

    Raises:
      ConstraintError: sizes of `input` and `indices` differ, or a negative output size.
      DataTypeError: `indices` are not integers, `input` has no 0, or has 64 bits while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> found, indices = np.float32([[1, 2], [3, 4]]), np.uint32([[5, 7], [13, 15]])
      >>> print(dml_jax.max_unpooling(found, indices, (4, 4)))
      [[0. 0. 0. 0.]
       [0. 1. 0. 2.]
       [0. 0. 0. 0.]
       [0. 3. 0. 4.]]

    Source: DML_MAX_UNPOOLING_OPERATOR_DESC, which is of four dimensions and unsigned indices.
    """
    sizes = tuple(output_sizes)
    zeros = jnp.zeros((prod(sizes),), input.dtype)
    if 0 in sizes:
        return zeros.reshape(sizes)
    updates, at = _reshape(jnp.asarray(input), (-1,)), jnp.asarray(indices).reshape(-1, 1)
    written = write(zeros, at, updates, Slices(1, (0,)), mode="drop", reduction=None, promises=Promises())
    return _reshape(written, sizes)


def _reshape(array: jax.Array, sizes: Sequence[int]) -> jax.Array:
    """As bits: XLA:CPU quiets the narrow NaNs of constants that it reshapes."""
    return carry_bits(lambda _, array: array.reshape(sizes), None, array)


class MaxUnpoolingDesc(OperatorDesc):
    """DML_MAX_UNPOOLING_OPERATOR_DESC: writes each element of `input` where `indices` points, among zeros.

    Args:
      input: exactly 4-D.
      indices: the sizes of `input`; they count the elements of the whole `output` in row-major order.
      output: any sizes.

    Example:
      >>> MaxUnpoolingDesc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 1, 2)), indices=TensorDesc("UINT32", (1, 1, 1, 2)),
      ...     output=TensorDesc("FLOAT32", (1, 1, 2, 2)),
      ... ).compute(np.float32([[[[5, 7]]]]), np.uint32([[[[3, 0]]]]))[0, 0]
      Array([[7., 0.],
             [0., 5.]], dtype=float32)

    Source: DML_MAX_UNPOOLING_OPERATOR_DESC. Its page says feature level 3_0; the header and the history say 2_0, which
      is followed here. That indices out of range are not written stands in an older version of the page.
    """

    input: Input
    indices: IndexInput
    output: Output

    # Where two indices are equal, an element could get words of two numbers.
    support = (
        Support.of("5_0", RANK_4, input=ALL_BUT_FLOAT64, indices=(DataType.UINT64, DataType.UINT32)),
        Support.of("2_0", RANK_4, input=FLOATS, indices=(DataType.UINT32,)),
    )
    constraints = (same_sizes("indices", "input"),)

    def compute_checked(self, input: jax.Array, indices: jax.Array) -> jax.Array:
        return max_unpooling(input, indices, self.output.sizes)
