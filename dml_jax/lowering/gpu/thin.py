"""Transposes thin matrices of narrow elements, of up to twelve rows or columns, in tiles that fill words.

Pixels of three channels become planes, where a thread reads four pixels and writes a word of each plane:

    reads   r0 g0 b0 r1   g1 b1 r2 g2   b2 r3 g3 b3        writes   r0 r1 r2 r3   g0 g1 g2 g3   b0 b1 b2 b3
"""

import jax

from ..values.words import lanes
from .stacks import LONGEST_STACK
from .tiles import permute_in_tiles

__all__ = ["is_thin", "transpose_thin"]

# Rows or columns, in stacks of two to four; a thread chooses among three stacks at most.
THIN = {2, 3, 4, 6, 8, 12}


def is_thin(rows: int, columns: int, count: int, *, read_words: bool) -> bool:
    """Whether `transpose_thin` takes matrices whose words hold `count` elements."""
    small, large = sorted((rows, columns))
    # XLA:GPU of jaxlib 0.11.2 gets words of bytes of three words wrong.
    is_right = not (read_words and count == 4 and small % 3 == 0)
    return small in THIN and large % count == 0 and is_right


def transpose_thin(matrices: jax.Array, *, read_words: bool) -> jax.Array:
    """Returns (batch, columns, rows) of (batch, rows, columns).

    The thin dimension is "Cc", the other one is "rl", whose elements "l" fill a word. A thread has all of a tile "lc".
    """
    batch, rows, columns = matrices.shape
    count, small = lanes(matrices.dtype), min(rows, columns)
    inner = max(n for n in range(1, LONGEST_STACK + 1) if small % n == 0)
    outer, long = small // inner, max(rows, columns) // count
    if columns == small:
        split = matrices.reshape(batch, long, count, outer, inner)
        chosen = "C" if outer > 1 else ""
        turned = permute_in_tiles(split, "brlCc", "bCcrl", "lcC", chosen, read_words=read_words)
    else:
        split = matrices.reshape(batch, outer, inner, long, count)
        turned = permute_in_tiles(split, "bCcrl", "brlCc", "lcC", read_words=read_words)
    return turned.reshape(batch, columns, rows)
