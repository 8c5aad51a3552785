"""Reads of strided layouts by slices, pads, transposes and broadcasts, and of all others by a gather."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..strides.layout import Group, Layout, span
from .gather import Read, gather_slices
from .gather_scatter_dimension_numbers import Slices
from .values.bit_exact import index_dtype, is_key

ELEMENT = Group(1, (1,), (1,), 1)


def read_view(buffer: jax.Array, layout: Layout, deterministic: bool = False) -> jax.Array:
    """The plain way: a split and a slice, or a gather, for each group of dimensions; these change places at the end."""
    if 0 in layout.sizes:
        return lax.slice_in_dim(buffer, 0, 0).reshape(layout.sizes)
    if is_key(buffer):  # which XLA does not pad
        addressed = lax.slice_in_dim(buffer, layout.offset, layout.offset + layout.span)
        return addressed[offsets_of(layout.sizes, layout.strides)]
    x, start = buffer, layout.offset
    if not isinstance(x.shape[0], int):  # symbolic, as in jax.export: where it ends may be unknown
        x = lax.slice_in_dim(x, 0, start + layout.span)
    *outer, last = layout.merged_groups or [ELEMENT]
    for group in outer:
        # From the largest stride to the smallest: each split makes rows, of which the inner groups read a part.
        x, start = _split(x, start, group)
        x = _select(x, group, x.ndim - 2, deterministic)
    x = lax.slice_in_dim(x, start, start + (last.rows - 1) * last.unit + 1, last.unit, axis=-1)
    x = _select(x, last, x.ndim - 1, deterministic).reshape(layout.stored_sizes)
    shown = sorted(layout.dims)
    return lax.broadcast_in_dim(lax.transpose(x, [layout.dims.index(d) for d in shown]), layout.sizes, shown)


def _split(x: jax.Array, start: int, group: Group) -> tuple[jax.Array, int]:
    """Splits the last dimension into the rows of a group; returns also where in a row the inner groups start."""
    width = group.rows * group.unit
    begin = min(start, max(0, x.shape[-1] - width))
    if start - begin + group.inner > group.unit:
        begin = start  # the last row may lack elements, which are padded
    x = _window(x, begin, width)
    return x.reshape(*x.shape[:-1], group.rows, group.unit), start - begin


def _select(x: jax.Array, group: Group, axis: int, deterministic: bool) -> jax.Array:
    """Selects along an axis, where the dimensions of a group overlap or interleave."""
    if group.is_run:
        return x
    # Sizes (3, 2) with steps (1, 1) overlap: rows 0 1, 1 2, 2 3 of four. No slice has a row twice, so this is a gather.
    offsets = offsets_of(group.sizes, group.steps).reshape(-1, 1)
    slices = Slices(x.ndim, (axis,), placed=tuple(d for d in range(x.ndim) if d != axis))
    return gather_slices(offsets, x, Read(slices, "promise_in_bounds", deterministic=deterministic))


def _window(x: jax.Array, begin: int, width: int) -> jax.Array:
    """Elements [begin, begin + width) of the last dimension, zeros where there are none."""
    if begin >= 0 and begin + width <= x.shape[-1]:
        return lax.slice_in_dim(x, begin, begin + width, axis=-1)
    return pad_last(x, -begin, 0, begin + width - x.shape[-1])


def pad_last(x: jax.Array, low: int, interior: int, high: int) -> jax.Array:
    """Zeros before, between and after the elements of the last dimension; negative numbers cut."""
    if low == interior == high == 0:
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), [*[(0, 0, 0)] * (x.ndim - 1), (low, high, interior)])


def offsets_of(sizes: Sequence[int], strides: Sequence[int]) -> jax.Array:
    """The offset of every coordinate: computed where it is used, never a constant."""
    dtype, sizes = index_dtype([span(sizes, strides)]), tuple(sizes)
    steps = (lax.broadcasted_iota(dtype, sizes, d) * np.asarray(s, dtype) for d, s in enumerate(strides))
    return sum(steps, jnp.zeros(sizes, dtype))
