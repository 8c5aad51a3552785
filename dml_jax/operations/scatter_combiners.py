"""Scatter combiners: add, mul, min and max, each with its identity and its lax function."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .values.accumulation_types import narrow_apart, wide_type
from .values.sort_keys import number_of_rank, rank


@dataclass(frozen=True)
class Reduction:
    """A scatter combiner: how updates of the same element are combined.

    Args:
      combine: combines two encoded arrays elementwise.
      scatter: the lax function that scatters encoded updates.
      identity: takes the encoded dtype; returns the number that changes no other.
      encode: converts an array to the dtype in which it is combined.
      decode: converts an encoded array to a dtype.
      rounds: whether the result depends on the order (float rounding).
    """

    combine: Callable[[jax.Array, jax.Array], jax.Array]
    scatter: Callable[..., jax.Array]
    identity: Callable[[Any], Any]
    encode: Callable[[jax.Array], jax.Array] = lambda x: x.astype(wide_type(x.dtype))
    decode: Callable[[jax.Array, Any], jax.Array] = narrow_apart
    rounds: bool = True

    def encodes(self, dtype: Any) -> bool:
        """Whether `encode` changes values of this dtype."""
        return not self.rounds or wide_type(dtype) != dtype


ADD = Reduction(jnp.add, lax.scatter_add, lambda dtype: np.zeros((), dtype))
MUL = Reduction(jnp.multiply, lax.scatter_mul, lambda dtype: np.ones((), dtype))
# Float min and max treat NaN and zeros differently per backend, so integer sort keys are compared.
MIN = Reduction(
    jnp.minimum,
    lax.scatter_min,
    lambda dtype: np.asarray(jnp.iinfo(dtype).max, dtype),
    partial(rank, nan="least"),
    partial(number_of_rank, nan="least"),
    rounds=False,
)
MAX = Reduction(
    jnp.maximum,
    lax.scatter_max,
    lambda dtype: np.asarray(jnp.iinfo(dtype).min, dtype),
    partial(rank, nan="greatest"),
    partial(number_of_rank, nan="greatest"),
    rounds=False,
)
