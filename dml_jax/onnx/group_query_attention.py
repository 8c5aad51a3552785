"""ONNX Runtime's GroupQueryAttention: shared key-value heads, KV cache and rotary embedding, in float32."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import ConstraintError
from ..operations.attention import attend
from ..operations.attention_steps import Attended, attention_steps
from ..operations.values.accumulation_types import narrow_apart
from ..operators._attention_formulas import merge_heads, split_heads
from ..operators._normalization_formulas import mean_of_squares, normalize
from .contrib_schemas import optional, required, schema
from .kv_cache import append_keys, check_room, fit_keys
from .operand_checks import check_bias, check_both, check_head_counts, check_shape, check_value, needed
from .rotary_embedding import check_caches, rotate
from .sliding_window_cache import SlidingWindowCache
from .values import Array, Operators, as_wide, on_device


def group_query_attention(
    *,
    query: Array,
    key: Array | None = None,
    value: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    seqlens_k: Array,
    total_sequence_length: Array,
    cos_cache: Array | None = None,
    sin_cache: Array | None = None,
    position_ids: Array | None = None,
    attention_bias: Array | None = None,
    head_sink: Array | None = None,
    q_norm_weight: Array | None = None,
    k_norm_weight: Array | None = None,
    query_seqlens: Array | None = None,
    num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    softcap: float = 0.0,
    causal: int = 1,
    local_window_size: int = -1,
    smooth_softmax: int = -1,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    qk_norm_epsilon: float = 1e-6,
    q_norm_epsilon: float = 0.0,
    k_norm_epsilon: float = 0.0,
    qk_output: int = 0,
    sliding_window_cache: int = 0,
    count: int = 1,
    **_: Any,  # options of quantised caches: supported_options.py refuses others than the defaults
) -> tuple[jax.Array | None, ...]:
    """GroupQueryAttention: row b of the batch has seqlens_k[b] + 1 keys; the new ones are the last of them.

    The present is as large as the past if that has room for all keys, else as large as `total_sequence_length`. Where
    that is data, the past must have room; where it has none, the output is NaN. A cache of a sliding window keeps its
    size.
    """
    check_value("sliding_window_cache", sliding_window_cache, (0, 1))
    check_both(past_key=past_key, past_value=past_value)
    check_both(q_norm_weight=q_norm_weight, k_norm_weight=k_norm_weight)
    check_value("qk_output", qk_output, (0,) if sliding_window_cache else (0, 1, 2))
    queries, keys, values = _heads(query, key, value, num_heads, kv_num_heads)
    lengths = (seqlens_k, total_sequence_length, query_seqlens)
    n = _Lengths.of(keys, past_key, past_value, *lengths, has_room=bool(sliding_window_cache))
    window = n.in_sliding_window(past_key, local_window_size) if sliding_window_cache else None
    queries = _rms_normalize(queries, "q_norm_weight", q_norm_weight, q_norm_epsilon or qk_norm_epsilon)
    keys = _rms_normalize(keys, "k_norm_weight", k_norm_weight, k_norm_epsilon or qk_norm_epsilon)
    if do_rotary:
        caches = {"cos_cache": cos_cache, "sin_cache": sin_cache}
        queries, keys = _rotate((queries, keys), caches, n, position_ids, bool(rotary_interleaved))
    places = window or n
    all_keys, all_values = (
        append_keys(past, new, places.room, places.starts, query.dtype)
        for past, new in ((past_key, keys), (past_value, values))
    )
    operands = (narrow_apart(queries, query.dtype), all_keys, all_values)
    given: dict[str, Any] = {
        "scale": scale or 1 / sqrt(keys.shape[3]),
        "softcap": softcap,
        "added": n.bias(attention_bias, num_heads, window),
        "lengths": places.ends,
        "starts": 0 if past_key is None else places.starts,
        "window": _window(causal, local_window_size),
        "sinks": _sinks(head_sink, num_heads, smooth_softmax),
    }
    attended = attention_steps(*operands, **given) if qk_output else None
    output = merge_heads(attended.output if attended else attend(*operands, dtype=query.dtype, **given))
    if window is None:
        output = check_room(output, n.starts + np.int32(n.rows), n.room)
    else:
        all_keys, all_values = map(window.latest, (all_keys, all_values))
    outputs = (output, all_keys, all_values, attended and _of_keys(qk_output, attended, n.total))
    return tuple(array if array is None else narrow_apart(array, query.dtype) for array in outputs)[:count]


def _of_keys(qk_output: int, attended: Attended, total: int | None) -> jax.Array:
    """Returns the fourth output by `qk_output`: the scores with 0 for keys that are not seen, or the weights."""
    if qk_output == 2:
        return attended.weights[..., :total]
    return jnp.where(attended.is_seen, attended.scores, 0)[..., :total]  # type: ignore[arg-type]  # lengths exclude keys


@dataclass(frozen=True)
class _Lengths:
    """The number of keys, and the places of the new ones.

    Args:
      batch: of queries.
      rows: of queries, and of new keys, some of which may be padding, after the others.
      starts: of each row of the batch, the number of its first new key; int32.
      ends: of each row of the batch, how many keys it has; int32.
      room: of the cache after it.
      total: the most keys of a row; None while that is data.
      is_first: whether there are no keys of the past, as position_ids have it; may be data.
    """

    batch: int
    rows: int
    starts: Array
    ends: Array
    room: int
    total: int | None
    is_first: Any

    @classmethod
    def of(
        cls,
        keys: jax.Array,
        past_key: Any,
        past_value: Any,
        seqlens_k: Array,
        length: Array,
        chunk: Array | None,
        *,
        has_room: bool,
    ) -> _Lengths:
        batch, heads, rows, size = keys.shape
        for name, past in (("past_key", past_key), ("past_value", past_value)):
            check_shape(name, past, (batch, heads, None if past is past_key else past_key.shape[2], size))
        check_value("total_sequence_length.size", length.size, (1,))
        total = None if isinstance(length, Tracer) else int(length.item())
        before = 0 if past_key is None else past_key.shape[2]
        is_any = has_room or chunk is not None
        if total is not None and total != before + rows and not (is_any or rows <= total <= before):
            accepted = f"{before + rows}, or in [{rows}, {before}]"
            raise ConstraintError(f"total_sequence_length must be {accepted}, but it is {total}")
        check_value("seqlens_k.size", seqlens_k.size, (batch,))
        ends = seqlens_k.reshape(-1) + np.int32(1)
        if not (total is None or isinstance(ends, Tracer)) and not ((ends > 0) & (ends <= total)).all():
            raise ConstraintError(f"seqlens_k must be in [0, {total}), but it is {seqlens_k}")
        if chunk is not None:
            needed("past_key", past_key, "query_seqlens is given")
            check_shape("query_seqlens", chunk, (batch,))
        starts = (ends - np.int32(rows)).clip(0) if chunk is None else ends - chunk
        is_first = chunk is None and length.reshape(()) == rows
        return cls(batch, rows, starts, ends, max(total or 0, before, rows), total, is_first)

    def in_sliding_window(self, past_key: Array | None, size: int) -> SlidingWindowCache:
        past_key = needed("past_key", past_key, "sliding_window_cache is 1")
        return SlidingWindowCache.of(past_key.shape[2], size, self.rows, self.starts, self.ends)

    def positions(self, ids: Array | None) -> Array:
        """Returns positions of new keys, or position_ids; in a first prompt all rows start at the first row's first."""
        if ids is None:
            return self.starts[:, None] + np.arange(self.rows, dtype=np.int32)[None]
        check_shape("position_ids", ids, (self.batch, self.rows))
        first = ids[:1, :1] + np.arange(self.rows, dtype=ids.dtype)[None]
        if isinstance(self.is_first, Tracer):
            return jnp.where(self.is_first, first, ids)
        return first if self.is_first else ids

    def bias(self, bias: Array | None, heads: int, window: SlidingWindowCache | None) -> list[jax.Array]:
        """Returns the bias, if there is one, with zeros for unused room of the cache."""
        if bias is None:
            return []
        check_bias(bias, (self.batch, heads, self.rows))
        if window is None:
            return [fit_keys("attention_bias", bias, self.total, self.room)]
        check_shape("attention_bias", bias, (None, None, None, self.total))
        return [window.bias(bias)]


def _window(causal: int, size: int) -> tuple[int | None, int | None]:
    """Returns how many keys before and after its own one a query sees, None for all: a window of 2 has one before."""
    check_value("causal", causal, (0, 1))
    if not causal:
        check_value("local_window_size must be -1 if causal is 0:", size, (-1,))
    return (None if size < 0 else size - 1), (0 if causal else None)


def _heads(query: Array, key: Array | None, value: Array | None, heads: int, shared: int) -> list[jax.Array]:
    """Returns queries, new keys and new values as (batch, heads, rows, size); one packed tensor has this order."""
    check_head_counts("num_heads", heads, shared)
    check_shape("query", query, (None, None, None))
    check_both(key=key, value=value)
    counts = [heads + 2 * shared] if key is None else [heads, shared, shared]
    if query.shape[2] % counts[0]:
        raise ConstraintError(f"query.shape[2] must be a multiple of {counts[0]} heads, but it is {query.shape[2]}")
    size = query.shape[2] // counts[0]
    for name, array in (("key", key), ("value", value)):
        check_shape(name, array, (*query.shape[:2], shared * size))
    parts = [array for array in (query, key, value) if array is not None]
    heads_of = [split_heads(on_device(array), number) for array, number in zip(parts, counts, strict=True)]
    return heads_of if key is not None else jnp.split(heads_of[0], [heads, heads + shared], axis=1)


def _rms_normalize(x: jax.Array, name: str, weight: Array | None, epsilon: float) -> jax.Array:
    """RMS normalization of each head; without a weight there is none."""
    if weight is None:
        return x
    x = as_wide(x)
    check_shape(name, weight, x.shape[-1:])
    return normalize(x, None, mean_of_squares(x, (-1,)), weight.reshape(1, 1, 1, -1), None, epsilon=epsilon)


def _rotate(
    heads: tuple[jax.Array, ...], caches: dict[str, Array | None], n: _Lengths, ids: Array | None, is_interleaved: bool
) -> tuple[jax.Array, ...]:
    """Rotary embedding of queries and keys."""
    cos, sin = (needed(name, cache, "do_rotary is 1") for name, cache in caches.items())
    check_caches(cos, sin, size=heads[0].shape[3])
    positions = n.positions(ids)
    return tuple(rotate(as_wide(x), positions, cos, sin, is_interleaved=is_interleaved) for x in heads)


def _sinks(sinks: Array | None, heads: int, smooth_softmax: int) -> jax.Array | None:
    """Returns the score of a key without a value, by head, or None; that of `smooth_softmax` is 0."""
    check_shape("head_sink", sinks, (heads,))
    if sinks is None and smooth_softmax == 1:
        sinks = np.zeros(heads, np.float32)
    return None if sinks is None else as_wide(sinks)


OPERATORS: Operators = {"com.microsoft::GroupQueryAttention": {1: group_query_attention}}
SCHEMAS = (
    schema(
        "GroupQueryAttention",
        "query T, key? T, value? T, past_key? T, past_value? T, seqlens_k M, total_sequence_length M, cos_cache? T, "
        "sin_cache? T, position_ids? tensor(int64), attention_bias? T, head_sink? T, k_scale? S, v_scale? S, "
        "q_norm_weight? T, k_norm_weight? T, query_seqlens? M",
        "output T, present_key? T, present_value? T, output_qk? T",
        {
            "num_heads": required("INT"),
            "kv_num_heads": required("INT"),
            "scale": optional("FLOAT"),
            "softcap": optional("FLOAT"),
            "causal": 1,
            "local_window_size": -1,
            "smooth_softmax": -1,
            "do_rotary": optional("INT"),
            "rotary_interleaved": optional("INT"),
            "qk_norm_epsilon": 1e-6,
            "q_norm_epsilon": optional("FLOAT"),
            "k_norm_epsilon": optional("FLOAT"),
            "qk_output": 0,
            "k_quant_type": "NONE",
            "v_quant_type": "NONE",
            "kv_cache_bit_width": optional("INT"),
            "sliding_window_cache": 0,
        },
        T="float float16 bfloat16",
        M="int32",
        S="float",
    ),
)
