"""Permutations in tiles: one thread of a GPU has all elements of a small tile, and writes whole words of them.

Depth to space of bytes with blocks of 2 moves (y, x, h, w) to (h, y, w, x): neighbours along w are put 2 apart. With w
split into words of 4 lanes, the tile (x, lane) has 8 elements, of which a thread reads 2 words and writes 2:

    reads   x=0: a0 a1 a2 a3        writes  a0 b0 a1 b1
            x=1: b0 b1 b2 b3                a2 b2 a3 b3

The plain permutation reads and writes single bytes. Of wide elements, which are words, a tile has no lanes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..plain.permute import PermuteCase
from ..primitive import Move
from ..select import Variant
from ..values.words import as_integers, element, from_words, join_elements, lanes, to_words

__all__ = ["VARIANTS"]

LARGEST = 64  # elements of a tile: larger ones take long to compile
STACK = 4  # parts of a concatenation that XLA:GPU writes in one thread
CHOICES = 3  # values among which a thread may choose one, instead of writing all

# The coordinates of a tile's dimensions to an array over all other dimensions.
Reader = Callable[[Mapping[int, int]], jax.Array]


class Tile(NamedTuple):
    """Dimensions that are unrolled while tracing: lanes of a word, and a short tail.

    Args:
      sizes: of the operand, whose long dimension is split into words and lanes.
      order: of its dimensions in the result.
      dims: that are unrolled.
      tail: their elements, without the lanes.
      is_written: whether the tail is the end of the result; else it is the end of the operand.
      choices: among how many values a thread chooses one.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    dims: frozenset[int]
    tail: int
    is_written: bool
    choices: int


def _tile(case: PermuteCase) -> Tile | None:
    """The tile between the last dimension of the one side and what follows it on the other; None if it is too large."""
    sizes, order, count = case.sizes, case.order, lanes(case.operand.dtype)
    last, shown = len(sizes) - 1, order[-1]
    tails = {last: _shortest(order[order.index(last) + 1 :], sizes, count), shown: tuple(range(shown + 1, last + 1))}
    long = min(tails, key=lambda d: prod(sizes[t] for t in tails[d]))
    tail = prod(sizes[d] for d in tails[long])
    if case.has_rows or sizes[long] % count or tail * count > LARGEST:
        return None
    choices, is_written = prod(-(-sizes[d] // STACK) for d in tails[long]), long == last
    dims, lane = [d + (d > long) for d in tails[long]], [long + 1]
    places = [place for d in order for place in ([long, *lane] if d == long else [d + (d > long)])]
    split = (*sizes[:long], sizes[long] // count, count, *sizes[long + 1 :])
    return Tile(split, tuple(places), frozenset([*dims, *lane]), tail, is_written, 1 if is_written else choices)


def _shortest(dims: Sequence[int], sizes: Sequence[int], count: int) -> Sequence[int]:
    """The last of the dimensions, if they fill words; else all."""
    fill = (dims[start:] for start in reversed(range(len(dims))) if prod(sizes[d] for d in dims[start:]) % count == 0)
    return next(fill, dims) if count > 1 else dims


def _permute(case: PermuteCase) -> Move | None:
    tile = _tile(case) if case.devices == 1 else None
    return tile and partial(_permute_tile, case, tile)


def _pays(case: PermuteCase) -> bool:
    """Whether a thread writes whole stacks; XLA:GPU has tiles of its own for matrices of wide elements."""
    tile, is_wide = _tile(case), case.itemsize >= 4
    if tile is None or (is_wide and (tile.is_written or case.is_matrix)):
        return False
    return (tile.tail <= STACK or tile.tail % STACK == 0) if tile.is_written else tile.choices <= CHOICES


def _permute_tile(case: PermuteCase, tile: Tile, _: None, array: jax.Array) -> jax.Array:
    count = lanes(array.dtype)
    # XLA:GPU of jaxlib 0.11.2 gets words of bytes of three words wrong.
    read_words = count > 1 and not (count == 4 and tile.tail % 3 == 0)
    integers = as_integers(lax.reshape(array, tile.sizes))
    read = (_word_reader if read_words else _element_reader)(integers, tile.dims)
    moved = _assemble(read, tile, array.dtype)
    return lax.reshape(from_words(moved, array.dtype) if count > 1 else moved, case.permutation.shape)


def _assemble(read: Reader, tile: Tile, dtype: Any) -> jax.Array:
    """The words of the result, in its order; in the last dimension are those that one thread writes side by side."""
    count, (outer, run) = lanes(dtype), _ending(tile.order, tile.dims)
    grid = [d for d in range(len(tile.sizes)) if d not in tile.dims]
    order = [grid.index(d) for d in outer if d not in tile.dims]
    words = prod(tile.sizes[d] for d in run) // count

    def word(at: Mapping[int, int], number: int) -> jax.Array:
        positions = range(number * count, (number + 1) * count)
        elements = [read({**at, **_coordinates(position, run, tile.sizes)}) for position in positions]
        return lax.transpose(join_elements(elements, dtype), order)

    def assemble(at: Mapping[int, int], dims: Sequence[int]) -> jax.Array:
        """With some of the tile's dimensions `at` their coordinates, and `dims` still to be put together."""
        if not dims:
            return jnp.stack([word(at, number) for number in range(words)], axis=-1)
        first, *inner = dims
        axis = sum(d not in tile.dims or d in inner for d in outer[: outer.index(first)])
        return _stack([assemble({**at, first: value}, inner) for value in range(tile.sizes[first])], axis)

    return assemble({}, [d for d in outer if d in tile.dims])


def _element_reader(array: jax.Array, tile: frozenset[int]) -> Reader:
    return lambda at: array[tuple(at[d] if d in tile else slice(None) for d in range(array.ndim))]


def _word_reader(array: jax.Array, tile: frozenset[int]) -> Reader:
    outer, run = _ending(range(array.ndim), tile)
    words = to_words(array.reshape(*array.shape[: len(outer)], prod(array.shape[d] for d in run)))
    count, read = lanes(array.dtype), _element_reader(words, tile | {len(outer)})

    def read_lane(at: Mapping[int, int]) -> jax.Array:
        position = 0
        for d in run:
            position = position * array.shape[d] + at[d]
        return element(read({**at, len(outer): position // count}), position % count, array.dtype)

    return read_lane


def _ending(order: Sequence[int], tile: frozenset[int]) -> tuple[Sequence[int], Sequence[int]]:
    """The dimensions, and the last ones of them that are of the tile."""
    end = next((place + 1 for place in reversed(range(len(order))) if order[place] not in tile), 0)
    return order[:end], order[end:]


def _coordinates(position: int, dims: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
    """The coordinates of an element, counted in row-major order over `dims`."""
    at = {}
    for d in reversed(dims):
        position, at[d] = divmod(position, sizes[d])
    return at


def _stack(parts: Sequence[jax.Array], axis: int) -> jax.Array:
    """`jnp.stack`, in at most `STACK` ranges: a thread writes an element of each, chosen among those of the range.

    XLA:GPU does so for ranges that are concatenated as flat rows.
    """
    shape, count = parts[0].shape, min(STACK, len(parts))
    ends = [-(-len(parts) * number // count) for number in range(count + 1)]
    ranges = [_choose(parts[start:end], axis) for start, end in pairwise(ends)]
    rows = [part.reshape(prod(shape[:axis]), prod(part.shape[axis:])) for part in ranges]
    return lax.concatenate(rows, 1).reshape(*shape[:axis], len(parts), *shape[axis:])


def _choose(parts: Sequence[jax.Array], axis: int) -> jax.Array:
    """`jnp.stack`, where every thread has all parts and takes the one of its coordinate."""
    shape = (*parts[0].shape[:axis], len(parts), *parts[0].shape[axis:])
    coordinate = lax.broadcasted_iota(jnp.int32, shape, axis)
    chosen, *others = (jnp.expand_dims(part, axis) for part in parts)
    for number, part in enumerate(others, 1):
        chosen = jnp.where(coordinate == number, part, chosen)
    return chosen


VARIANTS = (Variant("tiles", "permute", "cuda", _permute, _pays),)
