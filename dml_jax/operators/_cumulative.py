"""What cumulative sums and products share: rules, how they run, and the rules and levels of their structs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
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
from ..lowering.forms import forced_form

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
      combine: the function of jax.lax that combines two elements.
      scan: the function of jax.lax that combines a whole axis.
      start: the result for no elements.
    """

    combine: Callable[[jax.Array, jax.Array], jax.Array]
    scan: Callable[..., jax.Array]
    start: int


SUMMATION = Accumulation(lax.add, lax.cumsum, 0)
PRODUCT = Accumulation(lax.mul, lax.cumprod, 1)
# Of 0 and 1 as int8, which never overflow.
_OF_BOOLS = {SUMMATION: Accumulation(lax.max, lax.cummax, 0), PRODUCT: Accumulation(lax.min, lax.cummin, 1)}
# Elements of a step, and those of them that lie side by side.
LONG, SIDE_BY_SIDE = 1024, 64


def accumulate(kind: Accumulation, input: Any, axis: int, direction: str, exclusive: bool) -> jax.Array:
    """Combines, along an axis, the elements up to each one, or the elements before it if `exclusive`."""
    array = jnp.asarray(input)
    axis, reverse = axis % array.ndim, direction == "decreasing"
    is_bool = array.dtype == jnp.bool_
    kind, wide = _OF_BOOLS[kind] if is_bool else kind, jnp.int8 if is_bool else computed_type(array.dtype)

    def shifted(found: jax.Array) -> jax.Array:
        if not exclusive:
            return found
        shift: Sequence[Any] = (-1, 1, 0) if reverse else (1, -1, 0)
        edges = [shift if d == axis else (0, 0, 0) for d in range(array.ndim)]
        return lax.pad(found, jnp.asarray(kind.start, found.dtype), edges)

    def by_tree(x: jax.Array) -> jax.Array:
        # Narrowed last: XLA:GPU ends the process over pads of fewer than eight bits.
        return shifted(kind.scan(x.astype(wide), axis=axis, reverse=reverse)).astype(x.dtype)

    def by_rows(x: jax.Array) -> jax.Array:
        def step(total: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
            total = kind.combine(total, row.astype(wide))
            return total, total.astype(x.dtype)

        rows = jnp.moveaxis(x, axis, 0)
        _, found = lax.scan(step, jnp.full_like(rows[0], kind.start, wide), rows, reverse=reverse)
        return shifted(jnp.moveaxis(found, 0, axis))

    if forced_form() == "plain" or not _has_long_rows(array.shape, axis):
        return by_tree(array)
    # On two cores 2896x2896 of float32 take 5 instead of 24 ms along axis 0.
    return lax.platform_dependent(array, cpu=by_rows, default=by_tree)


def _has_long_rows(sizes: Sequence[Any], axis: int) -> bool:
    """Whether a step combines so much that starting it takes little of the time, and that lies side by side."""
    if not all(isinstance(n, int) for n in sizes) or 0 in sizes:
        return False
    return prod(sizes[axis + 1 :]) >= SIDE_BY_SIDE and prod(sizes) // sizes[axis] >= LONG


_UP_TO_32_BITS = (*FLOATS, DataType.INT32, DataType.UINT32)
STRUCT_RULES = (same_sizes("output", "input"), below_rank("axis", "input"))


def since(level: str) -> tuple[Support, ...]:
    """Returns the table of an operator that exists from a feature level on."""
    return levels(
        ("5_0", RANKS_1_TO_8, (*FLOATS, *INDEX_TYPES)),
        ("4_0", RANKS_1_TO_8, _UP_TO_32_BITS),
        (level, RANK_4, _UP_TO_32_BITS),
    )
