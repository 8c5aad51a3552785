"""Transposes matrices on a CPU by panels of sixteen rows: rows a power of two apart would evict each other."""

import jax
import jax.numpy as jnp
from jax import lax

from ..primitive import varying_alike

__all__ = ["transpose_in_panels"]

# XLA:CPU unrolls a loop over so many elements; a loop over 64 takes 3 times as long.
HEIGHT = 16
# Bytes between the rows of a panel's copy. Rows of 8192 bytes would all lie in one set of the first cache, which holds
# about ten lines; with a gap of a line, sixteen rows lie in sixteen sets.
GAP = 64


def transpose_in_panels(matrices: jax.Array) -> jax.Array:
    """Swaps the last two dimensions of an array of matrices.

    Of each matrix, one panel of rows after the other is copied, with gaps, and written as columns of the result:

      rows 0-15  -> copy -> columns 0-15 of the result
      rows 16-31 -> copy -> columns 16-31
      rows 24-39 -> copy -> columns 24-39: the last panel of 40 rows starts early, so that it is whole

    Args:
      matrices: [batch, rows, columns], none of which is empty.

    Returns:
      [batch, columns, rows].
    """
    batch, rows, columns = matrices.shape
    height, gap, zero = min(HEIGHT, rows), GAP // matrices.dtype.itemsize, jnp.zeros((), matrices.dtype)
    panels = -(-rows // height)

    def write(step: jax.Array, turned: jax.Array) -> jax.Array:
        matrix, row = step // panels, step % panels * height  # JAX clamps the last row, both where it reads and writes
        panel = lax.dynamic_slice(matrices, (matrix, row, 0), (1, height, columns))
        with_gaps = lax.optimization_barrier(lax.pad(panel, zero, [(0, 0, 0), (0, 0, 0), (0, gap, 0)]))
        part = lax.optimization_barrier(with_gaps[:, :, :columns].swapaxes(1, 2))
        return lax.dynamic_update_slice(turned, part, (matrix, 0, row))

    _, empty = varying_alike(matrices, jnp.zeros((batch, columns, rows), matrices.dtype))
    return lax.fori_loop(0, batch * panels, write, empty)
