"""Wrappers of JAX functions whose own annotations have gaps."""

# pyright: basic

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh


def on_device(array: np.ndarray) -> jax.Array:
    return jnp.asarray(array)


def mesh_of_one(axis: str) -> Mesh:
    return jax.make_mesh((1,), (axis,), axis_types=(AxisType.Auto,))
