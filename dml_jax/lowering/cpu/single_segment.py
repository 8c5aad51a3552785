"""Sums of updates of which all go to one row, on CPUs: XLA:CPU adds up columns of bfloat16 several times as fast.

Whether they do is known at run time only, where a branch costs a CPU nothing but a look at the row numbers.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..plain.reduction import Reduction
from ..plain.rows import Rows, Write
from ..values.accumulation_types import wide_type
from .cache_chunks_sum import as_image

__all__ = ["sum_by_row"]

# The row of each update, the updates, how many rows, and in which type they are added; to the sum of each row.
Sum = Callable[[jax.Array, jax.Array, int, Any], jax.Array]


def sum_by_row(
    sum_rows: Sum, shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Adds the updates of each row up to zeros, by `sum_rows` unless all are for one row."""
    rows, wide, add = Rows(shape, write), wide_type(updates.dtype), _unless_one_row(sum_rows)
    return rows.unfold(add(rows.row_of_each(indices), rows.fold_updates(updates), rows.count, wide))


def _unless_one_row(sum_rows: Sum) -> Sum:
    """The same as `sum_rows`, which adds to several rows; bfloat16 that is all for one row is added up by columns."""

    def function(rows: jax.Array, updates: jax.Array, count: int, wide: Any) -> jax.Array:
        if updates.dtype != jnp.bfloat16:  # XLA:CPU adds columns of other types up one after the other
            return sum_rows(rows, updates, count, wide)

        def in_one(rows: jax.Array, updates: jax.Array) -> jax.Array:
            return _sum_columns(rows[0], updates, count, wide)

        def in_several(rows: jax.Array, updates: jax.Array) -> jax.Array:
            return sum_rows(rows, updates, count, wide)

        return lax.cond(jnp.all(rows == rows[0]), in_one, in_several, rows, updates)

    return function


def _sum_columns(row: jax.Array, updates: jax.Array, count: int, wide: Any) -> jax.Array:
    total = lax.optimization_barrier(jnp.sum(updates.astype(wide), 0))  # fused with what follows it takes 20 x as long
    bits = as_image(lax.optimization_barrier(total.astype(updates.dtype)))
    is_row = lax.broadcasted_iota(jnp.int32, (count, 1), 0) == row
    return lax.bitcast_convert_type(jnp.where(is_row, bits, jnp.zeros((), bits.dtype)), updates.dtype)
