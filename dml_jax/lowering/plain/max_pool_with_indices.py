"""Max pooling with indices: the maximum of each window and its place there, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..primitive import linear
from ..values.accumulation_types import narrow_apart, wide_type
from ..values.bit_exact import as_guarded_bits
from ..values.float_comparisons import Order, by_integers, by_value
from .sliding_windows import Windows
from .window_slices import groups, numbers_of, read_slices, spread_slices

FEW_COMPARED = 32  # elements of a window: of more it is faster to go dimension by dimension

__all__ = ["find", "greatest_in_windows", "pick_in_windows", "put_in_windows"]


def greatest_in_windows(array: jax.Array, windows: Sequence[Windows]) -> tuple[jax.Array, jax.Array]:
    """The greatest element of each window over the last dimensions, and its number in row-major order; no derivative.

    Of a window in the padding alone these are the least number and -1. The windows must be sliceable.
    """

    def search(order_of: Callable[[Any], Order]) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
        return lambda array: find(array, windows, order_of(array.dtype))

    # Not `by_platform`, which is for one array. By meaning: XLA:CPU takes subnormal floats for equal. On a GPU both are
    # right, and a comparison of floats is one instruction, of integer images several.
    return lax.platform_dependent(array, cuda=search(by_value), rocm=search(by_value), default=search(by_integers))


def find(array: jax.Array, windows: Sequence[Windows], order: Order) -> tuple[jax.Array, jax.Array]:
    """Maxima and their numbers; large windows along the last dimension first, so that the first of equals wins."""
    axes = range(array.ndim - len(windows), array.ndim)
    image, number, first, inner = order.image(array), None, np.zeros((), np.int64), 1
    # As wide as images where that is enough: vectors have as many of both then.
    width = max(_bytes_of(prod(dim.window for dim in windows)), min(image.dtype.itemsize, 4))
    for some_axes, some in reversed(groups(axes, windows, FEW_COMPARED)):
        within = inner
        for axis, dim in reversed([*zip(some_axes, some, strict=True)]):
            first = first + _along(axis, array.ndim, dim.first_inside() * within)
            within *= dim.window
        image, number = _find_along(image, number, first.astype(f"int{8 * width}"), inner, some_axes, some, order)
        inner = within
    assert number is not None
    number = number.astype(f"int{8 * _bytes_of(inner)}")
    for axis, dim in zip(axes, windows, strict=True):
        if (is_padding := dim.sizes_inside() == 0).any():
            number = jnp.where(_along(axis, array.ndim, is_padding), number.dtype.type(-1), number)
    return order.element(image), number


def _find_along(
    image: jax.Array,
    number: jax.Array | None,
    first: np.ndarray,
    inner: int,
    axes: Sequence[int],
    windows: Sequence[Windows],
    order: Order,
) -> tuple[jax.Array, jax.Array]:
    """The greatest image of each window, and its number.

    Args:
      image: of elements, or of the greatest ones along the dimensions behind those.
      number: of the latter in their windows, which have `inner` elements.
      first: the number of the first element of each window that is no padding: padding is never chosen.
      axes: of the windows.
      windows: along each of them.
      order: of the elements.
    """
    images = read_slices(image, axes, windows, order.least)
    numbers = read_slices(number, axes, windows) if number is not None else repeat(first.dtype.type(0))
    best = jnp.asarray(order.least)
    best_key, best_number = order.key(best), jnp.asarray(first)
    for each, (slices, within) in enumerate(zip(images, numbers, strict=False)):
        key = order.key(slices)
        exceeds = order.is_greater(key, best_key)
        best, best_key = jnp.where(exceeds, slices, best), jnp.maximum(key, best_key)
        best_number = jnp.where(exceeds, within + first.dtype.type(each * inner), best_number)
    return best, best_number


def _bytes_of(count: int) -> int:
    """Bytes of an integer that counts to this number."""
    return next(n for n in (1, 2, 4) if count < 2 ** (8 * n - 1))


def _along(axis: int, rank: int, numbers: np.ndarray) -> np.ndarray:
    """Numbers for the windows along one dimension, in the rank of the array."""
    return numbers.reshape([-1 if d == axis else 1 for d in range(rank)])


def pick_in_windows(number: jax.Array, array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The element of each window with a given number, 0 if there is none; linear in the array."""
    axes = range(array.ndim - len(windows), array.ndim)

    def pick(number: jax.Array, array: jax.Array) -> jax.Array:
        picked = jnp.zeros((), array.dtype)
        for each, elements in enumerate(read_slices(array, axes, windows)):
            picked = jnp.where(number == each, elements, picked)
        return picked

    def back(number: jax.Array, cotangent: jax.Array, _: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [put_in_windows(number, cotangent, windows)]

    return linear(as_guarded_bits(pick), back)(number, array)


def put_in_windows(number: jax.Array, array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The transpose of `pick_in_windows`: elements that come from one are added up, narrow floats in float32."""
    axes = range(array.ndim - len(windows), array.ndim)
    each = {numbers: i for i, numbers in enumerate(numbers_of(windows))}

    def where(numbers: tuple[int, ...], number: jax.Array, wide: jax.Array) -> jax.Array:
        return jnp.where(number == each[numbers], wide, 0)

    def plain(number: jax.Array, array: jax.Array) -> jax.Array:
        # Stored: XLA would compute the numbers again for each of the slices that read them.
        number, wide = lax.optimization_barrier(number), array.astype(wide_type(array.dtype))
        return narrow_apart(spread_slices(where, [number, wide], [-1, 0], axes, windows), array.dtype)

    def back(number: jax.Array, cotangent: jax.Array, _: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [pick_in_windows(number, cotangent, windows)]

    result = jax.ShapeDtypeStruct((*array.shape[: axes[0]], *(dim.size for dim in windows)), array.dtype)
    return linear(plain, back, result)(number, array)
