"""Sort keys: numbers as integers of the same order, and back."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

End = Literal["least", "greatest"]


def rank(x: jax.Array, nan: End) -> jax.Array:
    """Signed integers in the order of floats, of 32 bits for narrow ones; integers are their own rank.

    -0.0 is less than 0.0, and NaNs are at one end.

    The bits of a float, as a signed integer, ascend with its size. Those of negative floats descend, until all but the
    sign are inverted: -1.0 and -2.0 of 8 bits, 1.0111000 and 1.1000000, become 1.1000111 and 1.0111111, -57 and -65.
    """
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    x = x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x
    bits = lax.bitcast_convert_type(x, jnp.dtype(f"int{8 * x.dtype.itemsize}"))
    limits = jnp.iinfo(bits.dtype)
    ordered = in_order_of_bits(bits)
    return jnp.where(jnp.isnan(x), np.asarray(limits.max if nan == "greatest" else limits.min, bits.dtype), ordered)


def number_of_rank(ranks: jax.Array, dtype: Any, nan: End) -> jax.Array:
    """Undoes `rank` for numbers of a dtype; a NaN comes back as one."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return ranks
    limits = jnp.iinfo(ranks.dtype)
    number = lax.bitcast_convert_type(in_order_of_bits(ranks), jnp.dtype(f"float{8 * ranks.dtype.itemsize}"))
    is_nan = ranks == np.asarray(limits.max if nan == "greatest" else limits.min, ranks.dtype)
    return jnp.where(is_nan, np.asarray(np.nan, number.dtype), number).astype(dtype)


def order(x: jax.Array) -> jax.Array:
    """Integers in the order of numbers, int32 for narrow ones: zeros are equal, and NaNs, the greatest.

    Those of 64 bits may be unsigned. XLA:GPU (jaxlib 0.11) mixes up dimensions where words are cast to these, cast
    again, and transposed.
    """
    if jnp.issubdtype(x.dtype, jnp.floating):
        ranks = rank(x, nan="greatest")
        return jnp.where(ranks == -1, 0, ranks)  # the rank of -0.0
    if x.dtype.itemsize < 4:
        return x.astype(jnp.int32)
    if x.dtype == jnp.uint32:
        # The highest bit inverted: 0 becomes the least signed integer, and 2**32 - 1 the greatest.
        return lax.bitcast_convert_type(x, jnp.int32) ^ np.asarray(-(2**31), np.int32)
    return x


def float_in_order(x: jax.Array) -> jax.Array:
    """Any 32-bit integers as floats, NaNs among them, whose total order is the same."""
    return lax.bitcast_convert_type(in_order_of_bits(x), jnp.float32)


def in_order_of_bits(bits: jax.Array) -> jax.Array:
    """Flips all bits but the sign of negative numbers; its own inverse."""
    return jnp.where(bits < 0, bits ^ np.asarray(jnp.iinfo(bits.dtype).max, bits.dtype), bits)
