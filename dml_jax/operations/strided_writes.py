"""Writes of strided layouts: by dynamic_update_slice of a window, by pads and a select, or by a scatter."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..strides.layout import Layout
from .programs.primitive import Move, transpose_of
from .programs.variant_selection import choose, known_bytes, shapes_of
from .strided_reads import ELEMENT, offsets_of, pad_last
from .values.bit_exact import as_bits, carry_bits, index_dtype, is_key, is_narrow


@dataclass(frozen=True)
class StridedWrite:
    """One write through strides, for the choice between implementations.

    Args:
      layout: where the updates go.
      buffer: shape and type.
      updates: shape and type.
      devices: among which XLA may divide an array.
    """

    layout: Layout
    buffer: Any
    updates: Any
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of the buffer, twice: it is read and written. 0 for random keys, or if its size is symbolic."""
        return 0 if is_key(self.buffer) else 2 * known_bytes(self.buffer)

    @property
    def result(self) -> Any:
        """Shape and type of the buffer."""
        return self.buffer

    @property
    def plain(self) -> Move:
        """The write with bits that arrive as they are: floats move as integers."""
        return as_bits(partial(write, self.layout))


def update(buffer: Any, updates: Any, layout: Layout) -> jax.Array:
    """Copies `buffer` and writes a view that lies inside it and has an element for every coordinate."""
    data = jnp.asarray(buffer), jnp.asarray(updates)
    case_of, back = partial(StridedWrite, layout, *shapes_of(*data)), transpose_of(partial(write, layout))
    return choose("strided_write", case_of, back, is_opaque=is_narrow(data[0].dtype))(None, *data)


def update_in_place(buffer: jax.Array, updates: jax.Array, layout: Layout) -> jax.Array:
    """`update`, for a donated buffer: no copy."""
    return carry_bits(partial(write, layout), None, buffer, updates)


def write(layout: Layout, _: None, buffer: jax.Array, updates: jax.Array) -> jax.Array:
    """`update`, for dtypes that XLA moves bit-exactly."""
    if 0 in layout.sizes or is_key(buffer) or not layout.is_nested:
        return _scatter(buffer, updates, layout)
    length = buffer.shape[0]
    if window := layout.window(length):
        array, content = buffer.reshape(window.array_sizes), in_storage_order(updates, layout).reshape(window.sizes)
        return lax.dynamic_update_slice(array, content, window.starts).reshape(length)
    # No window holds the updates and nothing else: a mask of the same pads tells which elements are old.
    addressed = place(jnp.ones(layout.sizes, bool), layout, length)
    return jnp.where(addressed, place(updates, layout, length), buffer)


def place(updates: jax.Array, layout: Layout, length: int) -> jax.Array:
    """Scatters `updates` through `layout` into a zero buffer of `length`, by pads."""
    if 0 in layout.sizes or not layout.is_nested:
        return _scatter(jnp.zeros(length, updates.dtype), updates, layout)
    *outer, last = layout.groups or [ELEMENT]
    x = pad_last(in_storage_order(updates, layout).reshape([g.rows for g in (*outer, last)]), 0, last.unit - 1, 0)
    # [[a, b], [c, d]] in rows of 5 elements become [a, b, 0, 0, 0, c, d, 0, 0, 0]: zeros up to the next row, and flat.
    for group in reversed(outer):
        x = pad_last(x, 0, 0, group.unit - x.shape[-1])
        x = x.reshape(*x.shape[:-2], -1)
    return pad_last(x, layout.offset, 0, length - layout.offset - x.shape[-1])


def in_storage_order(updates: jax.Array, layout: Layout) -> jax.Array:
    """The elements in the order in which a buffer stores them, of `layout.stored_sizes`."""
    ones = [d for d in range(updates.ndim) if d not in layout.dims]
    return jnp.transpose(updates, (*ones, *layout.dims)).reshape(layout.stored_sizes)


def _scatter(buffer: jax.Array, updates: jax.Array, layout: Layout) -> jax.Array:
    """Writes through computed offsets, into the part of the buffer that they address."""
    first, end = layout.offset, layout.offset + layout.span
    if 0 in layout.sizes:
        return buffer
    # Offsets count from the first element: 32 bits do for a short view, however far it is in a long buffer.
    offsets = offsets_of(layout.sizes, layout.strides).ravel()
    part = lax.slice_in_dim(buffer, first, end)
    part = part.at[offsets].set(updates.ravel(), mode="promise_in_bounds", unique_indices=True)
    return lax.dynamic_update_slice(buffer, part, (np.asarray(first, index_dtype([end])),))
