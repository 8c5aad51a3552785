"""The forms of a write through lax.scatter: plainly, rows as words, and into a copy that a loop of its own makes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..cpu.unfused import copy_in_a_loop
from ..forced import forced_form
from ..forms import SMALL, Choice, Form, Options, choose_form, known_bytes, shapes_of
from ..partition import on_each_device
from ..primitive import linear, transpose_of
from ..values.bits import as_bits, is_key, is_narrow
from ..values.words import becomes_words, from_words, lanes, to_words
from .rows import Write
from .slices import Slices

__all__ = ["TABLE", "copies_table", "is_tiny", "scatter_slices"]

# On an H200, an eighth of the rows of a table of 256 MB; bandwidth as a part of a copy's in the same run. Both write a
# donated table in place, words in a third of the time. Not on CPUs, where words would copy it.
# On two cores of an EPYC, an eighth of a table of 32 MB, bound output. XLA:CPU copies a table that is not donated to
# fresh memory in one thread, scatters there and copies that to the output. The loop that copies instead has both cores
# and the output; in place it is empty, and a donated table of 256 MB takes 0.06 ms longer: not for the fewest updates.
# Coordinates of 16 bits: 5.3 ms instead of 14 for an eighth of 32 MB of 1 byte in rows of 4096, of 4 bytes 2.7 of 2.8.
TABLE = (
    Choice("cuda", "words", {"itemsize": {1, 2, 8}}, "0.91-0.93; plain 0.52-0.55"),
    Choice("cpu", "copied", {"is_tiny": {False}}, "1.6-1.7 ms of rows of 256 bytes; plain 9, torch 1.8-3.3"),
)

DROPPED = 2**16 - 1  # an index of 16 bits that is out of range of as many elements
TINY = 1024  # a part of the table that is no longer worth a pass over it, should it be donated


def scatter_slices(indices: jax.Array, input: jax.Array, updates: jax.Array, write: Write) -> jax.Array:
    """Copies `input` and writes `updates` where `indices` say."""

    plain = partial(_scatter, write)

    def chosen(*operands: jax.Array) -> jax.Array:
        return choose_form(partial(_options, plain, write, *shapes_of(*operands)), TABLE, forced_form())(*operands)

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
    if is_known and not is_key(input) and not is_narrow(input.dtype):  # whose images are copies already
        forms["copied"] = partial(_into_copy, write, devices)
    case = {
        "itemsize": input.dtype.itemsize,
        "is_tiny": is_tiny(input, updates),
        "bytes": 2 * known_bytes(input),
    }
    return forms, case


def _scatter(write: Write, indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
    return lax.scatter(input, indices, updates, write.numbers, **write.promises)


def _into_copy(write: Write, devices: int, indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
    """XLA:CPU stores all coordinates of single elements first: in 16 bits where these suffice, half of an index's."""
    sizes = [input.shape[axis] for axis in write.slices.indexed]
    if write.slices.kind != "slices" and max(sizes) <= DROPPED and devices == 1:  # or XLA adds offsets to indices
        indices, write = _shorten(indices, sizes, write.mode), replace(write, indices_are_sorted=False)
    return _scatter(write, indices, copy_in_a_loop(input), updates)


def _shorten(indices: jax.Array, sizes: Sequence[int], mode: str) -> jax.Array:
    """Indices of 16 bits that write what these do; any out of range becomes the greatest, which is out of range too."""
    last = np.asarray([size - 1 for size in sizes], indices.dtype).reshape((1,) * (indices.ndim - 1) + (-1,))
    inside = jnp.clip(indices, np.zeros((), indices.dtype), last)
    if mode == "clip":
        indices = inside
    if mode == "fill":
        indices = jnp.where(indices == inside, indices, np.asarray(DROPPED, indices.dtype))
    return indices.astype(jnp.uint16)


def copies_table(input: jax.Array, updates: jax.Array) -> bool:
    """Whether a CPU copies a table that is not donated straight into the result, unless another form is forced."""
    return 2 * known_bytes(input) >= SMALL and not is_narrow(input.dtype) and not is_tiny(input, updates)


def is_tiny(input: Any, updates: Any) -> bool:
    """Whether updates are so few that a pass over the table is not worth it, should the table be donated."""
    return TINY * known_bytes(updates) < known_bytes(input)


def _rows_are_words(input: jax.Array, updates: jax.Array, slices: Slices, devices: int) -> bool:
    """Whether the last dimension is written as a whole, and makes words on every device."""
    is_whole = input.ndim - 1 in slices.whole and updates.ndim - 1 in slices.placed
    return is_whole and becomes_words(input.dtype) and input.shape[-1] % (lanes(input.dtype) * devices) == 0
