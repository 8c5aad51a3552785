"""A formula of two numbers that DirectML and ONNX share."""

import jax
import jax.numpy as jnp


def parameterized_relu(x: jax.Array, slope: jax.Array) -> jax.Array:
    """x where x >= 0, slope * x elsewhere; the slope's derivative is 0 where x is not negative, infinite too."""
    return jnp.where(x < 0, jnp.where(x < 0, slope, 1) * jnp.minimum(x, 0), x)
