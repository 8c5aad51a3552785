"""Where the greatest of some integers lie."""

import jax
import jax.numpy as jnp
from jax import lax

from .ranks import float_in_order

__all__ = ["greatest"]


def greatest(keys: jax.Array, k: int, axis: int) -> jax.Array:
    """The places of the k greatest integers along an axis, the greatest first; of equal ones the first one first."""

    def of_integers(keys: jax.Array) -> jax.Array:
        return lax.top_k(keys, k, axis=axis)[1]

    def of_floats(keys: jax.Array) -> jax.Array:
        return lax.top_k(float_in_order(keys), k, axis=axis)[1]

    if keys.dtype != jnp.int32:
        return of_integers(keys)
    # XLA:CPU sorts all integers, but takes only the first k of floats, which it compares by their bits: 16 of 1024x1024
    # in 4.3 instead of 130 ms, 50 of 16x50000 in 1.4 instead of 140. On an H100 both take as long as a sort.
    return lax.platform_dependent(keys, cpu=of_floats, default=of_integers)
