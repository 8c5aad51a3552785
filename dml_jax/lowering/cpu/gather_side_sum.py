"""Sums of few updates per row of a large table on CPUs, without a wide table: each row reads its own first updates.

XLA fuses these reads, their sum and its rounding into one loop over the result, which has all cores. Of a row with more
updates the others are added up before, in a small table with a place for each such row. In turns of two reads:

    row 7 = updates 9 and 4 + place 0; row 8 = update 2; row 9 = updates 3 and 0 + place 1

Who reads what is found without a sort: every update writes its number into its row, and who finds it there is read in
this turn; the others write again in the next one. XLA:CPU writes one update after the other, so the last one is found.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..primitive import varying_alike
from .cache_chunks_sum import as_image, widen

__all__ = ["pull_sums"]

READS = 4  # a row with more is rare where there are about as many updates as rows
TURN = 64  # updates that are added to the small table at once


def pull_sums(rows: jax.Array, updates: jax.Array, count: int, wide: Any) -> jax.Array:
    """The sum of the updates of each row: (count, width), of the type of `updates`.

    Args:
      rows: the row of each update; `count` drops it.
      updates: floats, (number, width), neither 0.
      count: of rows.
      wide: the type in which they are added.
    """
    number = lax.iota(jnp.int32, rows.shape[0])

    def write(is_left: jax.Array, values: jax.Array) -> jax.Array:
        """Per row one of the values that are left; -1 for none."""
        at = jnp.where(is_left, rows, np.int32(count))
        return jnp.full(count, -1, jnp.int32).at[at].set(values, mode="drop")

    def found(written: jax.Array) -> jax.Array:
        return written.at[rows].get(mode="clip")

    is_left, sources = rows < count, []
    for _ in range(READS):
        sources.append(write(is_left, number))
        is_left &= found(sources[-1]) != number
    is_first = is_left & (found(write(is_left, number)) == number)
    places = write(is_first, jnp.cumsum(is_first.astype(jnp.int32)) - 1)
    others = _sum_others(updates, is_left, found(places), wide)
    *sources, places = lax.optimization_barrier((*sources, places))  # else they are found anew for every element
    total = jnp.zeros((), wide)
    for source in sources:
        total = total + _read(as_image(updates), source, wide)
    return (total + _read(others, places, wide)).astype(updates.dtype)


def _read(table: jax.Array, at: jax.Array, wide: Any) -> jax.Array:
    """Rows of the table; zeros for -1."""
    rows = table.at[jnp.maximum(at, 0)].get(mode="promise_in_bounds")  # "clip" is 2 times as slow
    return jnp.where(at[:, None] < 0, jnp.zeros((), wide), widen(rows, wide))


def _sum_others(updates: jax.Array, is_other: jax.Array, places: jax.Array, wide: Any) -> jax.Array:
    """The sums of some updates, by place, in as many turns of a loop as there are such updates."""
    number, width = updates.shape
    count, room = max(1, number // (READS + 1)), number + TURN
    rank = jnp.cumsum(is_other.astype(jnp.int32))
    at = jnp.where(is_other, rank - 1, np.int32(room))

    def gathered(values: jax.Array, fill: int) -> jax.Array:
        return jnp.full(room, np.int32(fill)).at[at].set(values, mode="drop", unique_indices=True)

    sources, targets = gathered(lax.iota(jnp.int32, number), 0), gathered(places, count)

    def goes_on(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        return state[0] < rank[-1]

    def add_turn(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        start, sums = state
        start, now = lax.optimization_barrier((start, updates))
        source, target = (lax.dynamic_slice_in_dim(array, start, TURN) for array in (sources, targets))
        read = widen(as_image(now).at[source].get(mode="promise_in_bounds"), wide)
        return start + TURN, sums.at[target].add(read, mode="drop")

    start = varying_alike(jnp.zeros((), jnp.int32), jnp.zeros((count, width), wide), updates, rank)[:2]
    return lax.while_loop(goes_on, add_turn, start)[1]
