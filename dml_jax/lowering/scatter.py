"""The forms of a write through lax.scatter: plainly, and rows as words."""

import jax
from jax import lax

from .carrying import carry_bits, sealed
from .choice import Choice, Form, known_bytes, moved, parts_at_most
from .words import becomes_words, from_words, lanes, to_words

__all__ = ["TABLE", "scattered"]

# On an H200, an eighth of the rows of a table of 256 MB; bandwidth as a part of a copy's in the same run. Both write a
# donated table in place, words in a third of the time. Not on CPUs, where words would copy it.
TABLE = (Choice("cuda", "words", {"itemsize": {1, 2, 8}}, "0.91-0.93; plain 0.52-0.55"),)


def scattered(
    indices: jax.Array,
    input: jax.Array,
    updates: jax.Array,
    numbers: lax.ScatterDimensionNumbers,
    mode: str,
    form: str | None,
) -> jax.Array:
    """Copies `input` and writes `updates` where `indices` say; `numbers` and `mode` are those of lax.scatter."""

    def write(indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
        return lax.scatter(input, indices, updates, numbers, mode=mode)

    def in_words(indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
        return from_words(sealed(write)(indices, to_words(input), to_words(updates)), input.dtype)

    forms: dict[str, Form] = {"plain": lambda indices, *data: carry_bits(sealed(write), indices, *data)}
    parts = lanes(input.dtype) * parts_at_most()
    if becomes_words(input.dtype) and _rows_are_whole(input, updates, numbers) and input.shape[-1] % parts == 0:
        forms["words"] = in_words
    case = {"itemsize": input.dtype.itemsize, "bytes": 2 * known_bytes(input)}
    return moved(forms, TABLE, case, form, indices, input, updates)


def _rows_are_whole(input: jax.Array, updates: jax.Array, numbers: lax.ScatterDimensionNumbers) -> bool:
    """Whether the last dimension, of a size that is known, is written as a whole."""
    known = all(isinstance(array.shape[-1], int) for array in (input, updates) if array.ndim)
    fixed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    in_window = input.ndim - 1 not in fixed and updates.ndim - 1 in numbers.update_window_dims
    return known and in_window and input.shape[-1] == updates.shape[-1]
