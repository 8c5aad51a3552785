"""Writes strided layouts: as one window where they are one, else by pads and a choice, or through offsets."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...strides.layout import Layout
from ..cpu.unfused import copy_in_a_loop
from ..forms import Choice, Form, Options, choose_form, is_plain, known_bytes, shapes_of
from ..primitive import linear, transpose_of, varying_alike
from ..values.bits import as_bits, carry_bits, hide_constant, index_dtype, is_key, is_narrow
from .scatter import is_tiny
from .strided_reads import ELEMENT, offsets_of, pad_last

__all__ = ["TABLE", "in_storage_order", "place", "update"]

# On two cores of an EPYC, 32 MB, bound output. XLA:CPU copies a buffer that is not donated in one thread, to fresh
# memory and back; the loop that copies instead has both cores and the output. It copies nothing where the buffer is
# donated.
TABLE = (Choice("cpu", "copied", {"is_tiny": {False}}, "1.4-3.6 ms; plain 11-13. In place 0.03 ms longer than plain"),)


def update(buffer: Any, updates: Any, layout: Layout, form: str | None) -> jax.Array:
    """Copies `buffer` and writes a view that lies inside it and has an element for every coordinate.

    `form` is the forced one, or None.
    """
    data = jnp.asarray(buffer), jnp.asarray(updates)
    plain = _with(_update, layout)
    options = partial(_options, layout, *shapes_of(*data))
    if is_plain(options, TABLE, form):
        return carry_bits(plain, None, *data)
    return linear(choose_form(options, TABLE, form), transpose_of(plain))(None, *data)


def _with(write: Callable[..., jax.Array], layout: Layout) -> Form:
    return lambda _, buffer, updates: write(buffer, updates, layout)


def _options(layout: Layout, buffer: Any, updates: Any, devices: int) -> Options:
    forms: dict[str, Form] = {"plain": as_bits(_with(_update, layout))}
    window = None if is_key(buffer) or not known_bytes(buffer) else layout.window(buffer.shape[0])
    if window and devices == 1 and not is_narrow(buffer.dtype):  # whose images are copies already
        forms["copied"] = as_bits(_with(_copied, layout))
    return forms, {"is_tiny": is_tiny(buffer, updates), "bytes": 2 * known_bytes(buffer)}


def _copied(buffer: jax.Array, updates: jax.Array, layout: Layout) -> jax.Array:
    """Writes in a branch, which XLA:CPU does not fuse with the copy."""
    write, (buffer, updates) = partial(_update, layout=layout), varying_alike(buffer, updates)
    return lax.cond(hide_constant(True), write, lambda buffer, _: buffer, copy_in_a_loop(buffer), updates)


def _update(buffer: jax.Array, updates: jax.Array, layout: Layout) -> jax.Array:
    if 0 in layout.sizes:
        return buffer
    if is_key(buffer) or not layout.is_nested:
        return _scatter(buffer, updates, layout)
    length = buffer.shape[0]
    if window := layout.window(length):
        array, content = buffer.reshape(window.array_sizes), in_storage_order(updates, layout).reshape(window.sizes)
        return lax.dynamic_update_slice(array, content, window.starts).reshape(length)
    addressed = place(jnp.ones(layout.sizes, bool), layout, length)
    return jnp.where(addressed, place(updates, layout, length), buffer)


def place(updates: jax.Array, layout: Layout, length: int) -> jax.Array:
    """Writes such a view into `length` zeros; of DirectML's types, which XLA pads without changing a bit."""
    if 0 in layout.sizes or not layout.is_nested:
        return _scatter(jnp.zeros(length, updates.dtype), updates, layout)
    *outer, last = layout.groups or [ELEMENT]
    x = pad_last(in_storage_order(updates, layout).reshape([g.rows for g in (*outer, last)]), 0, last.unit - 1, 0)
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
    offsets = offsets_of(layout.sizes, layout.strides).ravel()
    part = (
        lax.slice_in_dim(buffer, first, end)
        .at[offsets]
        .set(updates.ravel(), mode="promise_in_bounds", unique_indices=True)
    )
    return lax.dynamic_update_slice(buffer, part, (np.asarray(first, index_dtype([end])),))
