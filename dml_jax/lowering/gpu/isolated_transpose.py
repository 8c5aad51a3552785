"""Transposes isolated from fusion on GPUs, of as few dimensions as possible, which XLA:GPU cuts into good tiles.

XLA:GPU (jaxlib 0.11) gives a transpose to Triton if it can cut the memory of the operand into tiles. Fused with the
split of a dimension it can do so only along sizes that are powers of two; alone it can along any. Space to depth of a
row of 15 elements with blocks of 5, (w, x) to (x, w), is then a transpose of its own:

    [0, 1, ... 14]  ->  barrier  ->  [[0, 5, 10], [1, 6, 11], ... [4, 9, 14]]  ->  barrier
"""

from functools import partial

import jax
from jax import lax

from ...operations.permute import PermuteCase
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import as_bits
from ...operations.values.packed_words import lanes
from .memory_coalescing import SECTOR, WARP, is_scattered, is_tiled

SIDE = 16  # the shortest side of a transpose for which XLA:GPU has tiles without Triton
# The long side of a matrix with a short one is cut into runs: XLA:GPU moves some at half the speed, but not runs of 8
# or 16 times an odd number of elements, of some two lines of a cache.
SHORT_SIDE, LONG_SIDE, RUNS, BEST_RUN = 12, 1024, range(56, 401), 240


def _pays(case: PermuteCase) -> bool:
    """Whether XLA fuses to a kernel that moves single elements far apart; it fuses no matrix of bytes well."""
    if case.is_operand:
        return False
    is_far = is_scattered(case)
    if lanes(case.operand.dtype) > 1:
        has_short_rows = case.has_rows and (case.itemsize == 1 or case.sizes[-1] * case.itemsize <= SECTOR)
        return (is_far or case.is_matrix or has_short_rows) and (not is_tiled(case) or (is_far and case.is_matrix))
    is_short = case.sides[0] < SIDE and case.sides[1] >= WARP
    return is_far and is_short and not case.is_matrix and not is_tiled(case)


def _transpose(case: PermuteCase, _: None, array: jax.Array) -> jax.Array:
    """The second barrier is around a flat array, so that XLA stores it in row-major order."""
    sizes, order = _in_runs(case)
    split = lax.reshape(array, sizes)
    moved = lax.transpose(lax.optimization_barrier(split), order)
    return lax.reshape(lax.optimization_barrier(lax.reshape(moved, (array.size,))), case.permutation.shape)


def _in_runs(case: PermuteCase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and order, with the long side of a thin matrix cut into runs where a good one divides it.

    That is the divisor nearest to 240 that is 8 or 16 times an odd number, or else the nearest odd one: of 224x224
    pixels 112, which is 16 * 7; of 320x320 pixels 200; of 299x299 pixels 299; of 256x256 pixels none.
    """
    (*batch, rows, columns), lead = case.sizes, len(case.sizes) - 2
    long = max(case.sides)
    if not case.is_matrix or lanes(case.operand.dtype) == 1 or min(case.sides) > SHORT_SIDE or long <= LONG_SIDE:
        return case.sizes, case.order
    divisors = [n for n in RUNS if long % n == 0]
    by_eights, odd = ([n for n in divisors if n & -n in powers] for powers in ((8, 16), (1,)))
    run = min(by_eights or odd, key=lambda n: abs(n - BEST_RUN), default=long)
    outer = tuple(range(lead))
    if rows > columns:
        return (*batch, rows // run, run, columns), (*outer, lead + 2, lead, lead + 1)
    return (*batch, rows, columns // run, run), (*outer, lead + 1, lead + 2, lead)


VARIANTS = (Variant("isolated_transpose", "permute", "cuda", lambda case: as_bits(partial(_transpose, case)), _pays),)
