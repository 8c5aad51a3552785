"""Transposes that XLA:GPU fuses with nothing, of as few dimensions as possible, which it cuts into good tiles.

XLA:GPU (jaxlib 0.11) gives a transpose to Triton if it can cut the memory of the operand into tiles. Fused with the
split of a dimension it can do so only along sizes that are powers of two; alone it can along any. Space to depth of a
row of 15 elements with blocks of 5, (w, x) to (x, w), is then a transpose of its own:

    [0, 1, ... 14]  ->  barrier  ->  [[0, 5, 10], [1, 6, 11], ... [4, 9, 14]]  ->  barrier
"""

from functools import partial

import jax
from jax import lax

from ..plain.permute import WARP, PermuteCase
from ..primitive import Move
from ..select import Variant
from ..values.bits import as_bits, is_float
from ..values.words import lanes

__all__ = ["VARIANTS"]

TILE = 2**14  # elements of the largest tile of whole rows that XLA:GPU gives to Triton
SIDE = 16  # the shortest side of a transpose for which XLA:GPU has tiles without Triton
FEW = 4  # elements side by side that a warp reads from as many sectors as it may
# Of a matrix with a short side the long one is cut into runs: XLA:GPU moves some at half the speed, but not those of 8
# or 16 times an odd number of elements, of some two lines of a cache.
SHORT_SIDE, RUNS, BEST_RUN = 12, range(56, 401), 240


def _permute(case: PermuteCase) -> Move | None:
    return as_bits(partial(_transpose, case), is_float) if case.devices == 1 else None


def _pays(case: PermuteCase) -> bool:
    """Whether XLA fuses to a kernel that moves single elements: always of bytes, else where lines are read in part."""
    if case.is_operand or case.itemsize == 1:
        return not case.is_operand
    is_far = case.is_scattered and case.sides[1] >= WARP
    if lanes(case.operand.dtype) > 1:
        return is_far or (case.is_matrix and min(case.sides) > FEW and not _has_tiles(case))
    return is_far and case.sides[0] < SIDE and not case.is_matrix


def _transpose(case: PermuteCase, _: None, array: jax.Array) -> jax.Array:
    """The second barrier is around a flat array, so that XLA stores it in row-major order."""
    sizes, order = _in_runs(case)
    split = lax.reshape(array, sizes)
    moved = lax.transpose(split if _has_tiles(case) else lax.optimization_barrier(split), order)
    return lax.reshape(lax.optimization_barrier(lax.reshape(moved, (array.size,))), case.permutation.shape)


def _has_tiles(case: PermuteCase) -> bool:
    """Whether Triton gets the transpose anyway: all sizes from the first that moves on are powers of two, and fit."""
    last, shown = case.sides
    first = next(place for place, d in enumerate(case.order) if place != d)
    return last * min(shown, WARP) <= TILE and all(size.bit_count() == 1 for size in case.sizes[first + 1 :])


def _in_runs(case: PermuteCase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and order, with the long side of a thin matrix cut into runs where a good one divides it.

    That is the divisor nearest to 240 that is 8 or 16 times an odd number, or else the nearest odd one: of 224x224
    pixels 112, which is 16 * 7; of 320x320 pixels 200; of 299x299 pixels 299; of 256x256 pixels none.
    """
    (*batch, rows, columns), lead = case.sizes, len(case.sizes) - 2
    long = max(case.sides)
    if not case.is_matrix or lanes(case.operand.dtype) == 1 or min(case.sides) > SHORT_SIDE:
        return case.sizes, case.order
    divisors = [n for n in RUNS if long % n == 0]
    by_eights, odd = ([n for n in divisors if n & -n in powers] for powers in ((8, 16), (1,)))
    run = min(by_eights or odd, key=lambda n: abs(n - BEST_RUN), default=long)
    outer = tuple(range(lead))
    if rows > columns:
        return (*batch, rows // run, run, columns), (*outer, lead + 2, lead, lead + 1)
    return (*batch, rows, columns // run, run), (*outer, lead + 1, lead + 2, lead)


VARIANTS = (Variant("isolated_transpose", "permute", "cuda", _permute, _pays),)
