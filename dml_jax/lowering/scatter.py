"""The forms of a write through lax.scatter: plainly, and rows as words."""

from functools import partial

import jax
from jax import lax

from .bits import as_bits
from .forms import Choice, Form, Options, choose_form, known_bytes, shapes_of
from .linear import linear, transpose_of
from .rows import Write
from .shards import on_each_device
from .slices import Slices
from .words import becomes_words, from_words, lanes, to_words

__all__ = ["TABLE", "scatter_slices"]

# On an H200, an eighth of the rows of a table of 256 MB; bandwidth as a part of a copy's in the same run. Both write a
# donated table in place, words in a third of the time. Not on CPUs, where words would copy it.
TABLE = (Choice("cuda", "words", {"itemsize": {1, 2, 8}}, "0.91-0.93; plain 0.52-0.55"),)


def scatter_slices(
    indices: jax.Array, input: jax.Array, updates: jax.Array, write: Write, form: str | None
) -> jax.Array:
    """Copies `input` and writes `updates` where `indices` say."""

    def plain(indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
        return lax.scatter(input, indices, updates, write.numbers, **write.promises)

    def chosen(*operands: jax.Array) -> jax.Array:
        return choose_form(partial(_options, plain, write, *shapes_of(*operands)), TABLE, form)(*operands)

    if shards := write.shards:
        chosen = on_each_device(chosen, (shards.indices, shards.table, shards.slices), shards.table)
    return linear(chosen, transpose_of(plain))(indices, input, updates)


def _options(
    plain: Form, write: Write, indices: jax.Array, input: jax.Array, updates: jax.Array, devices: int
) -> Options:
    forms: dict[str, Form] = {"plain": as_bits(plain)}
    is_known = known_bytes(indices, input, updates) > 0
    if is_known and _rows_are_words(input, updates, write.slices, devices):
        forms["words"] = lambda indices, *data: from_words(plain(indices, *map(to_words, data)), input.dtype)
    return forms, {"itemsize": input.dtype.itemsize, "bytes": 2 * known_bytes(input)}


def _rows_are_words(input: jax.Array, updates: jax.Array, slices: Slices, devices: int) -> bool:
    """Whether the last dimension is written as a whole, and makes words on every device."""
    is_whole = input.ndim - 1 in slices.whole and updates.ndim - 1 in slices.placed
    return is_whole and becomes_words(input.dtype) and input.shape[-1] % (lanes(input.dtype) * devices) == 0
