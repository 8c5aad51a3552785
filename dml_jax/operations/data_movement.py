"""Data movement without arithmetic: slice, concatenate, pad, tile, fill, and select between two numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .programs.partition import known_shards, move_on_each_device
from .programs.primitive import Back, Move, linear, transpose_of
from .programs.variant_selection import choose, known_bytes, shapes_of
from .values.accumulation_types import narrow_apart, wide_type
from .values.bit_exact import as_bits, is_key, is_narrow

# From a number of elements to the same move of words of so many elements; None if it moves parts of words.
InWords = Callable[[int], Move | None]


@dataclass(frozen=True)
class MoveCase:
    """One move, for the choice between implementations.

    Args:
      move: the function of (where, *data).
      data: shapes and types of the arrays that move, all of one dtype.
      result: shape and type.
      words: as of `move_elements`.
      aligned: as of `move_elements`.
      carry: as of `move_elements`.
      devices: among which XLA may divide an array.
    """

    move: Move
    data: Sequence[Any]
    result: Any
    words: InWords | None
    aligned: int
    carry: Callable[[Move], Move]
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of all arrays; 0 if nothing moves, or if a size is symbolic."""
        moves = not is_key(self.result) and 0 not in self.result.shape
        return known_bytes(self.result, *self.data) if moves else 0

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.result.dtype.itemsize

    @property
    def plain(self) -> Move:
        """The move; types that XLA would change move as integers."""
        return self.carry(self.move)


def move_elements(
    move: Move,
    where: Any,
    *data: Any,
    words: InWords | None = None,
    back: Back | None = None,
    aligned: int = 1,
    carry: Callable[[Move], Move] = as_bits,
) -> jax.Array:
    """Moves elements of `data`, which arrive bit for bit.

    Args:
      move: moves elements of `data` without looking at them.
      where: integers or booleans by which elements move; None if there are none.
      data: arrays of one dtype.
      words: takes a number of elements; returns the same move of arrays whose last dimension is words of so many, or
        None where parts of a word move.
      back: the transpose; by default that of `move`.
      aligned: a divisor of the sizes of all pieces along the axis on which they meet; 0 for one piece.
      carry: turns a move into one of integers, for types that XLA would change.
    """

    def chosen(back: Back | None, where: Any, *data: jax.Array) -> jax.Array:
        # Shapes are those of this trace: 64 bits may be off again while the program is lowered.
        result, *shapes = shapes_of(jax.eval_shape(move, where, *data), *data)
        case_of = partial(MoveCase, move, shapes, result, words, aligned, carry)
        return choose("move", case_of, back or transpose_of(move), is_opaque=is_opaque)(where, *data)

    # Narrow numbers move as integers, of which JAX has no derivative.
    is_opaque = back is not None or is_narrow(data[0].dtype)
    if shards := known_shards():
        on_each = move_on_each_device(partial(chosen, None), shards)
        return linear(on_each, back or transpose_of(move))(where, *data)
    return chosen(back, where, *data)


def back_with_number(move: Move) -> Back:
    """The transpose of a move whose last array is one number, whose cotangent is a sum that is rounded once.

    For [7, x, 7], x with a border of 7, the cotangent [1, 2, 3] gives 2 to x and 4 to the number. JAX would subtract
    the sum over x from that over all, which loses small numbers beside large ones.
    """

    def back(where: Any, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        *arrays, number = like
        wide = wide_type(cotangent.dtype)
        # The move of a mask: False for elements of the arrays, True for the number. [7, x, 7] has [True, False, True].
        is_number = move(where, *(jnp.zeros_like(x, bool) for x in arrays), jnp.ones_like(number, bool))
        total = jnp.where(is_number, cotangent.astype(wide), jnp.zeros((), wide)).sum()
        moved = jax.vjp(lambda *arrays: move(where, *arrays, number), *arrays)[1](cotangent) if arrays else ()
        return [*moved, narrow_apart(total, cotangent.dtype)]

    return back


def per_word(numbers: Sequence[Any], count: int) -> tuple[Any, ...]:
    """Sizes or offsets with the last one in words of `count` elements."""
    return tuple(numbers) if count == 1 else (*numbers[:-1], numbers[-1] // count)
