"""Max pooling with indices: the maximum of each window and its offset in the window, in one pass."""

from collections.abc import Callable, Sequence
from itertools import repeat
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .programs.primitive import linear
from .sliding_windows import Windows
from .values.accumulation_types import narrow_apart, wide_type
from .values.bit_exact import as_guarded_bits
from .values.float_comparisons import Order, by_integers, by_value
from .window_slices import groups, read_slices, spread_slices, window_offsets

FEW_COMPARED = 32  # elements of a window: of more it is faster to go dimension by dimension


def greatest_in_windows(array: jax.Array, windows: Sequence[Windows]) -> tuple[jax.Array, jax.Array]:
    """The greatest element of each window over the last dimensions, and its row-major offset there; no derivative.

    For a window that is all padding these are the least number and -1. The windows must be sliceable.
    """

    def search(order_of: Callable[[Any], Order]) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
        return lambda array: find(array, windows, order_of(array.dtype))

    # Not `by_platform`, which is for one array. By meaning: XLA:CPU takes subnormal floats for equal. On a GPU both are
    # right, and a comparison of floats is one instruction, of integer images several.
    return lax.platform_dependent(array, cuda=search(by_value), rocm=search(by_value), default=search(by_integers))


def find(array: jax.Array, windows: Sequence[Windows], order: Order) -> tuple[jax.Array, jax.Array]:
    """Maxima and their offsets; large windows along the last dimension first, so that the first of equals wins."""
    axes = range(array.ndim - len(windows), array.ndim)
    image, offset, first, inner = order.image(array), None, np.zeros((), np.int64), 1
    # As wide as images where that is enough: vectors have as many of both then.
    width = max(_bytes_of(prod(dim.window for dim in windows)), min(image.dtype.itemsize, 4))
    for some_axes, some in reversed(groups(axes, windows, FEW_COMPARED)):
        within = inner
        for axis, dim in reversed([*zip(some_axes, some, strict=True)]):
            first = first + _along(axis, array.ndim, dim.first_inside() * within)
            within *= dim.window
        image, offset = _find_along(image, offset, first.astype(f"int{8 * width}"), inner, some_axes, some, order)
        inner = within
    assert offset is not None
    offset = offset.astype(f"int{8 * _bytes_of(inner)}")
    for axis, dim in zip(axes, windows, strict=True):
        if (is_padding := dim.sizes_inside() == 0).any():
            offset = jnp.where(_along(axis, array.ndim, is_padding), offset.dtype.type(-1), offset)
    return order.element(image), offset


def _find_along(
    image: jax.Array,
    offset: jax.Array | None,
    first: np.ndarray,
    inner: int,
    axes: Sequence[int],
    windows: Sequence[Windows],
    order: Order,
) -> tuple[jax.Array, jax.Array]:
    """The greatest image of each window, and its offset.

    Args:
      image: of elements, or of the maxima along the later dimensions.
      offset: of these maxima in their windows, which have `inner` elements; None without.
      first: the offset of the first element of each window that is no padding: padding is never chosen.
      axes: of the windows.
      windows: along each of them.
      order: of the elements.
    """
    # Padding holds the least number, which exceeds nothing: a window of least numbers keeps the offset `first`.
    images = read_slices(image, axes, windows, order.least)
    offsets = read_slices(offset, axes, windows) if offset is not None else repeat(first.dtype.type(0))
    best = jnp.asarray(order.least)
    best_key, best_offset = order.key(best), jnp.asarray(first)
    for each, (slices, within) in enumerate(zip(images, offsets, strict=False)):
        key = order.key(slices)
        # Not if they are equal: the first one of equal elements counts.
        exceeds = order.is_greater(key, best_key)
        best, best_key = jnp.where(exceeds, slices, best), jnp.maximum(key, best_key)
        best_offset = jnp.where(exceeds, within + first.dtype.type(each * inner), best_offset)
    return best, best_offset


def _bytes_of(count: int) -> int:
    """The least size in bytes of a signed integer that holds `count`."""
    return next(n for n in (1, 2, 4) if count < 2 ** (8 * n - 1))


def _along(axis: int, rank: int, values: np.ndarray) -> np.ndarray:
    """Reshapes a vector to lie along `axis` of an array of rank `rank`, to broadcast."""
    return values.reshape([-1 if d == axis else 1 for d in range(rank)])


def pick_in_windows(offset: jax.Array, array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The element of each window at a given offset, 0 for offset -1; linear in the array."""
    axes = range(array.ndim - len(windows), array.ndim)

    def pick(offset: jax.Array, array: jax.Array) -> jax.Array:
        picked = jnp.zeros((), array.dtype)
        for each, elements in enumerate(read_slices(array, axes, windows)):
            picked = jnp.where(offset == each, elements, picked)
        return picked

    def back(offset: jax.Array, cotangent: jax.Array, _: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [put_in_windows(offset, cotangent, windows)]

    return linear(as_guarded_bits(pick), back)(offset, array)


def put_in_windows(offset: jax.Array, array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The transpose of `pick_in_windows`: adds each element at its offset in its window; narrow floats in float32."""
    axes = range(array.ndim - len(windows), array.ndim)
    each = {offsets: i for i, offsets in enumerate(window_offsets(windows))}

    def where(offsets: tuple[int, ...], offset: jax.Array, wide: jax.Array) -> jax.Array:
        return jnp.where(offset == each[offsets], wide, 0)

    def plain(offset: jax.Array, array: jax.Array) -> jax.Array:
        # Stored: XLA would compute the offsets again for each of the slices that read them.
        offset, wide = lax.optimization_barrier(offset), array.astype(wide_type(array.dtype))
        return narrow_apart(spread_slices(where, [offset, wide], [-1, 0], axes, windows), array.dtype)

    def back(offset: jax.Array, cotangent: jax.Array, _: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [pick_in_windows(offset, cotangent, windows)]

    result = jax.ShapeDtypeStruct((*array.shape[: axes[0]], *(dim.size for dim in windows)), array.dtype)
    return linear(plain, back, result)(offset, array)
