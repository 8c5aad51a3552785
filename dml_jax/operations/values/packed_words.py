"""32-bit words: narrow elements as lanes of a word, 8-byte elements as two words."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def has_unsigned(dtype: Any) -> bool:
    """Whether the elements are bools, or integers or real floats that fill their bytes."""
    if dtype == jnp.bool_:
        return True
    info = jnp.iinfo if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo
    is_real = jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)
    return is_real and info(dtype).bits == 8 * dtype.itemsize


def as_unsigned(array: jax.Array) -> jax.Array:
    """The bits as unsigned integers."""
    image = jnp.dtype(f"uint{8 * array.dtype.itemsize}")
    if array.dtype in (image, jnp.bool_):
        return array.astype(image)
    return lax.bitcast_convert_type(array, image)


def from_unsigned(integers: jax.Array, dtype: Any) -> jax.Array:
    """Undoes `as_unsigned`."""
    if dtype == jnp.bool_:
        return integers != 0
    return integers if integers.dtype == dtype else lax.bitcast_convert_type(integers, dtype)


def lanes(dtype: Any) -> int:
    """The number of elements in a word; 1 for types that are as wide or wider, or do not fill their bytes."""
    return 4 // dtype.itemsize if dtype.itemsize < 4 and has_unsigned(dtype) else 1


def words_per_element(dtype: Any) -> int:
    """2 for integers and floats of 8 bytes, else 1."""
    return 2 if dtype.itemsize == 8 and has_unsigned(dtype) else 1


def becomes_words(dtype: Any) -> bool:
    """Whether several elements make a word, or several words an element."""
    return lanes(dtype) > 1 or words_per_element(dtype) > 1


def to_words(array: jax.Array) -> jax.Array:
    """The last dimension as words; its size must be a multiple of `lanes`."""
    *outer, last = array.shape
    if words_per_element(array.dtype) == 2:
        return lax.bitcast_convert_type(array, jnp.uint32).reshape(*outer, 2 * last)
    count = lanes(array.dtype)
    if count == 1:
        return array
    return lax.bitcast_convert_type(as_integers(array).reshape(*outer, last // count, count), jnp.uint32)


def from_words(words: jax.Array, dtype: Any) -> jax.Array:
    """Undoes `to_words`; of narrow elements words of 64 bits too."""
    *outer, last = words.shape
    if words_per_element(dtype) == 2:
        return lax.bitcast_convert_type(words.reshape(*outer, last // 2, 2), dtype)
    if lanes(dtype) == 1:
        return words
    narrow = lax.bitcast_convert_type(words, jnp.dtype(f"uint{8 * dtype.itemsize}"))
    return from_unsigned(narrow.reshape(*outer, last * narrow.shape[-1]), dtype)


def element(words: jax.Array, lane: int, dtype: Any) -> jax.Array:
    """One lane of each word, as a number in that word's type."""
    width = 8 * dtype.itemsize
    shifted = lax.shift_right_logical(words, np.uint32(width * lane)) if lane else words
    return lax.bitwise_and(shifted, np.uint32(2**width - 1))


def join_elements(elements: Sequence[jax.Array], dtype: Any) -> jax.Array:
    """The words whose lanes are `elements`, lowest first: of `dtype`, or integers from `element`.

    As many as `lanes` make words of 32 bits, twice as many words of 64, which JAX has in jax.enable_x64 alone.
    """
    if lanes(dtype) == 1:
        return elements[0]
    # Lanes of a little-endian word: element 0 is in the lowest bits, as bitcasts have it.
    word = jnp.uint32 if len(elements) == lanes(dtype) else jnp.uint64
    width, (first, *others) = 8 * dtype.itemsize, [as_integers(e).astype(word) for e in elements]
    shifted = [lax.shift_left(number, word(width * lane)) for lane, number in enumerate(others, 1)]
    return reduce(lax.bitwise_or, shifted, first)


def join_words(integers: jax.Array, dtype: Any) -> jax.Array:
    """Words of `as_integers` of an array of `dtype`; its last dimension is a multiple of `lanes`."""
    count = lanes(dtype)
    if count == 1:
        return integers
    split = integers.reshape(*integers.shape[:-1], integers.shape[-1] // count, count)
    return join_elements([lax.index_in_dim(split, lane, -1, keepdims=False) for lane in range(count)], integers.dtype)


def join_lanes(integers: jax.Array, dtype: Any) -> jax.Array:
    """`join_words`, as an array of `dtype` that is stored by words."""
    return from_words(join_words(integers, dtype), dtype)


def join_all(integers: jax.Array, dtype: Any) -> jax.Array:
    """`join_lanes` for any size: the last word is padded, and cut by one more pass at the speed of a copy."""
    flat, rest = integers.reshape(-1), -integers.size % lanes(dtype)
    if not rest:
        return join_lanes(flat, dtype).reshape(integers.shape)
    words = join_words(lax.pad(flat, np.zeros((), flat.dtype), [(0, rest, 0)]), dtype)
    # Fused with the cut, each element would be stored on its own; as floats, NaNs would be quieted by it on CPUs.
    cut = lax.slice_in_dim(from_words(lax.optimization_barrier(words), flat.dtype), 0, flat.size)
    return from_unsigned(cut.reshape(integers.shape), dtype)


def sum_lanes(integers: jax.Array, dtype: Any) -> jax.Array:
    """`join_lanes` for any rows that fill words together: each word is the sum of a window.

    XLA:GPU fuses a window with the program of its elements, so that the thread that writes a word reads them. It may
    store the lanes of `join_lanes` first, as arrays of words, for some sizes and not for others.

    Args:
      integers: `as_integers` of the elements, or pairs of bytes as numbers of 16 bits, which are read twice as fast.
      dtype: of the elements.
    """
    itemsize, (*outer, last) = integers.dtype.itemsize, integers.shape
    words = integers.reshape(-1, 4 // itemsize).astype(jnp.uint32)
    shifted = words << (jnp.uint32(8 * itemsize) * lax.broadcasted_iota(jnp.uint32, words.shape, 1))
    window = (1, words.shape[1])
    summed = lax.reduce_window(shifted, np.uint32(0), lax.add, window, window, "VALID")
    return from_words(summed.reshape(-1), dtype).reshape(*outer, last * itemsize // dtype.itemsize)


def as_integers(array: jax.Array) -> jax.Array:
    """The bits of narrow elements as unsigned integers, which XLA:CPU slices as they are; others, unchanged."""
    return as_unsigned(array) if lanes(array.dtype) > 1 else array
