"""Gathers, scatters and copies of 32-bit words instead of elements: a GPU moves a word in the time of a byte.

A row of eight bytes is two words. Reading rows 1 and 0 of [[0, 1, ... 7], [8, 9, ... 15]] as words

    [[0x03020100, 0x07060504], [0x0b0a0908, 0x0f0e0d0c]]  ->  [[0x0b0a0908, 0x0f0e0d0c], [0x03020100, 0x07060504]]

takes four reads instead of sixteen, and gives the same bytes.
"""

from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.data_movement import MoveCase
from ...operations.gather import GatherCase, Read
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.scatter import ScatterCase
from ...operations.strided_reads import read_view
from ...operations.strided_views import ViewCase
from ...operations.values.packed_words import as_integers, becomes_words, from_words, lanes, to_words, words_per_element
from ...strides.layout import Layout


def _read_rows(case: GatherCase) -> Move | None:
    """Rows of whole words; on several devices the last dimension alone, whose shards are whole words too."""
    dims, count = case.row_dims, lanes(case.input.dtype)
    if dims and case.input.shape[-1] % (count * case.devices) == 0:
        dims = 1
    elif case.devices > 1:
        return None
    is_whole = count > 1 and dims and prod(case.input.shape[case.input.ndim - dims :]) % count == 0
    return partial(_read_words, case.read, dims) if is_whole else None


def _read_words(read: Read, dims: int, indices: jax.Array, input: jax.Array) -> jax.Array:
    rows, of_rows = read.of_rows(input, dims)
    words = of_rows(indices, to_words(rows))
    return from_words(words, input.dtype).reshape(*words.shape[:-1], *input.shape[input.ndim - dims :])


def _move(case: MoveCase) -> Move | None:
    """Elements of 8 bytes as two words each; narrow ones if the last dimension is whole words, on every device too."""
    dtype, count = case.result.dtype, lanes(case.result.dtype)
    if words_per_element(dtype) == 2:
        return partial(_move_halves, case.move)
    fits = count > 1 and all(_has_words(array, case.devices) for array in (case.result, *case.data))
    move = case.words(count) if case.words and fits else None
    return move and partial(_move_words, move, dtype)


def _move_halves(move: Move, where: Any, *data: jax.Array) -> jax.Array:
    halves = [lax.bitcast_convert_type(x, jnp.uint32) for x in data]
    moved = jax.vmap(lambda *halves: move(where, *halves), in_axes=-1, out_axes=-1)(*halves)
    return lax.bitcast_convert_type(moved, data[0].dtype)


def _move_words(move: Move, dtype: Any, where: Any, *data: jax.Array) -> jax.Array:
    return from_words(move(where, *map(to_words, data)), dtype)


def _has_words(array: Any, devices: int) -> bool:
    return array.ndim > 0 and array.shape[-1] % (lanes(array.dtype) * devices) == 0


def _write_rows(case: ScatterCase) -> Move | None:
    """The last dimension must be written as a whole."""
    slices, input = case.write.slices, case.input
    is_whole = input.ndim - 1 in slices.whole and case.updates.ndim - 1 in slices.placed
    can = is_whole and becomes_words(input.dtype) and _has_words(input, case.devices)
    return partial(_move_words, case.scatter, input.dtype) if can else None


def _view_rows(case: ViewCase) -> Move | None:
    """Rows of a view; elements at the end of the buffer that fill no word are cut off first, by a copy."""
    dtype, count = case.buffer.dtype, lanes(case.buffer.dtype)
    words = case.layout.in_words(count, words_per_element(dtype)) if becomes_words(dtype) else None
    return partial(_view_words, words) if words else None


def _view_words(words: Layout, _: None, buffer: jax.Array) -> jax.Array:
    whole = buffer.shape[0] - buffer.shape[0] % lanes(buffer.dtype)
    cut = lax.slice_in_dim(as_integers(buffer), 0, whole)
    return from_words(read_view(to_words(cut), words), buffer.dtype)


def _needs_no_copy(case: ViewCase) -> bool:
    """Whether the buffer is whole words, or is small beside a view that repeats its elements."""
    is_whole = case.buffer.shape[0] % (lanes(case.buffer.dtype) * case.devices) == 0
    return is_whole or case.layout.repeats


VARIANTS = (
    Variant("words", "gather", "cuda", _read_rows, lambda case: case.row_bytes >= 4, on_several=True),
    Variant("words", "move", "cuda", _move, lambda case: True, on_several=True),
    Variant("words", "scatter", "cuda", _write_rows, lambda case: True, on_several=True),
    Variant("words", "view", "cuda", _view_rows, _needs_no_copy, on_several=True),
)
