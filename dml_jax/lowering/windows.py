"""Windows that slide over an array: their elements beside each other, and the transpose, which adds them up in place.

Dimension by dimension: of a window of 3 elements, those of one number are a strided slice, with zeros where the window
lies in the padding. Long windows, and those that move by many elements, are read by an index for each element instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from operator import add

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .bits import as_bits, hide_constant, index_dtype
from .combine import wide_type
from .linear import linear

__all__ = ["Windows", "fold_windows", "sum_windows", "unfold_axis", "unfold_windows"]

# On a CPU: longer windows take seconds to compile as slices, and interior padding by more than this more to run than
# indices.
MOST_SLICES, MOST_STEPS = 64, 4


@dataclass(frozen=True)
class Windows:
    """The windows along one dimension.

    Args:
      size: of the dimension.
      window: elements in a window.
      stride: elements from a window to the next one.
      dilation: elements from one of a window to its next one.
      start: zeros before the dimension.
      end: zeros behind it.
    """

    size: int
    window: int
    stride: int
    dilation: int
    start: int
    end: int

    @property
    def padded(self) -> int:
        return self.start + self.size + self.end

    @property
    def span(self) -> int:
        """From the first element of a window to its last one."""
        return self.dilation * (self.window - 1) + 1

    @property
    def count(self) -> int:
        """How many windows there are."""
        return (self.padded - self.span) // self.stride + 1

    @property
    def steps(self) -> int:
        """Elements of windows meet where their numbers differ by a multiple of it, those of less than it never."""
        return min(self.stride // gcd(self.stride, self.dilation), self.window)

    @property
    def is_sliced(self) -> bool:
        return self.window <= MOST_SLICES and self.steps <= MOST_STEPS

    @property
    def are_tiles(self) -> bool:
        """Whether they lie side by side."""
        return self.dilation == 1 and 1 < self.window == self.stride

    def inside(self, number: int) -> tuple[int, int, int]:
        """The windows, from one up to another, whose element of that number is in the dimension; where the first is."""
        offset = number * self.dilation - self.start
        first = min(max(-(offset // self.stride), 0), self.count)
        end = min(max(-((offset - self.size) // self.stride), first), self.count)
        return first, end, first * self.stride + offset if end > first else 0

    def sizes_inside(self) -> np.ndarray:
        """How many elements of each window are in the dimension."""
        dilation, stride = min(self.dilation, self.padded), min(self.stride, self.padded)
        offsets = np.arange(self.count) * stride - self.start
        first = np.clip(-(offsets // dilation), 0, self.window)
        end = np.clip(-((offsets - self.size) // dilation), first, self.window)
        return end - first

    def positions(self) -> np.ndarray:
        """Where each element of each window is, negative or too large in the padding."""
        dilation, stride = min(self.dilation, self.padded), min(self.stride, self.padded)  # of one alone: any number
        return np.arange(self.window)[:, None] * dilation + np.arange(self.count) * stride - self.start


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
        return [wide.astype(cotangent.dtype)]

    return linear(as_bits(lambda _, array: unfold(array, 0, axis, windows), in_bytes=True), back)(None, array)


def sum_windows(array: jax.Array, axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    """The sum of each window over some dimensions."""
    for axis, one in zip(axes, windows, strict=True):
        array = unfold_axis(array, axis, one).sum(0, dtype=array.dtype)
    return array


def fold_windows(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The transpose of `unfold_windows`: elements that come from one are added up, narrow floats in float32."""
    unfold = as_bits(lambda _, array: _unfolded(array, windows), in_bytes=True)
    return linear(
        lambda _, array: _folded(array, windows),
        lambda _, cotangent, __: [unfold(None, cotangent)],
    )(None, array)


def _unfolded(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    lead = array.ndim - len(windows)
    for d in reversed(range(len(windows))):
        one = windows[d]
        unfold = _unfold_tiles if one.are_tiles else _unfold_slices if one.is_sliced else _unfold_indexed
        array = unfold(array, lead, array.ndim - len(windows) + d, one)
    return array


def _folded(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    lead, wide = array.ndim - 2 * len(windows), array.astype(wide_type(array.dtype))
    for d, one in enumerate(windows):
        fold = _fold_tiles if one.are_tiles else _fold_slices if one.is_sliced else _fold_indexed
        wide = fold(wide, lead, wide.ndim - len(windows) + d, one)
    return wide.astype(array.dtype)


# Along one axis. Elements of a window are at `lead`, the windows at `axis`.


def _unfold_tiles(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    """Windows side by side are a reshape and a transpose: on two cores up to 6 times as fast as slices."""
    array = hide_constant(array)
    whole = _pad(array, axis, windows.start, windows.count * windows.window - windows.size - windows.start)
    split = whole.reshape(*array.shape[:axis], windows.count, windows.window, *array.shape[axis + 1 :])
    return jnp.moveaxis(split, axis + 1, lead)


def _fold_tiles(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    split = jnp.moveaxis(array, lead, axis)
    whole = split.reshape(*split.shape[: axis - 1], windows.count * windows.window, *split.shape[axis + 1 :])
    return _pad(whole, axis - 1, -windows.start, windows.size + windows.start - windows.count * windows.window)


def _unfold_slices(array: jax.Array, lead: int, axis: int, windows: Windows) -> jax.Array:
    def part(number: int) -> jax.Array:
        first, end, start = windows.inside(number)
        limit = start + (end - first - 1) * windows.stride + 1 if end > first else start
        stride = min(windows.stride, max(windows.size, 1))
        found = lax.slice_in_dim(array, start, limit, stride, axis)
        return _pad(found, axis, first, windows.count - end)

    return jnp.stack([part(number) for number in range(windows.window)], lead)


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
