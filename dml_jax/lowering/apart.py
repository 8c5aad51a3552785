"""A transpose that XLA:GPU fuses with nothing.

XLA:GPU (jaxlib 0.11) gives a transpose to Triton if it can cut the memory of the operand into tiles. Fused with a
reshape of a flat buffer it can do so only along sizes that are powers of two; alone it can along any, and whole runs of
odd numbers of bytes stay together. Its own kernels take 1.3 to 6 times as long for bytes.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["transpose_apart"]


def transpose_apart(array: jax.Array, axes: Sequence[int]) -> jax.Array:
    """`jnp.transpose` between barriers, the second one around a flat array: a dimension of it may not be sharded."""
    turned = jnp.transpose(lax.optimization_barrier(array), axes)
    return lax.optimization_barrier(turned.reshape(-1)).reshape(turned.shape)
