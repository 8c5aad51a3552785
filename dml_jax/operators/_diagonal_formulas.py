"""A number on neighbouring diagonals of matrices, for DIAGONAL_MATRIX and DIAGONAL_MATRIX1."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..operations.data_movement import back_with_number, move_elements
from ..operations.values.bit_exact import as_guarded_bits, index_dtype


def filled(input: jax.Array, begin: int, end: int, value: Any) -> jax.Array:
    """The matrices of the last two dimensions, `value` on the diagonals from `begin` up to `end`, or on all others."""
    sizes = input.shape[-2:]
    dtype = index_dtype(sizes)
    limits = jnp.iinfo(dtype)  # no diagonal has the largest of these numbers
    low, high = (min(max(number, int(limits.min)), int(limits.max)) for number in (begin, end))
    diagonal = lax.broadcasted_iota(dtype, sizes, 1) - lax.broadcasted_iota(dtype, sizes, 0)
    is_filled = (diagonal >= low) ^ (diagonal < high) ^ (end >= begin)
    back, value = back_with_number(_chosen), jnp.asarray(value)
    return move_elements(_chosen, is_filled, input, value, back=back, carry=as_guarded_bits)


def _chosen(is_filled: jax.Array, input: jax.Array, value: jax.Array) -> jax.Array:
    return jnp.where(is_filled, value, input)
