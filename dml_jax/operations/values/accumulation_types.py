"""Accumulation types: float16 and bfloat16 are added and multiplied in float32, and rounded once."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def wide_type(dtype: Any) -> Any:
    """The type in which numbers of a type are added and multiplied: float32 for narrower floats."""
    # Integers wrap, and the lower bits of a sum follow from those of its terms: no wider type changes the result.
    is_narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    return np.dtype(np.float32) if is_narrow else dtype


def computed_type(dtype: Any) -> Any:
    """`wide_type`, but integers have at least eight bits: XLA:GPU crashes in scans of narrower ones."""
    if jnp.issubdtype(dtype, jnp.integer) and jnp.iinfo(dtype).bits < 8:
        return jnp.uint8 if jnp.issubdtype(dtype, jnp.unsignedinteger) else jnp.int8
    return wide_type(dtype)


def in_type(dtype: Any, value: Any) -> Any:
    """A constant, or several, in a type of floats; infinity for one that is too large."""
    with np.errstate(over="ignore"):
        return np.asarray(value, np.float64).astype(dtype)


def widen_apart(array: Any, dtype: Any) -> jax.Array:
    """An array in a wider type; of types that few devices have, in memory of its own.

    XLA:GPU reads int4 at the wrong places where it fuses the cast with a reduction, and finds no convolution of float8
    where it fuses it with one.
    """
    wide = jnp.asarray(array).astype(dtype)
    is_small = jnp.issubdtype(array.dtype, jnp.integer) and jnp.iinfo(array.dtype).bits < 8
    return lax.optimization_barrier(wide) if _is_tiny_float(array.dtype) or is_small else wide


def narrow_apart(wide: jax.Array, dtype: Any) -> jax.Array:
    """An array in a type as wide or narrower; before a cast to floats of up to eight bits it is stored.

    Where XLA:GPU (jaxlib 0.11) fuses that cast with a reduction, infinities become the greatest finite number: the
    instruction for it, cvt.satfinite, knows no others (triton-lang/triton issue 5927).
    """
    return (lax.optimization_barrier(wide) if _is_tiny_float(dtype) else wide).astype(dtype)


def _is_tiny_float(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits <= 8
