"""Powers of floats and of integers, which wrap."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..operations.values import elementary_functions as elementary
from ._cast import cast


def power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    """Powers in the type of the base. Integers to the power of floats are float32 powers, converted by `cast`."""
    if not jnp.issubdtype(base.dtype, jnp.integer):
        return real_power(base, exponent.astype(base.dtype))
    if jnp.issubdtype(exponent.dtype, jnp.integer):
        return whole_power(base, exponent)
    return cast(nearly_whole_power(base.astype(np.float32), exponent), base.dtype)


def constant_power(base: jax.Array, exponent: float) -> jax.Array:
    """`power` with one known exponent; integers take a whole one as an integer."""
    is_whole = jnp.issubdtype(base.dtype, jnp.integer) and exponent.is_integer()
    if not is_whole:
        return power(base, jnp.full((), exponent, np.float32))
    return lax.integer_pow(base, int(exponent)) if exponent >= 0 else _inverse(base, np.bool_(exponent % 2))


def real_power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    """Powers of floats; the derivative of 0 ** 0 is 0, not NaN."""
    return elementary.power(jnp.where((base == 0) & (exponent == 0), 1, base), exponent)


def nearly_whole_power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    """Powers of floats that are to be cut off: 9 ** 0.5, which may be computed as less than 3, is 3."""
    near = real_power(base, exponent)
    nearest = jnp.rint(near)
    return jnp.where(jnp.abs(near - nearest) <= 4 * jnp.finfo(near.dtype).eps * jnp.abs(near), nearest, near)


def whole_power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    """Integers to the power of integers by squaring, bit by bit; they wrap, and results below 1 are cut off to 0."""
    power, factor = jnp.ones_like(base), base
    for bit in range(8 * exponent.dtype.itemsize):  # no loop of XLA's, which would write to memory at every step
        is_set = (exponent >> np.asarray(bit, exponent.dtype)) & 1 == 1
        power, factor = jnp.where(is_set, power * factor, power), factor * factor
    return jnp.where(exponent < 0, _inverse(base, exponent & 1 == 1), power)


def _inverse(base: jax.Array, is_odd: Any) -> jax.Array:
    """Integers to a power below 0: 1 and -1 have inverses, and others are cut off to 0."""
    one = jnp.ones_like(base)
    inverse = jnp.where((base < 0) & is_odd, -one, one)
    return jnp.where((base == 1) | (base < 0) & (base == -one), inverse, 0)
