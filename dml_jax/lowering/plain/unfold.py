"""Windows that slide over an array: their elements beside each other, and the transpose, which adds them up in place.

Dimension by dimension: of a window of 3 elements, those of one number are a strided slice, with zeros where the window
lies in the padding. Long windows, and those that move by many elements, are read by an index for each element instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import prod
from operator import add

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..primitive import linear
from ..values.accumulation_types import narrow_apart, wide_type
from ..values.bits import as_bits, hide_constant, index_dtype
from .depth_space import Blocks, rearrange
from .window_parts import FEW, add_parts, by_platform, groups, have_parts, have_phases, read_parts
from .windows import Windows

MOST_AT_ONCE = 25  # elements of a window, of one phase, that are added up at once; of narrow numbers FEW

SHORT = range(32, 77)

__all__ = ["fold_windows", "slices_of", "unfold_at_once", "unfold_axis", "unfold_windows"]


def unfold_windows(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The last dimensions become those of the elements of a window, then those of the windows; bits are moved."""
    return linear(
        as_bits(lambda _, array: _unfolded(array, windows), in_bytes=True),
        lambda _, cotangent, __: [_folded(cotangent, windows)],
    )(None, array)


def unfold_axis(array: jax.Array, axis: int, windows: Windows) -> jax.Array:
    """One dimension becomes that of the windows; that of the elements of a window comes first. Bits are moved."""
    unfold = _unfold_slices if windows.is_sliced else _unfold_indexed
    fold = _fold_slices if windows.is_sliced else _fold_indexed

    def back(_: None, cotangent: jax.Array, __: Sequence[jax.Array]) -> Sequence[jax.Array]:
        wide = fold(cotangent.astype(wide_type(cotangent.dtype)), 0, axis + 1, windows)
        return [narrow_apart(wide, cotangent.dtype)]

    return linear(as_bits(lambda _, array: unfold(array, 0, axis, windows), in_bytes=True), back)(None, array)


def fold_windows(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The transpose of `unfold_windows`: elements that come from one are added up, narrow floats in float32."""
    unfold = as_bits(lambda _, array: _unfolded(array, windows), in_bytes=True)
    return linear(
        lambda _, array: _folded(array, windows),
        lambda _, cotangent, __: [unfold(None, cotangent)],
    )(None, array)


def _unfolded(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    by_axis, at_once, planes = (
        partial(unfold, windows=windows) for unfold in (_unfolded_by_axis, unfold_at_once, _unfolded_planes)
    )
    forms = {}
    if _are_blocks(array.ndim - len(windows), windows):
        forms["cpu"] = partial(_unfolded_blocks, block_size=windows[0].window)
    elif have_parts(windows) and not any(one.are_tiles for one in windows):
        if prod(one.window for one in windows) <= FEW:
            # On an H200 1.6 times as fast for 3x3; for 7x7 it takes 2.8 times as long.
            forms = {"cuda": at_once, "rocm": at_once}
        if _are_planes(windows):
            forms["cpu"] = planes
    # XLA (jax 0.12) folds a constant in another order of dimensions, which a cast of its bits takes for the usual one.
    return by_platform(by_axis, **forms)(hide_constant(array))


def _unfolded_by_axis(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    lead = array.ndim - len(windows)
    for d in reversed(range(len(windows))):
        one = windows[d]
        unfold = _unfold_tiles if one.are_tiles else _unfold_slices if one.is_sliced else _unfold_indexed
        array = unfold(array, lead, array.ndim - len(windows) + d, one)
    return array


def unfold_at_once(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    lead = array.ndim - len(windows)
    parts = jnp.stack([*read_parts(array, range(lead, array.ndim), windows)], lead)
    return parts.reshape(*array.shape[:lead], *(one.window for one in windows), *parts.shape[lead + 1 :])


def _are_planes(windows: Sequence[Windows]) -> bool:
    """Whether as many windows as columns, or more, lie next to each other in short rows."""
    *others, columns = windows
    is_short = columns.size <= columns.count < SHORT.stop
    return is_short and len(others) == 1 and all(one.stride == 1 for one in windows)


def _unfolded_planes(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """On a CPU: elements of one number are a run of the flattened plane, but for those of the rows before and behind.

    Of rows of 5 and windows of 3 with one column of padding, the run begins one element before the row, in its column
    -1, which is the last one of the row before; there a zero is chosen. LLVM vectorises the long loop.
    """
    rows, columns = windows
    lead, width = array.shape[:-2], columns.count
    edges = (rows.start + 1, rows.end + 1, 0), (0, width - columns.size, 0)  # runs begin and end in rows beyond
    whole = lax.pad(array, jnp.zeros((), array.dtype), [(0, 0, 0)] * len(lead) + [*edges])
    shifts = np.arange(columns.window) * columns.dilation - columns.start
    starts = (np.arange(rows.window) * rows.dilation + 1)[:, None] * width + shifts
    numbers = lax.GatherDimensionNumbers((*range(len(lead)), array.ndim), (), (len(lead),))
    size = rows.count * width
    flat = whole.reshape(*lead, (rows.padded + 2) * width)
    at = hide_constant(starts[..., None].astype(index_dtype((flat.shape[-1],))))
    runs = lax.gather(flat, at, numbers, (*lead, size), mode="promise_in_bounds")
    column = (lax.iota(np.int32, size) % np.int32(width))[None] + shifts.astype(np.int32)[:, None]
    chosen = jnp.where((column >= 0) & (column < width), runs, jnp.zeros((), runs.dtype))
    return chosen.reshape(*lead, rows.window, columns.window, rows.count, width)


def _folded(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    by_axis, in_parts = (partial(fold, windows=windows) for fold in (_folded_by_axis, _folded_in_parts))
    if _are_blocks(array.ndim - 2 * len(windows), windows):
        blocks = partial(_folded_blocks, block_size=windows[0].window)
        return by_platform(lambda array: narrow_apart(by_axis(array), array.dtype), cpu=blocks)(array)
    if any(one.are_tiles for one in windows) or not have_parts(windows) or not have_phases(windows):
        return narrow_apart(by_axis(array), array.dtype)
    return narrow_apart(by_platform(by_axis, cpu=in_parts)(array), array.dtype)


def _are_blocks(lead: int, windows: Sequence[Windows]) -> bool:
    """Whether squares that lie side by side fill two dimensions, behind one of channels."""
    fill = all(one.are_tiles and not one.start and one.count * one.window == one.size for one in windows)
    return lead > 0 and len(windows) == 2 and windows[0].window == windows[1].window and fill


def _unfolded_blocks(array: jax.Array, block_size: int) -> jax.Array:
    moved = rearrange(array, Blocks("depth", "CRD", "NCHW", block_size))
    return moved.reshape(*array.shape[:-2], block_size, block_size, *moved.shape[-2:])


def _folded_blocks(array: jax.Array, block_size: int) -> jax.Array:
    """Depth to space has faster forms on CPUs, and adds nothing up: up to 8 times as fast, of bytes."""
    *lead, channels, _, _, height, width = array.shape
    return rearrange(
        array.reshape(*lead, channels * block_size**2, height, width), Blocks("space", "CRD", "NCHW", block_size)
    )


def _folded_by_axis(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    lead, array = array.ndim - 2 * len(windows), array.astype(wide_type(array.dtype))
    for d, one in enumerate(windows):
        fold = _fold_tiles if one.are_tiles else _fold_slices if one.is_sliced else _fold_indexed
        array = fold(array, lead, array.ndim - len(windows) + d, one)
    return array


def _folded_in_parts(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """On two cores up to 16 times as fast: XLA:CPU vectorises no sum of what is padded between its elements."""
    lead, left = array.ndim - 2 * len(windows), len(windows)
    is_one_phase = all(one.stride == 1 for one in windows)
    few = MOST_AT_ONCE if is_one_phase and array.dtype.itemsize >= 4 else FEW
    for dims, some in groups(range(left), windows, few):
        left -= len(some)
        array = add_parts(partial(_element, array, lead), [lead + left + d for d in dims], some)
    return array


def _element(array: jax.Array, lead: int, numbers: tuple[int, ...]) -> jax.Array:
    """Without the first dimensions from `lead` on: what is at these numbers there."""
    found = reduce(lambda array, number: lax.index_in_dim(array, number, lead, keepdims=False), numbers, array)
    return found.astype(wide_type(found.dtype))


# Along one axis. Elements of a window are at `lead`, the windows at `axis`.


def _unfold_tiles(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    """Windows side by side are a reshape and a transpose: on two cores up to 6 times as fast as slices."""
    whole = _pad(array, axis, windows.start, windows.count * windows.window - windows.size - windows.start)
    split = whole.reshape(*array.shape[:axis], windows.count, windows.window, *array.shape[axis + 1 :])
    return jnp.moveaxis(split, axis + 1, lead)


def _fold_tiles(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    split = jnp.moveaxis(array, lead, axis)
    whole = split.reshape(*split.shape[: axis - 1], windows.count * windows.window, *split.shape[axis + 1 :])
    return _pad(whole, axis - 1, -windows.start, windows.size + windows.start - windows.count * windows.window)


def _unfold_slices(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    return jnp.stack(slices_of(array, axis, windows), lead)


def slices_of(array: jax.Array, axis: int, windows: Windows) -> list[jax.Array]:
    """Of all windows along an axis the elements of each number, with zeros for the padding."""

    def part(number: int) -> jax.Array:
        first, end, start = windows.inside(number)
        limit = start + (end - first - 1) * windows.stride + 1 if end > first else start
        stride = min(windows.stride, max(windows.size, 1))
        found = lax.slice_in_dim(array, start, limit, stride, axis)
        return _pad(found, axis, first, windows.count - end)

    return [part(number) for number in range(windows.window)]


def _fold_slices(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    def part(number: int) -> jax.Array:
        first, end, start = windows.inside(number)
        one = lax.index_in_dim(array, number, lead, keepdims=False)
        found = lax.slice_in_dim(one, first, end, axis=axis - 1)
        if end == first:
            return _pad(found, axis - 1, windows.size, 0)
        last = start + (end - first - 1) * windows.stride
        return _pad(found, axis - 1, start, windows.size - 1 - last, windows.stride - 1 if end > first + 1 else 0)

    return reduce(add, [part(number) for number in range(windows.window)])


def _pad(array: jax.Array, axis: int, low: int, high: int, between: int = 0) -> jax.Array:
    edges = [(low, high, between) if d == axis else (0, 0, 0) for d in range(array.ndim)]
    return lax.pad(array, jnp.zeros((), array.dtype), edges)


def _unfold_indexed(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    at = windows.positions()
    if not windows.size:  # all is padding, and jnp.take reads nothing of nothing
        sizes = [*array.shape[:axis], windows.count, *array.shape[axis + 1 :]]
        return jnp.zeros((*sizes[:lead], windows.window, *sizes[lead:]), array.dtype)
    indices = np.where((at >= 0) & (at < windows.size), at, windows.size).astype(index_dtype((windows.size,)))
    return jnp.moveaxis(jnp.take(array, hide_constant(indices), axis, mode="fill", fill_value=0), axis, lead)


def _fold_indexed(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    """Each element reads those that are added up to it: at most one of each run of `steps` numbers."""
    at, elements = windows.positions(), windows.window * windows.count
    inside = (at >= 0) & (at < windows.size)
    numbers, _ = np.nonzero(inside)
    indices = np.full((-(-windows.window // windows.steps), windows.size), elements, index_dtype((elements,)))
    indices[numbers // windows.steps, at[inside]] = np.flatnonzero(inside)
    rows = jnp.moveaxis(array, lead, axis - 1)
    rows = rows.reshape(*rows.shape[: axis - 1], elements, *rows.shape[axis + 1 :])
    return jnp.take(rows, indices, axis - 1, mode="fill", fill_value=0).sum(axis - 1, dtype=array.dtype)
