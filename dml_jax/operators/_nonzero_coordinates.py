"""NONZERO_COORDINATES: the coordinates of the nonzero elements, and their count."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Law, Operands, custom, numbers, sizes_follow
from ..core.sharding import Dims, names_of
from ..core.structs.feature_level_tables import RANKS_4_TO_5, UP_TO_32_BITS, Support
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import SeveralOutputs
from ..core.tensors.data_type import DataType
from ..operations.nonzero import numbers_set
from ..operations.values.bit_exact import is_not_zero

__all__ = ["NonzeroCoordinatesDesc", "nonzero_coordinates"]


def _too_many(x: Operands) -> str | None:
    known = [n for n in x["input"].shape if isinstance(n, int)]
    return f"there are {prod(known)}" if prod(known) >= 2**32 else None


RULES = (numbers("input"), custom("countable(input)", "{input} must have fewer than 2**32 elements", _too_many))


def _dims(x: Operands) -> Dims:
    """The outputs are not sharded: any device may have any of the coordinates."""
    return Dims({"input": names_of(x, "input")}, ())


@operator(*RULES, dims=_dims)
def nonzero_coordinates(input: Data, *, out_sharding: OutSharding = None) -> tuple[jax.Array, jax.Array]:
    """Finds the coordinates of all elements of `input` that are not zero, in row-major order, and counts them.

    coordinates[:count] are those c with input[c] != 0; the rows after them are 0.

    0.0 and -0.0 are zero; subnormal numbers and NaN are not.

    Args:
      input: any rank, any dtype of numbers; fewer than 2**32 elements.
      out_sharding: of both outputs on a mesh, a NamedSharding or PartitionSpec; needed where `input` is sharded.

    Returns:
      count: how many elements are not zero, an array of no dimensions and of uint32.
      coordinates: an array of shape (elements of `input`, rank of `input`) and of uint32.

    Raises:
      ConstraintError: too many elements.
      DataTypeError: random keys, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> count, coordinates = dml_jax.nonzero_coordinates(np.array([[1, 0, 0], [-0.0, 3.5, 0]], np.float32))
      >>> print(coordinates[:count])
      [[0 0]
       [1 1]]

    Source: DML_NONZERO_COORDINATES_OPERATOR_DESC, which leaves rows after the count undefined and is silent about
      NaN.
    """
    count, indices = numbers_set(is_not_zero(jnp.asarray(input)).reshape(-1))
    return count, _coordinates(indices, input.shape)


def _coordinates(numbers: jax.Array, sizes: Sequence[Any]) -> jax.Array:
    """Returns the coordinates of elements that are given by their row-major numbers, one element per row."""
    columns: list[jax.Array] = []
    for n in reversed(sizes):
        columns.insert(0, numbers % jnp.asarray(n, jnp.uint32))
        numbers = numbers // jnp.asarray(n, jnp.uint32)
    return jnp.stack(columns, -1) if columns else jnp.zeros((*numbers.shape, 0), jnp.uint32)


def _effective_rank(sizes: Sequence[int]) -> int:
    """Returns sizes without leading 1s."""
    return next((len(sizes) - d for d, n in enumerate(sizes) if n != 1), 0)


def _coordinate_sizes(x: Operands) -> tuple[int, ...]:
    """Returns the sizes of the coordinates: a row for every element, a column for every dimension."""
    sizes = x["input"].sizes
    return (*(1,) * (len(sizes) - 2), prod(sizes), len(sizes))


def _misfit(x: Operands) -> str | None:
    input, sizes = x["input"].sizes, x["output_coordinates"].sizes
    rank, least = len(input), max(1, _effective_rank(input))
    if len(sizes) != rank or rank < 2:
        return None
    if sizes[:-1] != (*(1,) * (rank - 2), prod(input)):
        return f"{sizes} is not {(*(1,) * (rank - 2), prod(input), sizes[-1])}"
    return None if least <= sizes[-1] <= rank else f"N is {sizes[-1]}, not in [{least}, {rank}]"


def _row(level: str, ranks: range) -> Support:
    only = (DataType.UINT32,)
    return Support.of(level, ranks, input=UP_TO_32_BITS, output_count=only, output_coordinates=only)


class NonzeroCoordinatesDesc(SeveralOutputs):
    """DML_NONZERO_COORDINATES_OPERATOR_DESC: finds where `input` is not zero, and counts it.

    Args:
      output_count: a size of 1 in every dimension.
      output_coordinates: (1, ..., M, N), where M is the number of elements of `input` and N is that of its dimensions;
        coordinates along leading ones of size 1 may be left out.

    Example:
      >>> NonzeroCoordinatesDesc(
      ...     TensorDesc("INT8", (1, 3)), TensorDesc("UINT32", (1, 1)), TensorDesc("UINT32", (3, 1))
      ... ).compute(np.int8([[5, 0, -1]]))
      (Array([[2]], dtype=uint32), Array([[0],
             [2],
             [0]], dtype=uint32))

    Source: DML_NONZERO_COORDINATES_OPERATOR_DESC, which leaves rows after the count undefined; they are 0 here. It
      takes `input` of one dimension and coordinates of two or more, and says in an older version that all tensors have
      one DimensionCount, which is followed here.
    """

    input: Input
    output_count: Output
    output_coordinates: Output

    other_types = ("output_count", "output_coordinates")
    support = (_row("4_0", range(2, 9)), _row("3_0", RANKS_4_TO_5))
    constraints = (
        sizes_follow("output_count", lambda x: (1,) * len(x["input"].sizes), "1 in every dimension"),
        custom(
            "coordinates",
            "{output_coordinates}.{sizes} must be (1, ..., M, N), with M the number of elements of {input} and N that "
            "of its dimensions, leading ones of size 1 left out or not",
            _misfit,
            Law("output_coordinates", "sizes", _coordinate_sizes),
        ),
    )

    def compute_checked(self, input: jax.Array) -> tuple[jax.Array, jax.Array]:
        count, coordinates = nonzero_coordinates(input)
        left_out = input.ndim - self.output_coordinates.sizes[-1]
        return (
            count.reshape(self.output_count.sizes),
            coordinates[:, left_out:].reshape(self.output_coordinates.sizes),
        )
