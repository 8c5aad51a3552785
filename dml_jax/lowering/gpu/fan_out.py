"""Tiling and fills on GPUs where one thread writes several parts of the result, and reads an element once for all.

XLA:GPU makes one kernel of a concatenation of equal parts, whose threads go over one part and write the same place of
each. Two copies of [10, 11, 12, 13] are the parts [10, 11, 12, 13 | 10, 11, 12, 13]: the thread that reads 11 writes it
to places 1 and 5, so that four elements are read and not eight. A fill has four writes under way at once.
"""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.data_movement import MoveCase
from ...operations.fill import Fill, select_value
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant, known_bytes
from ...operations.tile import Tile
from ...operations.values.packed_words import as_integers, from_words, join_elements, join_words, lanes, to_words
from .memory_coalescing import STORE

PARTS = (4, 3, 2)  # of a concatenation that XLA:GPU writes in one thread; fills and choices have the first number
REREAD = 2**23  # bytes that stay in the second cache, so that reading them again is cheap


def _can_fan_out(sizes: Sequence[Any], dtype: Any) -> bool:
    """Whether arrays of these sizes are whole words, and at least one."""
    count = prod(sizes) if all(isinstance(n, int) for n in sizes) else 0
    return count > 0 and (dtype.itemsize >= 4 or (lanes(dtype) > 1 and count % lanes(dtype) == 0))


def _fill(value: Any, sizes: Sequence[int]) -> jax.Array:
    """Fills an array with one number, by words, and in four parts if its size can be cut into four."""
    value = jnp.asarray(value)
    dtype, count = value.dtype, lanes(value.dtype)
    if not _can_fan_out(sizes, dtype):
        return jnp.broadcast_to(value, sizes)
    word, words = join_elements([as_integers(value)] * count, dtype), prod(sizes) // count
    parts = PARTS[0] if words * word.dtype.itemsize % (PARTS[0] * STORE) == 0 else 1
    filled = lax.concatenate([jnp.broadcast_to(each, (words // parts,)) for each in _same(word, parts)], 0)
    return (from_words(filled, dtype) if count > 1 else filled).reshape(sizes)


def _fan_out(case: MoveCase) -> Move | None:
    move, result = case.move, case.result
    if not _can_fan_out(result.shape, result.dtype):
        return None
    if isinstance(move, Fill):
        return lambda _, value: _fill(value, move.sizes)
    if move is select_value:
        return partial(_select, result.dtype) if _has_quarters(result) else None
    return _repeats(move, case.data[0]) if isinstance(move, Tile) else None


def _has_quarters(result: Any) -> bool:
    """Whether the first dimension can be cut in four, so that rows of a quarter are whole words."""
    quarter = (result.shape[0] // PARTS[0], *result.shape[1:])
    return result.shape[0] % PARTS[0] == 0 and quarter[-1] % lanes(result.dtype) == 0


def _select(dtype: Any, on: jax.Array, values: jax.Array) -> jax.Array:
    quarters = jnp.split(on, PARTS[0])
    parts = [join_words(select_value(quarter, as_integers(values)), dtype) for quarter in quarters]
    # Flat: XLA stores numbers one by one where a part has an odd number of rows.
    whole = lax.concatenate([part.reshape(-1) for part in parts], 0)
    return (from_words(whole, dtype) if lanes(dtype) > 1 else whole).reshape(on.shape)


def _repeats(tile: Tile, array: Any) -> Move | None:
    """Eight copies along the first dimension are four times two."""
    first = next((d for d, count in enumerate(tile.repeats) if count > 1), None)
    if first is None or prod(array.shape[:first]) != 1 or array.shape[-1] % lanes(array.dtype):
        return None
    parts = next((parts for parts in PARTS if tile.repeats[first] % parts == 0), None)
    return partial(_repeat, tile.repeats, first, parts) if parts else None


def _repeat(repeats: Sequence[int], first: int, parts: int, _: None, array: jax.Array) -> jax.Array:
    fewer = [count // parts if d == first else count for d, count in enumerate(repeats)]
    # Flat, for the same reason.
    copies = [jnp.tile(each, fewer).reshape(-1) for each in _same(to_words(array), parts)]
    sizes = [n * count for n, count in zip(array.shape, repeats, strict=True)]
    return from_words(lax.concatenate(copies, 0), array.dtype).reshape(sizes)


def _same(array: jax.Array, count: int) -> Sequence[jax.Array]:
    """The array several times, hidden by a barrier: of equal arrays XLA would make one broadcast."""
    return lax.optimization_barrier((array,) * count)


def _pays(case: MoveCase) -> bool:
    """A repeat pays if plain code would read elements again that the cache does not hold."""
    return not isinstance(case.move, Tile) or known_bytes(*case.data) >= REREAD


VARIANTS = (Variant("fan_out", "move", "cuda", _fan_out, _pays),)
