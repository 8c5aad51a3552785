"""Quantities of NVIDIA GPUs, and the costs of a transpose: which sectors a warp reads, and whether XLA:GPU tiles it.

A warp writes 128 bytes at once and reads sectors of 32. The first 128 bytes of the transpose of bytes [1000, 5] lie 5
apart, in 20 sectors: most bytes of a sector are read again for other rows. The transpose of bytes [5, 1000] reads 5
runs of 26.
"""

from math import prod

from ...operations.permute import PermuteCase

WARP, WORD = 32, 4  # threads that load and store together; bytes that each of them does in the time of one
STORE = 16  # bytes that a thread writes at once, or reads, at most
SECTOR, BURST = 32, 64  # bytes that the second cache gives a warp at once, and memory the second cache
CACHE = 2**25  # bytes that the second cache of a large GPU holds, for one kernel
MANY = 16  # sectors for a line of 128 bytes: of more, a quarter of the bytes that are read is used
TILE = 2**14  # elements of the largest tile of whole rows that XLA:GPU gives to Triton


def is_scattered(case: PermuteCase) -> bool:
    """Whether a warp reads many sectors for the first line of the result."""
    offsets = [0]
    for d in reversed(case.order):
        left, stride = -(-4 * WARP // (case.itemsize * len(offsets))), prod(case.sizes[d + 1 :])
        offsets = [at * stride + offset for at in range(min(case.sizes[d], left)) for offset in offsets]
    return len({offset * case.itemsize // SECTOR for offset in offsets}) > MANY


def is_tiled(case: PermuteCase) -> bool:
    """Whether XLA:GPU tiles the transpose although it fuses the split with it: all are by powers of two, and fit."""
    last, shown = case.sides
    return last * min(shown, WARP) <= TILE and all(size.bit_count() == 1 for size in case.divisors)


def is_reread(case: PermuteCase) -> bool:
    """Whether a sector has left the second cache before the element after the one that was read is read, too.

    The transpose of 2-byte elements [2**24, 4] writes 2**24 of them in between, and reads 8 bytes for each: all again.
    """
    between = case.order[case.order.index(len(case.order) - 1) + 1 :]
    step = prod(case.sizes[case.order[-1] + 1 :]) * case.itemsize
    return prod(case.sizes[d] for d in between) * min(step, SECTOR) > CACHE
