"""The arithmetic of attention, which DirectML's structs and ONNX's operators share: softmax(Q @ K.T * scale) @ V.

Two keys whose products with a query are 0 and 2 have, by a scale of 0.5, the scores 0 and 1, and weights of 0.27 and
0.73.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.structs.activation_table import in_type_of
from ..lowering.plain.softmax import compute_along
from ..lowering.values.elementary_functions import tanh
from ..lowering.values.xla_workarounds import unfused_product
from ._attention_rules import MultiheadAttentionMaskType

__all__ = ["KEPT", "append", "arange_int32", "attend", "split_heads", "up_to_itself"]

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


def attend(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    scale: float,
    softcap: float = 0.0,
    added: Sequence[jax.Array] = (),
    is_seen: jax.Array | None = None,
    sinks: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns values by how much each key counts for each query, and the scores and the weights of the keys.

    Args:
      query: (batch, N heads, S queries, D), floats of 32 bits or more, as the other arrays.
      key: (batch, G heads, T keys, D); N / G heads of queries share one.
      value: (batch, G heads, T keys, V).
      scale: products of queries and keys are multiplied with.
      softcap: the limit of scores, softcap * tanh(score / softcap); 0 for none.
      added: to the scores, in this order; each broadcasts to (batch, N, S, T).
      is_seen: whether a query sees a key at all; it broadcasts to (batch, N, S, T).
      sinks: of each head, the score of one more key, which has no value; (N), or None.

    Returns:
      The output, (batch, S, N * V), and scores and weights, (batch, N, S, T).
    """
    scores = unfused_product(_by_group("bghsd,bgtd->bghst", query, key))
    scores = scores.reshape(*query.shape[:3], key.shape[2]) * in_type_of(scores, scale)
    if softcap:
        scores = tanh(scores / in_type_of(scores, softcap)) * in_type_of(scores, softcap)
    for term in added:
        scores = scores + term
    if is_seen is not None:
        scores = jnp.where(is_seen, scores, -np.inf)
    if sinks is None:
        weights = compute_along(_softmax, scores, (-1,))
    else:
        sink = jnp.broadcast_to(sinks.reshape(1, -1, 1, 1), (*scores.shape[:3], 1))
        weights = compute_along(_softmax, jnp.concatenate([scores, sink], -1), (-1,))[..., :-1]
    output = _by_group("bghst,bgtv->bsghv", weights, value)
    return output.reshape(*output.shape[:2], query.shape[1] * output.shape[-1]), scores, weights


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
        return jnp.concatenate([past, new], axis=2)
    return jax.vmap(partial(lax.dynamic_update_slice_in_dim, axis=1))(past, new, starts)


def up_to_itself(starts: jax.Array, queries: int, keys: int) -> jax.Array:
    """Returns whether a key is no later than a query, (batch, 1, queries, keys), given the index of the first query."""
    last = starts.reshape(-1, 1, 1, 1) + arange_int32(queries).reshape(1, 1, -1, 1)
    return arange_int32(keys).reshape(1, 1, 1, -1) <= last


def split_heads(rows: jax.Array, heads: int) -> jax.Array:
    """Returns (batch, heads, rows, size of a head) of heads that lie side by side in (batch, rows, heads * size)."""
    return rows.reshape(*rows.shape[:2], heads, rows.shape[-1] // heads).transpose(0, 2, 1, 3)


def arange_int32(count: int) -> jax.Array:
    return jnp.arange(count, dtype=np.int32)


def _by_group(equation: str, x: jax.Array, shared: jax.Array) -> jax.Array:
    """A product of each head of queries with the keys or values that its group of heads shares."""
    groups = x.reshape(x.shape[0], shared.shape[1], x.shape[1] // shared.shape[1], *x.shape[2:])
    return jnp.einsum(equation, groups, shared, precision=lax.Precision.HIGHEST)


def _softmax(scores: jax.Array) -> jax.Array:
    """Along the last dimension; the greatest score is stored, because fused with the rest it may be rounded twice."""
    greatest = lax.optimization_barrier(scores.max(axis=-1, keepdims=True))
    powers = jnp.exp(scores - lax.stop_gradient(greatest))
    return powers / powers.sum(axis=-1, keepdims=True)
