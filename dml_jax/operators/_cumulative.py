"""What cumulative sums and products share: rules, how they run, and the rules and levels of their structs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import jax
import jax.numpy as jnp
from jax import lax

from ..core.axis_direction import DirectionName
from ..core.data_type import DataType
from ..core.rules import Operands, axis_of, minimum_rank, numbers, one_of, same_sizes
from ..core.sharding import Dims
from ..core.struct_rules import below_rank
from ..core.support import FLOATS, INDEX_TYPES, RANK_4, RANKS_1_TO_8, Support, levels
from ..lowering.combine import computed_type

__all__ = ["PRODUCT", "RULES", "STRUCT_RULES", "SUMMATION", "accumulate", "dims_of", "since"]


RULES = (
    numbers("input", with_zero=True),
    minimum_rank("input", 1),
    axis_of("input"),
    one_of("direction", get_args(DirectionName)),
)


def dims_of(x: Operands) -> Dims:
    """Every dimension but the axis keeps its sharding: there a device would need what others have."""
    names = [f"input {d}" for d in range(x["input"].ndim)]
    axis = x["axis"] % len(names)
    return Dims({"input": names}, [*names[:axis], "accumulated", *names[axis + 1 :]])


@dataclass(frozen=True)
class Accumulation:
    """How the elements along an axis are combined.

    Args:
      scan: the function of jax.lax.
      of_bools: the function for 0 and 1 as int8, which never overflows.
      start: the result for no elements.
    """

    scan: Callable[..., jax.Array]
    of_bools: Callable[..., jax.Array]
    start: int


SUMMATION = Accumulation(lax.cumsum, lax.cummax, 0)
PRODUCT = Accumulation(lax.cumprod, lax.cummin, 1)


def accumulate(kind: Accumulation, input: Any, axis: int, direction: str, exclusive: bool) -> jax.Array:
    """Combines, along an axis, the elements up to each one, or the elements before it if `exclusive`."""
    array = jnp.asarray(input)
    is_bool = array.dtype == jnp.bool_
    wide = array.astype(jnp.int8 if is_bool else computed_type(array.dtype))
    axis, reverse = axis % array.ndim, direction == "decreasing"
    found = (kind.of_bools if is_bool else kind.scan)(wide, axis=axis, reverse=reverse)
    if exclusive:
        shift: Sequence[Any] = (-1, 1, 0) if reverse else (1, -1, 0)
        edges = [shift if d == axis else (0, 0, 0) for d in range(array.ndim)]
        found = lax.pad(found, jnp.asarray(kind.start, found.dtype), edges)
    return found.astype(array.dtype)


_UP_TO_32_BITS = (*FLOATS, DataType.INT32, DataType.UINT32)
STRUCT_RULES = (same_sizes("output", "input"), below_rank("axis", "input"))


def since(level: str) -> tuple[Support, ...]:
    """Returns the table of an operator that exists from a feature level on."""
    return levels(
        ("5_0", RANKS_1_TO_8, (*FLOATS, *INDEX_TYPES)),
        ("4_0", RANKS_1_TO_8, _UP_TO_32_BITS),
        (level, RANK_4, _UP_TO_32_BITS),
    )
