"""Copies of short rows on CPUs: elements that pass bounds, in a loop that LLVM then vectorises instead of unrolling.

LLVM unrolls a loop whose cost, that of its body times its length, is at most 300, and vectorises no loop that it has
unrolled. A copy of 64 elements costs 64 * 4. A minimum or a maximum costs 2 more, and hardly any time once vectorised.
"""

from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["SHORT", "as_unsigned", "from_unsigned", "has_unsigned", "never_one", "within_bounds"]

# Elements of a row: longer ones are vectorised anyway; of shorter ones a vector or two gain by bounds (gather's table).
SHORT = range(32, 77)
SHORTEST = 16  # elements of a row: shorter ones pass as many bounds as these
_UNROLLED, _COPY, _BOUND = 340, 4, 2  # what LLVM counts for a loop, with a margin, for a copy, for a minimum


def has_unsigned(dtype: Any) -> bool:
    """Whether the elements are bools, or integers or real floats that fill their bytes."""
    if dtype == jnp.bool_:
        return True
    info = jnp.iinfo if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo
    is_real = jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)
    return is_real and info(dtype).bits == 8 * dtype.itemsize


def as_unsigned(array: jax.Array) -> jax.Array:
    """The bits as unsigned integers."""
    image = jnp.dtype(f"uint{8 * array.dtype.itemsize}")
    return array.astype(image) if array.dtype == jnp.bool_ else lax.bitcast_convert_type(array, image)


def from_unsigned(integers: jax.Array, dtype: Any) -> jax.Array:
    """Undoes `as_unsigned`."""
    return integers != 0 if dtype == jnp.bool_ else lax.bitcast_convert_type(integers, dtype)


def never_one(integer: jax.Array) -> jax.Array:
    """0, which neither XLA nor LLVM finds out: one of two neighbouring integers is even."""
    number = integer.astype(jnp.uint32)
    return number * (number + 1) & 1


def within_bounds(rows: jax.Array, zero: jax.Array) -> jax.Array:
    """The same unsigned integers, none of which is less than 0 or greater than the greatest one.

    Args:
      rows: the last dimension is what the loop copies.
      zero: of `never_one`.
    """
    least = zero.astype(rows.dtype)
    for number in range(ceil((_UNROLLED / max(SHORTEST, rows.shape[-1]) - _COPY) / _BOUND)):
        rows = jnp.maximum(rows, least) if number % 2 else jnp.minimum(rows, ~least)
    return rows
