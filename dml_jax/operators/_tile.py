"""TILE: an array repeated along each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, each_at_least, one_per_dimension, representable, sizes_follow
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import ALL_TYPES, FLOATS, RANK_4, RANKS_1_TO_8, UP_TO_32_BITS, levels
from ..core.structs.field_types import Row
from ..core.structs.fields import Input, Output, counted_by
from ..core.structs.operator_desc import OperatorDesc
from ..operations.tile import repeat_whole

__all__ = ["TileDesc", "tile"]

COUNT = one_per_dimension("repeats", "input")


def _tiled_sizes(x: Operands) -> tuple[int, ...] | None:
    return None if COUNT.broken_by(x) else tuple(n * r for n, r in zip(x["input"].shape, x["repeats"], strict=True))


RULES = (COUNT, each_at_least("repeats", 0), representable("repeats", _tiled_sizes))


def _dims(x: Operands) -> Dims:
    """A dimension that is not repeated keeps its sharding; the copies of another one may lie on any device."""
    names = names_of(x, "input")
    return Dims({"input": names}, renamed(names, [d for d, n in enumerate(x["repeats"]) if n != 1]), names)


@operator(*RULES, dims=_dims)
def tile(input: Data, repeats: Sequence[int], *, out_sharding: OutSharding = None) -> jax.Array:
    """Repeats `input` along each dimension.

    output[c] = input[c % input.shape]

    Args:
      input: any rank, any dtype that JAX moves.
      repeats: how often, per dimension; integers, at least 0, of which 1 leaves a dimension as it is.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of sizes input.shape * repeats and the dtype of `input`.

    Raises:
      ConstraintError: not a number per dimension, or a negative one.
      DataTypeError: a number is not an integer, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.tile(np.array([[1, 2], [3, 4]], np.int32), (2, 3)))
      [[1 2 1 2 1 2]
       [3 4 3 4 3 4]
       [1 2 1 2 1 2]
       [3 4 3 4 3 4]]

    Source: DML_TILE_OPERATOR_DESC, where every number is at least 1; 0, which makes an empty array, is accepted here.
    """
    return repeat_whole(jnp.asarray(input), tuple(repeats))


class TileDesc(OperatorDesc):
    """DML_TILE_OPERATOR_DESC: repeats `input` along each dimension.

    Args:
      output: the sizes of `input` times `repeats`.
      repeats: how often, per dimension; at least 1.

    Example:
      >>> TileDesc(TensorDesc("UINT8", (1, 2)), TensorDesc("UINT8", (2, 4)), (2, 2)).compute(np.uint8([[1, 2]]))
      Array([[1, 2, 1, 2],
             [1, 2, 1, 2]], dtype=uint8)

    Source: DML_TILE_OPERATOR_DESC. Its page leaves FLOAT64 out of feature level 4_1, to whose history 64-bit types
      belong; it is accepted here.
    """

    input: Input
    output: Output
    repeats: Annotated[Row[int], counted_by("RepeatsCount")]

    moves_words = True
    support = levels(
        ("4_1", RANKS_1_TO_8, ALL_TYPES),
        ("3_1", RANKS_1_TO_8, UP_TO_32_BITS),
        ("2_1", RANK_4, UP_TO_32_BITS),
        ("1_0", RANK_4, FLOATS),
    )
    constraints = (
        COUNT,
        each_at_least("repeats", 1),
        sizes_follow("output", _tiled_sizes, "{input}.{sizes} * {repeats}"),
    )

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return tile(input, self.repeats)
