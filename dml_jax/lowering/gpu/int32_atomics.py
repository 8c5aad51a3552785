"""Narrow integers combined as 32-bit ones: XLA:GPU compares and swaps words where it combines parts of them."""

import jax
import jax.numpy as jnp

from ..plain.reduction import Reduction
from ..plain.rows import Write

__all__ = ["combine_as_words"]


def combine_as_words(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, *data: jax.Array
) -> jax.Array:
    """Integers of 32 bits, which a GPU combines where they are; the lower bits are those of the narrow type."""
    *table, updates = data
    dtype = updates.dtype
    wide = jnp.uint32 if jnp.issubdtype(dtype, jnp.unsignedinteger) else jnp.int32
    into = table[0].astype(wide) if table else jnp.full(shape, reduction.identity(dtype).astype(wide))
    return reduction.scatter(into, indices, updates.astype(wide), write.numbers, **write.promises).astype(dtype)
