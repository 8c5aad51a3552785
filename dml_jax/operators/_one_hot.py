"""ONE_HOT: one of two values at the element that an index names, the other everywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..core.arguments.kinds import Data, Indices, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, at_least, axis_of, custom, integer_indices, minimum_rank, representable, sizes_follow
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import (
    ALL_TYPES,
    FLOATS,
    INDEX_TYPES,
    RANK_4,
    RANKS_1_TO_8,
    UP_TO_32_BITS,
    Support,
)
from ..core.structs.fields import Axis, IndexInput, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import below_rank
from ..core.tensors.data_type import DataType
from ..operations.fill import choose_value
from ..operations.index_rule import resolve
from ..operations.values.accumulation_types import narrow_apart, wide_type

__all__ = ["OneHotDesc", "one_hot"]


def _with(sizes: Sequence[Any], axis: int, size: Any) -> tuple[Any, ...] | None:
    """Returns the sizes with another size along the axis, if there is such an axis."""
    if not -len(sizes) <= axis < len(sizes):
        return None
    axis %= len(sizes)
    return (*sizes[:axis], size, *sizes[axis + 1 :])


def _several(x: Operands) -> str | None:
    sizes = x["indices"].shape
    wanted = _with(sizes, x["axis"], 1)
    return None if wanted is None or wanted == tuple(sizes) else f"it is {sizes[x['axis']]}"


RULES = (
    integer_indices(),
    minimum_rank("indices", 1),
    axis_of("indices"),
    custom("one_index", "the size of {indices} along {axis} must be 1", _several),
    custom(
        "two_values",
        "{values} must hold two elements, [off, on]",
        lambda x: None if x["values"].shape == (2,) else f"its shape is {x['values'].shape}",
    ),
    at_least("size", 0),
    representable("size", lambda x: _with(x["indices"].shape, x["axis"], x["size"]), "values"),
)


def _dims(x: Operands) -> Dims:
    names = names_of(x, "indices")
    output = renamed(names, [x["axis"]])
    return Dims({"indices": names, "values": ["values"]}, output, [name for name in names if name in output])


@operator(*RULES, dims=_dims)
def one_hot(indices: Indices, values: Data, size: int, axis: int, *, out_sharding: OutSharding = None) -> jax.Array:
    """Makes rows along `axis` that hold `values[1]` where the index points, and `values[0]` elsewhere.

    output[c] = values[1] if c[axis] is indices[c with c[axis] := 0], wrapped once if it is negative, else values[0].

    Args:
      indices: rank >= 1, of size 1 along `axis`; any integer dtype, or lists of Python integers. A negative index
        counts from the end, once; an unsigned one never does. One that is out of range points nowhere.
      values: two elements, the value off and the value on, of any dtype that JAX moves.
      size: of the output along `axis`, at least 0.
      axis: -rank <= axis < rank of `indices`.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the sizes of `indices` but `size` along `axis`, and the dtype of `values`.

    Raises:
      ConstraintError: `axis` or `size` out of range, several indices along `axis`, or other than two values.
      DataTypeError: `indices` are not integers, or 64-bit `values` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.one_hot(np.int32([[0], [-1], [7]]), np.float32([0, 1]), size=4, axis=1))
      [[1. 0. 0. 0.]
       [0. 0. 0. 1.]
       [0. 0. 0. 0.]]

    Source: DML_ONE_HOT_OPERATOR_DESC, which ignores an index that is too large and is silent about one below -size;
      it is ignored too.
    """
    indices = resolve(jnp.asarray(indices)[..., None], [size])[..., 0]
    shape = _with(indices.shape, axis, size)
    assert shape is not None
    on = indices == lax.broadcasted_iota(indices.dtype, shape, axis % indices.ndim)
    return choose_value(on, values, _total)


def _total(on: jax.Array, cotangent: jax.Array, like: Sequence[jax.Array]) -> list[jax.Array]:
    """Returns the cotangents of the two values; narrow floats are added in float32 and rounded once."""
    wide = cotangent.astype(wide_type(cotangent.dtype))
    sums = [jnp.where(where, wide, jnp.zeros_like(wide)).sum() for where in (~on, on)]
    return [narrow_apart(jnp.stack(sums), cotangent.dtype)]


class OneHotDesc(OperatorDesc):
    """DML_ONE_HOT_OPERATOR_DESC: makes rows of one value, but for the element that an index names.

    Args:
      indices: the sizes of `output`, but 1 along `axis`.
      values: any sizes of two elements or more, in row-major order: off, on, and others without effect.
      output: any sizes.

    Example:
      >>> OneHotDesc(
      ...     indices=TensorDesc("UINT32", (2, 1)), values=TensorDesc("UINT8", (1, 2)),
      ...     output=TensorDesc("UINT8", (2, 3)), axis=1,
      ... ).compute(np.uint32([[2], [0]]), np.uint8([[5, 9]]))
      Array([[5, 5, 9],
             [9, 5, 5]], dtype=uint8)
    """

    indices: IndexInput
    values: Input
    output: Output
    axis: Axis

    moves_words = True
    support = (
        Support.of("4_1", RANKS_1_TO_8, values=ALL_TYPES, indices=INDEX_TYPES),
        Support.of("3_0", RANKS_1_TO_8, values=UP_TO_32_BITS, indices=INDEX_TYPES),
        Support.of("2_1", RANK_4, values=UP_TO_32_BITS, indices=(DataType.UINT32,)),
        Support.of("2_0", RANK_4, values=FLOATS, indices=(DataType.UINT32,)),
    )
    constraints = (
        below_rank("axis", "output"),
        sizes_follow(
            "indices", lambda x: _with(x["output"].sizes, x["axis"], 1), "{output}.{sizes}, but 1 along {axis}"
        ),
        custom(
            "two_values",
            "{values} must hold at least two elements",
            lambda x: None if prod(x["values"].sizes) >= 2 else "it holds one",
        ),
    )

    def compute_checked(self, indices: jax.Array, values: jax.Array) -> jax.Array:
        # The second of two or more elements lies along the last dimension of more than one.
        return one_hot(indices, values.reshape(-1)[:2], self.output.sizes[self.axis], self.axis)
