"""REVERSE_SUBSEQUENCES: reverses the first elements along an axis, by a length for each sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.arguments.kinds import Data, Indices, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, axis_of, custom, integer_indices, minimum_rank, same_rank, same_sizes
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import ALL_TYPES, RANK_4, RANKS_1_TO_8, RANKS_4_TO_5, UP_TO_32_BITS, Support
from ..core.structs.fields import Axis, IndexInput, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import below_rank
from ..core.tensors.data_type import DataType
from ..operations.gather import Read, reading
from ..operations.gather_scatter_dimension_numbers import Slices
from ..operations.programs.partition import TableShards, known_shards
from ..operations.programs.primitive import linear
from ..operations.values.bit_exact import index_dtype

__all__ = ["ReverseSubsequencesDesc", "reverse_subsequences"]

LENGTHS = "sequence_lengths"


def _several(x: Operands) -> str | None:
    shape = x[LENGTHS].shape
    is_known = -len(shape) <= x["axis"] < len(shape)
    return f"it is {shape[x['axis']]}" if is_known and shape[x["axis"]] != 1 else None


SHARED = (
    custom("one_length", f"{{{LENGTHS}}}.{{sizes}} must be 1 along {{axis}}", _several),
    same_sizes(LENGTHS, "input", except_along="axis"),
)
RULES = (integer_indices(LENGTHS), minimum_rank("input", 1), same_rank(LENGTHS, "input"), axis_of("input"), *SHARED)


def _dims(x: Operands) -> Dims:
    """The axis keeps no sharding: its elements come from the parts of other devices."""
    names = names_of(x, "input")
    one, reversed_ = (renamed(names, [x["axis"]], word) for word in ("one", "reversed"))
    return Dims({"input": names, LENGTHS: one}, reversed_, reversed_)


@operator(*RULES, dims=_dims)
def reverse_subsequences(
    input: Data, sequence_lengths: Indices, axis: int, *, out_sharding: OutSharding = None
) -> jax.Array:
    """Reverses the first elements along `axis`, as many as `sequence_lengths` says; the others stay where they are.

    output[c] = input[c with c[axis] := L - 1 - c[axis]] where c[axis] < L, else input[c], with
    L = clamp(sequence_lengths[c with c[axis] := 0], 0, input.shape[axis]).

    Args:
      input: rank >= 1, any dtype that JAX moves.
      sequence_lengths: the sizes of `input`, but 1 along `axis`; any integer dtype, or lists of Python integers. A
        length beyond the axis counts as the size of the axis, a negative one as 0.
      axis: -rank <= axis < rank of `input`.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      ConstraintError: ranks or sizes differ, or `axis` out of range.
      DataTypeError: `sequence_lengths` are not integers, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
      >>> print(dml_jax.reverse_subsequences(x, np.uint32([[2], [4], [3]]), axis=1))
      [[ 2  1  3  4]
       [ 8  7  6  5]
       [11 10  9 12]]

    Source: DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC, whose lengths are unsigned.
    """
    array = jnp.asarray(input)
    axis %= array.ndim
    if 0 in array.shape:
        return array
    others = tuple(d for d in range(array.ndim) if d != axis)
    how = Read(Slices(array.ndim, (axis,), others, others), "promise_in_bounds", computed=True)
    if shards := known_shards():  # each element has an index of its own
        how = replace(how, shards=TableShards(*[shards.output] * 3))
    read = reading(how)

    def back(indices: jax.Array, cotangent: jax.Array, _: Sequence[jax.Array]) -> list[jax.Array]:
        return [read(indices, cotangent)]  # reversing twice gives the input

    return linear(read, back)(_sources(sequence_lengths, array.shape, axis)[..., None], array)


def _sources(lengths: Any, shape: Sequence[Any], axis: int) -> jax.Array:
    """The coordinate along the axis that each element comes from."""
    dtype = index_dtype([shape[axis]])
    lengths, largest = jnp.asarray(lengths), np.iinfo(dtype).max
    if jnp.iinfo(lengths.dtype).max > largest:  # clamped before it is narrowed
        lengths = jnp.minimum(jnp.maximum(lengths, np.zeros((), lengths.dtype)), np.asarray(largest, lengths.dtype))
    at = lax.broadcasted_iota(dtype, shape, axis)
    length = jnp.minimum(lengths.astype(dtype), jnp.asarray(shape[axis]).astype(dtype))
    return jnp.where(at < length, length - 1 - at, at)


class ReverseSubsequencesDesc(OperatorDesc):
    """DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC: reverses the first elements along `axis`, as many as the lengths say.

    Args:
      sequence_lengths: the sizes of `input`, but 1 along `axis`.

    Example:
      >>> x = TensorDesc("INT32", (2, 3))
      >>> ReverseSubsequencesDesc(x, TensorDesc("UINT32", (2, 1)), x, axis=1).compute(
      ...     np.int32([[1, 2, 3], [4, 5, 6]]), np.uint32([[2], [3]])
      ... )
      Array([[2, 1, 3],
             [6, 5, 4]], dtype=int32)
    """

    input: Input
    sequence_lengths: IndexInput
    output: Output
    axis: Axis

    moves_words = True
    support = (
        Support.of("5_0", RANKS_1_TO_8, input=ALL_TYPES, sequence_lengths=(DataType.UINT64, DataType.UINT32)),
        Support.of("4_0", RANKS_1_TO_8, input=UP_TO_32_BITS, sequence_lengths=(DataType.UINT32,)),
        Support.of("3_0", RANKS_4_TO_5, input=UP_TO_32_BITS, sequence_lengths=(DataType.UINT32,)),
        Support.of("2_1", RANK_4, input=UP_TO_32_BITS, sequence_lengths=(DataType.UINT32,)),
    )
    constraints = (below_rank("axis", "input"), *SHARED, same_sizes("output", "input"))

    def compute_checked(self, input: jax.Array, sequence_lengths: jax.Array) -> jax.Array:
        return reverse_subsequences(input, sequence_lengths, self.axis)
