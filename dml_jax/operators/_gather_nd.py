"""GATHER_ND and GATHER_ND1: reads the slices that tuples of coordinates address."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, Fill, Indices, OutSharding
from ..core.arguments.operator import operator
from ..core.indices.axes import indexed_axes_not_empty
from ..core.indices.index_tuples import FUNCTION, batch_rules, slice_rules, tuple_size, tuples_fit
from ..core.indices.modes import READ_MODE, ReadMode
from ..core.rules import Operands, integer_indices, minimum_rank
from ..core.sharding import Dims, names_of
from ..core.structs.feature_level_tables import INDEXED_2_1, INDEXED_3_0
from ..core.structs.fields import IndexInput, Input, Output, UInt
from ..core.structs.operator_desc import OperatorDesc
from ..operations.gather_scatter_dimension_numbers import Slices
from ..operations.indexed_read import read
from ..operations.promises import Promises

__all__ = ["GatherND1Desc", "GatherNDDesc", "gather_nd"]

BATCH_FITS, BATCH_SIZES_AGREE = batch_rules(FUNCTION)
RULES = (
    integer_indices(),
    minimum_rank("input", 1),
    minimum_rank("indices", 1),
    BATCH_FITS,
    tuples_fit(FUNCTION, has_batch=True),
    BATCH_SIZES_AGREE,
    READ_MODE,
    indexed_axes_not_empty(lambda x: range(x["batch_dims"], x["batch_dims"] + tuple_size(x))),
)


def _dims(x: Operands) -> Dims:
    batch, rank = x["batch_dims"], x["indices"].ndim
    names = names_of(x, "input")
    picked = [*names[:batch], *(f"q {d}" for d in range(batch, rank - 1))]
    output_names = [*picked, *names[batch + tuple_size(x) :]]
    return Dims({"input": names, "indices": [*picked, "tuple"]}, output_names, output_names)


@operator(*RULES, dims=_dims)
def gather_nd(
    input: Data,
    indices: Indices,
    *,
    batch_dims: int = 0,
    mode: ReadMode = "clip",
    fill_value: Fill = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Reads the slice of `input` that each tuple along the last dimension of `indices` addresses.

    output[b, q, r] = input[b, indices[b, q, 0], ..., indices[b, q, t-1], r], with t = indices.shape[-1].

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: rank >= 1; its last size t is the length of a tuple, 1 <= t <= rank of `input` - `batch_dims`. Any
        integer dtype, or lists of Python integers. A negative index counts from the end, once; an unsigned one never
        does.
      batch_dims: how many leading dimensions `input` and `indices` share; their sizes must be equal.
      mode: "clip" moves each coordinate out of range to the nearest one in range, "fill" gives `fill_value` where any
        coordinate is out of range, "promise_in_bounds" leaves such elements undefined.
      fill_value: a number that the dtype of `input` holds, or a traced scalar of this dtype; 0 by default. For
        mode="fill" only.
      indices_are_sorted: a promise that the tuples ascend, compared coordinate by coordinate, in row-major order (of
        each batch) and no coordinate is negative.
      unique_indices: a promise that no two tuples, after wrapping and clamping, address one slice. Tuples out of
        range under "fill" are exempt. The gradient then stores instead of adding up.
      deterministic: if True, the gradient has the same bits in every run on the same kind of device; if False, sums of
        floats may differ in their last bits on a GPU. It needs known sizes and fewer than 2**31 elements; otherwise
        ConstraintError.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of shape indices.shape[:-1] + input.shape[batch_dims + t:] and the dtype of `input`.

    Raises:
      ConstraintError: tuples too long or empty, batch sizes differ, `mode` unknown, or a non-empty read from a
        dimension of size 0.
      DataTypeError: `indices` are not integers, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
      >>> tuples = np.array([[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]], np.uint32)
      >>> print(dml_jax.gather_nd(x, tuples, batch_dims=1))
      [[ 0.  3.]
       [ 7.  4.]
       [ 9. 10.]]

    Source: DML_GATHER_ND1_OPERATOR_DESC (and DML_GATHER_ND_OPERATOR_DESC for batch_dims=0). DirectML is silent about
      a coordinate out of range; moving each one to the nearest in range is the choice made here.
    """
    indices = jnp.asarray(indices)
    batch, indexed = tuple(range(batch_dims)), tuple(range(batch_dims, batch_dims + indices.shape[-1]))
    first = indices.ndim - 1
    placed = tuple(range(first, first + input.ndim - len(batch) - len(indexed)))
    return read(
        input,
        indices,
        Slices(input.ndim, indexed, batch, batch, placed),
        mode=mode,
        fill_value=fill_value,
        promises=Promises(unique_indices, indices_are_sorted, deterministic),
    )


class _VersionDesc(OperatorDesc, is_base=True):
    """The base of both versions.

    Args:
      input: only the last `input_dimension_count` sizes count, the others are 1.
      indices: only the last `indices_dimension_count` sizes count, the others are 1; its last size is the tuple's.
      input_dimension_count: in [1, DimensionCount].
      indices_dimension_count: in [1, DimensionCount].
    """

    input: Input
    indices: IndexInput
    output: Output
    input_dimension_count: UInt
    indices_dimension_count: UInt

    moves_words = True


class GatherNDDesc(_VersionDesc):
    """DML_GATHER_ND_OPERATOR_DESC: reads the slice that each tuple along the last dimension of `indices` addresses.

    Args:
      output: all but the last real size of `indices`, then the sizes of `input` that no coordinate takes;
        right-aligned.

    Example:
      >>> GatherNDDesc(
      ...     input=TensorDesc("FLOAT32", (1, 2, 2, 2)), indices=TensorDesc("UINT32", (1, 1, 2, 2)),
      ...     output=TensorDesc("FLOAT32", (1, 1, 2, 2)), input_dimension_count=3, indices_dimension_count=2,
      ... ).compute(np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2), np.uint32([[[[0, 1], [1, 0]]]]))
      Array([[[[2., 3.],
               [4., 5.]]]], dtype=float32)

    Source: DML_GATHER_ND_OPERATOR_DESC. Its formula for the output sizes contradicts its examples; the examples are
      followed here, and the length of a tuple is bounded by InputDimensionCount.
    """

    support = INDEXED_2_1
    constraints = slice_rules("output")

    def compute_checked(self, input: jax.Array, indices: jax.Array) -> jax.Array:
        return _gather_tuples(self, input, indices, 0)


class GatherND1Desc(_VersionDesc):
    """DML_GATHER_ND1_OPERATOR_DESC: GATHER_ND with leading dimensions that `input`, `indices` and `output` share.

    Args:
      output: all but the last real size of `indices`, then the sizes of `input` that no batch dimension and no
        coordinate takes; right-aligned.
      batch_dimension_count: below both counts; the batch sizes of `input` and `indices` are equal.

    Example:
      >>> GatherND1Desc(
      ...     input=TensorDesc("FLOAT32", (1, 3, 2, 2)), indices=TensorDesc("UINT32", (1, 3, 2, 2)),
      ...     output=TensorDesc("FLOAT32", (1, 1, 3, 2)), input_dimension_count=3, indices_dimension_count=3,
      ...     batch_dimension_count=1,
      ... ).compute(
      ...     np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2),
      ...     np.uint32([[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]]),
      ... )
      Array([[[[ 0.,  3.],
               [ 7.,  4.],
               [ 9., 10.]]]], dtype=float32)

    Source: DML_GATHER_ND1_OPERATOR_DESC. Its formula for the output sizes leaves out the batch and contradicts its
      example; the example is followed here, and batch sizes that differ are refused.
    """

    batch_dimension_count: UInt

    support = INDEXED_3_0
    constraints = slice_rules("output", has_batch=True)

    def compute_checked(self, input: jax.Array, indices: jax.Array) -> jax.Array:
        return _gather_tuples(self, input, indices, self.batch_dimension_count)


def _gather_tuples(desc: _VersionDesc, input: jax.Array, indices: jax.Array, batch_dims: int) -> jax.Array:
    real_input = input.reshape(desc.input.sizes[-desc.input_dimension_count :])
    real_indices = indices.reshape(desc.indices.sizes[-desc.indices_dimension_count :])
    return gather_nd(real_input, real_indices, batch_dims=batch_dims).reshape(desc.output.sizes)
