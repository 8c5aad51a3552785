"""The greatest element of each window and its number there, in one pass that compares the elements in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..primitive import linear
from ..select import choose, shapes_of
from ..values.accumulation_types import narrow_apart, wide_type
from ..values.bits import as_bits, is_float
from ..values.sort_keys import in_order_of_bits
from .window_slices import groups, numbers_of, read_slices, spread_slices
from .windows import WindowCase, Windows

FEW_COMPARED = 32  # elements of a window: of more it is faster to go dimension by dimension

__all__ = ["by_value", "find", "greatest_in_windows", "least_number", "pick_in_windows", "put_in_windows"]


class Order(NamedTuple):
    """How elements are compared: of equal ones the first counts, zeros are equal, and so are NaNs, the greatest.

    Args:
      image: elements as numbers of which each stands for one element.
      key: images as what is compared; equal ones for equal elements.
      is_greater: of two keys.
      element: undoes `image`.
      least: the image of the least number.
    """

    image: Callable[[jax.Array], jax.Array]
    key: Callable[[jax.Array], jax.Array]
    is_greater: Callable[[jax.Array, jax.Array], jax.Array]
    element: Callable[[jax.Array], jax.Array]
    least: Any


def greatest_in_windows(array: jax.Array, windows: Sequence[Windows]) -> tuple[jax.Array, jax.Array]:
    """The greatest element of each window over the last dimensions, and its number in row-major order; no derivative.

    Of a window in the padding alone these are the least number and -1. The windows must be sliceable.
    """

    def found(order_of: Callable[[Any], Order]) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
        return lambda array: find(array, windows, order_of(array.dtype))

    # Not `by_platform`, which is for one array. By meaning: XLA:CPU takes subnormal floats for equal. On a GPU both are
    # right, and a comparison of floats is one instruction, of integer images several.
    return lax.platform_dependent(array, cuda=found(by_value), rocm=found(by_value), default=found(_by_integers))


def find(array: jax.Array, windows: Sequence[Windows], order: Order) -> tuple[jax.Array, jax.Array]:
    """Where windows have many elements, along the last dimension first: the first of equals has the least number."""
    axes = range(array.ndim - len(windows), array.ndim)
    image, number, first, inner = order.image(array), None, np.zeros((), np.int64), 1
    # As wide as images where that is enough: vectors have as many of both then.
    width = max(_bytes_of(prod(one.window for one in windows)), min(image.dtype.itemsize, 4))
    for some_axes, some in reversed(groups(axes, windows, FEW_COMPARED)):
        within = inner
        for axis, one in reversed([*zip(some_axes, some, strict=True)]):
            first = first + _along(axis, array.ndim, one.first_inside() * within)
            within *= one.window
        image, number = _find_along(image, number, first.astype(f"int{8 * width}"), inner, some_axes, some, order)
        inner = within
    assert number is not None
    number = number.astype(f"int{8 * _bytes_of(inner)}")
    for axis, one in zip(axes, windows, strict=True):
        if (is_padding := one.sizes_inside() == 0).any():
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
    best_key, found = order.key(best), jnp.asarray(first)
    for each, (slices, within) in enumerate(zip(images, numbers, strict=False)):
        key = order.key(slices)
        exceeds = order.is_greater(key, best_key)
        best, best_key = jnp.where(exceeds, slices, best), jnp.maximum(key, best_key)
        found = jnp.where(exceeds, within + first.dtype.type(each * inner), found)
    return best, found


def _bytes_of(count: int) -> int:
    """Of integers for so many numbers."""
    return next(n for n in (1, 2, 4) if count < 2 ** (8 * n - 1))


def _along(axis: int, rank: int, numbers: np.ndarray) -> np.ndarray:
    """Numbers for the windows along one dimension, in the rank of the array."""
    return numbers.reshape([-1 if d == axis else 1 for d in range(rank)])


def pick_in_windows(number: jax.Array, array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """Of each window over the last dimensions the element with a number, 0 if there is none; linear in the array."""
    axes = range(array.ndim - len(windows), array.ndim)

    def pick(number: jax.Array, array: jax.Array) -> jax.Array:
        picked = jnp.zeros((), array.dtype)
        for each, elements in enumerate(read_slices(array, axes, windows)):
            picked = jnp.where(number == each, elements, picked)
        return picked

    def back(number: jax.Array, cotangent: jax.Array, _: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [put_in_windows(number, cotangent, windows)]

    return linear(as_bits(pick, in_bytes=True), back)(number, array)


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

    result = jax.ShapeDtypeStruct((*array.shape[: axes[0]], *(one.size for one in windows)), array.dtype)
    case_of = partial(WindowCase, plain, windows, axes, shapes_of(number, array), result)
    return choose("put_in_windows", case_of, back)(number, array)


def least_number(dtype: Any) -> np.ndarray:
    """The least number of a type, -inf if it has it."""
    if dtype == jnp.bool_:
        return np.asarray(False)
    if jnp.issubdtype(dtype, jnp.integer):
        return np.asarray(jnp.iinfo(dtype).min, dtype)
    infinite = np.asarray(-np.inf, np.float32).astype(dtype)
    return infinite if np.isinf(infinite.astype(np.float32)) else np.asarray(jnp.finfo(dtype).min, dtype)


# Orders.


def _by_integers(dtype: Any) -> Order:
    """Images and keys are integers."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return _of_integers(dtype)
    if not is_float(dtype):  # of 4 bits, and without a NaN
        return _through(np.dtype(np.float32), dtype)
    return _with_one_nan(dtype) if jnp.dtype(dtype).name.endswith("fnuz") else _with_nans(dtype)


def by_value(dtype: Any) -> Order:
    """Images are the bits of floats, and keys floats."""
    if not jnp.issubdtype(dtype, jnp.floating) or not is_float(dtype):
        return _by_integers(dtype)
    bits = jnp.dtype(f"uint{8 * jnp.dtype(dtype).itemsize}")
    return Order(
        lambda x: lax.bitcast_convert_type(x, bits),
        lambda image: lax.bitcast_convert_type(image, dtype).astype(wide_type(dtype)),
        lambda key, best: ~(key <= best) & (best == best),
        lambda image: lax.bitcast_convert_type(image, dtype),
        least_number(dtype).view(bits),
    )


def _of_integers(dtype: Any) -> Order:
    is_short = dtype == jnp.bool_ or jnp.iinfo(dtype).bits < 8
    wide = jnp.dtype((jnp.int8 if jnp.issubdtype(dtype, jnp.signedinteger) else jnp.uint8) if is_short else dtype)
    least = least_number(dtype).astype(wide)
    return Order(lambda x: x.astype(wide), lambda image: image, jnp.greater, lambda image: image.astype(dtype), least)


def _through(wide: Any, dtype: Any) -> Order:
    """Of a wider type that holds all numbers."""
    order = _by_integers(wide)
    least = order.image(jnp.asarray(least_number(dtype), wide))
    return order._replace(
        image=lambda x: order.image(x.astype(wide)),
        element=lambda image: order.element(image).astype(dtype),
        least=least,
    )


def _with_nans(dtype: Any) -> Order:
    """Images ascend from the least number to the greatest; those of all NaNs, of either sign, follow."""
    least = least_number(dtype)
    integer = jnp.dtype(f"int{8 * least.dtype.itemsize}")
    lowest, greatest = int(jnp.iinfo(integer).min), int((-least).view(integer))
    turn, zero, nan = (
        np.asarray(n, integer) for n in (lowest + greatest + 1, lowest + greatest, lowest + 2 * greatest + 2)
    )

    def key(image: jax.Array) -> jax.Array:
        some_nan = jnp.minimum(image, nan)
        return some_nan + (some_nan == zero).astype(integer)  # -0.0, whose image is before that of 0.0

    return Order(
        lambda x: in_order_of_bits(lax.bitcast_convert_type(x, integer)) + turn,
        key,
        jnp.greater,
        lambda image: lax.bitcast_convert_type(in_order_of_bits(image - turn), dtype),
        np.asarray(lowest, integer),
    )


def _with_one_nan(dtype: Any) -> Order:
    """Of floats with one zero and one NaN, in place of -0.0, whose image becomes the greatest."""
    last = np.int8(127)

    def image(x: jax.Array) -> jax.Array:
        ordered = in_order_of_bits(lax.bitcast_convert_type(x, jnp.int8))
        return jnp.where(ordered == -1, last, ordered - (ordered >= 0).astype(jnp.int8))

    def element(image: jax.Array) -> jax.Array:
        ordered = jnp.where(image == last, np.int8(-1), image + (image >= -1).astype(jnp.int8))
        return lax.bitcast_convert_type(in_order_of_bits(ordered), dtype)

    return Order(image, lambda image: image, jnp.greater, element, np.int8(-128))
