"""Transposes of bytes by a sum over windows: a thread of a GPU reads four bytes and writes their sum, one word.

Bytes [1, 2, ... 6] as two columns of three, permuted to [1, 3, 5, 2, ...], are widened and shifted by their lane:
1 + 3 * 2**8 + 5 * 2**16 + 2 * 2**24 is the first word. XLA:GPU fuses a window with the program of its elements. Lanes
that are joined by shifts it may store first.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.permute import PermuteCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.packed_words import as_integers, lanes, sum_lanes
from .memory_coalescing import SECTOR, WORD, is_scattered, is_tiled

SHORT_ROW = 16  # bytes: several threads read a longer row
SHORT_SIDE = 8  # elements that a word or two hold


def _permute(case: PermuteCase) -> Move | None:
    count = lanes(case.operand.dtype)
    is_whole = count > 1 and case.result.size % count == 0
    return partial(_permute_pairs, case) if is_whole else None


def _pays(case: PermuteCase) -> bool:
    """Bytes of rows of whole words or of several sectors, or of sides so short that the bytes of a word are close."""
    is_byte, row = case.itemsize == 1, case.sizes[-1] * case.itemsize
    if case.has_rows and is_tiled(case):
        return is_byte or (case.itemsize == 2 and row <= SHORT_ROW)
    if case.has_rows:
        return is_byte and (row % WORD == 0 or row >= 2 * SECTOR)
    return is_byte and case.sides[1] <= SHORT_SIDE and not (case.is_matrix or is_scattered(case))


def _permute_pairs(case: PermuteCase, _: None, array: jax.Array) -> jax.Array:
    """Moves bytes that stay neighbours in pairs."""
    flat, integers = case.permutation.flat, lax.reshape(as_integers(array), (array.size,))
    pairs = flat.in_words(2) if case.itemsize == 1 else None
    if pairs:
        integers = lax.bitcast_convert_type(integers.reshape(-1, 2), jnp.uint16)
    return sum_lanes((pairs or flat)(integers), array.dtype).reshape(case.permutation.shape)


VARIANTS = (Variant("window_sum", "permute", "cuda", _permute, _pays),)
