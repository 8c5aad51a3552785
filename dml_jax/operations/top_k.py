"""Indices of the k greatest integers along an axis (top_k)."""

from dataclasses import dataclass
from functools import partial
from math import log2, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .min_max import place_of_extreme
from .programs.partition import known_shards, move_on_each_device
from .programs.primitive import Move
from .programs.variant_selection import choose, shapes_of


@dataclass(frozen=True)
class TopKCase:
    """One search of the greatest along an axis, for the choice between implementations.

    Args:
      k: how many are wanted.
      axis: from 0 on.
      keys: shape and type.
      devices: among which XLA may divide an array.
    """

    k: Any
    axis: int
    keys: Any
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes that a sort reads and writes in all its passes; a symbolic batch counts as large. 0 if k is 0."""
        if not (isinstance(self.size, int) and isinstance(self.k, int) and self.k):
            return 0
        sizes = [n if isinstance(n, int) else 2**20 for n in self.keys.shape]
        return int(prod(sizes) * self.keys.dtype.itemsize * log2(2 * self.size))

    @property
    def plain(self) -> Move:
        """The plain implementation; the greatest alone takes one pass."""
        k, axis = self.k, self.axis
        return lambda _, keys: first_of_all(keys, axis) if k == 1 else lax.top_k(keys, k, axis=axis)[1]

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type of the places."""
        shape = self.keys.shape
        return jax.ShapeDtypeStruct((*shape[: self.axis], self.k, *shape[self.axis + 1 :]), jnp.int32)

    @property
    def size(self) -> int:
        """Keys along the axis."""
        return self.keys.shape[self.axis]


def greatest(keys: jax.Array, k: Any, axis: int) -> jax.Array:
    """The places of the k greatest integers along an axis, the greatest first; of equal ones the first one first."""

    def search(_: None, keys: jax.Array) -> jax.Array:
        return choose("top_k", partial(TopKCase, k, axis, *shapes_of(keys)))(None, keys)

    shards = known_shards()  # else XLA gathers all keys on every device, however they are sharded
    return move_on_each_device(search, shards)(None, keys) if shards else search(None, keys)


def first_of_all(keys: jax.Array, axis: int) -> jax.Array:
    """The place of the first of the greatest; lax.argmax of 64-bit keys cannot be lowered once x64 is off again."""
    return place_of_extreme(keys, axis, "greatest").astype(np.int32)
