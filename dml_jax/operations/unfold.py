"""Unfold (im2col) and its transpose fold (col2im), which sums overlapping windows.

One dimension at a time: the k-th elements of all windows are one strided slice, so a window of 3 needs 3 slices. Longer
windows use a gather.
"""

from collections.abc import Sequence
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .depth_space import Blocks, rearrange
from .programs.primitive import linear
from .programs.variant_selection import choose, shapes_of
from .sliding_windows import MOST_SLICES, WindowCase, Windows, unfolded_shape
from .values.accumulation_types import narrow_apart, wide_type
from .values.bit_exact import as_guarded_bits, hide_constant, hide_indices, index_dtype
from .window_slices import FEW, add_slices, are_sliceable, have_few_phases


def unfold_windows(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """Unfolds the last dimensions: [..., *elements of a window, *windows]; moves bits."""
    lead = array.shape[: array.ndim - len(windows)]
    if _are_blocks(lead, windows):
        moved = rearrange(array, Blocks("depth", "CRD", "NCHW", windows[0].window))
        return moved.reshape(*lead, *(dim.window for dim in windows), *moved.shape[-2:])

    def plain(_: None, array: jax.Array) -> jax.Array:
        # XLA (jax 0.12) folds constants in another order of dimensions, which casts of bits take for the usual one.
        return unfold_slices(hide_constant(array), windows)

    def back(_: None, cotangent: jax.Array, __: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [fold_windows(cotangent, windows)]

    result = jax.ShapeDtypeStruct(unfolded_shape(lead, windows), array.dtype)
    axes, move = range(len(lead), array.ndim), as_guarded_bits(plain)
    case_of = partial(WindowCase, move, windows, axes, *shapes_of(array), result)
    return choose("unfold", case_of, back)(None, array)


def fold_windows(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The transpose of `unfold_windows`: sums overlapping windows, narrow floats in float32."""
    lead = array.shape[: array.ndim - 2 * len(windows)]
    if _are_blocks(lead, windows):  # nothing is added up
        *outer, channels = lead
        depth = array.reshape(*outer, channels * windows[0].window ** 2, *array.shape[-2:])
        return rearrange(depth, Blocks("space", "CRD", "NCHW", windows[0].window))

    def back(_: None, cotangent: jax.Array, __: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [unfold_windows(cotangent, windows)]

    return linear(lambda _, array: narrow_apart(_fold(array, windows), array.dtype), back)(None, array)


def _are_blocks(lead: Sequence[int], windows: Sequence[Windows]) -> bool:
    """Whether windows are square blocks that tile two dimensions exactly, after one of channels: space_to_depth."""
    fill = all(dim.are_tiles and not dim.start and dim.count * dim.window == dim.size for dim in windows)
    return len(lead) > 0 and len(windows) == 2 and windows[0].window == windows[1].window and fill


def unfold_slices(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """Reference implementation of `unfold_windows` for dtypes that move bit-exactly."""
    lead = array.ndim - len(windows)
    for d in reversed(range(len(windows))):
        # The last dimension first: each one puts its offsets in front of those that are there.
        array = _unfold_along(array, lead, array.ndim - len(windows) + d, windows[d])
    return array


def _fold(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """Sums in accumulation types; all dimensions at once if windows have few elements."""
    lead, count = array.ndim - 2 * len(windows), len(windows)
    if prod(dim.window for dim in windows) <= FEW and _are_addable(windows):
        return add_slices(partial(_element, array, lead), range(lead, lead + count), windows)
    for d, dim in enumerate(windows):
        array = _fold_along(array, lead, array.ndim - count + d, dim)
    return array


def _are_addable(windows: Sequence[Windows]) -> bool:
    """Whether fold adds slices up; windows side by side are a reshape instead."""
    return are_sliceable(windows) and have_few_phases(windows) and not any(dim.are_tiles for dim in windows)


def _element(array: jax.Array, lead: int, offsets: tuple[int, ...]) -> jax.Array:
    """The elements at these offsets of all windows, whose dimensions begin at `lead`."""
    for offset in offsets:
        array = lax.index_in_dim(array, offset, lead, keepdims=False)
    return array.astype(wide_type(array.dtype))


def unfold_axis(array: jax.Array, axis: int, windows: Windows) -> jax.Array:
    """Replaces `axis` by the window count, and prepends the elements of a window at 0; moves bits."""

    def back(_: None, cotangent: jax.Array, __: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [narrow_apart(_fold_along(cotangent, 0, axis + 1, windows), cotangent.dtype)]

    return linear(as_guarded_bits(lambda _, array: _unfold_along(array, 0, axis, windows)), back)(None, array)


# Along one axis. Elements of a window are at `lead`, the windows at `axis`.


def _unfold_along(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    if windows.are_tiles:
        return _unfold_tiles(array, lead, axis, windows)
    if windows.window <= MOST_SLICES:
        return jnp.stack(slices_of(array, axis, windows), lead)
    return _unfold_indexed(array, lead, axis, windows)


def _fold_along(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    wide = array.astype(wide_type(array.dtype))
    if windows.are_tiles:
        return _fold_tiles(wide, lead, axis, windows)
    if _are_addable([windows]):
        return add_slices(partial(_element, wide, lead), [axis - 1], [windows])
    return _fold_indexed(wide, lead, axis, windows)


def _unfold_tiles(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    """Windows side by side are a reshape and a transpose: on two cores up to 6 times as fast as slices."""
    whole = _pad(array, axis, windows.start, windows.count * windows.window - windows.size - windows.start)
    split = whole.reshape(*array.shape[:axis], windows.count, windows.window, *array.shape[axis + 1 :])
    return jnp.moveaxis(split, axis + 1, lead)


def _fold_tiles(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    split = jnp.moveaxis(array, lead, axis)
    whole = split.reshape(*split.shape[: axis - 1], windows.count * windows.window, *split.shape[axis + 1 :])
    return _pad(whole, axis - 1, -windows.start, windows.size + windows.start - windows.count * windows.window)


def slices_of(array: jax.Array, axis: int, windows: Windows) -> list[jax.Array]:
    """For each offset in a window, the elements of all windows there; zeros for padding."""

    def slice_at(offset: int) -> jax.Array:
        first, end, start = windows.inside(offset)
        # Up to the last element that is read: a slice may not end beyond the array. Without any, it is empty.
        limit = start + (end - first - 1) * windows.stride + 1 if end > first else start
        stride = min(windows.stride, max(windows.size, 1))
        elements = lax.slice_in_dim(array, start, limit, stride, axis)
        return _pad(elements, axis, first, windows.count - end)

    return [slice_at(offset) for offset in range(windows.window)]


def _pad(array: jax.Array, axis: int, low: int, high: int) -> jax.Array:
    edges = [(low, high, 0) if d == axis else (0, 0, 0) for d in range(array.ndim)]
    return lax.pad(array, jnp.zeros((), array.dtype), edges)


def _unfold_indexed(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    at = windows.positions()
    if not windows.size:  # all is padding, and jnp.take reads nothing of nothing
        sizes = [*array.shape[:axis], windows.count, *array.shape[axis + 1 :]]
        return jnp.zeros((*sizes[:lead], windows.window, *sizes[lead:]), array.dtype)
    # Padding reads index `size`, out of range, which jnp.take fills with 0.
    indices = np.where((at >= 0) & (at < windows.size), at, windows.size).astype(index_dtype((windows.size,)))
    return jnp.moveaxis(jnp.take(array, hide_indices(indices, array), axis, mode="fill", fill_value=0), axis, lead)


def _fold_indexed(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    """Each element gathers the elements that it sums: at most one of every `steps` offsets in a row."""
    at, elements = windows.positions(), windows.window * windows.count
    inside = (at >= 0) & (at < windows.size)
    offsets, _ = np.nonzero(inside)
    # Windows of 3 at stride 2 have steps of 2: an element is in one window at offset 0 or 1, and perhaps in one more at
    # offset 2. So two rows of indices hold all; a place that stays empty reads out of range, which is 0.
    indices = np.full((-(-windows.window // windows.steps), windows.size), elements, index_dtype((elements,)))
    indices[offsets // windows.steps, at[inside]] = np.flatnonzero(inside)
    rows = jnp.moveaxis(array, lead, axis - 1)
    rows = rows.reshape(*rows.shape[: axis - 1], elements, *rows.shape[axis + 1 :])
    return jnp.take(rows, indices, axis - 1, mode="fill", fill_value=0).sum(axis - 1, dtype=array.dtype)
