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
    is_known = known_bytes(indices, input, updates) > 0
    if is_known and _rows_are_words(input, updates, numbers):
        forms["words"] = in_words
    case = {"itemsize": input.dtype.itemsize, "bytes": 2 * known_bytes(input)}
    return moved(forms, TABLE, case, form, indices, input, updates)


def _rows_are_words(input: jax.Array, updates: jax.Array, numbers: lax.ScatterDimensionNumbers) -> bool:
    """Whether the last dimension is written as a whole, and makes words on every device."""
    fixed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    in_window = input.ndim - 1 not in fixed and updates.ndim - 1 in numbers.update_window_dims
    is_whole = in_window and input.shape[-1] == updates.shape[-1]
    return is_whole and becomes_words(input.dtype) and input.shape[-1] % (lanes(input.dtype) * parts_at_most()) == 0
