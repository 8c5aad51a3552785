"""Scatters without a reduction through lax.scatter: scatter_elements and scatter_nd."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax import lax

from .programs.partition import on_each_device
from .programs.primitive import Back, Move, linear, transpose_of
from .programs.variant_selection import choose, known_bytes, shapes_of
from .scatter_rows import Write
from .values.bit_exact import as_bits, is_key

TINY = 1024  # a part of the table that is no longer worth a pass over it, should it be donated


def is_tiny(table: Any, updates: Any) -> bool:
    """Whether updates are so few that a pass over the table is not worth it, should the table be donated."""
    return TINY * known_bytes(updates) < known_bytes(table)


@dataclass(frozen=True)
class ScatterCase:
    """One write, for the choice between implementations.

    Args:
      write: how lax.scatter writes.
      indices: shape and type.
      input: shape and type of the table.
      updates: shape and type.
      devices: among which XLA may divide an array.
    """

    write: Write
    indices: Any
    input: Any
    updates: Any
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of the table, twice: it is read and written; 0 if a size is symbolic."""
        is_known = known_bytes(self.indices, self.input, self.updates) > 0 and not is_key(self.input)
        return 2 * known_bytes(self.input) if is_known else 0

    @property
    def result(self) -> Any:
        """Shape and type of the table."""
        return self.input

    @property
    def scatter(self) -> Move:
        """The write of elements that XLA does not change."""
        return partial(_scatter, self.write)

    @property
    def plain(self) -> Move:
        """The write; types that XLA would change are written as integers."""
        return as_bits(self.scatter)


def scatter_slices(indices: jax.Array, input: jax.Array, updates: jax.Array, write: Write) -> jax.Array:
    """Copies `input` and writes `updates` where `indices` say."""
    back = transpose_of(partial(_scatter, write))
    if shards := write.shards:
        each = on_each_device(partial(_write, write, None), (shards.indices, shards.table, shards.slices), shards.table)
        return linear(each, back)(indices, input, updates)
    return _write(write, back, indices, input, updates)


def _write(write: Write, back: Back | None, *arrays: jax.Array) -> jax.Array:
    return choose("scatter", partial(ScatterCase, write, *shapes_of(*arrays)), back)(*arrays)


def _scatter(write: Write, indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
    return lax.scatter(input, indices, updates, write.numbers, **write.promises)


@dataclass(frozen=True)
class TableCopy:
    """A copy of a table into a flat buffer, for the choice whether it is made.

    Args:
      input: shape and type of the table.
      updates: shape and type of the updates that a scatter then writes into it.
      devices: among which XLA may divide an array.
    """

    input: Any
    updates: Any
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of the table, twice: it is read and written."""
        return 2 * known_bytes(self.input)

    @property
    def result(self) -> Any:
        """Shape and type of the table."""
        return self.input

    @property
    def plain(self) -> Move:
        """Copies in two pieces: XLA would replace an update of a whole array by its value, and copy that once more."""
        return _copy_into


def copy_table(out: jax.Array, input: jax.Array, updates: Any) -> jax.Array:
    """The table in the memory of `out`, which is donated, so that a scatter of `updates` goes on there."""
    return choose("copy_table", partial(TableCopy, *shapes_of(input, updates)))(None, out, input)


def _copy_into(_: None, out: jax.Array, input: jax.Array) -> jax.Array:
    flat, half = input.ravel(), input.size // 2
    out = lax.dynamic_update_slice(out, flat[:half], (0,))
    return lax.dynamic_update_slice(out, flat[half:], (half,)).reshape(input.shape)
