"""The plain form of a scatter that combines: all updates at once, with what lax has."""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from ..values.bits import as_bits
from .fill import fill
from .reduction import Reduction
from .rows import Write

__all__ = ["combine_at_once", "store_updates"]


def combine_at_once(
    shape: tuple[int, ...],
    write: Write,
    reduction: Reduction,
    indices: jax.Array,
    *data: jax.Array,
    fill: Callable[[Any, tuple[int, ...]], jax.Array] = fill,
) -> jax.Array:
    """Stores where nothing meets and nothing was, else combines encoded numbers.

    Args:
      shape: of the table.
      write: how.
      reduction: what is done where two meet.
      indices: in the rank that lax.scatter wants.
      data: the table, unless it holds the identity of the reduction; the updates.
      fill: makes such a table, of the identity and the shape.
    """
    *table, updates = data
    dtype = updates.dtype
    if write.unique_indices and not table:
        return store_updates(indices, fill(reduction.identity(dtype), shape), updates, write)
    encoded = reduction.encode(updates)
    into = reduction.encode(table[0]) if table else fill(reduction.identity(encoded.dtype), shape)
    return reduction.decode(reduction.scatter(into, indices, encoded, write.numbers, **write.promises), dtype)


def store_updates(indices: jax.Array, table: jax.Array, updates: jax.Array, write: Write) -> jax.Array:
    """Writes over what the table holds, as bits."""

    def store(indices: jax.Array, table: jax.Array, updates: jax.Array) -> jax.Array:
        return lax.scatter(table, indices, updates, write.numbers, **write.promises)

    return as_bits(store)(indices, table, updates)
