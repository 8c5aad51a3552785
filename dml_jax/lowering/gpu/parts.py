"""Sums in a wide table that is larger than a GPU's cache: one half of it after the other."""

import jax
from jax import lax

from ..plain.reduction import Reduction
from ..plain.rows import Write
from ..plain.scatter_reduce import combine_at_once
from ..values.accumulation_types import narrow_apart, wide_type

__all__ = ["add_in_halves"]


def add_in_halves(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Halves of the last dimension, which goes along with the indices', one after the other."""
    half, wide = shape[-1] // 2, wide_type(updates.dtype)
    ranges = [(0, half), (half, shape[-1])]
    parts = []
    for start, stop in ranges:
        of = (*shape[:-1], stop - start)
        cut = lax.slice_in_dim(indices, start, stop, axis=-2), lax.slice_in_dim(updates, start, stop, axis=-1)
        parts.append(combine_at_once(of, write, reduction, cut[0], cut[1].astype(wide)))  # nothing is rounded yet
    return narrow_apart(lax.concatenate(parts, len(shape) - 1), updates.dtype)
