"""A permutation of dimensions that XLA:GPU writes in ranges of the one that moves farthest.

Space to depth with blocks of 7 moves (h, y, w, x) to (y, x, h, w): seven neighbours along x part. As one array, every
thread reads a single element of a block. Here x is cut into the ranges 0-1, 2-3, 4-5 and 6, which are concatenated: a
thread reads the seven neighbours, and writes one element of each range.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import jax
from jax import lax

from .stacks import LONGEST_STACK, choose_one, concatenate_rows

__all__ = ["permute_in_ranges"]


def permute_in_ranges(array: jax.Array, source: str, target: str, letter: str) -> jax.Array:
    """Permutes the last dimensions of `array` from the letters of `source` to those of `target`.

    Args:
      array: any dtype; dimensions before those of `source` stay first.
      source: one letter per dimension, outermost first.
      target: the same letters.
      letter: of the dimension that is cut into ranges, of two elements or more.
    """
    lead = array.ndim - len(source)
    grid, at, axis = source.replace(letter, ""), lead + source.index(letter), lead + target.index(letter)
    order = [*range(lead), *(lead + grid.index(other) for other in target if other != letter)]
    elements = [lax.index_in_dim(array, x, at, keepdims=False).transpose(order) for x in range(array.shape[at])]
    return concatenate_rows([choose_one(some, axis) for some in _ranges(elements)], axis)


def _ranges(elements: Sequence[jax.Array]) -> Iterator[Sequence[jax.Array]]:
    """At most `LONGEST_STACK` ranges, as long as one another or by one longer."""
    count = min(LONGEST_STACK, len(elements))
    ends = [-(-len(elements) * number // count) for number in range(count + 1)]
    return (elements[start:end] for start, end in pairwise(ends))
