"""KV cache of a sliding window, `sliding_window_cache` of ONNX Runtime: the latest keys lie in order from row 0 on.

A cache of 4 rows for a window of 3 evicts two keys at once. After 4 tokens it has the keys 0 to 3, after 5 those from 2
to 4, after 6 those from 2 to 5, after 7 those from 4 to 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import ConstraintError
from ..operations.values.bit_exact import carry_bits
from .values import Array, on_device


@dataclass(frozen=True)
class SlidingWindowCache:
    """The places of keys in a buffer that begins with the rows of the past, and has room for the new keys.

    Args:
      capacity: rows of the cache.
      room: rows of the buffer.
      origin: of each row of the batch, the number of the key in row 0 of the buffer; int32.
      starts: of each row of the batch, the row of its first new key.
      ends: of each row of the batch, the row after its last key.
      evicted: of each row of the batch, how many rows the cache loses.
    """

    capacity: int
    room: int
    origin: Any
    starts: Any
    ends: Any
    evicted: Any

    @classmethod
    def of(cls, capacity: int, window: int, rows: int, starts: Any, ends: Any) -> SlidingWindowCache:
        """Returns the places of `rows` new keys, of which those from number `starts` up to `ends` count.

        Raises:
          ConstraintError: the window is empty, or the cache has no room for it.
        """
        if not 0 < window <= capacity:
            rule = f"local_window_size must be in [1, {capacity}], because sliding_window_cache is 1"
            raise ConstraintError(f"{rule} and past_key has so many rows, but it is {window}")
        at_once = np.int32(capacity - window + 1)

        def evicted_before(count: Any) -> Any:
            return at_once * ((count - np.int32(capacity) + at_once - 1) // at_once).clip(0)

        origin = evicted_before(starts)
        evicted = evicted_before(ends) - origin
        return cls(capacity, capacity + rows + capacity - window, origin, starts - origin, ends - origin, evicted)

    def latest(self, buffer: jax.Array) -> jax.Array:
        """Returns the cache, (batch, heads, capacity, size), of the buffer after the new keys are written."""
        cut = jax.vmap(partial(lax.dynamic_slice_in_dim, slice_size=self.capacity, axis=1))
        return carry_bits(lambda starts, buffer: cut(buffer, starts), on_device(self.evicted), buffer)

    def bias(self, bias: Array) -> jax.Array:
        """Returns numbers for the rows of the buffer, of those of all keys, (batch or 1, heads or 1, queries, keys)."""
        padded = jnp.pad(on_device(bias), ((0, 0), (0, 0), (0, 0), (0, self.room)))
        whole = jnp.broadcast_to(padded, (len(self.origin), *padded.shape[1:]))
        cut = partial(lax.dynamic_slice_in_dim, slice_size=self.room, axis=2)
        return jax.vmap(cut)(whole, on_device(self.origin))
