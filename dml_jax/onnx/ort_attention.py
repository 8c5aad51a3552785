"""ONNX Runtime's Attention and MultiHeadAttention, with the arithmetic of MULTIHEAD_ATTENTION, in float32."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import ConstraintError
from ..operations.attention import attend
from ..operators._attention_formulas import KEPT, arange_int32, merge_heads, split_heads
from ..operators._attention_rules import MultiheadAttentionMaskType
from ..operators._join import join
from .contrib_schemas import optional, required, schema
from .kv_cache import append_keys, check_room, fit_keys
from .linear_algebra import einsum
from .operand_checks import check_bias, check_both, check_shape, check_value, needed, refuse
from .values import Array, Operators, as_wide, on_device


def attention(
    *,
    input: Array,
    weights: Array,
    bias: Array | None = None,
    mask_index: Array | None = None,
    past: Array | None = None,
    attention_bias: Array | None = None,
    past_sequence_length: Array | None = None,
    num_heads: int,
    qkv_hidden_sizes: Sequence[int] | None = None,
    do_rotary: int = 0,  # supported_options.py refuses others
    past_present_share_buffer: int = 0,
    rotary_embedding_dim: int = 0,  # of do_rotary
    count: int = 1,
    **given: Any,
) -> tuple[jax.Array, ...]:
    """Attention: input @ weights gives queries, keys and values, concatenated along the last dimension."""
    check_shape("input", input, (None, None, None))
    widths = _widths(input, weights, bias, qkv_hidden_sizes, count)
    if past_present_share_buffer:
        for name, operand in (("past", past), ("past_sequence_length", past_sequence_length)):
            needed(name, operand, "past_present_share_buffer is 1")
    else:
        refuse("past_present_share_buffer is 0", past_sequence_length=past_sequence_length)
    x, w = as_wide(input), as_wide(weights)
    product = einsum(inputs=(x, w), equation="bsi,io->bso")
    return attend_projected(
        product if bias is None else product + as_wide(bias).reshape(1, 1, -1),
        widths,
        mask_index=mask_index,
        past=past,
        attention_bias=attention_bias,
        past_sequence_length=past_sequence_length,
        num_heads=num_heads,
        count=count,
        dtype=input.dtype,
        **given,
    )


def _widths(input: Array, weights: Array, bias: Array | None, sizes: Sequence[int] | None, count: int) -> list[int]:
    """Returns how many columns of the weights are of queries, keys and values; by default a third each."""
    check_shape("weights", weights, (input.shape[2], None))
    widths = list(sizes or [weights.shape[1] // 3] * 3)
    if len(widths) != 3 or widths[0] != widths[1]:
        raise ConstraintError(f"qkv_hidden_sizes must be 3, of which the first two are equal, but they are {widths}")
    if count > 1 and len({*widths}) > 1:
        raise ConstraintError(f"qkv_hidden_sizes must be equal if present is an output, but they are {widths}")
    check_shape("weights", weights, (input.shape[2], sum(widths)))
    check_shape("bias", bias, (sum(widths),))
    return widths


def attend_projected(
    product: jax.Array,
    widths: Sequence[int],
    *,
    mask_index: Array | None = None,
    past: Array | None = None,
    attention_bias: Array | None = None,
    past_sequence_length: Array | None = None,
    num_heads: int,
    count: int,
    dtype: Any,
    **given: Any,
) -> tuple[jax.Array, ...]:
    """Returns the attention of concatenated queries, keys and values; if `count` is 2, also all keys and values."""
    parts = jnp.split(product, np.cumsum(widths)[:-1], axis=-1)
    heads = [
        _split_into_heads(name, rows, num_heads) for name, rows in zip(("query", "key", "value"), parts, strict=True)
    ]
    pasts = (None, None)
    if past is not None:
        check_shape("past", past, (2, *heads[1].shape[:2], None, heads[1].shape[3]))
        pasts = on_device(past)
    output, *presents = _attend(heads, pasts, mask_index, attention_bias, past_sequence_length, dtype=dtype, **given)
    return (output,) if count == 1 else (output, join([present[None] for present in presents], 0))


def multi_head_attention(
    *,
    query: Array,
    key: Array | None = None,
    value: Array | None = None,
    bias: Array | None = None,
    key_padding_mask: Array | None = None,
    attention_bias: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    past_sequence_length: Array | None = None,
    num_heads: int,
    count: int = 1,
    **given: Any,
) -> tuple[jax.Array, ...]:
    """MultiHeadAttention: packed queries, keys and values per head, or keys and values of another sequence."""
    heads = _heads(query, key, value, bias, num_heads)
    check_both(past_key=past_key, past_value=past_value)
    if past_key is not None and past_value is not None:
        if key is not None and key.ndim == 4:
            raise ConstraintError("past_key must be left out where key has 4 dimensions, but it is given")
        check_shape("past_key", past_key, (*heads[1].shape[:2], None, heads[1].shape[3]))
        check_shape("past_value", past_value, (*heads[2].shape[:2], past_key.shape[2], heads[2].shape[3]))
    return _attend(
        heads,
        (past_key, past_value),
        key_padding_mask,
        attention_bias,
        None if past_key is None else past_sequence_length,
        dtype=query.dtype,
        **given,
    )[:count]


def _heads(query: Array, key: Array | None, value: Array | None, bias: Array | None, count: int) -> list[jax.Array]:
    """Returns queries, keys and values as (batch, heads, rows, head size), from any layout, with their bias added."""
    if query.ndim == 5:
        check_shape("query", query, (None, None, count, 3, None))
        refuse("query has 5 dimensions", key=key, value=value)
        parts = _unpack(query)
    elif key is None:
        raise ConstraintError(f"query must have 5 dimensions if key is left out, but its shape is {query.shape}")
    else:
        check_shape("query", query, (None, None, None))
        parts = [_split_into_heads("query", on_device(query), count), *_keys(query, key, value, count)]
    if bias is None:
        return parts
    widths = [count * rows.shape[3] for rows in parts]
    check_shape("bias", bias, (sum(widths),))
    pieces = jnp.split(as_wide(bias), np.cumsum(widths)[:-1])
    is_past = key is not None and key.ndim == 4  # which had the bias added before
    return [
        rows if is_past and i else as_wide(rows) + piece.reshape(1, count, 1, -1)
        for i, (rows, piece) in enumerate(zip(parts, pieces, strict=True))
    ]


def _keys(query: Array, key: Array, value: Array | None, count: int) -> list[jax.Array]:
    batch, width = query.shape[0], query.shape[2]
    if key.ndim == 5:
        check_shape("key", key, (batch, None, count, 2, width // count))
        refuse("key has 5 dimensions", value=value)
        return _unpack(key)
    if value is None:
        raise ConstraintError(f"key must have 5 dimensions if value is left out, but its shape is {key.shape}")
    if key.ndim == 4:
        check_shape("key", key, (batch, count, None, width // count))
        check_shape("value", value, (*key.shape[:3], None))
        return [on_device(key), on_device(value)]
    check_shape("key", key, (batch, None, width))
    check_shape("value", value, (*key.shape[:2], None))
    return [_split_into_heads(name, on_device(rows), count) for name, rows in (("key", key), ("value", value))]


def _unpack(rows: Array) -> list[jax.Array]:
    """Unpacks (batch, rows, heads, 2 or 3, size)."""
    return [part.transpose(0, 2, 1, 3) for part in jnp.moveaxis(on_device(rows), 3, 0)]


def _split_into_heads(name: str, rows: jax.Array, count: int) -> jax.Array:
    if count < 1 or rows.shape[2] % count:
        raise ConstraintError(f"{name} must have a multiple of {count} heads' numbers, but it has {rows.shape[2]}")
    return split_heads(rows, count)


def _attend(
    heads: Sequence[jax.Array],
    pasts: Any,
    mask: Array | None,
    bias: Array | None,
    length: Array | None,
    *,
    dtype: Any,
    scale: float = 0.0,
    mask_filter_value: float = -10000.0,
    unidirectional: int = 0,
) -> tuple[jax.Array, ...]:
    """Returns the output, and all keys and values. With `length` the past is a cache of that many valid keys."""
    query, key, value = heads
    (batch, _, queries, size), new = query.shape, key.shape[2]
    if unidirectional and queries != new:
        rule = "with unidirectional there must be a new key for each query"
        raise ConstraintError(f"{rule}, but there are {new} keys and {queries} queries")
    before = 0 if pasts[0] is None else pasts[0].shape[2]
    firsts, room, total = _places(length, batch, before, new)
    starts = None if length is None else firsts
    keys, values = (
        append_keys(past, rows, room, starts, dtype) for past, rows in zip(pasts, (key, value), strict=True)
    )
    ends = firsts + np.int32(new)
    attended = attend(
        *map(as_wide, (query, keys, values)),
        dtype=dtype,
        scale=scale or 1 / sqrt(size),
        added=_terms(bias, query.shape[:3], total, room),
        kept=None if mask is None else _is_kept(mask, batch, queries, total, room),
        filter_value=mask_filter_value,
        lengths=None if length is None else ends,
        starts=before if length is None else firsts,
        window=(None, 0 if unidirectional else None),
    )
    output = merge_heads(attended)
    return output if length is None else check_room(output, ends, room), keys, values


def _places(length: Array | None, batch: int, before: int, new: int) -> tuple[jax.Array, int, int | None]:
    """Returns the index of the first new key by row of the batch, the room for keys, and how many there are.

    With `length` the past is a cache of `before` rows, and the number is None while it is data.
    """
    if length is None:
        return jnp.full(batch, before, np.int32), before + new, before + new
    check_value("past_sequence_length.size", length.size, (1,))
    firsts = jnp.broadcast_to(on_device(length).reshape(()), (batch,))
    return firsts, before, None if isinstance(length, Tracer) else int(length.item()) + new


def _terms(bias: Array | None, sizes: tuple[int, ...], total: int | None, room: int) -> list[jax.Array]:
    """Returns what is added to scores, of `sizes` (batch, heads, queries)."""
    if bias is None:
        return []
    check_bias(bias, sizes)
    return [fit_keys("attention_bias", bias, total, room)]


def _is_kept(mask: Array, batch: int, queries: int, total: int | None, room: int) -> jax.Array:
    """Returns which keys are not masked; the shape of the mask tells lengths of sequences from a flag per key."""
    kinds: Mapping[tuple[int, ...], MultiheadAttentionMaskType] = {
        (batch,): MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH,
        (2 * batch,): MultiheadAttentionMaskType.KEY_SEQUENCE_END_START,
        (3 * batch + 2,): MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END,
    }
    if mask.shape in kinds:
        return KEPT[kinds[mask.shape]](on_device(mask), arange_int32(room).reshape(1, 1, 1, -1))
    if mask.shape[:-1] in ((batch,), (batch, queries)):
        return (fit_keys("the mask", mask, total, room) > 0).reshape(batch, 1, -1, room)
    shapes = f"({batch},), ({2 * batch},), ({3 * batch + 2},), ({batch}, keys) or ({batch}, {queries}, keys)"
    raise ConstraintError(f"the mask must be of {shapes}, but it is of {mask.shape}")


_SHARED: Mapping[str, Any] = {
    "num_heads": required("INT"),
    "scale": optional("FLOAT"),
    "mask_filter_value": optional("FLOAT"),
    "unidirectional": 0,
}
_FLOATS = "float float16 bfloat16"

OPERATORS: Operators = {
    "com.microsoft::Attention": {1: attention},
    "com.microsoft::MultiHeadAttention": {1: multi_head_attention},
}
SCHEMAS = (
    schema(
        "Attention",
        "input T, weights T, bias? T, mask_index? M, past? T, attention_bias? T, past_sequence_length? M",
        "output T, present? T",
        {
            **_SHARED,
            "do_rotary": optional("INT"),
            "past_present_share_buffer": optional("INT"),
            "qkv_hidden_sizes": optional("INTS"),
            "rotary_embedding_dim": optional("INT"),
        },
        T=_FLOATS,
        M="int32",
    ),
    schema(
        "MultiHeadAttention",
        "query T, key? T, value? T, bias? T, key_padding_mask? M, attention_bias? T, past_key? T, past_value? T, "
        "past_sequence_length? M, cache_indirection? M",
        "output T, present_key? T, present_value? T",
        _SHARED,
        T=_FLOATS,
        M="int32",
    ),
)
