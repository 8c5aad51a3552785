"""Transposes on CPUs, one half of the result after the other.

XLA:CPU (jaxlib 0.10) fuses a transpose with a reshape that merges dimensions, and then moves single elements. What it
concatenates, it fuses just so, but compiles to loops over vectors, and stores nothing in between.
"""

from collections.abc import Sequence

import jax
from jax import lax

__all__ = ["transpose_in_halves"]


def transpose_in_halves(array: jax.Array, order: Sequence[int], axis: int) -> jax.Array:
    """`array.transpose(order)`, in halves of dimension `axis` of the result."""
    middle = array.shape[order[axis]] // 2
    halves = [lax.slice_in_dim(array, *part, axis=order[axis]) for part in ((0, middle), (middle, None))]
    return lax.concatenate([half.transpose(order) for half in halves], axis)
