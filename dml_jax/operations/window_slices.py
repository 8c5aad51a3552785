"""Windows as strided slices, read or added up: a slice has the elements of all windows at one offset.

The array is padded once for all of them. XLA fuses a computation of several slices to one loop. A slice that
is padded on its own is a branch for each element, which no CPU vectorises.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .sliding_windows import MOST_SLICES, Windows

FEW = 16  # elements of a window: of more it is faster to go dimension by dimension
MOST_PHASES = 64  # elements from a window to the next one, over all dimensions

# Axes, and the windows along each of them.
Group = tuple[Sequence[int], Sequence[Windows]]
# Takes an element's offset along each dimension of a window; returns that element of all windows.
SliceOf = Callable[[tuple[int, ...]], jax.Array]


def are_sliceable(windows: Sequence[Windows]) -> bool:
    """Whether slices are few along each dimension, and the padded array is not mostly padding."""
    return all(dim.window <= MOST_SLICES and dim.padded <= 2 * (dim.size + dim.count) for dim in windows)


def have_few_phases(windows: Sequence[Windows]) -> bool:
    """Whether windows are so close that the gaps between them are not most of the result of `_add_placed`."""
    return prod(dim.stride for dim in windows) <= MOST_PHASES


def groups(axes: Sequence[int], windows: Sequence[Windows], few: int = FEW) -> list[Group]:
    """Dimensions whose slices are taken at once: all if windows have few elements, else each on its own, in order."""
    if prod(dim.window for dim in windows) <= few:
        return [(axes, windows)]
    return [([axis], [dim]) for axis, dim in zip(axes, windows, strict=True)]


def window_offsets(windows: Sequence[Windows]) -> Iterator[tuple[int, ...]]:
    """The offsets of a window's elements, one per dimension, in row-major order."""
    return product(*(range(dim.window) for dim in windows))


def pad(array: jax.Array, axes: Sequence[int], windows: Sequence[Windows], fill: Any) -> jax.Array:
    """The dimensions with the padding of their windows."""
    edges = [(0, 0, 0)] * array.ndim
    for axis, dim in zip(axes, windows, strict=True):
        edges[axis] = (dim.start, dim.end, 0)
    return lax.pad(array, jnp.asarray(fill, array.dtype), edges)


def read_slices(
    array: jax.Array, axes: Sequence[int], windows: Sequence[Windows], fill: Any = 0, *, padded: bool = False
) -> Iterator[jax.Array]:
    """Slices in row-major order of their offsets; padding holds `fill`, or with `padded` is in the array already."""
    whole = array if padded else pad(array, axes, windows, fill)
    for offsets in window_offsets(windows):
        start, limit, strides = [0] * whole.ndim, [*whole.shape], [1] * whole.ndim
        for axis, dim, offset in zip(axes, windows, offsets, strict=True):
            start[axis] = offset * dim.dilation
            limit[axis] = start[axis] + (dim.count - 1) * dim.stride + 1
            strides[axis] = min(dim.stride, max(dim.padded, 1))
        yield lax.slice(whole, start, limit, strides)


def add_slices(slice_of: SliceOf, axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    """The sum of slices, each element where `read_slices` would read it."""

    def placed(offsets: tuple[int, ...], shifts: Sequence[int]) -> jax.Array:
        slices = slice_of(offsets)
        edges = [(0, 0, 0)] * slices.ndim
        for axis, dim, shift in zip(axes, windows, shifts, strict=True):
            # A slice counts windows, and the result strides: it is moved by whole strides, and negative edges cut it.
            edges[axis] = (shift, dim.turns - shift - dim.count, 0)
        return lax.pad(slices, jnp.zeros((), slices.dtype), edges)

    return _add_placed(placed, axes, windows)


def spread_slices(
    slice_of: Callable[..., jax.Array],
    arrays: Sequence[jax.Array],
    fills: Sequence[Any],
    axes: Sequence[int],
    windows: Sequence[Windows],
) -> jax.Array:
    """`add_slices` for slices that are computed from the same arrays, which are padded once.

    Args:
      slice_of: takes an element's offsets and arrays of all windows, elementwise; returns 0 for `fills`.
      arrays: of all windows.
      fills: for each of them.
      axes: of the windows.
      windows: along each of them.
    """
    shifts = [[(offset * dim.dilation - dim.start) // dim.stride for offset in range(dim.window)] for dim in windows]
    edges = [(0, 0, 0)] * arrays[0].ndim
    for axis, dim, some in zip(axes, windows, shifts, strict=True):
        edges[axis] = (max(some), dim.turns - min(some) - dim.count, 0)
    whole = [lax.pad(array, jnp.asarray(fill, array.dtype), edges) for array, fill in zip(arrays, fills, strict=True)]

    def placed(offsets: tuple[int, ...], shifts: Sequence[int]) -> jax.Array:
        start, limit = [0] * whole[0].ndim, [*whole[0].shape]
        for axis, dim, shift in zip(axes, windows, shifts, strict=True):
            start[axis] = edges[axis][0] - shift
            limit[axis] = start[axis] + dim.turns
        return slice_of(offsets, *(lax.slice(array, start, limit) for array in whole))

    return _add_placed(placed, axes, windows)


def _add_placed(
    placed: Callable[[tuple[int, ...], Sequence[int]], jax.Array], axes: Sequence[int], windows: Sequence[Windows]
) -> jax.Array:
    """The sum of slices, each of which `placed` moves by a number of windows along each dimension.

    Windows that are s apart have elements of s phases. Each phase is a sum of slices; then phases are interleaved.
    """
    phases: dict[tuple[int, ...], list[jax.Array]] = {at: [] for at in product(*(range(dim.stride) for dim in windows))}
    for offsets in window_offsets(windows):
        # At stride 2, offset 3 of window w is element 2 * w + 3 = 2 * (w + 1) + 1: of phase 1, one place on.
        # The elements of a phase lie 2 apart in the result, and side by side here.
        at = [divmod(n * dim.dilation - dim.start, dim.stride) for n, dim in zip(offsets, windows, strict=True)]
        phases[tuple(phase for _, phase in at)].append(placed(offsets, [shift for shift, _ in at]))
    nothing = jnp.zeros_like(next(slices[0] for slices in phases.values() if slices))
    return _interleave([reduce(add, slices or [nothing]) for slices in phases.values()], axes, windows)


def _interleave(phases: Sequence[jax.Array], axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    """One array whose elements are taken from phases in turn, without those beyond the sizes."""
    if len(phases) == 1:
        return phases[0]
    shape, strides = phases[0].shape, [dim.stride for dim in windows]
    apart = jnp.stack(phases).reshape(*strides, *shape)
    # Two phases [a, b] and [c, d] are stacked as [[a, b], [c, d]], transposed, and flat: [a, c, b, d].
    order = [d for axis in range(len(shape)) for d in (len(axes) + axis, *(i for i, a in enumerate(axes) if a == axis))]
    sizes, limits = [*shape], [*shape]
    for axis, dim in zip(axes, windows, strict=True):
        sizes[axis], limits[axis] = dim.turns * dim.stride, dim.size
    return lax.slice(apart.transpose(order).reshape(sizes), [0] * len(shape), limits)
