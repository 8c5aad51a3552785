"""Transposes that XLA:GPU fuses with nothing, along dimensions that it cuts into good tiles.

XLA:GPU (jaxlib 0.11) gives a transpose to Triton if it can cut the memory of the operand into tiles. Fused with a
reshape of a flat buffer it can do so only along sizes that are powers of two; alone it can along any, and whole runs of
odd numbers of bytes stay together. Its own kernels take 1.3 to 6 times as long for bytes.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["good_run", "transpose_apart", "transpose_in_runs"]

# Of runs of other lengths XLA:GPU moves some at half the speed: multiples of 32, and a few of 2 or 4 times odd numbers.
GOOD_RUNS = range(56, 401)
BEST_RUN = 240


def transpose_apart(array: jax.Array, axes: Sequence[int]) -> jax.Array:
    """`jnp.transpose` between barriers, the second one around a flat array: a dimension of it may not be sharded."""
    turned = jnp.transpose(lax.optimization_barrier(array), axes)
    return lax.optimization_barrier(turned.reshape(-1)).reshape(turned.shape)


def good_run(side: int) -> int | None:
    """The length of the runs into which a long side of `side` elements is cut; None where no good one divides it.

    That is the divisor nearest to 240 that is 8 or 16 times an odd number, or else the nearest odd one: of 224x224
    pixels 112, which is 16 * 7; of 320x320 pixels 200; of 299x299 pixels 299; of 256x256 pixels none.
    """
    divisors = [n for n in GOOD_RUNS if side % n == 0]
    by_eights, odd = ([n for n in divisors if n & -n in powers] for powers in ((8, 16), (1,)))
    return min(by_eights or odd, key=lambda n: abs(n - BEST_RUN), default=None)


def transpose_in_runs(matrices: jax.Array, run: int) -> jax.Array:
    """Returns (batch, columns, rows) of (batch, rows, columns), whose longer side is cut into runs."""
    batch, rows, columns = matrices.shape
    if rows > columns:
        turned = transpose_apart(matrices.reshape(batch, rows // run, run, columns), (0, 3, 1, 2))
    else:
        turned = transpose_apart(matrices.reshape(batch, rows, columns // run, run), (0, 2, 3, 1))
    return turned.reshape(batch, columns, rows)
