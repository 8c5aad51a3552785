"""TOP_K and TOP_K1: the greatest or least elements along an axis, in order, and their indices."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, axis_of, custom, minimum_rank, one_of, ordered, same_sizes, sizes_follow
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.enumerations import DirectionName, FieldDirection, direction_of
from ..core.structs.feature_level_tables import ALL_BUT_FLOAT64, FLOATS, RANK_4, RANKS_1_TO_8, UP_TO_32_BITS, Support
from ..core.structs.fields import Axis, Input, Output, UInt
from ..core.structs.operator_desc import SeveralOutputs
from ..core.structs.struct_rules import below_rank
from ..core.tensors.data_type import DataType
from ..core.tensors.tensor_desc import TensorDesc
from ..operations.gather_scatter_dimension_numbers import Slices
from ..operations.indexed_read import read
from ..operations.promises import Promises
from ..operations.top_k import greatest
from ..operations.values.sort_keys import order

__all__ = ["TopK1Desc", "TopKDesc", "top_k"]


def _too_many(x: Operands) -> str | None:
    sizes = x["input"].shape
    if not -len(sizes) <= x["axis"] < len(sizes):
        return None
    k, size = x["k"], sizes[x["axis"]]
    return None if 0 <= k <= size else f"it is {k} and the size is {size}"


RULES = (
    ordered("input"),
    minimum_rank("input", 1),
    axis_of("input"),
    custom("enough", "{k} must be in [0, the size of {input} along {axis}]", _too_many),
    one_of("direction", get_args(DirectionName)),
)


def _dims(x: Operands) -> Dims:
    names = names_of(x, "input")
    picked = renamed(names, [x["axis"]])
    return Dims({"input": names}, picked, local=[name for name in names if name in picked])


@operator(*RULES, dims=_dims)
def top_k(
    input: Data, axis: int, k: int, *, direction: DirectionName = "decreasing", out_sharding: OutSharding = None
) -> tuple[jax.Array, jax.Array]:
    """Finds the `k` greatest elements of `input` along `axis`, the greatest first, or the least, the least first.

    Among equal elements the lower index comes first, whatever the direction; 0.0 and -0.0 are equal. NaNs are
    equal to each other and greater than every number.

    Args:
      input: rank >= 1, any dtype of numbers that have an order.
      axis: -rank <= axis < rank of `input`.
      k: how many, from 0 to the size of `input` along `axis`.
      direction: "decreasing" finds the greatest elements, "increasing" the least.
      out_sharding: sharding of both outputs on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      values: an array of the sizes of `input` but `k` along `axis`, and its dtype; bits arrive as they are.
      indices: where these are along `axis`, an array of the same sizes and of uint32.

    Raises:
      ConstraintError: `axis`, `k` or `direction` out of range.
      DataTypeError: complex `input`, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.array([[1, 2, 2, 3], [3, 4, 5, 5]], np.float32)
      >>> for array in dml_jax.top_k(x, axis=1, k=3):
      ...     print(array)
      [[3. 2. 2.]
       [5. 5. 4.]]
      [[3 1 2]
       [2 3 1]]

    Source: DML_TOP_K1_OPERATOR_DESC, which is silent about NaN; that it is the greatest is the choice made here.
    """
    input, axis = jnp.asarray(input), axis % input.ndim
    keys = order(input)
    indices = greatest(~keys if direction == "increasing" else keys, k, axis)
    others = tuple(d for d in range(input.ndim) if d != axis)
    values = read(
        input,
        indices[..., None],
        Slices(input.ndim, (axis,), others, others),
        mode="promise_in_bounds",
        fill_value=None,
        promises=Promises(unique_indices=True),
    )
    return values, indices.astype(jnp.uint32)


_SINCE_2_1 = (
    Support.of("5_0", RANKS_1_TO_8, input=ALL_BUT_FLOAT64, output_index=(DataType.UINT64, DataType.UINT32)),
    Support.of("3_1", RANKS_1_TO_8, input=UP_TO_32_BITS, output_index=(DataType.UINT32,)),
    Support.of("2_1", RANK_4, input=UP_TO_32_BITS, output_index=(DataType.UINT32,)),
)


def _found(x: Operands) -> tuple[int, ...] | None:
    sizes, axis = x["input"].sizes, x["axis"]
    return (*sizes[:axis], x["k"], *sizes[axis + 1 :]) if axis < len(sizes) else None


def _out_of_range(x: Operands) -> str | None:
    sizes, axis, k = x["input"].sizes, x["axis"], x["k"]
    is_right = axis >= len(sizes) or 1 <= k <= sizes[axis]
    return None if is_right else f"it is {k} and the size is {sizes[axis]}"


_STRUCT_RULES = (
    below_rank("axis", "input"),
    custom("enough", "{k} must be in [1, {input}.{sizes}[{axis}]]", _out_of_range),
    sizes_follow("output_value", _found, "{input}.{sizes}, but {k} along {axis}"),
    same_sizes("output_index", "output_value"),
)


def _compute(
    input: jax.Array, index: TensorDesc, axis: int, k: int, direction: DirectionName
) -> tuple[jax.Array, jax.Array]:
    values, indices = top_k(input, axis, k, direction=direction)
    return values, indices.astype(index.dtype)


class _VersionDesc(SeveralOutputs, is_base=True):
    """The base of both versions.

    Args:
      output_value: the sizes of `input`, but `k` along `axis`.
      output_index: the same sizes.
      k: from 1 to the size of `input` along `axis`.
    """

    input: Input
    output_value: Output
    output_index: Output
    axis: Axis
    k: UInt

    other_types = ("output_index",)
    constraints = _STRUCT_RULES


class TopKDesc(_VersionDesc):
    """DML_TOP_K_OPERATOR_DESC: finds the greatest elements along an axis, and where they lie.

    Example:
      >>> TopKDesc(
      ...     input=TensorDesc("INT8", (4,)), output_value=TensorDesc("INT8", (2,)),
      ...     output_index=TensorDesc("UINT32", (2,)), axis=0, k=2,
      ... ).compute(np.int8([-128, 5, 7, 5]))
      (Array([7, 5], dtype=int8), Array([2, 1], dtype=uint32))

    Source: DML_TOP_K_OPERATOR_DESC. Its page says feature level 2_0, where the header and the history have it from 1_0
      on, and K less than the size, where there is no reason for it.
    """

    support = (*_SINCE_2_1, Support.of("1_0", RANK_4, input=FLOATS, output_index=(DataType.UINT32,)))

    def compute_checked(self, input: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _compute(input, self.output_index, self.axis, self.k, "decreasing")


class TopK1Desc(_VersionDesc):
    """DML_TOP_K1_OPERATOR_DESC: finds the greatest or the least elements along an axis, and where they lie.

    Example:
      >>> TopK1Desc(
      ...     input=TensorDesc("INT8", (4,)), output_value=TensorDesc("INT8", (2,)),
      ...     output_index=TensorDesc("UINT32", (2,)), axis=0, k=2, axis_direction="INCREASING",
      ... ).compute(np.int8([-128, 5, 7, 5]))
      (Array([-128,    5], dtype=int8), Array([0, 1], dtype=uint32))

    Source: DML_TOP_K1_OPERATOR_DESC. Its page says K less than the size, where there is no reason for it.
    """

    axis_direction: FieldDirection

    support = _SINCE_2_1

    def compute_checked(self, input: jax.Array) -> tuple[jax.Array, jax.Array]:
        direction = direction_of(self.axis_direction)
        return _compute(input, self.output_index, self.axis, self.k, direction)
