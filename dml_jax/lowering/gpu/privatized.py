"""Sums of many updates per row of a small table on GPUs, where additions to one address follow each other."""

from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..plain.reduction import Reduction
from ..plain.rows import Rows, Write
from ..values.accumulation_types import narrow_apart, wide_type

__all__ = ["COPIES", "add_in_copies"]

COPIES = 16


def add_in_copies(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Adds to several tables in turn, and those up: fewer additions wait for each other."""
    rows, wide = Rows(shape, write), wide_type(updates.dtype)
    row = rows.row_of_each(indices)
    turn = lax.iota(jnp.int32, row.shape[0]) % np.int32(COPIES)
    at = jnp.where(row < rows.count, row + turn * np.int32(rows.count), np.int32(COPIES * rows.count))
    tables = jnp.zeros((COPIES * rows.count, rows.width), wide)
    tables = tables.at[at].add(rows.fold_updates(updates).astype(wide), mode="drop")
    parts = tables.reshape(COPIES, rows.count, rows.width)
    return rows.unfold(narrow_apart(reduce(jnp.add, [parts[i] for i in range(COPIES)]), updates.dtype))
