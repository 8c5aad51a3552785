"""Comparisons of floats that keep the bits of their results: -0.0 equals 0.0, and NaNs are equal, and the greatest.

-0.0 and 0.0 share one key, by which neither is greater; each has its own image, from which it is restored.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .accumulation_types import wide_type
from .bit_exact import is_float
from .sort_keys import in_order_of_bits


class Order(NamedTuple):
    """How elements are compared: the first of equal ones counts, zeros are equal, and so are NaNs, the greatest.

    Args:
      image: elements as numbers, a different one for each element.
      key: images as numbers that are compared; equal ones for equal elements.
      is_greater: of two keys.
      element: undoes `image`.
      least: the image of the least number.
    """

    image: Callable[[jax.Array], jax.Array]
    key: Callable[[jax.Array], jax.Array]
    is_greater: Callable[[jax.Array, jax.Array], jax.Array]
    element: Callable[[jax.Array], jax.Array]
    least: Any


def least_number(dtype: Any) -> np.ndarray:
    """The least number of a type, -inf if it has it."""
    if dtype == jnp.bool_:
        return np.asarray(False)
    if jnp.issubdtype(dtype, jnp.integer):
        return np.asarray(jnp.iinfo(dtype).min, dtype)
    infinite = np.asarray(-np.inf, np.float32).astype(dtype)
    return infinite if np.isinf(infinite.astype(np.float32)) else np.asarray(jnp.finfo(dtype).min, dtype)


def by_integers(dtype: Any) -> Order:
    """Images and keys are integers."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return _of_integers(dtype)
    if not is_float(dtype):  # of 4 bits, and without a NaN
        return _through(np.dtype(np.float32), dtype)
    return _with_one_nan(dtype) if jnp.dtype(dtype).name.endswith("fnuz") else _with_nans(dtype)


def by_value(dtype: Any) -> Order:
    """Images are the bits of floats, and keys floats."""
    if not jnp.issubdtype(dtype, jnp.floating) or not is_float(dtype):
        return by_integers(dtype)
    bits = jnp.dtype(f"uint{8 * jnp.dtype(dtype).itemsize}")
    return Order(
        lambda x: lax.bitcast_convert_type(x, bits),
        lambda image: lax.bitcast_convert_type(image, dtype).astype(wide_type(dtype)),
        # Not `key > best`, which is False for a NaN: here a NaN exceeds all numbers, but no other NaN.
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
    """Compares as a wider type that holds all numbers."""
    order = by_integers(wide)
    least = order.image(jnp.asarray(least_number(dtype), wide))
    return order._replace(
        image=lambda x: order.image(x.astype(wide)),
        element=lambda image: order.element(image).astype(dtype),
        least=least,
    )


def _with_nans(dtype: Any) -> Order:
    """Images ascend from the least number to the greatest; the images of all NaNs, of either sign, follow."""
    least = least_number(dtype)
    integer = jnp.dtype(f"int{8 * least.dtype.itemsize}")
    lowest, greatest = int(jnp.iinfo(integer).min), int((-least).view(integer))
    # Turned so far that -inf becomes the least integer. NaNs with a sign, which come before -inf in the order of bits,
    # wrap around to the greatest integers, after the NaNs without one. `nan` is the image of the first NaN.
    turn, zero, nan = (
        np.asarray(n, integer) for n in (lowest + greatest + 1, lowest + greatest, lowest + 2 * greatest + 2)
    )

    def key(image: jax.Array) -> jax.Array:
        some_nan = jnp.minimum(image, nan)
        return some_nan + (some_nan == zero).astype(integer)  # the image of -0.0 is before the image of 0.0

    return Order(
        lambda x: in_order_of_bits(lax.bitcast_convert_type(x, integer)) + turn,
        key,
        jnp.greater,
        lambda image: lax.bitcast_convert_type(in_order_of_bits(image - turn), dtype),
        np.asarray(lowest, integer),
    )


def _with_one_nan(dtype: Any) -> Order:
    """The order of floats with one zero, and one NaN in place of -0.0: its image becomes the greatest."""
    last = np.int8(127)

    def image(x: jax.Array) -> jax.Array:
        ordered = in_order_of_bits(lax.bitcast_convert_type(x, jnp.int8))
        return jnp.where(ordered == -1, last, ordered - (ordered >= 0).astype(jnp.int8))

    def element(image: jax.Array) -> jax.Array:
        ordered = jnp.where(image == last, np.int8(-1), image + (image >= -1).astype(jnp.int8))
        return lax.bitcast_convert_type(in_order_of_bits(ordered), dtype)

    return Order(image, lambda image: image, jnp.greater, element, np.int8(-128))
