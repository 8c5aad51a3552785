"""Unfold (im2col) on GPUs as slices of one padded array, which one kernel reads.

Windows of 2 x 2 elements of [[1, 2, 3], [4, 5, 6]] have the elements [[1, 2]], [[2, 3]], [[4, 5]] and [[5, 6]], four
slices. Dimension by dimension, the two rows [[1, 2, 3]] and [[4, 5, 6]] would be written to memory and read again.
"""

from math import prod

import jax
import jax.numpy as jnp

from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.sliding_windows import WindowCase
from ...operations.values.bit_exact import as_guarded_bits
from ...operations.window_slices import FEW, are_sliceable, read_slices


def _unfold(case: WindowCase) -> Move | None:
    def stack(_: None, array: jax.Array) -> jax.Array:
        slices = jnp.stack([*read_slices(array, case.axes, case.windows)], case.axes[0])
        return slices.reshape(case.result.shape)

    return as_guarded_bits(stack) if are_sliceable(case.windows) else None


def _pays(case: WindowCase) -> bool:
    """Slices pay while they are few: each thread of the kernel looks for the slice that has its element."""
    is_short = prod(dim.window for dim in case.windows) <= FEW
    return is_short and not any(dim.are_tiles for dim in case.windows)


VARIANTS = (Variant("slices", "unfold", "cuda", _unfold, _pays),)
