"""Random inputs by type and shape, for benchmarks that compare results."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..core.tensors.tensor_spec import TensorSpec


def drawn_from(seed: int) -> Callable[[TensorSpec, tuple[int, ...]], np.ndarray]:
    """Returns a function that draws the array of an input.

    Floats are normally distributed, and integers of 8 bits and less have their whole range, as pixels do. Wider ones
    are 0 or 1, which are indices of most tables, and masks are 1: a network may attend to nothing where a mask is 0.

    Args:
      seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)

    def draw(spec: TensorSpec, shape: tuple[int, ...]) -> np.ndarray:
        low, high = _range(spec.dtype)
        if high is None:
            return np.asarray(rng.standard_normal(shape)).astype(spec.dtype)
        if "mask" in spec.name.lower():
            return np.ones(shape, spec.dtype)
        return rng.integers(low, high, shape, endpoint=True).astype(spec.dtype)

    return draw


def _range(dtype: np.dtype[Any]) -> tuple[int, int | None]:
    """Returns the least and the greatest number to draw of a type; None of floats."""
    if dtype.kind == "b" or (jnp.issubdtype(dtype, jnp.integer) and dtype.itemsize > 1):
        return 0, 1
    if jnp.issubdtype(dtype, jnp.integer):
        return int(jnp.iinfo(dtype).min), int(jnp.iinfo(dtype).max)
    return 0, None
