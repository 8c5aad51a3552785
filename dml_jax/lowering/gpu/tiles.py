"""Transposes in small tiles: one thread of a GPU reads all elements of a tile, and writes whole words of them.

Depth to space of bytes with blocks of 2 moves (y, x, h, w) to (h, y, w, x): neighbours along w are put 2 apart. With w
split into words of 4 lanes, the tile (x, lane) has 8 elements, of which a thread reads 2 words and writes 2:

    reads   x=0: a0 a1 a2 a3        writes  a0 b0 a1 b1
            x=1: b0 b1 b2 b3                a2 b2 a3 b3

The plain permutation reads and writes single bytes. A tile of wide elements, which are words, has no lanes. Space to
depth with blocks of 7 moves (w, x) to (x, w): a thread reads the 7 neighbours along x, and writes an element of each of
the ranges 0-1, 2-3, 4-5 and 6.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...operations.permute import PermuteCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import as_bits
from ...operations.values.packed_words import as_integers, element, from_words, join_elements, lanes, to_words
from .memory_coalescing import BURST, WARP, is_reread, is_scattered, is_tiled

LARGEST = 9  # words of a tile: as many as 3 x 3
STACK = 4  # parts of a concatenation that XLA:GPU writes in one thread

# The coordinates of a tile's dimensions to an array over all other dimensions.
Reader = Callable[[Mapping[int, int]], jax.Array]


class Tile(NamedTuple):
    """Dimensions that are unrolled while tracing: lanes of a word, and a short tail.

    Args:
      sizes: of the operand, whose long dimension is split into words and lanes.
      order: of its dimensions in the result.
      dims: the dimensions that are unrolled.
      lanes: elements of a word; 1 if elements are read and written one by one.
      tail: their elements, without the lanes.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    dims: frozenset[int]
    lanes: int
    tail: int


def _tile(case: PermuteCase) -> Tile | None:
    """The last dimension of one side with those after it on the other side, if they make a small tile; else None."""
    sizes, order, last = case.sizes, case.order, len(case.sizes) - 1
    written, read = order[order.index(last) + 1 :], tuple(range(order[-1] + 1, last + 1))
    is_written = prod(sizes[d] for d in written) <= prod(sizes[d] for d in read)
    long, tail = (last, written) if is_written else (order[-1], read)
    count = _lanes(case, long, [sizes[d] for d in tail], is_written)
    if case.has_rows or not count:
        return None
    dims = [*(d + (d > long) for d in tail), long + 1]
    places = [place for d in order for place in ([long, long + 1] if d == long else [d + (d > long)])]
    split = (*sizes[:long], sizes[long] // count, count, *sizes[long + 1 :])
    return Tile(split, tuple(places), frozenset(dims), count, prod(sizes[d] for d in tail))


def _lanes(case: PermuteCase, long: int, tail: Sequence[int], is_written: bool) -> int:
    """How many elements of the long dimension a tile has: a word of them, or one; 0 if there is no such tile."""
    count, total = lanes(case.operand.dtype), prod(tail)
    if total * max(1, case.itemsize // 4) > LARGEST:
        return 0
    # A thread writes whole stacks of words; it does not choose among words of bytes, which take long to take apart.
    stacks = [total] if is_written else tail
    are_stacks = all(n <= STACK or (n % STACK == 0 and (is_written or count <= 2)) for n in stacks)
    if count > 1 and are_stacks and case.sizes[long] % count == 0:
        return count
    # Elements are written one by one to places far apart, as XLA:GPU does for matrices without tiles.
    has_ranges = (count == 1 and are_stacks) or (len(tail) == 1 and total < 2 * STACK)
    return int(has_ranges and not (is_written or case.is_matrix))


def _permute(case: PermuteCase) -> Move | None:
    tile = _tile(case)
    return tile and as_bits(partial(_permute_tile, case, tile))


def _pays(case: PermuteCase) -> bool:
    """Whether the plain permutation is slow, and a warp has the tiles of one row, or tiles of whole blocks.

    It is slow for bytes, and if it reads memory again. It is slow if it reads many sectors, unless XLA:GPU has tiles
    for it; but these are narrow where rows of the result are whole bursts.
    """
    tile = _tile(case)
    if tile is None or (max(case.sides) < WARP and len(tile.dims) == 2):
        return False
    if is_scattered(case):
        return not is_tiled(case) or case.sides[1] * case.itemsize % BURST == 0
    return tile.lanes == lanes(case.operand.dtype) and (case.itemsize == 1 or is_reread(case))


def _permute_tile(case: PermuteCase, tile: Tile, _: None, array: jax.Array) -> jax.Array:
    # XLA:GPU of jaxlib 0.11.2 gets words of bytes of three words wrong.
    read_words = tile.lanes > 1 and not (tile.lanes == 4 and tile.tail % 3 == 0)
    split = lax.reshape(array, tile.sizes)
    read = (_word_reader if read_words else _element_reader)(as_integers(split) if tile.lanes > 1 else split, tile.dims)
    moved = _assemble(read, tile, array.dtype)
    return lax.reshape(from_words(moved, array.dtype) if tile.lanes > 1 else moved, case.permutation.shape)


def _assemble(read: Reader, tile: Tile, dtype: Any) -> jax.Array:
    """The words of the result, in its order; in the last dimension are those that one thread writes side by side."""
    count, (outer, run) = tile.lanes, _ending(tile.order, tile.dims)
    grid = [d for d in range(len(tile.sizes)) if d not in tile.dims]
    order = [grid.index(d) for d in outer if d not in tile.dims]
    coordinates = [*np.ndindex(*(tile.sizes[d] for d in run))]

    def word(at: Mapping[int, int], number: int) -> jax.Array:
        positions = range(number * count, (number + 1) * count)
        elements = [read({**at, **dict(zip(run, coordinates[position], strict=True))}) for position in positions]
        return lax.transpose(join_elements(elements, dtype) if count > 1 else elements[0], order)

    def assemble(at: Mapping[int, int], dims: Sequence[int]) -> jax.Array:
        """Stacks the words along `dims`; the other dimensions of the tile are at the coordinates `at`."""
        if not dims:
            return jnp.stack([word(at, number) for number in range(len(coordinates) // count)], axis=-1)
        first, *inner = dims
        axis = sum(d not in tile.dims or d in inner for d in outer[: outer.index(first)])
        return _stack([assemble({**at, first: value}, inner) for value in range(tile.sizes[first])], axis)

    return assemble({}, [d for d in outer if d in tile.dims])


def _element_reader(array: jax.Array, tile: frozenset[int]) -> Reader:
    def read(at: Mapping[int, int]) -> jax.Array:
        ranges = [(at[d], at[d] + 1) if d in tile else (0, n) for d, n in enumerate(array.shape)]
        return lax.squeeze(lax.slice(array, *zip(*ranges, strict=True)), [d for d in range(array.ndim) if d in tile])

    return read


def _word_reader(array: jax.Array, tile: frozenset[int]) -> Reader:
    outer, run = _ending(range(array.ndim), tile)
    words = to_words(array.reshape(*array.shape[: len(outer)], prod(array.shape[d] for d in run)))
    count, read = lanes(array.dtype), _element_reader(words, tile | {len(outer)})

    def read_lane(at: Mapping[int, int]) -> jax.Array:
        position = int(np.ravel_multi_index([at[d] for d in run], [array.shape[d] for d in run]))
        return element(read({**at, len(outer): position // count}), position % count, array.dtype)

    return read_lane


def _ending(order: Sequence[int], tile: frozenset[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Divides the dimensions: those before the longest end that belongs to the tile, and that end."""
    end = next((place + 1 for place in reversed(range(len(order))) if order[place] not in tile), 0)
    return order[:end], order[end:]


def _stack(parts: Sequence[jax.Array], axis: int) -> jax.Array:
    """`jnp.stack` of any number, as a concatenation of at most `STACK`: a thread chooses among parts of one.

    A thread chooses between 0 and 4, 1 and 5, 2 and 6, 3 and 7 of eight parts; 0 and 1, 2 and 3, 4 and 5 of seven.
    """
    shape, total = parts[0].shape, len(parts)
    result = (*shape[:axis], total, *shape[axis:])
    if total > STACK and total % STACK == 0:
        return jnp.stack([_choose(parts[n::STACK], axis) for n in range(STACK)], axis + 1).reshape(result)
    count = min(STACK, total)
    ends = [-(-total * number // count) for number in range(count + 1)]
    chosen = [_choose(parts[start:end], axis) for start, end in pairwise(ends)]
    # Flat rows, of which XLA:GPU writes all in one thread.
    return lax.concatenate([part.reshape(prod(shape[:axis]), -1) for part in chosen], 1).reshape(result)


def _choose(parts: Sequence[jax.Array], axis: int) -> jax.Array:
    """`jnp.stack`, where every thread has all parts and takes the one of its coordinate."""
    shape = (*parts[0].shape[:axis], len(parts), *parts[0].shape[axis:])
    coordinate = lax.broadcasted_iota(jnp.int32, shape, axis)
    chosen, *others = (jnp.expand_dims(part, axis) for part in parts)
    for number, part in enumerate(others, 1):
        chosen = jnp.where(coordinate == number, part, chosen)
    return chosen


VARIANTS = (Variant("tiles", "permute", "cuda", _permute, _pays),)
