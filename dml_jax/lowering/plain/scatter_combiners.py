"""Reductions of a scatter: add, mul, min and max, each with its identity and its lax function."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..values.accumulation_types import narrow_apart, wide_type
from ..values.sort_keys import number_of_rank, rank

__all__ = ["ADD", "MAX", "MIN", "MUL", "Reduction"]


@dataclass(frozen=True)
class Reduction:
    """How two numbers that meet in one element become one.

    Args:
      combine: of two encoded arrays.
      scatter: what lax has, of encoded numbers.
      identity: of the type of encoded numbers, the one that changes no other.
      encode: numbers as those that are combined.
      decode: encoded numbers as numbers of a type.
      rounds: whether the order decides about the last bit, of floats.
    """

    combine: Callable[[jax.Array, jax.Array], jax.Array]
    scatter: Callable[..., jax.Array]
    identity: Callable[[Any], Any]
    encode: Callable[[jax.Array], jax.Array] = lambda x: x.astype(wide_type(x.dtype))
    decode: Callable[[jax.Array, Any], jax.Array] = narrow_apart
    rounds: bool = True

    def encodes(self, dtype: Any) -> bool:
        """Whether encoded numbers are others."""
        return not self.rounds or wide_type(dtype) != dtype


ADD = Reduction(jnp.add, lax.scatter_add, lambda dtype: np.zeros((), dtype))
MUL = Reduction(jnp.multiply, lax.scatter_mul, lambda dtype: np.ones((), dtype))
# Devices differ about NaNs and zeros of both signs, but not about the order of integers.
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
