"""Elements moved as 32-bit words: a GPU moves a word in the time of a byte.

A row of eight bytes is two words. Reading rows 1 and 0 of [[0, 1, ... 7], [8, 9, ... 15]] as words

    [[0x03020100, 0x07060504], [0x0b0a0908, 0x0f0e0d0c]]  ->  [[0x0b0a0908, 0x0f0e0d0c], [0x03020100, 0x07060504]]

takes four reads instead of sixteen, and the bytes are those of the rows.
"""

from functools import partial
from math import prod

import jax

from ..plain.gather import GatherCase, Read
from ..primitive import Move
from ..select import Variant
from ..values.words import from_words, lanes, to_words

__all__ = ["VARIANTS"]


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


VARIANTS = (Variant("words", "gather", "cuda", _read_rows, lambda case: case.row_bytes >= 4),)
