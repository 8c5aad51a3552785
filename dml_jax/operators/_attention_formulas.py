"""What DirectML's structs and ONNX's operators share around attention: masks, heads, and caches of keys and values."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..operations.values.bit_exact import carry_bits
from ._attention_rules import MultiheadAttentionMaskType
from ._join import join

# Which keys count, to be broadcast to (batch, heads, queries, keys), by a mask and the numbers of the keys.
KEPT: Mapping[Any, Callable[[jax.Array, jax.Array], jax.Array]] = {
    MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH: lambda mask, key: key < mask.reshape(-1, 1, 1, 1),
    MultiheadAttentionMaskType.KEY_SEQUENCE_END_START: lambda mask, key: (
        (key < mask.reshape(2, -1, 1, 1, 1)[0]) & (key >= mask.reshape(2, -1, 1, 1, 1)[1])
    ),
    MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END: lambda mask, key: (
        key < mask.reshape(-1, 1, 1, 1)[: mask.size // 3]
    ),
    MultiheadAttentionMaskType.BOOLEAN: lambda mask, key: mask != 0,
}


def append(past: jax.Array | None, new: Any, starts: jax.Array | None) -> jax.Array:
    """Returns all keys, or values: those of the past, then the new ones; or the cache, into which these are written.

    Args:
      past: (batch, heads, keys, size), or None.
      new: the same of new keys, or None.
      starts: of each row of the batch, where the new ones begin in the past, which is a cache then; or None.
    """
    if past is None:
        return new
    if new is None:
        return past
    if starts is None:
        return join([past, new], 2)
    write = jax.vmap(partial(lax.dynamic_update_slice_in_dim, axis=1))
    return carry_bits(lambda starts, past, new: write(past, new, starts), starts, past, new)


def split_heads(rows: jax.Array, heads: int) -> jax.Array:
    """Returns (batch, heads, rows, size of a head) of heads that lie side by side in (batch, rows, heads * size)."""
    return rows.reshape(*rows.shape[:2], heads, rows.shape[-1] // heads).transpose(0, 2, 1, 3)


def merge_heads(heads: jax.Array) -> jax.Array:
    """Returns (batch, rows, heads * size) of (batch, heads, rows, size): what `split_heads` took apart."""
    batch, count, rows, size = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(batch, rows, count * size)


def arange_int32(count: int) -> jax.Array:
    return jnp.arange(count, dtype=np.int32)
