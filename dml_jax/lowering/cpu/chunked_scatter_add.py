"""Scatter-adds on CPUs, chunk by chunk, in wide numbers that stay in the cache.

XLA:CPU widens all updates and the whole table, to memory that the C library takes fresh from the system, and that costs
more than to add. It also stores an index tuple for every single element, where one number in a flat table would do.

Rows are added to one wide table, some updates after the others. Elements along an axis are added to a part of the table
of their own, which is then rounded. Along axis 1, in chunks of two rows and with rows of three elements:

    updates [[1, 2, 4], [1, 1, 1], ...] to elements [[0, 0, 2], [1, 1, 1], ...]
    flat, the first chunk adds 1 2 4 1 1 1 to numbers 0 0 2 4 4 4, and makes [[3, 0, 4], [0, 3, 0]]
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import sequential_vmap

from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.scatter_reduce import ScatterReduceCase
from ...operations.scatter_rows import Rows
from ...operations.values.xla_workarounds import WRITES_PARTS
from .cache_chunks import to_image, to_numbers
from .machine import LINE
from .unhoisted_loop import unhoisted_loop

CHUNK = 2**19  # bytes of wide numbers that stay in the L2 cache of a core, beside all else


def _loop(turns: int, step: Callable[[Any, Any, Any], Any], start: Any, arrays: Any) -> Any:
    """Repeats `step(turn, state, arrays)` from the state `start`; without a loop if there is one turn alone."""
    return step(np.int32(0), start, arrays) if turns == 1 else unhoisted_loop(0, turns, step, start, arrays)


def _add_rows(case: ScatterReduceCase, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """Adds rows to one wide table; indices out of range go to an extra row after its last one."""
    rows, wide = case.rows, case.wide
    numbers, folded, count = rows.row_of_each(indices), rows.fold_updates(updates), rows.count
    number, width = folded.shape
    size = min(number, max(1, CHUNK // (width * wide.itemsize)))

    def step(turn: Any, sums: jax.Array, arrays: tuple[jax.Array, jax.Array]) -> jax.Array:
        start = jnp.minimum(turn * size, number - size)
        at, chunk = (lax.dynamic_slice_in_dim(array, start, size) for array in arrays)
        is_new = start + lax.iota(jnp.int32, size) >= turn * size  # the last chunk begins in the one before
        return sums.at[jnp.where(is_new, at, count)].add(chunk.astype(wide), mode="drop")

    sums = _loop(-(-number // size), step, jnp.zeros((count, width), wide), (numbers, folded))
    return rows.unfold(sums.astype(updates.dtype))


def _add_elements(case: ScatterReduceCase, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """Adds elements in chunks along the longest dimension that is a batch of table and indices."""
    rows, slices, dtype = case.rows, case.rows.slices, updates.dtype
    dim, own = max(zip(slices.along, slices.indices_along, strict=True), key=lambda each: rows.shape[each[0]])
    length = rows.shape[dim]
    least = -(-LINE // (prod(rows.shape[dim + 1 :]) * case.itemsize))
    size = min(length, max(least, CHUNK * length // case.wide_bytes))
    part = replace(rows, shape=(*rows.shape[:dim], size, *rows.shape[dim + 1 :]))

    def step(turn: Any, result: jax.Array, arrays: tuple[jax.Array, jax.Array]) -> jax.Array:
        start = jnp.minimum(turn * size, length - size)  # the last two chunks may share elements, computed alike
        at, chunk = (lax.dynamic_slice_in_dim(array, start, size, own) for array in arrays)
        sums = _add_flat(part, at, chunk.astype(case.wide)).astype(dtype)
        return lax.dynamic_update_slice_in_dim(result, sums if WRITES_PARTS else to_image(sums), start, dim)

    zeros = jnp.zeros(rows.shape, dtype)
    result = _loop(-(-length // size), step, zeros if WRITES_PARTS else to_image(zeros), (indices, updates))
    return result if WRITES_PARTS else to_numbers(result, dtype)


def _add_flat(rows: Rows, indices: jax.Array, numbers: jax.Array) -> jax.Array:
    mode = "drop" if rows.write.mode == "fill" else "promise_in_bounds"
    zeros = jnp.zeros(prod(rows.shape), numbers.dtype)
    return zeros.at[rows.element_of_each(indices)].add(numbers.reshape(-1), mode=mode).reshape(rows.shape)


def _add(case: ScatterReduceCase) -> Move | None:
    if not case.adds_to_zeros:
        return None
    # A loop over batches at once would leave the cache.
    return sequential_vmap(partial(_add_elements if case.takes_elements else _add_rows, case))


def _pays(case: ScatterReduceCase) -> bool:
    """If updates are fewer than rows, filling the table with zeros takes most of the time either way."""
    is_widened = case.takes_rows and case.is_narrow
    return case.number >= case.rows.count and (case.takes_elements or is_widened)


VARIANTS = (Variant("chunked_scatter_add", "scatter_reduce", "cpu", _add, _pays),)
