"""Writes that are a permutation of rows, as reads: every row of the result has one update, which it reads itself."""

import jax
import jax.numpy as jnp
from jax import lax

from ..plain.reduction import Reduction
from ..plain.rows import Rows, Write
from ..values.bits import as_bits
from ..values.words import from_words, lanes, to_words

__all__ = ["read_through_inverse"]


def read_through_inverse(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Reads the one update of each row: as many rows as updates, and none twice, are a permutation."""
    rows = Rows(shape, write)
    source = jnp.zeros(rows.count, jnp.int32)
    number = lax.iota(jnp.int32, rows.count)
    source = source.at[rows.row_of_each(indices)].set(number, mode="promise_in_bounds", unique_indices=True)
    read = lax.platform_dependent(source, rows.fold_updates(updates), cpu=_read_rows, default=_read_words)
    return rows.unfold(read)


def _read_words(source: jax.Array, rows: jax.Array) -> jax.Array:
    if rows.shape[1] % lanes(rows.dtype):
        return rows.at[source].get(mode="promise_in_bounds")
    return from_words(to_words(rows).at[source].get(mode="promise_in_bounds"), rows.dtype)


@as_bits
def _read_rows(source: jax.Array, rows: jax.Array) -> jax.Array:
    return rows.at[lax.optimization_barrier(source)].get(mode="promise_in_bounds")
