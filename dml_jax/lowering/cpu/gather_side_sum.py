"""Scatter-adds of few updates per row on CPUs, from the gather side: each row reads its own first updates.

XLA fuses these reads, their sum and its rounding into one loop over the result, which has all cores. If a row has more
updates, the others are added up before, in a small table with a place for each such row. With two reads:

    row 7 = updates 9 and 4 + place 0; row 8 = update 2; row 9 = updates 3 and 0 + place 1

The updates of a row are found without a sort: every update writes its number into its row. The update whose number
stays there is read first; the others write again. XLA:CPU writes one update after the other: the last one stays.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import sequential_vmap

from ...operations.programs.mesh_types import varying_alike
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.scatter_reduce import ScatterReduceCase
from .machine import LINE
from .unhoisted_loop import unhoisted_loop

READS = 4  # a row with more is rare where there are about as many updates as rows
TURN = 64  # updates that are added to the small table at once
MANY = 8 * READS  # updates a row, of which the small table would take most


def _add(case: ScatterReduceCase) -> Move | None:
    return sequential_vmap(partial(_add_rows, case)) if case.adds_to_zeros else None


def _pays(case: ScatterReduceCase) -> bool:
    """It pays if a row has at least as many cache lines as updates: to find an update takes a read of another line."""
    has_lines = case.row_bytes * case.rows.count >= LINE * max(case.number, case.rows.count)
    return case.takes_rows and case.is_narrow and has_lines and case.number <= MANY * case.rows.count


def _add_rows(case: ScatterReduceCase, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """The sum of the updates of each row, in wide numbers; the row after the last one drops an update."""
    count, wide = case.rows.count, case.wide
    rows, updates = case.rows.row_of_each(indices), case.rows.fold_updates(updates)
    number = lax.iota(jnp.int32, rows.shape[0])

    def write(is_left: jax.Array, values: jax.Array) -> jax.Array:
        """Per row the number of one of the updates that are left; -1 for none."""
        at = jnp.where(is_left, rows, np.int32(count))
        return jnp.full(count, -1, jnp.int32).at[at].set(values, mode="drop")

    def read(written: jax.Array) -> jax.Array:
        return written.at[rows].get(mode="clip")

    is_left, sources = rows < count, []
    for _ in range(READS):
        sources.append(write(is_left, number))
        is_left &= read(sources[-1]) != number
    is_first = is_left & (read(write(is_left, number)) == number)
    places = write(is_first, jnp.cumsum(is_first.astype(jnp.int32)) - 1)
    room = max(1, rows.shape[0] // (READS + 1))  # as many rows have more updates, at most
    others = _sum_others(updates, is_left, read(places), room, wide)
    *sources, places = lax.optimization_barrier((*sources, places))  # else they are found anew for every element
    total = _read_rows(others, places, wide)
    for source in reversed(sources):
        total = total + _read_rows(updates, source, wide)
    return case.rows.unfold(total.astype(updates.dtype))


def _read_rows(table: jax.Array, at: jax.Array, wide: Any) -> jax.Array:
    """Rows of the table; zeros for -1."""
    rows = table.at[jnp.maximum(at, 0)].get(mode="promise_in_bounds")  # "clip" is 2 times as slow
    return jnp.where(at[:, None] < 0, jnp.zeros((), wide), rows.astype(wide))


def _sum_others(updates: jax.Array, is_other: jax.Array, places: jax.Array, room: int, wide: Any) -> jax.Array:
    """Sums of some updates by place, in a loop over these updates."""
    number, width = updates.shape
    (others,) = jnp.nonzero(is_other, size=number + TURN, fill_value=number)

    def add_turn(turn: jax.Array, sums: jax.Array, updates: jax.Array) -> jax.Array:
        at = lax.dynamic_slice_in_dim(others, turn * TURN, TURN)
        place = places.at[at].get(mode="fill", fill_value=room)
        return sums.at[place].add(updates.at[at].get(mode="clip").astype(wide), mode="drop")

    zeros = varying_alike(jnp.zeros((room, width), wide), is_other)[0]
    return unhoisted_loop(0, -(-jnp.sum(is_other, dtype=jnp.int32) // TURN), add_turn, zeros, updates)


VARIANTS = (Variant("gather_side_sum", "scatter_reduce", "cpu", _add, _pays),)
