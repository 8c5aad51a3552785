"""A permutation of dimensions that assembles each word of the output from the elements of one small tile.

Dimensions are letters, as in einsum. Those of a tile are unrolled while tracing, the others stay dimensions of arrays:
one thread then reads neighbours which the plain permutation leaves to far-apart ones, and writes whole words.

Depth to space of bytes with blocks of 2 moves (y, x, c, h, w) to (c, h, y, w, x): neighbours along w are put 2 apart.
With the tile (x, l), where w is split into words of 4 lanes l, a thread reads 2 words and writes 2:

    reads   x=0: a0 a1 a2 a3        writes  a0 b0 a1 b1
            x=1: b0 b1 b2 b3                a2 b2 a3 b3
"""

from collections.abc import Callable, Mapping
from math import prod

import jax
import jax.numpy as jnp

from ..values.words import as_integers, element, from_words, join_elements, lanes, to_words
from .stacks import choose_one, concatenate_rows

__all__ = ["permute_in_tiles"]

# One element per thread: the coordinates of a tile's letters to an array over all other dimensions.
Reader = Callable[[Mapping[str, int]], jax.Array]


def permute_in_tiles(
    array: jax.Array,
    source: str,
    target: str,
    tile: str,
    chosen: str = "",
    *,
    read_words: bool,
    write_double: bool = False,
) -> jax.Array:
    """Permutes the last dimensions of `array` from the letters of `source` to those of `target`.

    Args:
      array: any dtype; dimensions before those of `source` stay first.
      source: one letter per dimension, outermost first.
      target: the same letters.
      tile: letters to unroll. Those at the end of `target`, and of `source` too to read words, must fill words.
      chosen: those of the tile along which threads choose one of the values that they read, instead of writing all.
      read_words: reads words and shifts elements out of them, and stacks flat rows, which no mesh can shard, where
        nothing is chosen; otherwise reads the elements and keeps all dimensions apart.
      write_double: writes words of 64 bits, of twice as many narrow elements, and stacks no flat rows. JAX has them in
        jax.enable_x64 alone.
    """
    lead = array.ndim - len(source)
    sizes = dict(zip(source, array.shape[lead:], strict=True))
    run, count = _ending(target, tile), lanes(array.dtype) * (2 if write_double else 1)
    outer = target[: len(target) - len(run)]
    integers = as_integers(array)
    read = _word_reader(integers, source, tile) if read_words and count > 1 else _element_reader(integers, source, tile)
    grid = [letter for letter in source if letter not in tile]
    order = [*range(lead), *(lead + grid.index(letter) for letter in outer if letter not in tile)]

    def word(at: Mapping[str, int], number: int) -> jax.Array:
        positions = range(number * count, (number + 1) * count)
        elements = [read({**at, **_coordinates(p, run, sizes)}) for p in positions]
        return join_elements(elements, array.dtype).transpose(order)

    def assemble(at: Mapping[str, int], letters: str) -> jax.Array:
        """The words with some of the tile's letters `at` their coordinates, and `letters` still to be put together."""
        if not letters:
            return jnp.stack([word(at, number) for number in range(words)], axis=-1)
        letter, inner = letters[0], letters[1:]
        axis = lead + sum(other not in tile or other in inner for other in outer[: outer.index(letter)])
        parts = [assemble({**at, letter: value}, inner) for value in range(sizes[letter])]
        if letter in chosen:
            return choose_one(parts, axis)
        if read_words and words == 1 and not inner and not write_double:
            return concatenate_rows([jnp.expand_dims(part, axis) for part in parts], axis)
        return jnp.stack(parts, axis)

    words = prod(sizes[letter] for letter in run) // count
    # Chosen letters come last, so that what XLA sees outermost is a stack.
    written = "".join(letter for letter in outer if letter in tile and letter not in chosen)
    result = assemble({}, written + chosen)
    elements = from_words(result, array.dtype) if count > 1 else result  # wide elements were never taken apart
    return elements.reshape(*array.shape[:lead], *(sizes[letter] for letter in target))


def _element_reader(array: jax.Array, source: str, tile: str) -> Reader:
    lead = (slice(None),) * (array.ndim - len(source))
    return lambda at: array[(*lead, *(at[letter] if letter in tile else slice(None) for letter in source))]


def _word_reader(array: jax.Array, source: str, tile: str) -> Reader:
    run = _ending(source, tile)
    outer = source[: len(source) - len(run)]
    shape, count = array.shape[: array.ndim - len(run)], lanes(array.dtype)
    sizes = dict(zip(source, array.shape[array.ndim - len(source) :], strict=True))
    words = to_words(array.reshape(*shape, prod(sizes[letter] for letter in run)))
    read = _element_reader(words, outer + "#", tile + "#")

    def read_lane(at: Mapping[str, int]) -> jax.Array:
        position = 0
        for letter in run:
            position = position * sizes[letter] + at[letter]
        return element(read({**at, "#": position // count}), position % count, array.dtype)

    return read_lane


def _ending(letters: str, tile: str) -> str:
    """The last letters that are of the tile."""
    return letters[len(letters.rstrip(tile)) :]


def _coordinates(position: int, letters: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """The coordinates of an element, counted in row-major order over `letters`."""
    at = {}
    for letter in reversed(letters):
        position, at[letter] = divmod(position, sizes[letter])
    return at
