"""Formulas of two numbers that DirectML and ONNX share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["floor_remainder", "parameterized_relu"]


def floor_remainder(a: jax.Array, b: jax.Array) -> jax.Array:
    """a - b * floor(a / b), with the sign of b, also of zeros; an integer divided by 0 remains."""
    if not jnp.issubdtype(a.dtype, jnp.integer):
        return jnp.copysign(jnp.mod(a, b), b)
    rest = lax.rem(a, b)
    return jnp.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def parameterized_relu(x: jax.Array, slope: jax.Array) -> jax.Array:
    """x where x >= 0, slope * x elsewhere; the slope's derivative is 0 where x is not negative, infinite too."""
    return jnp.where(x < 0, jnp.where(x < 0, slope, 1) * jnp.minimum(x, 0), x)
