"""Sums of narrow floats on CPUs: updates are widened and added in chunks that stay in the cache.

XLA:CPU widens all updates at once, to fresh memory, and that costs more than to add them. It moves a conversion out of
a loop, as no iteration changes its result; so the updates of each iteration come from a barrier that its number passes,
and bfloat16 as bits, which XLA:CPU slices without widening all.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..primitive import varying_alike

__all__ = ["add_chunks", "as_image", "from_image", "widen"]

CHUNK = 2**19  # bytes of widened updates: a part of the L2 cache


def as_image(numbers: jax.Array) -> jax.Array:
    """The bits of bfloat16, other numbers as they are."""
    return lax.bitcast_convert_type(numbers, jnp.uint16) if numbers.dtype == jnp.bfloat16 else numbers


def from_image(image: jax.Array, dtype: Any) -> jax.Array:
    """Undoes `as_image` for numbers of a type."""
    return lax.bitcast_convert_type(image, dtype) if dtype == jnp.bfloat16 else image


def widen(image: jax.Array, wide: Any) -> jax.Array:
    """The numbers of `as_image` in a wider type."""
    if image.dtype != jnp.uint16:
        return image.astype(wide)
    return lax.bitcast_convert_type(image.astype(jnp.uint32) << 16, jnp.float32)


def add_chunks(rows: jax.Array, updates: jax.Array, count: int, wide: Any) -> jax.Array:
    """The sum of the updates of each row: (count, width), of the type of `updates`.

    Args:
      rows: the row of each update; `count` drops it.
      updates: floats, (number, width), neither 0.
      count: of rows.
      wide: the type in which they are added.
    """
    rows, updates, zeros = varying_alike(rows, updates, jnp.zeros((count, updates.shape[1]), wide))
    number, width = updates.shape
    size = min(number, max(1, CHUNK // (width * jnp.dtype(wide).itemsize)))

    def add(start: Any, size: int, updates: jax.Array, sums: jax.Array) -> jax.Array:
        at = lax.dynamic_slice_in_dim(rows, start, size)
        chunk = lax.dynamic_slice_in_dim(as_image(updates), start, size)
        return sums.at[at].add(widen(chunk, wide), mode="drop")

    def add_chunk(turn: jax.Array, sums: jax.Array) -> jax.Array:
        turn, now = lax.optimization_barrier((turn, updates))
        return add(turn * size, size, now, sums)

    whole = number // size
    sums = lax.fori_loop(0, whole, add_chunk, zeros)
    rest = number - whole * size
    return (add(whole * size, rest, updates, sums) if rest else sums).astype(updates.dtype)
